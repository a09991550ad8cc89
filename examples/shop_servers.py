"""Two small MCP servers for the demo: ``sales`` knows what was sold, ``prices`` what it costs."""

import sys

from mcp.server import MCPServer
from mcp_types import ToolAnnotations

SOLD = {10: {"cup": 5, "vase": 1}, 11: {"cup": 4, "vase": 3}, 12: {"cup": 9, "vase": 9}}
READS = ToolAnnotations(read_only_hint=True)

server = MCPServer(sys.argv[1])
if sys.argv[1] == "sales":

    @server.tool(annotations=READS)
    def sold(month: int) -> dict[str, int]:
        """What was sold in a month."""
        return SOLD[month]

else:

    @server.tool(annotations=READS)
    def current() -> dict[str, int]:
        """What things cost."""
        return {"cup": 10, "vase": 20}


server.run("stdio")
