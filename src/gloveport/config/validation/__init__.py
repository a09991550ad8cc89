"""Validates values against their types: names every wrong key at once, each with a problem and a hint."""
