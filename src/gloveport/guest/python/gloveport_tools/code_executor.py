"""The functions that programs written for Code Executor MCP call, with the same parameters and results.

With one difference: a tool that fails raises ``ToolError``, while there it returned an ordinary answer.
"""

from gloveport_tools.results import FoundTools, ToolError
from gloveport_tools.tree import Tool

MOST_FOUND = 100  # of one search


def code_executor(host):
    """The functions by their names."""

    async def call_mcp_tool(name, params=None):
        """Call ``mcp__server__tool``. Return the text of the first block, or the whole result where it is none."""
        result = await Tool(host, "", name).aio_blocks(params or {})
        if result.blocks and result.blocks[0].type == "text":
            return result.blocks[0].text
        whole = {"content": [block.wire for block in result.blocks]}
        return {**whole, "structuredContent": result.value} if result.kind == "structured" else whole

    async def discover_mcp_tools(search_terms=None):
        """The tools that have to do with any of these terms, with their schemas; without terms, all."""
        terms = [search_terms] if isinstance(search_terms, str) else search_terms or []
        return found_tools(await host.aio("search_tools", **search(" ".join(terms), MOST_FOUND, "full")))

    async def get_tool_schema(name):
        """The description and the schemas of ``mcp__server__tool``; None where there is no such tool."""
        try:
            return describe_tool(await host.aio(name, "describe", server="", tool=name))
        except ToolError as error:
            if error.code in {"unknown_tool", "tool_not_granted"}:
                return None
            raise

    def search_tools(query, limit=10, detail="signatures"):
        """The tools that fit the words best, in the detail of ``names``, ``signatures`` or ``full``. May be awaited."""
        return found_tools(host.ask("search_tools", **search(query, limit, detail)))

    return {
        "call_mcp_tool": call_mcp_tool,
        "callMCPTool": call_mcp_tool,
        "discover_mcp_tools": discover_mcp_tools,
        "discoverMCPTools": discover_mcp_tools,
        "get_tool_schema": get_tool_schema,
        "getToolSchema": get_tool_schema,
        "search_tools": search_tools,
        "searchTools": search_tools,
    }


def search(query, limit, detail):
    """The request for a search."""
    return {"operation": "search", "query": query, "limit": limit, "detail": detail}


def found_tools(answer):
    """The tools that a search has found."""
    return FoundTools([describe_tool(tool) for tool in answer["tools"]], answer["total"], answer["missing"])


def describe_tool(tool):
    """A tool as discovery describes it: its name, description, parameters and result."""
    description = {
        "name": f"mcp__{tool['server']}__{tool['name']}",
        "call": f"tools.{tool['exposed_server']}.{tool['exposed']}",
        "description": tool["description"],
        "signature": tool.get("python"),
        "parameters": tool.get("input_schema"),
        "outputSchema": tool.get("output_schema"),
    }
    return {key: value for key, value in description.items() if value is not None}
