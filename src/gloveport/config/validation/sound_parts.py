"""Extracts the parts of a table that have the right shape by themselves: one fault hides no other."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gloveport.config.sources.layers import Table
from gloveport.config.validation.faults import validate
from gloveport.model import Value
from gloveport.model.egress import Address, Api, Auth, Network, Rule

_HOSTS: Table = {"hosts": ["x"]}
"""What an API needs besides the one key that is looked at."""


class Parts(Struct, frozen=True, kw_only=True):
    """What an API says: of its arrays the sound elements by their index, of other keys a sound value or the default.

    Attributes:
        lengths: How many elements each array has, those with faults included; a table in its place is one.
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
    """Take apart the table of an API, which may have faults."""
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
    """Give the value of a key, or its default where there is none, or one of the wrong shape.

    Args:
        model: What the table holds.
        table: As it is written; it may have faults.
        name: The key.
        needed: What a table of this kind can't be without.
    """
    written = {name: table[name]} if name in table else {}
    value = validate(model, (needed or {}) | written)[0] or validate(model, needed or {})[0]
    return getattr(value, name)


def sound_elements(model: type[Value], table: Table, name: str, *, needed: Table | None = None) -> dict[int, Any]:
    """Give the elements of an array that have the right shape, by their index. Arguments as for `sound_or_default`."""
    written = table.get(name)
    alone = {
        index: validate(model, (needed or {}) | {name: [element]})[0]
        for index, element in enumerate(written if isinstance(written, list) else ())
    }
    return {index: getattr(value, name)[0] for index, value in alone.items() if value is not None}
