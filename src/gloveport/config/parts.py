"""The parts of an API's table that have the right shape by themselves: one fault hides no other."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gloveport.config.faults import validated
from gloveport.config.layers import Table
from gloveport.model.egress import Address, Api, Auth, Network, Rule

_HOSTS: Table = {"hosts": ["x"]}
"""What an API needs besides the one key that is looked at."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What an API says: of its arrays the sound elements by their index, of other keys a sound value or the default.

    Attributes:
        lengths: How many elements each array has, those with faults included; a table in its place is one.
    """

    hosts: Mapping[int, str]
    rules: Mapping[int, Rule]
    auth: Mapping[int, Auth]
    networks: Mapping[int, Network]
    addresses: Mapping[int, Address]
    types: str
    active: bool
    ca_file: str | None
    lengths: Mapping[str, int]


def parts_of(table: Table) -> Parts:
    """Take apart the table of an API, which may have faults."""
    return Parts(
        hosts=_elements(table, "hosts"),
        rules=_elements(table, "rules"),
        auth=_elements(table, "auth"),
        networks=_elements(table, "networks"),
        addresses=_elements(table, "addresses"),
        types=_alone(table, "types"),
        active=_alone(table, "active"),
        ca_file=_alone(table, "ca_file"),
        lengths={
            name: len(value) if isinstance(value, list) else 1
            for name, value in table.items()
            if isinstance(value, list | dict)
        },
    )


def _alone(table: Table, name: str) -> Any:  # noqa: ANN401 - of the key's own type
    written = {name: table[name]} if name in table else {}
    return getattr(validated(Api, _HOSTS | written)[0] or Api(hosts=("x",)), name)


def _elements(table: Table, name: str) -> dict[int, Any]:
    written = table.get(name)
    alone = {
        index: validated(Api, _HOSTS | {name: [element]})[0]
        for index, element in enumerate(written if isinstance(written, list) else ())
    }
    return {index: getattr(api, name)[0] for index, api in alone.items() if api is not None}
