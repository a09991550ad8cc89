"""The configuration read, read again while the old one is in use, watched, and edited."""
