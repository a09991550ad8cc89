"""Connections to other MCP servers: over standard streams and HTTP, bounded, one task each."""
