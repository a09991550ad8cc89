"""Starts bubblewrap: its arguments, its uid, its AppArmor profile, and the backend that builds a sandbox with it."""
