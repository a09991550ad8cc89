"""Generates docs/config.md from the schema."""
