"""MCP surface and the composition root."""
