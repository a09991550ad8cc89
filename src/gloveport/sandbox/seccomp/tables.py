"""Reads the tables of the system call filter: ``syscalls.toml`` and ``socket_options.toml`` explain them."""

import functools
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple


class SyscallGroup(NamedTuple):
    """System calls with the same decision, for one reason."""

    title: str
    reason: str
    names: tuple[str, ...]


class Syscalls(NamedTuple):
    """The decisions that depend only on a call's number, and the numbers of all calls by machine and name."""

    allowed: tuple[SyscallGroup, ...]
    refused: tuple[SyscallGroup, ...]
    absent: tuple[SyscallGroup, ...]
    numbers: Mapping[str, Mapping[str, int]]


class SocketOptions(NamedTuple):
    """The options of one level: name → number."""

    level: int
    settable: Mapping[str, int]
    readable: Mapping[str, int]
    """Further options that may be read."""

    ignored: Mapping[str, int]
    """Those of them whose setting is ignored without an error."""


@functools.cache
def load_syscalls() -> Syscalls:
    """The calls, from ``syscalls.toml``."""
    table = _load("syscalls.toml")
    allowed, refused, absent = (
        tuple(SyscallGroup(group["title"], group["reason"], tuple(group["calls"].split())) for group in table[answer])
        for answer in ("allowed", "refused", "absent")
    )
    numbers = {
        machine: {name: int(first) + at for first, names in rows.items() for at, name in enumerate(names.split())}
        for machine, rows in table["numbers"].items()
    }
    return Syscalls(allowed, refused, absent, numbers)


@functools.cache
def load_socket_options() -> Mapping[str, SocketOptions]:
    """The options by the name of their level, from ``socket_options.toml``."""
    loaded = {}
    for name, table in _load("socket_options.toml").items():
        settable, readable, ignored = (_numbers(table.get(kind, "")) for kind in ("settable", "readable", "ignored"))
        loaded[name] = SocketOptions(table["level"], settable, {**readable, **ignored}, ignored)
    return loaded


def _load(name: str) -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name(name).read_text("utf-8"))


def _numbers(text: str) -> dict[str, int]:
    return {name: int(number) for name, _, number in (pair.partition("=") for pair in text.split())}
