"""Gloveport: an MCP server that gives an agent a computer which cannot hurt its owner."""
