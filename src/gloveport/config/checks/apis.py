"""Checks APIs: hosts that two claim, credentials that could go elsewhere, placeholders in variables that act.

A credential has one destination. A setting that could send it elsewhere, unencrypted, or together with another one is a
fault.
"""

import ssl
from collections.abc import Iterator

from gloveport.config.checks.accounts import account_faults
from gloveport.config.checks.rule_order import order_faults
from gloveport.config.preset_tables import preset_hosts
from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import as_toml, printable, spell_key
from gloveport.config.validation.faults import Fault
from gloveport.config.validation.sound_parts import Parts, parts_of
from gloveport.errors import ConfigError
from gloveport.late_pattern import late_pattern
from gloveport.model.egress import (
    Auth,
    Basic,
    Bearer,
    ClientCredentials,
    Header,
    Placeholder,
    Postgres,
    Query,
    Redis,
    RefreshToken,
    SigV4,
)
from gloveport.policy.hosts.authorities import DEFAULT_PORTS, Authority, find_loopback, parse_pattern
from gloveport.policy.hosts.headers import may_hold_a_credential
from gloveport.secrets.secret_files import open_safe

_HOST_HINT = (
    'write "host", "host:port", "*.host", "http://host:port", "postgres://host:port", "redis://host:port" or '
    '"tcp://host:port"; an IPv6 address in brackets'
)

# Variables that loaders, shells, interpreters and clients obey: a placeholder there would break or redirect them.
_OBEYED = late_pattern(
    r"(?:LD|DYLD|DENO|NODE|NPM_CONFIG|SSL|SSH|GIT|CURL|REQUESTS|GLOVEPORT|LC|XDG|MALLOC)_.*"
    r"|(?:GRPC|PIP)_.*|(?:PYTHON|BASH|PERL5|RUBY|GCONV).*|.*(?:_PROXY|_CA_BUNDLE|CAINFO)"
    r"|GLIBC_TUNABLES|PATH|HOME|SHELL|ENV|IFS|PWD|OLDPWD|USER|LOGNAME|LANG|LANGUAGE|TZ|TERM|TMPDIR|TMP|TEMP"
    r"|CDPATH|EDITOR|PAGER|PS[0-9]|PROMPT_COMMAND|SHELLOPTS|NO_COLOR|HOSTALIASES|LOCALDOMAIN|RES_OPTIONS"
)


def api_faults(data: Table) -> Iterator[Fault]:
    """Name the violations in the APIs of merged TOML data, which may have values of wrong types, too."""
    written = data.get("api")
    tables = written if isinstance(written, dict) else {}
    owners: dict[tuple[str, int], tuple[KeyPath, Authority]] = {}
    variables: dict[str, KeyPath] = {}
    for name, table in tables.items():
        if not isinstance(table, dict):
            continue
        base: KeyPath = ("api", name)
        parts = parts_of(table)
        places: dict[int, Authority] = {}
        yield from _host_faults(base, parts, places)
        if parts.active:
            yield from _claim_faults(base, places, owners)
        yield from _scheme_faults(base, parts, places)
        yield from account_faults(base, parts, places)
        yield from order_faults(base, parts)
        yield from _auth_faults(base, parts)
        yield from _placeholder_faults(base, parts, variables)
        yield from _address_faults(base, parts)
        yield from authority_faults((*base, "ca_file"), parts.ca_file)


def _host_faults(base: KeyPath, parts: Parts, places: dict[int, Authority]) -> Iterator[Fault]:
    """Name the malformed hosts, and note the places of the others."""
    for index, host in parts.hosts.items():
        key = (*base, "hosts", index)
        try:
            places[index] = parse_pattern(host)
        except ValueError as error:
            # There may be a password before the @.
            problem = "expected a host alone, found one with a user" if "@" in host else str(error)
            yield Fault(keys=(key,), problem=printable(problem.removesuffix("."), limit=200), hint=_HOST_HINT)
            continue
        if (address := find_loopback(places[index].host)) is not None:
            yield Fault(
                keys=(key,),
                problem=f"programs mean their own sandbox by {as_toml(places[index].host)}",
                hint=f'give the API another name, such as service.example, and addresses = ["{address}"]',
            )


def _claim_faults(
    base: KeyPath, places: dict[int, Authority], owners: dict[tuple[str, int], tuple[KeyPath, Authority]]
) -> Iterator[Fault]:
    for index, place in places.items():
        key = (*base, "hosts", index)
        owner, first = owners.setdefault((place.host, place.port), (key, place))
        # A port has one protocol; and with two APIs at one place, the credential would be ambiguous.
        if owner[:2] != base or first.scheme != place.scheme:
            preset = preset_hosts().get(place.host)
            replaced = f"; an API named {preset[1:]} replaces {preset} of workspace.hosts" if preset else ""
            yield Fault(
                keys=(key,),
                problem=f"expected a place that nobody claims, found {as_toml(str(place))}, "
                f"which is {spell_key(owner)}",
                hint=f"give the place to one of them, or set active = false for the other{replaced}",
            )


