"""Secrets: where they are, and what must not show them. They are never given to a program."""
