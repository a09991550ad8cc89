"""Runs all checks on merged TOML data; has those of keys that limit each other: times, user ids, mounts.

The checks of APIs are in ``apis``, those of servers in ``upstream_servers``.

Each check only uses values of the right type, so that one pass names every fault.
"""

import pwd
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from gloveport.config.checks.mounts import mount_faults, toolchain_faults
from gloveport.config.checks.secret_places import secret_files
from gloveport.config.schema import Config, KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import printable, spell_key
from gloveport.config.validation.faults import Fault, validate
from gloveport.late_module import late_module
from gloveport.model.skill import DEEPEST
from gloveport.user_directories import is_canonical

if TYPE_CHECKING:
    from gloveport.config.checks import apis, package_rules, upstream_servers
else:
    apis = late_module("gloveport.config.checks.apis")
    package_rules = late_module("gloveport.config.checks.package_rules")
    upstream_servers = late_module("gloveport.config.checks.upstream_servers")

_DEFAULT_WALL: KeyPath = ("policy", "default_wall_seconds")
_MOST_WALL: KeyPath = ("policy", "limits", "wall_seconds")
_MOUNTS: KeyPath = ("policy", "mounts")
_TOOLCHAINS: KeyPath = ("workspace", "toolchains")
_FIRST_UID: KeyPath = ("sandbox", "first_uid")
_UID_COUNT: KeyPath = ("sandbox", "uid_count")
_RUNS: KeyPath = ("admission", "concurrent_runs")
_FORKED: KeyPath = ("pool", "forked")
_BOOTED: KeyPath = ("pool", "booted")

_YOLO: KeyPath = ("egress", "yolo")
_PROXY: KeyPath = ("proxy", "url")
_AUDIT: KeyPath = ("audit", "directory")

_FORK_SERVERS = 8
"""One for each of four kinds of programs, and a successor for each."""

_NO_UID = (1 << 32) - 1
"""The kernel's value for "unchanged", which is no user."""


def rule_faults(data: Table, *, own: Sequence[Path]) -> Iterator[Fault]:
    """Name the violations in merged TOML data, which may have values of wrong types, too. ``own`` are Gloveport's own
    directories, which neither a mount nor a toolchain may show; a configured audit directory and every file that a
    secret is read from are added to them.
    """
    yield from _wall_faults(data)
    yield from _uid_faults(data)
    if data.get("api"):
        yield from apis.api_faults(data)
    if data.get("servers"):
        yield from upstream_servers.server_faults(data)
    if data.get("sampling"):
        yield from upstream_servers.sampling_faults(data)
    yield from _environment_faults(data)
    yield from _proxy_faults(data)
    if data.get("packages") or data.get("environments"):  # its import takes a library that compares versions
        yield from package_rules.package_faults(data)
    audit = _sound(data, _AUDIT)
    private = [*own, *secret_files(data), *([audit] if audit else [])]
    mounts = _sound_mounts(data)
    yield from mount_faults(mounts, own=private)
    yield from toolchain_faults(_sound_toolchains(data), mounts, own=private)


def _environment_faults(data: Table) -> Iterator[Fault]:
    workspace, there = data.get("workspace"), data.get("environments")
    name = workspace.get("environment") if isinstance(workspace, Mapping) else None
    if isinstance(name, str) and name not in (there if isinstance(there, Mapping) else ()):
        yield Fault(
            keys=(("workspace", "environment"),),
            problem=f"there is no environment {printable(name)}",
            hint=f"write [environments.{printable(name)}], or leave it out",
        )


def _proxy_faults(data: Table) -> Iterator[Fault]:
    url = _sound(data, _PROXY)
    if url is not None and not _has_port(str(url)):
        yield Fault(
            keys=(_PROXY,),
            problem="this has no port from 1 to 65535, or no address between the brackets",
            hint='write it as "http://proxy.example.com:3128"',
        )
    if _look_up(data, _YOLO) is True and _look_up(data, _PROXY) is not None:
        yield Fault(
            keys=(_YOLO, _PROXY),
            problem="programs choose the names, and only the proxy knows to which addresses they lead",
            hint="name the hosts in APIs instead of yolo, or do without the proxy",
        )


