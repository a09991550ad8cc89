"""An MCP server made with the SDK, over its standard streams: a shop that writes down what was done in it.

python mcp_shop.py LEDGER
"""

import sys
from pathlib import Path

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

server = MCPServer("shop")
ledger = Path(sys.argv[1])


@server.tool(annotations=ToolAnnotations(read_only_hint=True), structured_output=False)
def look(name: str) -> str:
    """Look at a thing."""
    return f"a {name}"


@server.tool(annotations=ToolAnnotations(destructive_hint=True), structured_output=False)
def destroy(name: str, note: str = "") -> str:
    """Destroy a thing."""
    with ledger.open("a") as file:
        file.write(f"{name}\n")
    return f"destroyed {name}{note[:0]}"


@server.tool(annotations=ToolAnnotations(destructive_hint=False), structured_output=False)
def buy(name: str) -> str:
    """Buy a thing."""
    return f"bought {name}"


if __name__ == "__main__":
    server.run("stdio")
