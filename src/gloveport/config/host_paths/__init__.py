"""Checks and finds paths of this host: the directory of a workspace, toolchains, and programs for a sandbox."""
