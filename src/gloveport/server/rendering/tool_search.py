"""Renders the tools that a search has found, in few tokens."""

from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from gloveport.hub.discovery import Detail, SearchResult, list_tools
from gloveport.hub.hub import Hub
from gloveport.sandbox.run.capture import plain


def found_text(hub: Hub, found: SearchResult, detail: Detail) -> str:
    """A line for each tool, or its typed declarations. To be made in a thread: it may take a second."""
    tools = [*list_tools(hub, found.tools, detail)]
    lines = [line for tool in tools for line in _lines(tool, detail)]
    if len(tools) < found.total:
        lines.append(f"{len(tools)} of {found.total}; narrow the query or raise the limit")
    lines += [f"not searched: {server}: {reason}" for server, reason in sorted(found.missing.items())]
    return plain("\n".join(lines)) or "None: there are no tools that programs may call."


def _lines(tool: Mapping[str, JsonValue], detail: Detail) -> Iterator[str]:
    place = f"{tool['exposed_server']}.{tool['exposed']}"
    match detail:
        case "names":
            yield place
        case "signatures":
            yield f"{tool['exposed_server']}.{tool['python']}  # {tool['description']}"
        case "full":
            yield f"# tools.{place}"
            yield str(tool["python"])
