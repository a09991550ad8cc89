"""Find the configuration files that count, read them, and make one configuration of them or name every fault.

A file that is named counts alone. Otherwise the operator's own file counts, with the project file of the working
directory laid over it, if a person has trusted that very content.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from gloveport.config.faults import Fault, validated
from gloveport.config.files import read_own
from gloveport.config.layers import Layer, merge, read_layer, where
from gloveport.config.places import FILE_NAME, config_directory, state_directory
from gloveport.config.rules import rule_faults
from gloveport.config.schema import Config, leaves
from gloveport.config.trust import project_file, require_trust
from gloveport.config.wording import dotted, printable
from gloveport.errors import ConfigError
from gloveport.model import Value


class Loaded(Value):
    """A configuration, and where each of its values comes from."""

    config: Config
    files: tuple[Path, ...]
    """The files that were read; a later one overrides an earlier one."""

    origins: Mapping[str, str]
    """For each key of ``leaves(config)``: ``default``, or ``file:line``."""


def load(given: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> Loaded:
    """Load the configuration.

    Args:
        given: The file that counts alone; without it ``GLOVEPORT_CONFIG`` may name one.
        cwd: Where a project file is looked for, and what a relative name of a file is relative to.
        environ: Where ``GLOVEPORT_CONFIG`` and ``GLOVEPORT_STATE`` are looked up.

    Raises:
        ConfigError: A file can't be relied on, is not trusted or is no TOML; or keys or values are wrong, all of which
            are named, one a line.
    """
    if given is None and (name := environ.get("GLOVEPORT_CONFIG")):
        given = Path(name)
    layers = [_named_layer(cwd / given)] if given is not None else _found_layers(cwd, environ)
    data = merge(layers)
    config, faults = validated(data)
    faults += rule_faults(data, own=[state_directory(environ), config_directory()])
    if faults or config is None:
        raise ConfigError(_report(faults, layers), hint="correct each line above; docs/config.md explains every key")
    return Loaded(
        config=config,
        files=tuple(layer.path for layer in layers),
        origins={key: where(layers, tuple(key.split("."))) or "default" for key, _ in leaves(config)},
    )


def _named_layer(path: Path) -> Layer:
    content = read_own(path)
    if content is None:
        raise ConfigError(
            f"{printable(str(path))} does not exist", hint="correct --config or GLOVEPORT_CONFIG, or create the file"
        )
    return read_layer(path, content)


def _found_layers(cwd: Path, environ: Mapping[str, str]) -> list[Layer]:
    layers = []
    user, project = config_directory() / FILE_NAME, project_file(cwd)
    if (content := read_own(user)) is not None:
        layers.append(read_layer(user, content))
    # In the operator's own directory the project file is the operator's own.
    if project.parent != user.parent.resolve() and (content := read_own(project, flags=os.O_NOFOLLOW)) is not None:
        require_trust(project, content, environ=environ)  # before a byte of it is interpreted
        layers.append(read_layer(project, content))
    return layers


def _report(faults: Sequence[Fault], layers: Sequence[Layer]) -> str:
    count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
    return "\n".join([f"{count} in the configuration:", *(_line(fault, layers) for fault in faults)])


def _line(fault: Fault, layers: Sequence[Layer]) -> str:
    place, key = next(((place, key) for key in fault.keys if (place := where(layers, key))), ("default", fault.keys[0]))
    return f"{place}: {dotted(key)}: {fault.problem}; hint: {fault.hint}"
