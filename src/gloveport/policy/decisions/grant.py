"""Makes a grant from policy and request. The grant never exceeds the operator's policy, whatever the request says."""

from collections.abc import Iterator, Mapping

from gloveport.errors import Denied
from gloveport.model import Grant, Limits, Narrowing, Policy, Request
from gloveport.model.egress import Api, Egress, Rule
from gloveport.model.hub import Sampling, Toolbox
from gloveport.model.skill import SkillRights
from gloveport.policy.decisions.tools import is_asked_for, tools_meant
from gloveport.policy.hosts.authorities import Authority, find, parse_pattern
from gloveport.policy.wording import FINAL, join_listed, quote_sent

_NO_TOOLS = Toolbox()
_NO_SAMPLING = Sampling()


def grant_for(
    policy: Policy,
    egress: Egress,
    request: Request,
    toolbox: Toolbox = _NO_TOOLS,
    sampling: Sampling = _NO_SAMPLING,
) -> Grant:
    """Intersect the operator's policy with the caller's request.

    The grant has all languages of the policy: ``decide`` checks the program's.

    Raises:
        Denied: The request names an API or a server that does not exist or is not active.
    """
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        ptrace=policy.ptrace,
        limits=_narrow_limits(policy, request.limits),
        egress=reachable(egress, request.apis),
        toolbox=_tools(toolbox, request.tools),
        sampling=sampling,
    )


def reachable(egress: Egress, names: tuple[str, ...] | None) -> Egress:
    """Restrict to active APIs; a request that names APIs reaches only those, and nothing by ``yolo``.

    If nothing is removed, the result is the same object, whose index (``policy.hosts.authorities``) exists already.

    Raises:
        Denied: It names an API that does not exist or is not active.
    """
    active = {name: api for name, api in egress.apis.items() if api.active}
    if names is None:
        return egress if len(active) == len(egress.apis) else egress.model_copy(update={"apis": active})
    for name in names:
        if name not in active:
            available = f"There are: {join_listed(sorted(active))}." if active else "There are none."
            raise Denied("unknown_api", f"There is no API {quote_sent(name)}.", hint=f"{available} {FINAL}")
    return _leave_out(egress.model_copy(update={"apis": {name: active[name] for name in names}, "yolo": False}), active)


def retain_unchanged(granted: Egress, before: Egress, now: Egress) -> Egress:
    """What is left of ``granted``, a part of the policy ``before``, under the policy ``now``: the unchanged APIs."""
    if now is before:
        return granted
    apis = {name: api for name, api in granted.apis.items() if now.apis.get(name) == before.apis.get(name)}
    return _leave_out(now.model_copy(update={"apis": apis, "yolo": granted.yolo and now.yolo}), now.apis)


def restrict_to_skill(grant: Grant, rights: SkillRights) -> Grant:
    """Narrow a grant to the rights of an approved skill."""
    needed: dict[str, list[str]] = {}
    for tool in rights.grant.tools:
        server, _, name = tool.partition("/")
        if server in grant.toolbox.servers and is_asked_for(grant.toolbox.servers[server], name):
            needed.setdefault(server, []).append(name)
    return grant.model_copy(
        update={
            "skill": rights,
            "callers": grant.callers if grant.skill is None else (grant.skill, *grant.callers),
            "skills": grant.skills and bool(rights.grant.skills),
            "mounts": tuple(mount for mount in grant.mounts if mount.target in rights.grant.mounts),
            "writable": tuple(mount for mount in grant.writable if mount.target in rights.grant.mounts),
            "toolbox": Toolbox(
                servers={
                    name: grant.toolbox.servers[name].model_copy(update={"only": tuple(tools)})
                    for name, tools in needed.items()
                }
            ),
            "sampling": grant.sampling if rights.grant.sampling else Sampling(),
        }
    )


def _leave_out(reach: Egress, apis: Mapping[str, Api]) -> Egress:
    """Close the places of other active APIs that a wildcard or ``yolo`` would open.

    Else a caller could evade an API's rules by not naming it, or by a session that began before them.
    """
    places = {
        name: tuple(dict.fromkeys(str(place) for pattern in api.hosts for place in _places_opened(reach, pattern)))
        for name, api in apis.items()
        if api.active and name not in reach.apis
    }
    shut = {name: Api(hosts=hosts, rules=(Rule(action="deny"),)) for name, hosts in places.items() if hosts}
    return reach.model_copy(update={"apis": {**reach.apis, **shut}})


def _places_opened(reach: Egress, pattern: str) -> Iterator[Authority]:
    place = parse_pattern(pattern)
    if find(reach, *place) is not None:
        yield place
    if reach.yolo:  # which opens no host that an API names, at whatever port
        public = Authority("https", place.host, 443), Authority("http", place.host, 80)
        yield from (other for other in public if find(reach, *other) is None)


def _tools(toolbox: Toolbox, patterns: tuple[str, ...] | None) -> Toolbox:
    """Restrict to the tools that the request names. Whether they exist is only known when they are called."""
    if patterns is None:
        return toolbox
    only: dict[str, dict[str, None]] = {}  # each pattern once, in the order of the request
    for pattern in patterns:
        matches = {server: [*tools_meant(pattern, server)] for server in toolbox.servers}
        if not any(matches.values()):
            servers = join_listed(sorted(toolbox.servers))
            available = f"There are the servers {servers}." if servers else "There are none."
            raise Denied(
                "unknown_tool",
                f"No server that programs may use has a tool {quote_sent(pattern)}.",
                hint=f"Write server/tool, with * for any characters. {available} {FINAL}",
            )
        for server, tools in matches.items():
            if tools:
                only.setdefault(server, {}).update(dict.fromkeys(tools))
    return Toolbox(
        servers={
            server: toolbox.servers[server].model_copy(update={"only": tuple(tools)}) for server, tools in only.items()
        }
    )


def _narrow_limits(policy: Policy, narrowing: Narrowing) -> Limits:
    """Lower the policy's ceilings to the requested limits; a limit not requested keeps its ceiling or default."""
    ceiling = policy.limits
    limits = {"wall_seconds": policy.default_wall_seconds}
    # Iterates over Narrowing's fields, so that a new one is honoured; one that Limits lacks fails at once.
    limits |= {name: value for name, value in narrowing.items() if value is not None}
    return ceiling.model_copy(update={name: min(value, getattr(ceiling, name)) for name, value in limits.items()})
