"""Converts one entry of a client's file to a server of ours."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from gloveport.config.checks.upstream_servers import server_faults
from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import spell_key
from gloveport.config.validation.faults import validate
from gloveport.errors import ConfigError
from gloveport.import_config.drafts import ServerDraft
from gloveport.import_config.file_reader import ClientEntry, require_plain
from gloveport.import_config.local import command_of, fill_local, is_ourselves
from gloveport.import_config.remote import address_of, fill_remote
from gloveport.import_config.variables import Surroundings
from gloveport.model.hub import Server

_ON: Final = ("enabled_tools", "enabledTools", "includeTools")
_OFF: Final = ("disabled_tools", "disabledTools", "excludeTools")
_KNOWN_KEYS: Final = frozenset(
    {"command", "args", "env", "environment", "envs", "env_vars", "cwd", "type", "transport", "name", "description"}
    | {"url", "serverUrl", "httpUrl", "uri", "headers", "http_headers", "requestInit", "env_http_headers", "oauth"}
    | {"bearer_token_env_var", "enabled", "disabled", "startup_timeout_sec", "startup_timeout_ms", "tool_timeout_sec"}
    | {"envFile", "env_file", "timeout", *_ON, *_OFF}
)
_NEVER_SPOKEN: Final = frozenset({"ws", "websocket", "wss"})
_LOCAL: Final = frozenset({"stdio", "local"})
_MS: Final = 1000
_FOREVER: Final = 10**9  # a file may have a number too large for a float


def name_of(entry: ClientEntry) -> str:
    """Give our name of an entry: characters that are not allowed become hyphens.

    Raises:
        ConfigError: Nothing is left of the name.
    """
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", entry.name).lstrip("._-")[:64].rstrip("-")
    if not name:
        raise ConfigError("its name has no letter and no digit")
    return name


def draft_of(entry: ClientEntry, *, home: Path, environ: Mapping[str, str], secrets: Path) -> ServerDraft:
    """Convert an entry to a server of ours. ``environ`` resolves its references to variables; ``secrets`` is the
    directory of all secrets.

    Raises:
        ConfigError: It can't be imported; the message says why. It may quote the entry, but no secret.
    """
    table = entry.table
    require_plain([entry.directory, table])
    if not isinstance(table, dict):
        raise ConfigError("it is no table")
    if table.get("disabled") is True or table.get("enabled") is False:
        raise ConfigError("it is disabled there")
    surroundings = Surroundings(
        environ=environ,
        home=home,
        workspace=Path(entry.directory) if entry.directory.startswith("/") else entry.place.workspace,
        bare=entry.place.client == "gemini",
    )
    draft = ServerDraft(directory=secrets / name_of(entry))
    _fill(draft, entry, table, surroundings)
    _fill_rest(draft, table)
    require_sound(name_of(entry), draft.table)
    return draft


def require_sound(name: str, table: Table) -> None:
    """Refuse a table that would be a fault of the configuration. Raises ConfigError if it would be one."""
    shapes = [(fault, fault.keys[0]) for fault in validate(Server, table)[1]]
    rules = [(fault, fault.keys[0][2:]) for fault in server_faults({"servers": {name: table}})]
    for fault, key in [*shapes, *rules]:
        raise ConfigError(f"{spell_key(key)}: {fault.problem}" if key else fault.problem, hint=fault.hint)


def _fill(draft: ServerDraft, entry: ClientEntry, table: Table, surroundings: Surroundings) -> None:
    kind = str(table.get("type") or table.get("transport") or "").lower()
    if kind in _NEVER_SPOKEN:
        raise ConfigError("it speaks over web sockets, which Gloveport does not")
    command, address = command_of(table, surroundings), address_of(table)
    if command and address:
        command, address = (command, "") if kind in _LOCAL else (([], address) if kind else (command, address))
    if command and address:
        raise ConfigError("it names a command and an address")
    if entry.name.lower() == "gloveport" or (command and is_ourselves(command)):
        raise ConfigError("it is Gloveport itself")
    if command:
        fill_local(draft, table, command, surroundings)
        if entry.directory.startswith("/"):
            draft.table.setdefault("directory", entry.directory)
    elif address:
        fill_remote(draft, table, address, surroundings)
    else:
        raise ConfigError("it names neither a command nor an address")


def _fill_rest(draft: ServerDraft, table: Table) -> None:
    if isinstance(description := table.get("description"), str):
        draft.table["description"] = " ".join(description.split())[:500]
    if rules := _rules(table):
        draft.table["rules"] = rules
    for key, seconds, most in (
        ("startup_seconds", _seconds(table, "startup_timeout_sec", "startup_timeout_ms"), 600.0),
        ("call_seconds", _seconds(table, "tool_timeout_sec", "timeout"), 3600.0),
    ):
        if seconds is not None:
            draft.table[key] = min(seconds, most)
    if unknown := sorted(str(name) for name in table if name not in _KNOWN_KEYS):
        draft.note(f"not taken over: {', '.join(unknown)}")


def _rules(table: Table) -> list[Table]:
    """Rules for the tools that a client enables and disables. Enabled tools that only read are allowed, others asked
    about.
    """
    on, off = _tools(table, _ON), _tools(table, _OFF)
    rules: list[Table] = []
    if off:
        rules.append({"action": "deny", "tools": off})
    if on is not None:
        enabled = [name for name in on if name not in (off or ())]
        if enabled:
            rules.append({"action": "allow", "tools": enabled, "read_only": True})
            rules.append({"action": "ask", "tools": enabled})
        rules.append({"action": "deny"})
    return rules


def _tools(table: Table, keys: tuple[str, ...]) -> list[str] | None:
    """The names in a list of tools; None where there is no list. A name that is a wider pattern here is refused."""
    key = next((key for key in keys if table.get(key) is not None), None)
    if key is None:
        return None
    names = table[key]
    if not isinstance(names, list) or not all(isinstance(name, str) and "*" not in name for name in names):
        raise ConfigError(f"its {key} is no list of names")
    return list(dict.fromkeys(names))


def _seconds(table: Table, seconds: str, other: str) -> float | None:
    """A time in seconds. Keys named after seconds are in seconds; ``timeout`` is in milliseconds for most clients."""
    match table.get(seconds), table.get(other):
        case (int() | float() as value, _) if not isinstance(value, bool) and value > 0:
            return float(min(value, _FOREVER))
        case (_, int() | float() as value) if not isinstance(value, bool) and value > 0:
            value = min(value, _FOREVER)
            return value / _MS if other.endswith("_ms") or value >= _MS else float(value)
        case _:
            return None
