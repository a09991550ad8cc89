"""Checks that need more than one value, or the host: each yields faults, and none hides another."""
