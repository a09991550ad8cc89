"""Environments: locks, indexes, and built trees of packages. Mechanisms: what may be built is decided elsewhere."""
