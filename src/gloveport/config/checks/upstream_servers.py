"""Checks other MCP servers: how one is reached, and where its credentials go.

A credential has one destination. A setting that could send it unencrypted, or together with another one, is a fault; so
is a key without an effect, since it was meant to have one.
"""

import re
from collections.abc import Iterator
from typing import Final
from urllib.parse import urlsplit

from gloveport.config.checks.apis import authority_faults
from gloveport.config.checks.tool_rules import tool_rule_faults
from gloveport.config.schema import KeyPath
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import as_toml, printable, spell_key
from gloveport.config.validation.faults import Fault
from gloveport.config.validation.sound_parts import sound_elements, sound_or_default
from gloveport.late_pattern import late_pattern
from gloveport.model.hub import OAuthLogin, Sampling, Server, ServerAuth
from gloveport.model.value import fields_of
from gloveport.policy.hosts.authorities import canonical_host, is_confidential
from gloveport.policy.hosts.headers import may_hold_a_credential

_LOCAL: Final = ("env", "secret_env", "directory")
_REMOTE: Final = ("transport", "headers", "auth", "ca_file")

_CREDENTIALS = late_pattern(r"authorization|cookie|proxy-.*", re.IGNORECASE)
# Headers that say how to read a message and which session it belongs to: the protocol's client sets them.
_OF_THE_PROTOCOL = late_pattern(
    r"accept|host|connection|keep-alive|te|trailer|transfer-encoding|upgrade|expect|content-.*|mcp-.*|last-event-id",
    re.IGNORECASE,
)


def server_faults(data: Table) -> Iterator[Fault]:
    """Name the violations in the servers of merged TOML data, which may have values of wrong types, too."""
    written = data.get("servers")
    for name, table in written.items() if isinstance(written, dict) else ():
        if isinstance(table, dict):
            base: KeyPath = ("servers", name)
            yield from _way_faults(base, table)
            yield from _variable_faults(base, table)
            yield from _url_faults((*base, "url"), sound_or_default(Server, table, "url"), bool(table.get("auth")))
            yield from _auth_faults(base, table)
            yield from authority_faults((*base, "ca_file"), sound_or_default(Server, table, "ca_file"))
            yield from tool_rule_faults(base, table)


def sampling_faults(data: Table) -> Iterator[Fault]:
    """Name the violations in the table ``sampling`` of merged TOML data."""
    table = data.get("sampling")
    if not isinstance(table, dict):
        return
    base: KeyPath = ("sampling",)
    settings = {name: sound_or_default(Sampling, table, name) for name in ("provider", "url", "model")}
    needed = table.get("enabled") is True and table.get("channel") == "provider"
    if needed or table.get("secret") or any(name in table and table[name] for name in settings):
        for name, value in settings.items():
            if not value and not table.get(name):
                yield Fault(
                    keys=((*base, name), base),
                    problem=f"{name} is missing; a provider needs it",
                    hint='set provider, url and model, or channel = "client" and none of them',
                )
    yield from _url_faults((*base, "url"), settings["url"], bool(table.get("secret")))


def _way_faults(base: KeyPath, table: Table) -> Iterator[Fault]:
    command, url = table.get("command"), table.get("url")
    if not command and not url:
        yield Fault(
            keys=(base,),
            problem="expected command or url, found neither",
            hint='write command = ["PROGRAM", "ARGUMENT"] for a server that is started here, url = "https://…" for '
            "one that runs elsewhere",
        )
    elif command and url:
        yield Fault(
            keys=((*base, "url"), (*base, "command")),
            problem="expected command or url, found both",
            hint="a server is reached in one way: remove one of the two",
        )
    else:
        way, own, strange = ("command", _LOCAL, _REMOTE) if command else ("url", _REMOTE, _LOCAL)
        for key in strange:
            if table.get(key) and table[key] != fields_of(Server)[key].default:
                yield Fault(
                    keys=((*base, key),),
                    problem=f"means nothing for a server that has {way}",
                    hint=f"remove it; for a server that has {way} there are {', '.join(own)}",
                )
    if isinstance(command, list) and command and command[0] == "":
        yield Fault(
            keys=((*base, "command", 0),), problem="expected a program, found nothing", hint="name the program to start"
        )


