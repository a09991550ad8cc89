"""Environments and rules for packages: requirements that are none, and environments that can't be what they say."""

from collections.abc import Iterator, Mapping
from typing import Final

from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import printable
from gloveport.config.validation.faults import Fault
from gloveport.policy.package_requests import MetadataError, is_pattern, normalize_requirement

_LISTS: Final = ("allow", "ask", "deny")


def package_faults(data: Table) -> Iterator[Fault]:
    """Name what is wrong in ``[packages]`` and each ``[environments.NAME]``."""
    packages = data.get("packages")
    for name in _LISTS:
        yield from _pattern_faults(packages, ("packages", name))
    environments = data.get("environments")
    tables = environments.items() if isinstance(environments, Mapping) else ()
    chosen = [name for name, table in tables if isinstance(table, Mapping) and table.get("default") is True]
    for name, table in tables:
        key = ("environments", str(name))
        yield from _pattern_faults(table, (*key, "allow"))
        for index, text in enumerate(_texts(table, "python")):
            try:
                normalize_requirement(text)
            except MetadataError as error:
                yield Fault(
                    keys=((*key, "python", index),),
                    problem=printable(f"expected a requirement: {error}"),
                    hint="write a name and perhaps versions, such as requests>=2.32",
                )
        if isinstance(table, Mapping) and "lock" in table and table.get("python"):
            yield Fault(
                keys=((*key, "lock"), (*key, "python")),
                problem="found both: the lock says all that is installed",
                hint="remove the one or the other",
            )
        if name in chosen[1:]:
            yield Fault(
                keys=((*key, "default"), ("environments", str(chosen[0]), "default")),
                problem="two environments can't both be the default",
                hint="leave it to one of them",
            )


def _pattern_faults(table: object, key: KeyPath) -> Iterator[Fault]:
    for index, text in enumerate(_texts(table, str(key[-1]))):
        if not is_pattern(text):
            yield Fault(
                keys=((*key, index),),
                problem=f"expected a name, and perhaps versions, found {printable(text)}",
                hint='write "requests", "azure-*" or "numpy>=2,<3"',
            )


def _texts(table: object, name: str) -> list[str]:
    listed = table.get(name) if isinstance(table, Mapping) else None
    return [one for one in listed if isinstance(one, str)] if isinstance(listed, list) else []
