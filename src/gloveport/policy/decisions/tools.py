"""Decides calls of tools of other MCP servers.

The first of a server's rules that matches a call decides. If it is uncertain whether a rule matches (see
``conditions``), the stricter reading counts: a rule that allows does not match, one that denies does, and one that asks
has a person decide calls that later rules would allow. A rule that allows or asks on conditions implies that not every
call is harmless: the other calls of its tools are asked about, even if the tools only read.

A lookup reveals a host's name to strangers, and programs choose names. So hosts are only looked up if a rule would
allow the call for public addresses, which the program could then reach anyway, or after a person has approved. Until
then a person is asked as if the addresses were public; a rule that denies treats every host as one that it denies.

A server's claims about its tools (that they only read, that they destroy nothing) are trusted: the operator chose the
server, and a changed description is held back before it gets here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from gloveport.late_pattern import late_pattern
from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.hub import CallTool, Server, ServerPolicy, Toolbox, ToolRule
from gloveport.policy.decisions.conditions import Met, hosts_of, in_words, weigh_conditions
from gloveport.policy.wildcards import matches
from gloveport.policy.wording import FINAL, join_listed, quote_sent

MOST_HOSTS = 32
"""The most hosts of one call that are looked up."""

_MARK = "mcp__"
_NO_WORD = late_pattern(r"[^A-Za-z0-9_]")


def toolbox_of(servers: Mapping[str, Server]) -> Toolbox:
    """What programs may do with the tools of the active servers."""
    return Toolbox(servers={name: ServerPolicy(rules=one.rules) for name, one in servers.items() if one.active})


def decide_call(toolbox: Toolbox, action: CallTool) -> Decision:
    """Decide a call of a tool."""
    policy = toolbox.servers.get(action.server)
    if policy is None:
        return Deny(
            code="tool_not_granted",
            reason=f"There is no server {quote_sent(action.server)} that this program may use.",
            hint=f"{servers_in_words(toolbox)} {FINAL}",
        )
    if not is_asked_for(policy, action.tool):
        return Deny(
            code="tool_not_granted",
            reason=f"The request did not ask for {quote_sent(action.tool)} of the server {action.server!r}.",
            hint=f"It asked for: {join_listed(policy.only or ())}. Name the tool in the request.",
        )
    return _by_rules(policy, action)


def is_visible(
    toolbox: Toolbox,
    server: str,
    tool: str,
    read_only: bool,  # noqa: FBT001 - the server's claim, no switch
    destructive: bool,  # noqa: FBT001
) -> bool:
    """Tell whether a program is shown a tool: some call of it may be allowed."""
    policy = toolbox.servers.get(server)
    if policy is None or not is_asked_for(policy, tool):
        return False
    for rule in policy.rules:
        if _has_match(rule, tool, read_only=read_only, destructive=destructive) and (
            rule.action != "deny" or not rule.arguments
        ):
            return rule.action != "deny"
    return True


def depends_on_arguments(toolbox: Toolbox, action: CallTool) -> bool:
    """Whether a rule may decide another call of the same tool differently."""
    return any(rule.arguments for rule in _rules_for(toolbox.servers.get(action.server, ServerPolicy()), action))


def hosts_to_look_up(toolbox: Toolbox, action: CallTool) -> frozenset[str]:
    """The hosts whose addresses determine whether a rule allows a call, in canonical spelling.

    Only those of the first such rule; none once ``action.addresses`` has them all.
    """
    policy = toolbox.servers.get(action.server)
    if policy is None or not is_asked_for(policy, action.tool):
        return frozenset()
    named = _rules_for(policy, action)
    unknown = _unresolved_hosts(named, action)
    for rule in named if unknown else ():
        surely, at_best = (
            weigh_conditions(rule.arguments, action),
            weigh_conditions(rule.arguments, action, unknown=Met.YES),
        )
        match rule.action, surely, at_best:
            case "allow", Met.NO | Met.PERHAPS, Met.YES:
                return _unresolved_hosts([rule], action)
            case ("allow", Met.YES, _) | ("deny", Met.PERHAPS | Met.YES, _) | ("ask", _, Met.PERHAPS | Met.YES):
                break  # this rule decides, or a person is asked in any case
            case _:
                pass
    return frozenset()


def hosts_to_confirm(toolbox: Toolbox, action: CallTool) -> frozenset[str]:
    """The hosts that a person was asked about as if they were public: decide again when they have been looked up."""
    policy = toolbox.servers.get(action.server, ServerPolicy())
    hosts = _unresolved_hosts(_rules_for(policy, action), action)
    return hosts if hosts and isinstance(decide_call(toolbox, action), Ask) else frozenset()


def tools_meant(pattern: str, server: str) -> Iterator[str]:
    """The tool patterns for a server in a pattern of a request; none if that is about another server.

    ``server/tool``, ``server.tool``, ``mcp__server__tool``, ``mcp__server`` or ``server``, with ``*`` for any
    characters. If a pattern can be read in several ways, all count.
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


