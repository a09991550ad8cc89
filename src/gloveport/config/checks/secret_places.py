"""Lists the files and commands that secrets come from, in all tables of a configuration."""

import re
from collections.abc import Iterator
from pathlib import Path

from gloveport.config.sources.layers import Table


def secret_files(data: Table) -> Iterator[Path]:
    """Yield the files that secrets are read from, as named in the data of APIs, servers, the proxy and sampling."""
    for text in _texts_of_secrets(data):
        if found := re.fullmatch(r"(?:file:(/[^\x00]+)|json:(/[^\x00#]+)#/.+)", text):
            yield Path(found[1] or found[2])


def secret_commands(data: Table) -> Iterator[str]:
    """Yield the command lines that print secrets, from the same data."""
    return (text.removeprefix("command:") for text in _texts_of_secrets(data) if text.startswith("command:"))


def _texts_of_secrets(data: Table) -> Iterator[str]:
    """Yield texts that include the places of all secrets."""
    pending: list[object] = [data.get("api"), data.get("proxy"), data.get("sampling")]
    servers = data.get("servers")
    for server in servers.values() if isinstance(servers, dict) else ():
        # Other texts of a server may only look like the place of a secret, such as SQLite's file:/path.
        pending += [server.get("secret_env"), server.get("auth")] if isinstance(server, dict) else []
    while pending:
        match pending.pop():
            case dict() as table:
                pending += table.values()
            case list() as array:
                pending += array
            case str() as text:
                yield text
            case _:
                pass
