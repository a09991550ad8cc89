"""Wires everything, once: makes an engine and a workspace on this host from a configuration."""
