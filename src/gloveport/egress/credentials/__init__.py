"""Credentials of requests: strips those of the program, and injects those of the owner."""
