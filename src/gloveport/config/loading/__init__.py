"""Loads the configuration, reloads it while the old one is in use, watches its files, and edits one."""
