"""Learns the grant of a skill from the actions of one run. It never exceeds the operator's policy. Pure."""

from collections.abc import Collection, Iterator, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias, assert_never
from urllib.parse import quote, unquote

from gloveport.model import Action, Deny, Execute
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.json_value import JsonValue
from gloveport.model.packages import Install
from gloveport.model.skill import GrantedRequests, SkillGrant, SkillRights
from gloveport.model.workspace import RunCommand, WriteFiles
from gloveport.policy.hosts.authorities import Authority, parse_pattern
from gloveport.policy.hosts.url_paths import ambiguous, matches
from gloveport.policy.wording import FINAL, join_listed, quote_sent

Kind: TypeAlias = Literal["fetch", "connect", "call", "sample", "skill", "files"]

MOST_USED: Final = 512
"""How many different rights of one run are remembered. No grant can be learned from a run that used more."""

_MOST_PATHS: Final = 16
"""The limit for one place and the same methods; more paths are replaced by their common prefix."""


class UsedRight(NamedTuple):
    """A right that a run has used."""

    kind: Kind
    place: str = ""
    method: str = ""
    path: str = ""


def used_right(action: Action) -> UsedRight | None:
    """The right that an action uses; None if a skill's grant does not cover such actions."""
    match action:
        case Fetch():
            return UsedRight("fetch", _place(action), action.method, action.path)
        case Connect():
            return UsedRight("connect", _place(action))
        case CallTool():
            return UsedRight("call", f"{action.server}/{action.tool}")
        case Sample():
            return UsedRight("sample")
        case Execute():
            return UsedRight("skill", action.skill) if action.parent else None
        case RunCommand() | WriteFiles() | Install():
            return None
        case _:
            assert_never(action)


def learn_grant(
    used: Collection[UsedRight],
    arguments: Mapping[str, JsonValue],
    mounts: Collection[str],
    code: str,
    environment: str = "",
) -> SkillGrant:
    """The smallest grant under which a program can repeat what it did.

    A path segment that is an argument's value becomes a wildcard. The grant has those of the owner's directories that
    the program names, and those that the skills which it called could see: which files it has read is unknown.
    ``arguments`` are the values of its parameters, ``mounts`` the owner's directories that it could see, by their paths
    in the sandbox.
    """
    values = {quote(str(value), safe="") for value in arguments.values() if isinstance(value, str | int | float)}
    methods: dict[str, dict[str, set[str]]] = {}
    for right in used:
        if right.kind == "fetch":
            methods.setdefault(right.place, {}).setdefault(_path_pattern(right.path, values), set()).add(right.method)
    return SkillGrant(
        requests=tuple(
            GrantedRequests(place=place, methods=together, paths=_shorten_paths(paths))
            for place, of_path in sorted(methods.items())
            for together, paths in sorted(_group_by_methods(of_path).items())
        ),
        connections=tuple(sorted({right.place for right in used if right.kind == "connect"})),
        tools=tuple(sorted({right.place for right in used if right.kind == "call"})),
        mounts=tuple(sorted(mount for mount in mounts if mount in code or UsedRight("files", mount) in used)),
        sampling=any(right.kind == "sample" for right in used),
        skills=tuple(sorted({right.place for right in used if right.kind == "skill"})),
        environment=environment,
    )


def decide_for_skill(rights: SkillRights, action: Action) -> Deny | None:
    """Refuse actions that an approved skill has not learned; None where the policy decides."""
    match action:
        case Fetch():
            place = _place(action)
            granted = any(
                place == one.place
                and action.method in one.methods
                and not ambiguous(action.path)
                and any(matches(pattern, action.path) for pattern in one.paths)
                for one in rights.grant.requests
            )
            what = f"{quote_sent(action.method)} {quote_sent(action.path)} at {quote_sent(place)}"
        case Connect():
            place = _place(action)
            granted, what = place in rights.grant.connections, f"a connection to {quote_sent(place)}"
        case CallTool():
            name = f"{action.server}/{action.tool}"
            granted, what = name in rights.grant.tools, f"the tool {quote_sent(name)}"
        case Sample():
            granted, what = rights.grant.sampling, "a question to a language model"
        case Execute():  # the approved skill itself, or another approved one
            is_itself = (action.skill, action.skill_sha256) == (rights.name, rights.sha256)
            granted = is_itself or (action.approved and action.skill in rights.grant.skills)
            state = "" if action.approved else ", which nobody has approved as it is now"
            what = f"the skill {quote_sent(action.skill)}{state}"
        case Install():  # requested by its approved text, and still subject to the operator's rules
            granted, what = True, ""
        case RunCommand() | WriteFiles():
            granted, what = False, "a tool of the workspace"
        case _:
            assert_never(action)
    if granted:
        return None
    allowed = join_listed(describe_grant(rights.grant)) or "nothing"
    return Deny(
        code="not_of_this_skill",
        reason=f"The skill {rights.name} was approved without {what}.",
        hint=f"Approved is: {allowed}. Run it as a program, or save a skill that does this. {FINAL}",
    )


