"""Paths of this host: the directory of a workspace, toolchains and programs that a sandbox is shown."""
