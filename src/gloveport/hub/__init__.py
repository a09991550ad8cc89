"""The way out to the tools of the operator's other MCP servers."""
