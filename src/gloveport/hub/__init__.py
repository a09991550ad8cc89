"""The tool gateway: connects to the operator's other MCP servers, and calls their tools for programs."""
