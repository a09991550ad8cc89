"""Limits how much may go on at once, and how often."""