def describe_grant(grant: SkillGrant) -> list[str]:
    """A line for each right of a skill."""
    return [
        *(f"{'|'.join(one.methods)} {one.place} {' '.join(one.paths)}" for one in grant.requests),
        *(f"connect {place}" for place in grant.connections),
        *(f"call {tool}" for tool in grant.tools),
        *(f"files {mount}" for mount in grant.mounts),
        *(["ask a language model"] if grant.sampling else []),
        *(f"run the skill {name}, once approved" for name in grant.skills),
        *([f"use packages of the environment {grant.environment}"] if grant.environment else []),
    ]


def sample_actions(grant: SkillGrant, natures: Mapping[str, tuple[bool, bool]]) -> Iterator[tuple[str, Action | None]]:
    """A sample action for each right of a skill that a rule decides, with the right's line; None: no action has it.
    ``natures`` tells, by ``server/tool``, whether it only reads, and whether it may destroy. For others, the worst
    holds.
    """
    for one in grant.requests:
        place = _read_place(one.place)
        for method in one.methods:
            for path in one.paths:
                sample = path.replace("**", "x").replace("*", "x")
                yield f"{method} {one.place} {path}", place and _sample_fetch(method, place, sample)
    for text in grant.connections:
        scheme, _, rest = text.partition("://")
        authority, _, database = rest.partition("/")
        yield f"connect {text}", _sample_connect(_read_place(f"{scheme}://{authority}"), unquote(database))
    for name in grant.tools:
        server, _, tool = name.partition("/")
        reads, destroys = natures.get(name, (False, True))
        call = CallTool(server=server, tool=tool, read_only=reads, destructive=destroys, arguments={})
        yield f"call {name}", call
    if grant.sampling:
        yield "ask a language model", Sample(model="", prompt_bytes=0, max_tokens=1)


def _read_place(text: str) -> Authority | None:
    try:
        return parse_pattern(text)
    except ValueError:
        return None


def _sample_fetch(method: str, place: Authority, path: str) -> Fetch | None:
    if place.scheme not in ("https", "http"):
        return None
    return Fetch(method=method, scheme=place.scheme, host=place.host, port=place.port, path=path)


def _sample_connect(place: Authority | None, database: str) -> Connect | None:
    if place is None or place.scheme == "https" or place.scheme == "http":  # noqa: PLR1714 - which mypy narrows by
        return None
    return Connect(scheme=place.scheme, host=place.host, port=place.port, database=database or None)


def _place(action: Fetch | Connect) -> str:
    place = str(Authority(action.scheme, action.host, action.port))
    return f"{place}/{quote(action.database, safe='')}" if isinstance(action, Connect) and action.database else place


def _path_pattern(path: str, values: Collection[str]) -> str:
    """A pattern that matches only this path, but with wildcards for the values of arguments."""
    return "/".join("*" if part in values else part.replace("*", "%2A") for part in path.split("/"))


def _group_by_methods(of_path: Mapping[str, Collection[str]]) -> dict[tuple[str, ...], list[str]]:
    groups: dict[tuple[str, ...], list[str]] = {}
    for path, methods in of_path.items():
        groups.setdefault(tuple(sorted(methods)), []).append(path)
    return groups


def _shorten_paths(paths: Collection[str]) -> tuple[str, ...]:
    """The paths, or, if they are many, their common prefix up to a ``/``."""
    if len(paths) <= _MOST_PATHS:
        return tuple(sorted(paths))
    first, last = min(paths), max(paths)
    same = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return (f"{first[: first.rfind('/', 0, same) + 1]}**",)
