"""Converts entries that name an address."""

import base64
import re
from typing import Final
from urllib.parse import unquote, unquote_plus, urlsplit, urlunsplit

from gloveport.config.checks.upstream_servers import is_of_the_protocol
from gloveport.config.sources.layers import Table
from gloveport.errors import ConfigError
from gloveport.import_config.drafts import ServerDraft
from gloveport.import_config.secrets import is_harmless, is_harmless_address, is_secret_name
from gloveport.import_config.variables import Surroundings, VariableReference

_ADDRESSES: Final = ("url", "serverUrl", "httpUrl", "uri")
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9-]{0,30}) +(?P<rest>.+)", re.DOTALL)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,64}")
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})
_TRANSPORTS: Final = {"sse": "sse", "http": "http", "streamable-http": "http", "streamablehttp": "http"} | {
    "streamable-https": "http",
    "streamable_http": "http",
}


def address_of(table: Table) -> str:
    """Give the address of an entry, under any client's key for it; empty where it has none.

    Raises:
        ConfigError: It is no text.
    """
    address = next((table[name] for name in _ADDRESSES if table.get(name)), "")
    if not isinstance(address, str):
        raise ConfigError("its address is no text")
    return address


def fill_remote(draft: ServerDraft, table: Table, address: str, surroundings: Surroundings) -> None:
    """Write an entry that names an address into its draft.

    Raises:
        ConfigError: It can't be imported; the message says why.
    """
    resolved = _resolve_text("its address", address, surroundings)
    auth: list[Table] = []
    headers: dict[str, str] = {}
    address = _without_user(draft, resolved, auth, surroundings)
    draft.table["url"] = _without_keys(draft, address, auth, surroundings)
    if urlsplit(resolved).hostname in _LOOPBACK and urlsplit(resolved).path == "/mcp":
        draft.note("if it is `gloveport serve --http`, leave it out: it would call itself")
    if not is_harmless_address(str(draft.table["url"])):
        draft.note("its address may hold a secret, which stays in the configuration")
    kind = str(table.get("type") or table.get("transport") or "").lower()
    if transport := "http" if table.get("httpUrl") and not table.get("url") else _TRANSPORTS.get(kind):
        draft.table["transport"] = transport
    for name, text in _headers(table):
        _put(draft, (name, text), headers, auth, surroundings)
    if variable := table.get("bearer_token_env_var"):
        auth.append({"kind": "bearer", "secret": _of_variable(draft, variable, surroundings)})
    if headers:
        draft.table["headers"] = headers
    _add_login(draft, table, auth, surroundings)
    if auth:
        draft.table["auth"] = auth


def _resolve_text(what: str, text: str, surroundings: Surroundings) -> str:
    """Resolve a text that the configuration will show: it gets no secret of the environment."""
    for name, value in surroundings.variables(text).items():
        if not is_harmless(name, value):
            raise ConfigError(
                f"{what} would hold what the variable {name} does, which may be a secret",
                hint="write the server by hand, with [[auth]]",
            )
    return surroundings.resolve(text)


def _without_user(draft: ServerDraft, address: str, auth: list[Table], surroundings: Surroundings) -> str:
    """The address without user and password, which become a header."""
    try:
        parts = urlsplit(address)
    except ValueError:
        raise ConfigError("its address can't be read") from None
    user, at, place = parts.netloc.rpartition("@")
    if at:
        pair = base64.b64encode(unquote(user).encode()).decode()
        secret = draft.secret("the user and the password of its address", "basic", pair, surroundings)
        auth.append(_header("Authorization", secret, "Basic "))
    return urlunsplit(parts._replace(netloc=place, fragment=""))


def _without_keys(draft: ServerDraft, address: str, auth: list[Table], surroundings: Surroundings) -> str:
    """The address without parameters whose names say that they are secrets: they become credentials."""
    parts = urlsplit(address)
    parameters = []
    for parameter in parts.query.split("&") if parts.query else ():
        name, _, value = map(unquote_plus, parameter.partition("="))
        if value and is_secret_name(name) and not is_harmless(name, value):
            file_name = "query-" + re.sub(r"[^A-Za-z0-9-]", "_", name).lower()
            secret = draft.secret(f"the parameter {name} of its address", file_name, value, surroundings)
            auth.append({"kind": "query", "name": name, "secret": secret})
        else:
            parameters.append(parameter)
    return urlunsplit(parts._replace(query="&".join(parameters)))


