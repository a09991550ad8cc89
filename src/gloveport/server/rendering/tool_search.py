"""Renders the result of a search for tools, in few tokens."""

from collections.abc import Iterator, Mapping

from gloveport.engine.skill_search import FoundSkill, FoundSkills
from gloveport.hub.discovery import Detail, SearchResult, list_tools
from gloveport.hub.hub import Hub
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.run.capture import plain
from gloveport.untrusted_text import one_line

_DESCRIPTION = 160
_NO_SKILLS = FoundSkills((), 0)


def found_text(hub: Hub, found: SearchResult, detail: Detail, skills: FoundSkills = _NO_SKILLS) -> str:
    """Render a line for each skill and tool, or typed declarations. May take a second: call it in a thread."""
    tools = [*list_tools(hub, found.tools, detail)]
    lines = [line for tool in tools for line in _lines(tool, detail)]
    if len(tools) < found.total:
        lines.append(f"{len(tools)} of {found.total}; narrow the query or raise the limit")
    lines[:0] = _skill_lines(skills, detail)
    lines += [f"not searched: {server}: {reason}" for server, reason in sorted(found.missing.items())]
    return plain("\n".join(lines))


def nothing_found_text(count: int) -> str:
    """Say that a search has found nothing, of so many tools and skills in all."""
    if not count:
        return "None: there are no tools that programs may call."
    return f"None of {count} matches. Try other words, or no query, which lists all."


def _skill_lines(skills: FoundSkills, detail: Detail) -> Iterator[str]:
    yield from (_skill_line(skill, detail) for skill in skills.best)
    if len(skills.best) < skills.total:
        yield f"{len(skills.best)} of {skills.total} skills; narrow the query or raise the limit"
    if skills.unread:
        yield f"not searched yet: {skills.unread} skills; search again"


def _skill_line(skill: FoundSkill, detail: Detail) -> str:
    one = skill.indexed
    if detail == "names":
        return f"skill {one.name}"
    takes = ", ".join(f"{name}: {what}" for name, what in one.takes.items())
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
