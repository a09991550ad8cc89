"""Renders the tools that a search has found, in few tokens."""

import json
from collections.abc import Iterator, Mapping, Sequence

from pydantic import JsonValue

from gloveport.engine.skill_search import FoundSkill
from gloveport.hub.discovery import Detail, SearchResult, list_tools
from gloveport.hub.hub import Hub
from gloveport.sandbox.run.capture import plain
from gloveport.untrusted_text import one_line

_DESCRIPTION = 160


def found_text(
    hub: Hub, found: SearchResult, detail: Detail, skills: Sequence[FoundSkill] = (), skills_total: int = 0
) -> str:
    """A line for each skill and tool, or a tool's typed declarations. To be made in a thread: it may take a second."""
    tools = [*list_tools(hub, found.tools, detail)]
    lines = [line for tool in tools for line in _lines(tool, detail)]
    if len(tools) < found.total:
        lines.append(f"{len(tools)} of {found.total}; narrow the query or raise the limit")
    lines[:0] = [_skill_line(skill, detail) for skill in skills]
    if len(skills) < skills_total:
        lines.insert(len(skills), f"{len(skills)} of {skills_total} skills; narrow the query or raise the limit")
    lines += [f"not searched: {server}: {reason}" for server, reason in sorted(found.missing.items())]
    return plain("\n".join(lines)) or "None: there are no tools that programs may call."


def _skill_line(skill: FoundSkill, detail: Detail) -> str:
    one = skill.indexed
    if detail == "names":
        return f"skill {one.name}"
    takes = ", ".join(f"{each.name}: {each.type} = {one_line(json.dumps(each.default), 40)}" for each in one.parameters)
    how = skill.state if one.runs else "to read"
    most = _DESCRIPTION if detail == "signatures" else 1024
    return f"skill {one.name}({takes})  # {one_line(one.description, most)} [{how}, {one_line(skill.origin, 80)}]"


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
