"""Paths of this host: the directory of a workspace, and the toolchains and programs that a sandbox is shown."""
