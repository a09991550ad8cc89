"""Limits how many runs there may be at once, and how often something may be done."""