def is_asked_for(policy: ServerPolicy, tool: str) -> bool:
    """Whether a request includes this tool of a server."""
    return policy.only is None or any(_is_spelled(pattern, tool) for pattern in policy.only)


def _is_spelled(pattern: str, name: str) -> bool:
    """Whether a pattern has the server's spelling of a name, or that of programs, without hyphens."""
    return matches(pattern, name) or matches(pattern, _NO_WORD.sub("_", name))


def _by_rules(policy: ServerPolicy, action: CallTool) -> Decision:
    doubtful: Ask | None = None
    is_harmless = action.read_only
    when_asked = Met.YES if _unresolved_hosts(_rules_for(policy, action), action) else Met.PERHAPS
    for number, rule in enumerate(policy.rules):
        if not _has_match(rule, action.tool, read_only=action.read_only, destructive=action.destructive):
            continue
        is_harmless &= rule.action == "deny"
        to_be_asked = rule.action == "ask" or (rule.action == "allow" and doubtful is not None)
        speaks = weigh_conditions(rule.arguments, action, unknown=when_asked if to_be_asked else Met.PERHAPS)
        name = f"servers.{action.server}.rules[{number}]"
        match rule.action, speaks:
            case "deny", Met.YES | Met.PERHAPS:
                return _deny(policy, rule, name, action)
            case "ask", Met.YES:
                return _ask(name, action)
            case "ask", Met.PERHAPS:
                doubtful = doubtful or _ask(name, action)
            case "allow", Met.YES:
                return doubtful or Allow(rule=name)
            case _:
                pass
    if is_harmless:
        return doubtful or Allow(rule=f"servers.{action.server}: read only")
    return doubtful or _ask(f"servers.{action.server}: no rule", action)


def _rules_for(policy: ServerPolicy, action: CallTool) -> list[ToolRule]:
    """The rules that name the tool of a call, whatever its arguments."""
    facts = {"read_only": action.read_only, "destructive": action.destructive}
    return [rule for rule in policy.rules if _has_match(rule, action.tool, **facts)]


def _unresolved_hosts(rules: Iterable[ToolRule], action: CallTool) -> frozenset[str]:
    """Hosts in URLs that conditions of these rules are about, and that were not looked up yet.

    Empty if there are more than ``MOST_HOSTS``: the conditions are then not met, and no resolver is flooded.
    """
    paths = {path for rule in rules for path, condition in rule.arguments.items() if condition.url}
    hosts = {host for path in paths for host in hosts_of(path, action.arguments)}
    return frozenset(hosts - action.addresses.keys() if len(hosts) <= MOST_HOSTS else ())


def _has_match(rule: ToolRule, tool: str, *, read_only: bool, destructive: bool) -> bool:
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
        rule=rule,
        question=f"May a program call {quote_sent(action.tool)} of the server {quote_sent(action.server)}? {nature}",
    )


def _deny(policy: ServerPolicy, rule: ToolRule, name: str, action: CallTool) -> Deny:
    arguments = " with these arguments" if rule.arguments else ""
    allowed = join_listed(_describe_rule(other) for other in policy.rules if other.action != "deny")
    return Deny(
        code="tool_not_allowed",
        reason=f"Rule {name} forbids {quote_sent(action.tool)}{arguments}.",
        hint=" ".join(
            filter(
                None,
                (
                    f"It forbids: {join_listed([_describe_rule(rule)])}." if rule.arguments else "",
                    f"Allowed may be what it leaves of: {allowed}." if allowed else "",
                    FINAL,
                ),
            )
        ),
    )


def _describe_rule(rule: ToolRule) -> str:
    tools = "|".join(rule.tools) or "any tool"
    arguments = " and ".join(f"{quote_sent(path)} {in_words(condition)}" for path, condition in rule.arguments.items())
    return f"{tools} with {arguments}" if arguments else tools


def servers_in_words(toolbox: Toolbox) -> str:
    """List the servers that a program may use, in words."""
    if toolbox.servers:
        return f"It may use: {join_listed(sorted(toolbox.servers))}."
    return "It may use none: the owner has connected none, or `tools` of the request leaves none."