def _has_port(url: str) -> bool:
    try:
        return urlsplit(url).port not in {None, 0}
    except ValueError:
        return False


def _wall_faults(data: Table) -> Iterator[Fault]:
    default, most = _sound(data, _DEFAULT_WALL), _sound(data, _MOST_WALL)
    # An unset default is lowered with the ceiling; one that was set counts as intended.
    if _look_up(data, _DEFAULT_WALL) is not None and default and most and default > most:
        yield Fault(
            keys=(_DEFAULT_WALL, _MOST_WALL),
            problem=f"expected at most {spell_key(_MOST_WALL)}, which is {most:g}, found {default:g}",
            hint="lower the one or raise the other",
        )


def _uid_faults(data: Table) -> Iterator[Fault]:
    first, count, runs = _sound(data, _FIRST_UID), _sound(data, _UID_COUNT), _sound(data, _RUNS)
    forked, booted = _sound(data, _FORKED), _sound(data, _BOOTED)
    ahead = (booted or 0) + (_FORK_SERVERS if forked else 0)
    if count and runs and count < runs * (1 + DEEPEST) + ahead:
        yield Fault(
            keys=(_UID_COUNT, _RUNS),
            problem=f"expected user ids for {runs} concurrent runs with {DEEPEST} skills each that they may call, and "
            f"{ahead} sandboxes made ahead, found {count}",
            hint=f"raise {spell_key(_UID_COUNT)}, or lower {spell_key(_RUNS)}, "
            f"{spell_key(_FORKED)} or {spell_key(_BOOTED)}",
        )
    if not (first and count):
        return
    if first + count > _NO_UID:
        yield Fault(
            keys=(_FIRST_UID, _UID_COUNT),
            problem=f"expected user ids below {_NO_UID}, found {first} to {first + count - 1}",
            hint=f"lower {spell_key(_FIRST_UID)} or {spell_key(_UID_COUNT)}",
        )
    accounts = sorted(
        f"{user.pw_name} ({user.pw_uid})" for user in pwd.getpwall() if first <= user.pw_uid < first + count
    )
    if accounts:
        yield Fault(
            keys=(_FIRST_UID, _UID_COUNT),
            problem=f"expected user ids that no account has, found that of {printable(', '.join(accounts), limit=80)}",
            hint="a program must not run as anybody: choose a range that is free, such as the default",
        )


def _sound_mounts(data: Table) -> dict[int, tuple[str | None, str | None]]:
    """Source and target of each mount by its index in the file; None for one of the wrong type."""
    written = _look_up(data, _MOUNTS)
    return {
        index: (_sound_side(element, "source"), _sound_side(element, "target"))
        for index, element in enumerate(written if isinstance(written, list) else [])
        if isinstance(element, dict)
    }


def _sound_toolchains(data: Table) -> dict[int, str]:
    """The toolchains of the right type, by their index in the file."""
    written = _look_up(data, _TOOLCHAINS)
    return {
        index: element
        for index, element in enumerate(written if isinstance(written, list) else [])
        if isinstance(element, str) and is_canonical(element)
    }


def _sound_side(element: Table, side: str) -> str | None:
    other = {"source": "target", "target": "source"}[side]
    config = _config_of(_MOUNTS, [{side: element.get(side), other: "/elsewhere"}])
    return str(getattr(config.policy.mounts[0], side)) if config else None


def _sound(data: Table, key: KeyPath) -> Any | None:  # noqa: ANN401 - of the key's own type
    """The value of a key, set or default; None when a set value has the wrong type."""
    written = _look_up(data, key)
    config = Config() if written is None else _config_of(key, written)
    value: Any = config
    for name in key if config else ():
        value = getattr(value, str(name))
    return value


def _look_up(data: Table, key: KeyPath) -> object | None:
    value: object = data
    for part in key:
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _config_of(key: KeyPath, value: object) -> Config | None:
    """A configuration with only this value; None when the value is wrong."""
    first, *tables = reversed(key)
    document: Table = {str(first): value}
    for name in tables:
        document = {str(name): document}
    return validate(Config, document)[0]
