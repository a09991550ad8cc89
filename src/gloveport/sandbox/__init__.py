"""Isolation backends and their mechanisms."""
