"""Reads the directory ``apis`` beside a configuration file: one API a file, each a layer with one ``[api.NAME]``."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from gloveport.config.api_files.codeforge import FILES, read_codeforge
from gloveport.config.sources.layers import Layer, read_layer, rebase_layer, where
from gloveport.config.sources.owned_files import list_own, read_own
from gloveport.config.toml_text import printable, spell_key
from gloveport.config.validation.faults import Fault
from gloveport.errors import ConfigError

_SKIPPED = "example"
"""A directory of CodeForge's that describes no API."""


def read_apis(directory: Path) -> tuple[list[Layer], list[Fault]]:
    """Read every API's file.

    ``NAME.toml`` has the content of a table ``[api.NAME]``, ``NAME/config.json`` is CodeForge's. Hidden files and other
    names (editors' backups, a README) are skipped.

    Raises:
        ConfigError: The directory or a file can't be trusted, or a file is no TOML or no JSON.
    """
    layers: list[Layer] = []
    faults: list[Fault] = []
    for name in _skip_hidden(list_own(directory)):
        path = directory / name
        if not name.isprintable():  # it may be no text at all
            raise ConfigError(f"{printable(str(path))} can't be the name of an API", hint="rename it, or remove it")
        if path.suffix == ".toml" and (content := read_own(path)) is not None:
            layer, wrong = _own_table(rebase_layer(read_layer(path, content), ("api", path.stem)))
            layers.append(layer)
            faults += wrong
        elif path.is_dir() and (read := read_codeforge(path)) is not None:
            layers.append(read[0])
            faults += read[1]
    return layers, faults


def api_files(directory: Path) -> Iterator[Path]:
    """Yield the paths that ``read_apis`` would read now, whether they can be trusted or not."""
    with suppress(OSError):
        for name in _skip_hidden(os.listdir(directory)):  # noqa: PTH208 - names are wanted
            path = directory / name
            yield from [path] if path.suffix == ".toml" else (path / file for file in FILES)


def twice_faults(layers: Sequence[Layer]) -> Iterator[Fault]:
    """Name each API and each server that two files define.

    If they were merged, one's credentials would go to the other's hosts, or to a program that the other names.
    """
    first: dict[tuple[str, str], Layer] = {}
    for layer in layers:
        for table, word in (("api", "an API"), ("servers", "a server")):
            named = layer.data.get(table)
            for name in named if isinstance(named, dict) else ():
                if (earlier := first.setdefault((table, name), layer)) is not layer:
                    yield Fault(
                        keys=((table, name),),
                        problem=f"defined already in {where([earlier], (table, name))}",
                        hint=f"{word} stands in one file: rename or remove one of the two",
                    )


def _own_table(layer: Layer) -> tuple[Layer, list[Fault]]:
    """Refuse a table header, which an API's own file must not have, and drop the content below it."""
    base = ("api", layer.path.stem)
    key = (*base, "api")
    if key not in layer.lines:
        return layer, []
    table = spell_key(base)
    fault = Fault(
        keys=(key,),
        problem=f"this file is the table [{table}] already",
        hint=f"leave the header [{table}] away, and write [[rules]] and [[auth]] below",
    )
    return replace(layer, data={}), [fault]


def _skip_hidden(names: Sequence[str]) -> Iterator[str]:
    return (name for name in names if not name.startswith(".") and name != _SKIPPED)
