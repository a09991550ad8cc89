"""Secrets: fetches them, and scrubs them from what may show them. They are never given to a program."""
