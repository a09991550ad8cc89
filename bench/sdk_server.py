"""An MCP server made with the SDK, over its standard streams, whose tool answers at once."""

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("bench")


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
async def echo(text: str) -> str:
    """Return the text."""
    return text


server.run("stdio")
