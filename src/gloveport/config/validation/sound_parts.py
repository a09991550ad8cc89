"""Extracts the values of a table that have the right type, so that one fault hides no other."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gloveport.config.sources.layers import Table
from gloveport.config.validation.faults import validate
from gloveport.model import Value
from gloveport.model.egress import Address, Api, Auth, Network, Rule

_HOSTS: Table = {"hosts": ["x"]}
"""The key that an API needs besides the one that is checked."""


class Parts(Struct, frozen=True, kw_only=True):
    """The sound values of an API: sound elements of arrays by their index; other keys' sound values or defaults.

    Attributes:
        lengths: How many elements each array has, including faulty ones; a table in place of an array counts as one.
    """

    hosts: Mapping[int, str]
    rules: Mapping[int, Rule]
    auth: Mapping[int, Auth]
    stand_ins: Mapping[int, str]
    networks: Mapping[int, Network]
    addresses: Mapping[int, Address]
    types: str
    active: bool
    ca_file: str | None
    lengths: Mapping[str, int]


def parts_of(table: Table) -> Parts:
    """Extract the sound values of an API's table, which may have faults."""
    return Parts(
        hosts=sound_elements(Api, table, "hosts", needed=_HOSTS),
        rules=sound_elements(Api, table, "rules", needed=_HOSTS),
        auth=sound_elements(Api, table, "auth", needed=_HOSTS),
        stand_ins=sound_elements(Api, table, "stand_ins", needed=_HOSTS),
        networks=sound_elements(Api, table, "networks", needed=_HOSTS),
        addresses=sound_elements(Api, table, "addresses", needed=_HOSTS),
        types=sound_or_default(Api, table, "types", needed=_HOSTS),
        active=sound_or_default(Api, table, "active", needed=_HOSTS),
        ca_file=sound_or_default(Api, table, "ca_file", needed=_HOSTS),
        lengths={
            name: len(value) if isinstance(value, list) else 1
            for name, value in table.items()
            if isinstance(value, list | dict)
        },
    )


def sound_or_default(model: type[Value], table: Table, name: str, *, needed: Table | None = None) -> Any:  # noqa: ANN401 - of the key's own type
    """Give the value of a key, or its default if the value is missing or has the wrong type.

    Args:
        model: The type of the table.
        table: The written table, which may have faults.
        name: The key.
        needed: The keys that a table of this type requires.
    """
    written = {name: table[name]} if name in table else {}
    value = validate(model, (needed or {}) | written)[0] or validate(model, needed or {})[0]
    return getattr(value, name)


def sound_elements(model: type[Value], table: Table, name: str, *, needed: Table | None = None) -> dict[int, Any]:
    """Give the elements of an array that have the right type, by their index. Arguments as for `sound_or_default`."""
    written = table.get(name)
    alone = {
        index: validate(model, (needed or {}) | {name: [element]})[0]
        for index, element in enumerate(written if isinstance(written, list) else ())
    }
    return {index: getattr(value, name)[0] for index, value in alone.items() if value is not None}
