"""What the agent is told of the tools that a search has found, in few tokens."""

from collections.abc import Iterator

from gloveport.hub.definition import Definition
from gloveport.hub.discovery import Detail, Found, described
from gloveport.hub.hub import Hub
from gloveport.sandbox.output import plain


def found_text(hub: Hub, found: Found, detail: Detail) -> str:
    """A line for each tool, or its typed declarations."""
    lines = [line for tool in found.tools for line in _lines(hub, tool, detail)]
    if len(found.tools) < found.total:
        lines.append(f"{len(found.tools)} of {found.total}; narrow the query or raise the limit")
    lines += [f"not searched: {server}: {reason}" for server, reason in sorted(found.missing.items())]
    return plain("\n".join(lines)) or "None: there are no tools that programs may call."


def _lines(hub: Hub, tool: Definition, detail: Detail) -> Iterator[str]:
    told = described(hub, tool, detail)
    place = f"{told['exposed_server']}.{told['exposed']}"
    match detail:
        case "names":
            yield place
        case "signatures":
            yield f"{told['exposed_server']}.{told['python']}  # {told['description']}"
        case "full":
            yield f"# tools.{place}"
            yield str(told["python"])
