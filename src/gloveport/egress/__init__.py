"""Outbound HTTP and granted TCP connections: what programs may reach, with the owner's credentials."""