def _headers(table: Table) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key in ("headers", "http_headers", "requestInit", "env_http_headers"):
        headers = table.get(key) or {}
        if key == "requestInit" and isinstance(headers, dict):
            headers = headers.get("headers") or {}
        if not isinstance(headers, dict):
            raise ConfigError(f"its {key} are no table")
        for name, text in headers.items():
            if not isinstance(text, str) or _HEADER.fullmatch(name) is None:
                raise ConfigError(f"its {key} have one that is none")
            found.append((name, f"${{{text}}}" if key == "env_http_headers" else text))
    return found


def _put(
    draft: ServerDraft, header: tuple[str, str], headers: dict[str, str], auth: list[Table], surroundings: Surroundings
) -> None:
    name, text = header
    file_name = "header-" + re.sub(r"[^A-Za-z0-9-]", "_", name).lower()
    if is_of_the_protocol(name):
        draft.note(f"its header {name} is left out: Gloveport sets it")
    elif name.lower() == "authorization":
        found = _SCHEME.fullmatch(text)
        scheme, rest = (found["scheme"], found["rest"]) if found else ("", text)
        if scheme.lower() == "bearer":
            auth.append({"kind": "bearer", "secret": draft.secret(name, "bearer", rest, surroundings)})
        else:
            secret = draft.secret(name, file_name, rest, surroundings)
            auth.append(_header(name, secret, f"{scheme} " if scheme else ""))
    elif _is_plain(name, text, surroundings):
        headers[name] = surroundings.resolve(text)
    else:
        match surroundings.pieces(text):
            case (str(prefix), VariableReference(name=variable)) if is_harmless("", prefix.strip()):
                secret = draft.secret(name, file_name, f"${{{variable}}}", surroundings)
                auth.append(_header(name, secret, prefix))
            case _:
                auth.append(_header(name, draft.secret(name, file_name, text, surroundings), ""))


def _is_plain(name: str, text: str, surroundings: Surroundings) -> bool:
    try:
        value = surroundings.resolve(text)
    except ConfigError:
        return False
    borrowed = surroundings.variables(text).items()
    return is_harmless(name, value) and all(is_harmless(variable, found) for variable, found in borrowed)


def _header(name: str, secret: str, prefix: str) -> Table:
    header: Table = {"kind": "header", "name": name, "secret": secret}
    return header | {"prefix": prefix} if prefix else header


def _of_variable(draft: ServerDraft, variable: object, surroundings: Surroundings) -> str:
    if not isinstance(variable, str):
        raise ConfigError("its bearer_token_env_var is no text")
    return draft.secret("bearer_token_env_var", "bearer", f"${{{variable}}}", surroundings)


def _add_login(draft: ServerDraft, table: Table, auth: list[Table], surroundings: Surroundings) -> None:
    """Take over a client's OAuth settings. Other clients detect OAuth by asking the server; ours must be told."""
    login = table.get("oauth")
    if any(each["kind"] == "bearer" or str(each.get("name")).lower() == "authorization" for each in auth):
        return
    if not isinstance(login, dict):
        draft.note('if it asks for a login, add [[auth]] with kind = "oauth"')
        return
    ours: Table = {"kind": "oauth"}
    if isinstance(client := login.get("clientId") or login.get("client_id"), str):
        ours["client_id"] = _resolve_text("its OAuth client's name", client, surroundings)
    if isinstance(secret := login.get("clientSecret") or login.get("client_secret"), str):
        ours["client_secret"] = draft.secret("its OAuth client's secret", "oauth-client", secret, surroundings)
    if isinstance(issuer := login.get("issuer"), str):
        ours["issuer"] = _resolve_text("its issuer", issuer, surroundings)
    scopes = login.get("scopes") or login.get("scope") or []
    scopes = scopes.split() if isinstance(scopes, str) else scopes
    if isinstance(scopes, list) and scopes and all(isinstance(scope, str) for scope in scopes):
        ours["scopes"] = scopes
    auth.append(ours)