def _scheme_faults(base: KeyPath, parts: Parts, places: dict[int, Authority]) -> Iterator[Fault]:
    for index, place in places.items():
        key, found = (*base, "hosts", index), f"found {as_toml(parts.hosts[index])}"
        if parts.lengths.get("auth") and place.scheme in {"http", "tcp"}:
            yield Fault(
                keys=(key,),
                problem=f"expected HTTPS, because the API has auth, {found}",
                hint="credentials never leave unencrypted: make an API of its own for this host, without auth",
            )
        http_only = [
            name for name, setting in (("rules", parts.lengths.get("rules")), ("types", parts.types)) if setting
        ]
        for name in http_only if place.scheme not in DEFAULT_PORTS else ():
            yield Fault(
                keys=(key,),
                problem=f"expected HTTP, because the API has {name}, {found}",
                hint=f"nobody looks into a TCP connection: make an API of its own for this host, without {name}",
            )


def _auth_faults(base: KeyPath, parts: Parts) -> Iterator[Fault]:
    taken: dict[str, tuple[KeyPath, Auth]] = {}
    for index, auth in parts.auth.items():
        key = (*base, "auth", index)
        for place in _places(auth):
            if place.startswith("header:") and not may_hold_a_credential(place.partition(":")[2]):
                yield Fault(
                    keys=(key,),
                    problem=f"expected a header that may hold a credential, found {as_toml(place)}",
                    hint="this one says how a message is read, or whom it is for",
                )
            owner, other = taken.setdefault(place, (key, auth))
            # Placeholders may share a place. An injected credential replaces all that a program put there.
            if owner != key and not (isinstance(auth, Placeholder) and isinstance(other, Placeholder)):
                yield Fault(
                    keys=(key,),
                    problem=f"expected a place of its own, found {as_toml(place)}, which is that of {spell_key(owner)}",
                    hint="a request has one credential in a place: remove one of the two",
                )


def _places(auth: Auth) -> tuple[str, ...]:
    match auth:
        case Header():
            return (f"header:{auth.name.lower()}",)
        case Query():
            return (f"query:{auth.name}",)
        case Placeholder():
            return tuple(place.lower() if place.startswith("header:") else place for place in auth.places)
        case SigV4():
            return ("header:authorization", "header:x-amz-date", "header:x-amz-security-token")
        case Bearer() | Basic() | ClientCredentials() | RefreshToken():
            return ("header:authorization",)
        case Postgres() | Redis():
            return ("login",)


def _placeholder_faults(base: KeyPath, parts: Parts, variables: dict[str, KeyPath]) -> Iterator[Fault]:
    names: dict[KeyPath, str] = {
        (*base, "auth", index, "name"): auth.name for index, auth in parts.auth.items() if isinstance(auth, Placeholder)
    } | {(*base, "stand_ins", index): name for index, name in parts.stand_ins.items()}
    for key, name in names.items():
        if _OBEYED.fullmatch(name):
            yield Fault(
                keys=(key,),
                problem=f"expected a name that nothing in a sandbox obeys, found {as_toml(name)}",
                hint='choose one that says what it is for, such as "GITHUB_TOKEN"',
            )
        if (owner := variables.setdefault(name, key)) != key:
            yield Fault(
                keys=(key,),
                problem=f"expected a name of its own, found {as_toml(name)}, which is {spell_key(owner)}",
                hint="all placeholders are variables of one environment: rename one of the two",
            )


def _address_faults(base: KeyPath, parts: Parts) -> Iterator[Fault]:
    for index, network in parts.networks.items():
        if network.prefixlen == 0:
            yield Fault(
                keys=((*base, "networks", index),),
                problem=f"expected less than every address there is, found {as_toml(str(network))}",
                hint="public addresses need no network; name the private ones that are meant",
            )
    for index, address in parts.addresses.items():
        if address.is_unspecified or address.is_multicast:
            yield Fault(
                keys=((*base, "addresses", index),),
                problem=f"expected the address of a machine, found {as_toml(str(address))}",
                hint="write the address that is to be dialled",
            )


def authority_faults(key: KeyPath, file: str | None) -> Iterator[Fault]:
    """Name the faults of a CA file; None is no file."""
    if file is None:
        return
    try:
        with open_safe(file) as opened:
            pem = opened.read().decode("ascii", "replace")
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except ConfigError as error:
        yield Fault(keys=(key,), problem=f"{as_toml(file)}: {error.args[0]}", hint=error.hint)
    except (OSError, ValueError) as error:  # ValueError for an empty file, SSLError (an OSError) for others
        reason = "no certificates in PEM" if isinstance(error, ssl.SSLError | ValueError) else error.strerror
        yield Fault(
            keys=(key,),
            problem=f"expected a file of certificates, found {as_toml(file)} ({reason})",
            hint="name a PEM file that this user may read",
        )
