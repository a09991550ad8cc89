"""Extracts the values of a table that have the right type, so that one fault hides no other."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from gloveport.config.sources.layers import Table
from gloveport.config.validation.faults import validate
from gloveport.model import Value
from gloveport.model.egress import Address, Api, Auth, Network, Rule

_REQUIRED: Mapping[type[Value], Table] = {Api: {"hosts": ["x"]}}
"""The keys that a type of table requires besides the one that is checked."""


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
        hosts=sound_elements(Api, table, "hosts"),
        rules=sound_elements(Api, table, "rules"),
        auth=sound_elements(Api, table, "auth"),
        stand_ins=sound_elements(Api, table, "stand_ins"),
        networks=sound_elements(Api, table, "networks"),
        addresses=sound_elements(Api, table, "addresses"),
        types=sound_or_default(Api, table, "types"),
        active=sound_or_default(Api, table, "active"),
        ca_file=sound_or_default(Api, table, "ca_file"),
        lengths={
            name: len(value) if isinstance(value, list) else 1
            for name, value in table.items()
            if isinstance(value, list | dict)
        },
    )


def sound_or_default(model: type[Value], table: Table, name: str) -> Any:  # noqa: ANN401 - of the key's own type
    """Give the value of a key of a table, or its default if the value is missing or has the wrong type."""
    written, required = {name: table[name]} if name in table else {}, _REQUIRED.get(model, {})
    value = validate(model, required | written)[0] or validate(model, required)[0]
    return getattr(value, name)


def sound_elements(model: type[Value], table: Table, name: str) -> dict[int, Any]:
    """Give the elements of an array that have the right type, by their index. Arguments as for `sound_or_default`."""
    written = table.get(name)
    alone = {
        index: validate(model, _REQUIRED.get(model, {}) | {name: [element]})[0]
        for index, element in enumerate(written if isinstance(written, list) else ())
    }
    return {index: getattr(value, name)[0] for index, value in alone.items() if value is not None}
