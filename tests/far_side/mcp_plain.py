"""An MCP server made with the SDK, over its standard streams or, with the port printed, over HTTP.

python mcp_plain.py stdio|http|json|sse
"""

import os
import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ImageContent, TextContent, ToolAnnotations

server = MCPServer("plain", version="7", instructions="Be plain.")
cancelled: list[str] = []


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def sleep(seconds: float, name: str = "") -> str:
    """Sleep; remember when told to stop."""
    try:
        await anyio.sleep(seconds)
    except anyio.get_cancelled_exc_class():
        cancelled.append(name)
        raise
    return "slept"


@server.tool()
def stopped() -> list[str]:
    """Names of the sleeps that were told to stop."""
    return cancelled


@server.tool()
def fail(why: str) -> str:
    """Fail."""
    raise ToolError(why)


@server.tool()
def fill(size: int) -> str:
    """That many letters."""
    return "x" * size


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    """Two blocks."""
    return [TextContent(type="text", text="a"), ImageContent(type="image", data="aGk=", mime_type="image/png")]


@server.tool()
def end() -> str:
    """End at once."""
    os._exit(3)


@server.tool()
async def grow(name: str, context: Context) -> str:
    """Have one more tool, and say so."""
    server.add_tool(picture, name=name, description="New.")
    await context.session.send_tool_list_changed()
    await context.notify_tools_changed()
    return "grown"


def main() -> None:
    kind = sys.argv[1]
    if kind == "stdio":
        server.run("stdio")
        return
    app = server.sse_app() if kind == "sse" else server.streamable_http_app(json_response=kind == "json")
    listener = socket.socket(proto=socket.IPPROTO_TCP)  # said so, for asyncio to send small pieces at once
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])


if __name__ == "__main__":
    main()
