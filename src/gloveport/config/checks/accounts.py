"""Checks that databases and accounts belong together, and that no account's password leaves unencrypted."""

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from gloveport.config.schema import KeyPath
from gloveport.config.toml_text import as_toml
from gloveport.config.validation.faults import Fault
from gloveport.config.validation.sound_parts import Parts
from gloveport.model.egress import Postgres, Redis
from gloveport.policy.hosts.addresses import is_private
from gloveport.policy.hosts.authorities import Authority, is_address

_DATABASES = ("postgres", "redis")


def account_faults(base: KeyPath, parts: Parts, places: Mapping[int, Authority]) -> Iterator[Fault]:
    """Name the databases without an account, the accounts without a database, and those that need TLS. ``places`` has
    the valid hosts, by their index.
    """
    yield from _host_faults(base, parts, places)
    for index, auth in parts.auth.items():
        key = (*base, "auth", index)
        scheme = auth.kind if isinstance(auth, Postgres | Redis) else "https"
        other = next((place for place in places.values() if scheme != place.scheme in {"https", *_DATABASES}), None)
        if other is not None:
            yield Fault(
                keys=(key,),
                problem=f"expected {scheme}:// hosts alone for the kind {as_toml(auth.kind)}, "
                f"found {as_toml(str(other))}",
                hint="make an API of its own for each kind of host",
            )
        if isinstance(auth, Postgres | Redis) and not auth.tls and not _stays_private(parts, places):
            yield Fault(
                keys=((*key, "tls"),),
                problem="expected TLS, because the API does not say at which private addresses it is",
                hint='leave out tls = false, or name them, as in addresses = ["127.0.0.1"]',
            )


def _host_faults(base: KeyPath, parts: Parts, places: Mapping[int, Authority]) -> Iterator[Fault]:
    if len(parts.auth) != parts.lengths.get("auth", 0):  # a faulty account may have been the missing one
        return
    kinds = {auth.kind for auth in parts.auth.values()}
    for index, place in places.items():
        if place.scheme in _DATABASES and place.scheme not in kinds:
            yield Fault(
                keys=((*base, "hosts", index),),
                problem=f"expected an account in auth, because it is a database, found {as_toml(str(place))}",
                hint=f'add one of the kind "{place.scheme}", or write tcp:// where programs log in by themselves',
            )


def _stays_private(parts: Parts, places: Mapping[int, Authority]) -> bool:
    """Whether all addresses that are dialled are in the configuration, and private."""
    dialled = [*parts.addresses.values()]
    if not dialled and all(is_address(place.host) for place in places.values()):
        dialled = [ip_address(place.host) for place in places.values()]
    return bool(dialled) and all(map(is_private, dialled))
