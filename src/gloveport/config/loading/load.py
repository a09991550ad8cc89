"""Loads the files that count, and makes one configuration of them or names every fault."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from gloveport.config.api_files.api_directory import read_apis, twice_faults
from gloveport.config.checks.cross_checks import rule_faults
from gloveport.config.preset_tables import resolve_hosts
from gloveport.config.schema import Config, KeyPath, leaves
from gloveport.config.sources.layers import Layer, merge, merge_table, nearest, read_layer, where
from gloveport.config.sources.owned_files import read_own
from gloveport.config.sources.selection import ConfigSources, sources
from gloveport.config.sources.trust import require_trust
from gloveport.config.toml_text import printable, spell_key
from gloveport.config.validation.faults import Fault, validate
from gloveport.errors import ConfigError
from gloveport.user_directories import config_directory, named_state_directory


class Loaded(Struct, frozen=True, kw_only=True):
    """A configuration, and where each of its values comes from."""

    config: Config
    files: tuple[Path, ...]
    """The files that were read; a later one overrides an earlier one."""

    find_origin: Callable[[KeyPath], str]
    """For a key of ``leaves(config)``: ``default``, ``file:line``, or ``file`` where that is no TOML."""

    believed: tuple[Path, ...]
    """What counts whatever it says: the operator's file, and the directory of APIs with the files in it. A project file
    is not among them: it counts with the content alone that a person has trusted."""

    project: bytes | None
    """The content of the project file that counts; None for none."""

    refusal: str
    """Why the project file that is there now does not count, if that of before does in its place; else empty."""

    @property
    def origins(self) -> Mapping[str, str]:
        """The result of ``find_origin`` for each key, spelled with dots."""
        return {spell_key(key): self.find_origin(key) for key, _ in leaves(self.config)}


def load(config_path: Path | None, *, cwd: Path, environ: Mapping[str, str], former: Loaded | None = None) -> Loaded:
    """Load the configuration from the files that ``sources`` finds.

    ``former``: the configuration in use, if there is one. Its project file counts in place of one that nobody has
    trusted: an agent could write that, and so keep the operator's own changes from counting.

    Raises:
        ConfigError: Others can write a file, or it is not trusted, or no TOML; or keys or values are wrong, which are
            all named, one a line.
    """
    found = sources(config_path, cwd=cwd, environ=environ)
    apis, faults = read_apis(found.apis)
    project, refusal = _read_project(found, environ, former)
    layers = [*_operator_layers(found), *apis]
    if found.project is not None and project is not None:
        layers.append(read_layer(found.project, project))
    named = resolve_hosts(merge(layers))
    layers = [named.layer, *layers]
    data = merge(layers)
    if named.hosts is not None:
        data = merge_table(data, {"workspace": {"hosts": [*named.hosts]}})
    config, wrong = validate(Config, data)
    faults += [*named.faults, *wrong, *twice_faults(layers[1:])]
    faults += rule_faults(data, own=[named_state_directory(environ), config_directory(), found.operator, found.apis])
    if faults or config is None:
        raise ConfigError(_report(faults, layers), hint="correct each line above; docs/config.md explains every key")
    return Loaded(
        config=config,
        files=tuple(layer.path for layer in layers[1:]),
        find_origin=lambda key: where(layers, key) or "default",
        believed=(found.operator, found.apis, *(layer.path for layer in apis)),
        project=project,
        refusal=refusal,
    )


def _operator_layers(found: ConfigSources) -> list[Layer]:
    content = read_own(found.operator)
    if content is None and found.named:
        raise ConfigError(
            f"{printable(str(found.operator))} does not exist",
            hint="correct --config or GLOVEPORT_CONFIG, or create the file",
        )
    return [] if content is None else [read_layer(found.operator, content)]


def _read_project(found: ConfigSources, environ: Mapping[str, str], former: Loaded | None) -> tuple[bytes | None, str]:
    """Read the project file, before a byte of it is interpreted: ``Loaded.project`` and ``Loaded.refusal``."""
    if found.project is None:
        return None, ""
    try:
        content = read_own(found.project, flags=os.O_NOFOLLOW)
        if content is not None:
            require_trust(found.project, content, environ=environ)
    except ConfigError as error:
        if former is None:
            raise
        return former.project, str(error)
    return content, ""


def _report(faults: Sequence[Fault], layers: Sequence[Layer]) -> str:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([f"{count} in the configuration:", *(_line(fault, layers) for fault in faults)])


def _line(fault: Fault, layers: Sequence[Layer]) -> str:
    place, key = next(
        ((place, key) for key in fault.keys if (place := where(layers, key))),
        (nearest(layers, fault.keys[0]) or "default", fault.keys[0]),
    )
    return f"{place}: {spell_key(key)}: {fault.problem}; hint: {fault.hint}"
