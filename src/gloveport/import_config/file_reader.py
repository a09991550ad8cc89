"""Reads a client's file and its entries: once, whole, and up to a size limit."""

import json
import re
import tomllib
from pathlib import Path
from typing import Final

import json5
from msgspec import Struct

from gloveport.config.sources.layers import MAX_DEPTH, Table, walk
from gloveport.config.toml_text import printable
from gloveport.errors import ConfigError
from gloveport.import_config.client_files import ClientFile
from gloveport.secrets.secret_files import open_safe

MAX_BYTES: Final = 16 << 20
"""Claude Code keeps more than servers in its file."""

MAX_LENIENT_BYTES: Final = 1 << 17
"""The limit for a file that is neither JSON nor JSON with comments: the JSON5 reader is slow."""

MAX_ENTRIES: Final = 500

_WRAPPERS = ("mcpServers", "servers", "mcp_servers", "context_servers", "mcp")
_WAYS = frozenset({"command", "url", "serverUrl", "httpUrl"})
# A string without an end extends to the end of the file, or the search would restart at each such beginning.
_TEXT = r'("(?:[^"\\]|\\.)*(?:"|\Z))'
_SKIPPED = re.compile(_TEXT + r"|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")
_TRAILING_COMMA = re.compile(_TEXT + r"|,(?=\s*[}\]])", re.DOTALL)


class ClientEntry(Struct, frozen=True, kw_only=True):
    """A server as a client has written it.

    Attributes:
        directory: The project in which the client would start it, if the file says so.
    """

    name: str
    place: ClientFile
    table: object
    directory: str = ""


def read_entries(place: ClientFile) -> list[ClientEntry] | None:
    """Read the servers in a file, those of a user before those of single projects; None where there is no such file.

    Raises:
        ConfigError: The file can't be trusted, is too large, or has an unknown shape.
    """
    try:
        content = _content(place.path)
    except FileNotFoundError:
        return None
    data = _parse(place.path, content)
    if not isinstance(data, dict):
        what, hint = f"{_show(place.path)} holds no table", "name a file in which a client keeps its MCP servers"
        raise ConfigError(what, hint=hint)
    entries = [ClientEntry(name=name, place=place, table=table) for name, table in _servers(data).items()]
    projects = data.get("projects")
    for directory, project in projects.items() if isinstance(projects, dict) else ():
        inner = project.get("mcpServers") if isinstance(project, dict) else None
        for name, table in inner.items() if isinstance(inner, dict) else ():
            entries.append(ClientEntry(name=name, place=place, table=table, directory=directory))
    if len(entries) > MAX_ENTRIES:
        raise ConfigError(
            f"{_show(place.path)} names {len(entries)} servers",
            hint=f"at most {MAX_ENTRIES} are read: divide it",
        )
    return entries


def require_plain(table: object) -> None:
    """Refuse an entry that its readers could not handle.

    Raises:
        ConfigError: It is nested too deep, or has a lone surrogate.
    """
    for key, value in walk(table):
        if len(key) > MAX_DEPTH:
            raise ConfigError("it is nested too deep")
        for text in (key[-1], value):
            if isinstance(text, str) and not text.isascii() and _SURROGATE.search(text):
                raise ConfigError("it holds text that is no Unicode")


def _content(path: Path) -> bytes:
    try:
        with open_safe(str(path)) as file:
            content = file.read(MAX_BYTES + 1)
    except ConfigError as error:
        raise ConfigError(f"{_show(path)}: {error.args[0]}", hint=error.hint) from error
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null character in the name
        reason = error.strerror if isinstance(error, OSError) else "no name of a file"
        raise ConfigError(f"{_show(path)} can't be read: {reason}", hint="make it readable for this user") from error
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{_show(path)} is larger than {MAX_BYTES} bytes", hint="this is no client's file")
    return content


def _parse(path: Path, content: bytes) -> object:
    """Parse a file's content. Errors quote nothing of it: it has secrets."""
    kind = "TOML" if path.suffix == ".toml" else "JSON"
    try:
        text = content.decode("utf-8-sig")
        return tomllib.loads(text) if kind == "TOML" else _json(text)
    except RecursionError:
        raise ConfigError(f"{_show(path)}: nested too deep", hint="this is no client's file") from None
    except ValueError:
        raise ConfigError(f"{_show(path)} is not {kind}", hint="the client itself can't read it: repair it") from None


def _json(text: str) -> object:
    """Parse JSON, JSON with comments and trailing commas, or any JSON5: the fast parsers first."""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return json.loads(_TRAILING_COMMA.sub(r"\1", _SKIPPED.sub(lambda found: found[1] or " ", text)))
    except ValueError:
        if len(text) > MAX_LENIENT_BYTES:
            raise
        return json5.loads(text)


def _servers(data: Table) -> Table:
    """The table of servers, under any client's name for it; a plugin's file is that table itself."""
    for wrapper in _WRAPPERS:
        inner = data.get(wrapper)
        if isinstance(inner, dict):
            # In VS Code's settings it is `mcp.servers`. A server may also be named `servers`.
            deeper = inner.get("servers") if wrapper == "mcp" else None
            return deeper if isinstance(deeper, dict) and not _is_server(deeper) else inner
    return {name: table for name, table in data.items() if isinstance(table, dict) and _is_server(table)}


def _is_server(table: Table) -> bool:
    return not _WAYS.isdisjoint(table)


def _show(path: Path) -> str:
    return printable(str(path))