def _variable_faults(base: KeyPath, table: Table) -> Iterator[Fault]:
    plain, secret = table.get("env"), table.get("secret_env")
    if isinstance(plain, dict) and isinstance(secret, dict):
        for name in plain.keys() & secret.keys():
            yield Fault(
                keys=((*base, "env", name),),
                problem=f"expected a variable of its own, found {as_toml(name)}, which is in secret_env as well",
                hint="an environment has one value for a name: remove one of the two",
            )


def _url_faults(key: KeyPath, url: str, is_credential: bool) -> Iterator[Fault]:  # noqa: FBT001 - of this file alone
    """Name the faults of an address. Only its host is shown: the rest may have a key."""
    if not url:
        return
    try:
        parts = urlsplit(url)
        host = canonical_host(parts.hostname or "")
        _ = parts.port
    except ValueError as error:
        yield Fault(
            keys=(key,),
            problem=f"expected the address of a server ({printable(str(error).removesuffix('.'), limit=120)})",
            hint='write it as "https://mcp.example.com/mcp"',
        )
        return
    if is_credential and not is_confidential(parts.scheme, host):
        yield Fault(
            keys=(key,),
            problem=f"expected https, because a credential is sent to it, found http for {as_toml(host)}",
            hint="credentials never leave this machine unencrypted: write https://, or take the credential away",
        )


def _auth_faults(base: KeyPath, table: Table) -> Iterator[Fault]:
    taken: dict[str, KeyPath] = {}
    headers = table.get("headers")
    for name in headers if isinstance(headers, dict) else ():
        key = (*base, "headers", name)
        if _CREDENTIALS.fullmatch(name):
            yield Fault(
                keys=(key,),
                problem="expected a header that is no secret",
                hint="say where the secret is: [[" + spell_key((*base, "auth")) + ']] with kind = "bearer" or "header"',
            )
        yield from _protocol_faults(key, name)
        taken.setdefault(name.lower(), key)
    for index, auth in sound_elements(Server, table, "auth").items():
        key = (*base, "auth", index)
        name = _place(auth)
        yield from _login_faults(key, auth)
        yield from _protocol_faults(key, name)
        if auth.kind != "query" and not may_hold_a_credential(name) and not is_of_the_protocol(name):
            yield Fault(
                keys=(key,),
                problem=f"expected a header that may hold a credential, found {as_toml(name)}",
                hint="this one says how a message is read, or whom it is for",
            )
        if (owner := taken.setdefault(name, key)) != key:
            yield Fault(
                keys=(key,),
                problem=f"expected a place of its own, found {as_toml(name)}, which is that of {spell_key(owner)}",
                hint="a request has one credential in a place: remove one of the two",
            )


def _login_faults(key: KeyPath, auth: ServerAuth) -> Iterator[Fault]:
    if not isinstance(auth, OAuthLogin):
        return
    if auth.client_secret and not auth.client_id:
        yield Fault(
            keys=((*key, "client_secret"),),
            problem="means nothing without client_id",
            hint="write the client's name as well, or remove its secret",
        )
    elif auth.client_secret and not auth.issuer:
        yield Fault(
            keys=((*key, "issuer"), key),
            problem="missing; a client_secret needs it",
            hint="name the authorization server that the client is registered with: none but this one gets the secret",
        )
    yield from _url_faults((*key, "issuer"), auth.issuer, is_credential=True)


def is_of_the_protocol(name: str) -> bool:
    """Tell whether only the protocol's client may set a header."""
    return _OF_THE_PROTOCOL.fullmatch(name) is not None


def _protocol_faults(key: KeyPath, name: str) -> Iterator[Fault]:
    if is_of_the_protocol(name):
        yield Fault(
            keys=(key,),
            problem=f"expected a header that is not the protocol's own, found {as_toml(name)}",
            hint="remove it: Gloveport sets it",
        )


def _place(auth: ServerAuth) -> str:
    if auth.kind == "query":
        return f"?{auth.name}"
    return auth.name.lower() if auth.kind == "header" else "authorization"
