"""What may be done with which tool of another MCP server.

Of a server's rules the first that speaks of a call decides. Where it is in doubt whether a rule speaks of a call
(``policy.conditions``), the stricter reading counts: a rule that allows does not speak of it, one that denies does, and
one that asks makes a person decide what the rules after it would have allowed.

What a server says of its tools (that they only read, that they destroy nothing) is believed: the operator chose it, and
a changed description is held back before it comes to this.
"""

import re
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.hub import CallTool, Server, ServerPolicy, Toolbox, ToolRule
from gloveport.policy.conditions import Met, hosts_of, in_words, met
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import FINAL, listed, shown

MOST_HOSTS = 32
"""Hosts of one call that are looked up."""

_MARK = "mcp__"
_NO_WORD = re.compile(r"[^A-Za-z0-9_]")


def toolbox_of(servers: Mapping[str, Server]) -> Toolbox:
    """What programs may do with the tools of the active servers."""
    return Toolbox(servers={name: ServerPolicy(rules=one.rules) for name, one in servers.items() if one.active})


def decide_call(toolbox: Toolbox, action: CallTool) -> Decision:
    """Decide a call of a tool."""
    policy = toolbox.servers.get(action.server)
    if policy is None:
        return Deny(
            code="tool_not_granted",
            reason=f"There is no server {shown(action.server)} that this program may use.",
            hint=f"{_servers(toolbox)} {FINAL}",
        )
    if not _is_asked_for(policy, action.tool):
        return Deny(
            code="tool_not_granted",
            reason=f"The request did not ask for {shown(action.tool)} of the server {action.server!r}.",
            hint=f"It asked for: {listed(policy.only or ())}. Name the tool in the request.",
        )
    return _by_rules(policy, action)


def is_visible(
    toolbox: Toolbox,
    server: str,
    tool: str,
    read_only: bool,  # noqa: FBT001 - what the server says, no switch
    destructive: bool,  # noqa: FBT001
) -> bool:
    """Tell whether a program is shown a tool: some call of it may be allowed."""
    policy = toolbox.servers.get(server)
    if policy is None or not _is_asked_for(policy, tool):
        return False
    for rule in policy.rules:
        if _names(rule, tool, read_only=read_only, destructive=destructive) and (
            rule.action != "deny" or not rule.arguments
        ):
            return rule.action != "deny"
    return True


def hosts_to_look_up(toolbox: Toolbox, server: str, tool: str, arguments: Mapping[str, JsonValue]) -> frozenset[str]:
    """The hosts whose addresses decide about a call: canonical names, from URLs about which there is a condition.

    None where there are more than ``MOST_HOSTS``: the condition is then not met, and no resolver was flooded.
    """
    policy = toolbox.servers.get(server, ServerPolicy())
    paths = {
        path
        for rule in policy.rules
        if _names_tool(rule, tool)
        for path, condition in rule.arguments.items()
        if condition.url
    }
    hosts = frozenset(host for path in paths for host in hosts_of(path, arguments))
    return hosts if len(hosts) <= MOST_HOSTS else frozenset()


def tools_meant(pattern: str, server: str) -> Iterator[str]:
    """The patterns of tools that a pattern of a request means of a server; none where it means another server.

    ``server/tool``, ``server.tool``, ``mcp__server__tool``, ``mcp__server`` or ``server``, with ``*`` for any
    characters. Of one that can be read in several ways all count.
    """
    if "/" in pattern:
        name, _, tool = pattern.partition("/")
        if tool and _is_spelled(name, server):
            yield tool
        return
    whole = pattern.removeprefix(_MARK)
    if _is_spelled(pattern, server) or _is_spelled(whole, server):
        yield "*"
    for text, mark in ((pattern, "."), (whole, "__")) if whole != pattern else ((pattern, "."),):
        for found in re.finditer(re.escape(mark), text):
            if found.end() < len(text) and _is_spelled(text[: found.start()], server):
                yield text[found.end() :]


def _is_asked_for(policy: ServerPolicy, tool: str) -> bool:
    return policy.only is None or any(_is_spelled(pattern, tool) for pattern in policy.only)


def _is_spelled(pattern: str, name: str) -> bool:
    """As the server spells it, or as programs do, in whose languages a name has no hyphen."""
    return matches(pattern, name) or matches(pattern, _NO_WORD.sub("_", name))


def _by_rules(policy: ServerPolicy, action: CallTool) -> Decision:
    doubtful: Ask | None = None
    for number, rule in enumerate(policy.rules):
        named = _names(rule, action.tool, read_only=action.read_only, destructive=action.destructive)
        speaks = met(rule.arguments, action) if named else Met.NO
        name = f"servers.{action.server}.rules[{number}]"
        match rule.action, speaks:
            case "deny", Met.YES | Met.PERHAPS:
                return _denied(policy, rule, name, action)
            case "ask", Met.YES:
                return _ask(name, action)
            case "ask", Met.PERHAPS:
                doubtful = doubtful or _ask(name, action)
            case "allow", Met.YES:
                return doubtful or Allow(rule=name)
            case _:
                pass
    if action.read_only:
        return doubtful or Allow(rule=f"servers.{action.server}: read only")
    return doubtful or _ask(f"servers.{action.server}: no rule", action)


def _names(rule: ToolRule, tool: str, *, read_only: bool, destructive: bool) -> bool:
    return rule.read_only in {None, read_only} and rule.destructive in {None, destructive} and _names_tool(rule, tool)


def _names_tool(rule: ToolRule, tool: str) -> bool:
    return not rule.tools or any(matches(pattern, tool) for pattern in rule.tools)


def _ask(rule: str, action: CallTool) -> Ask:
    if action.read_only:
        nature = "The server says that it changes nothing."
    elif action.destructive:
        nature = "The server says that it changes something, and may destroy."
    else:
        nature = "The server says that it changes something, and destroys nothing."
    return Ask(
        rule=rule, question=f"May a program call {shown(action.tool)} of the server {shown(action.server)}? {nature}"
    )


def _denied(policy: ServerPolicy, rule: ToolRule, name: str, action: CallTool) -> Deny:
    arguments = " with these arguments" if rule.arguments else ""
    allowed = listed(_described(other) for other in policy.rules if other.action != "deny")
    return Deny(
        code="tool_not_allowed",
        reason=f"Rule {name} forbids {shown(action.tool)}{arguments}.",
        hint=" ".join(
            filter(
                None,
                (
                    f"It forbids: {listed([_described(rule)])}." if rule.arguments else "",
                    f"Allowed may be what it leaves of: {allowed}." if allowed else "",
                    FINAL,
                ),
            )
        ),
    )


def _described(rule: ToolRule) -> str:
    tools = "|".join(rule.tools) or "any tool"
    arguments = " and ".join(f"{shown(path)} {in_words(condition)}" for path, condition in rule.arguments.items())
    return f"{tools} with {arguments}" if arguments else tools


def _servers(toolbox: Toolbox) -> str:
    return f"There are: {listed(sorted(toolbox.servers))}." if toolbox.servers else "There is none."
