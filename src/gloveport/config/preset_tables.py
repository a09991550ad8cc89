"""Presets: configuration tables of services that many use, each under a name.

``gloveport init`` writes them to a file. ``@NAME`` among ``workspace.hosts`` stands for a preset's APIs that need no
credential, without a file; an API of that name in the owner's file replaces it.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gloveport.config.sources.layers import Layer, Table, parse_toml, walk
from gloveport.config.validation.faults import Fault
from gloveport.errors import ConfigError
from gloveport.late_libraries import resources
from gloveport.policy.hosts.authorities import parse_pattern

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

_SIGN: Final = "@"


def preset_names() -> list[str]:
    """List the names of the presets."""
    return sorted(one.name.removesuffix(".toml") for one in _directory().iterdir())


def read_preset(name: str) -> str:
    """Read the tables of a preset, as text. Raises ConfigError if there is none of this name."""
    if name not in preset_names():
        raise ConfigError(f"there is no preset {name[:64]!r}", hint=f"there are: {', '.join(preset_names())}")
    return _directory().joinpath(f"{name}.toml").read_text("utf-8")


class NamedHosts(Struct, frozen=True):
    """The resolved names among ``workspace.hosts``.

    Attributes:
        layer: The presets' APIs.
        hosts: All patterns, with names replaced by the hosts of APIs; None for a value that other checks refuse.
        faults: Names that stand for nothing.
    """

    layer: Layer
    hosts: tuple[object, ...] | None
    faults: tuple[Fault, ...]


def resolve_hosts(data: Table) -> NamedHosts:
    """Resolve the names among ``workspace.hosts``. ``data`` is the merged content of the files."""
    entries = _table(data, "workspace").get("hosts")
    owners = _table(data, "api")
    named: dict[str, object] = {}
    faults: list[Fault] = []
    hosts: list[object] = []
    for index, host in enumerate(entries if isinstance(entries, list) else []):
        if not isinstance(host, str) or not host.startswith(_SIGN):
            if isinstance(host, str) and _lacks_sign(host, owners):
                hint = f'did you mean "{_SIGN}{host}"?'
                problem = f"no API grants a host {host[:64]!r}"
                faults.append(Fault(keys=(("workspace", "hosts", index),), problem=problem, hint=hint))
            hosts.append(host)
            continue
        name = host.removeprefix(_SIGN)
        apis = _open_apis().get(name, {})
        if not apis and name not in owners:
            problem = f"there is no preset and no API {name[:64]!r}"
            hint = f"there are {', '.join(_SIGN + one for one in _open_apis())}, and @NAME for each [api.NAME]"
            faults.append(Fault(keys=(("workspace", "hosts", index),), problem=problem, hint=hint))
        named |= {api: table for api, table in apis.items() if api not in owners}
        for api in dict.fromkeys((*apis, name)):
            hosts += _hosts_of(_table(owners if api in owners else apis, api))
    tables: Table = {"api": named} if named else {}
    layer = Layer(path=Path("presets"), data=tables, lines=dict.fromkeys((key for key, _ in walk(tables)), None))
    return NamedHosts(layer, tuple(hosts) if isinstance(entries, list) else None, tuple(faults))


def _lacks_sign(host: str, owners: Table) -> bool:
    """Whether a preset or an API has this name, and no API such a host, which would be one of the local network."""
    if "." in host or host not in {*_open_apis(), *owners}:
        return False
    return all(host not in _hosts_of(_table(owners, api)) for api in owners)


@cache
def preset_hosts() -> Mapping[str, str]:
    """Map each host that a preset's name in ``workspace.hosts`` stands for to that name, with its ``@``.

    Without hosts of which the preset only grants a few paths: the name would not help with other paths.
    """
    return {
        host: f"{_SIGN}{name}"
        for name, apis in _open_apis().items()
        for api in apis
        if _grants_any_path(_table(apis, api))
        for host in _hosts_of(_table(apis, api))
    }


def _grants_any_path(api: Table) -> bool:
    rules = api.get("rules")
    return isinstance(rules, list) and any("paths" not in rule for rule in rules)


@cache
def _open_apis() -> Mapping[str, Table]:
    """The APIs that need no credential, by preset."""
    found = {}
    for name in preset_names():
        tables = _table(parse_toml(Path(f"{name}.toml"), read_preset(name)), "api")
        if apis := {api: table for api, table in tables.items() if "auth" not in _table(tables, api)}:
            found[name] = apis
    return found


def _hosts_of(api: Table) -> Iterator[str]:
    """The names of its hosts, without scheme and port."""
    hosts = api.get("hosts")
    for host in hosts if isinstance(hosts, list) else []:
        try:
            yield parse_pattern(host).host
        except (AttributeError, ValueError):  # reported where the API is read
            continue


def _table(data: Mapping[str, object], name: str) -> Table:
    table = data.get(name)
    return table if isinstance(table, dict) else {}


def _directory() -> "Traversable":
    return resources.files("gloveport.config").joinpath("presets")
