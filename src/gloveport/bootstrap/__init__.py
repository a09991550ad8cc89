"""The composition root: makes an engine and a workspace on this host from a configuration."""
