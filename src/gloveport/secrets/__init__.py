"""Fetches secrets, and scrubs them from all output that may show them. No program ever gets one."""
