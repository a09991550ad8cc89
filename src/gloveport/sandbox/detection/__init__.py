"""Detects what this host offers to sandboxes, and what it enforces."""
