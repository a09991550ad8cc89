"""The hosts of the registries that a project needs, by presets, and where they lead."""

import ipaddress
import socket
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import gloveport

PRESETS: Final = Path(gloveport.__file__).parent / "config/presets"


def presets_of(project: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The presets that it needs, by name."""
    names = [host.removeprefix("@") for host in project.get("hosts", ())]
    return {name: tomllib.loads((PRESETS / f"{name}.toml").read_text())["api"][name] for name in names}


def hosts_of(project: Mapping[str, Any]) -> list[str]:
    """The hosts of the registries that it needs."""
    return [host for preset in presets_of(project).values() for host in preset["hosts"]]


@cache
def addresses_of(host: str) -> frozenset[str]:
    """Where a host leads to; nowhere where its name is not known here."""
    try:
        return frozenset(str(info[4][0]) for info in socket.getaddrinfo(host, 443))
    except socket.gaierror:
        return frozenset()


def mirrors(project: Mapping[str, Any]) -> dict[str, Any]:
    """APIs of the configuration that let registries be reached whose addresses are not public."""
    found = {}
    for name, preset in presets_of(project).items():
        addresses = {one for host in preset["hosts"] for one in addresses_of(host)}
        private = sorted(one for one in addresses if not ipaddress.ip_address(one).is_global)
        if private:
            networks = [f"{one}/{ipaddress.ip_address(one).max_prefixlen}" for one in private]
            found[name] = {**preset, "networks": networks}
    return found
