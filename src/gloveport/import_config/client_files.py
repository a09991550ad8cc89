"""Finds the files in which each client keeps its servers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from gloveport.model import Value

Client: TypeAlias = Literal[
    "claude-desktop", "claude-code", "cursor", "vscode", "codex", "gemini", "windsurf", "opencode"
]
CLIENTS: tuple[Client, ...] = get_args(Client)


class ClientFile(Value):
    """A file that may hold servers."""

    client: str
    """The client; ``file`` for a file that was named."""
    path: Path
    workspace: Path | None = None
    """The project it belongs to."""
    is_checked_in: bool = False
    """Whether it may come with a foreign checkout, and nobody has named it."""


def user_places(client: Client, *, home: Path, environ: Mapping[str, str]) -> list[ClientFile]:
    """List a client's files of a user, the preferred one first. ``environ`` may have variables that give clients
    another directory.
    """
    config = _directory(environ, "XDG_CONFIG_HOME", home / ".config")
    paths: dict[Client, list[Path]] = {
        "claude-desktop": [config / "Claude/claude_desktop_config.json"],
        "claude-code": [_directory(environ, "CLAUDE_CONFIG_DIR", home) / ".claude.json"],
        "cursor": [home / ".cursor/mcp.json"],
        "vscode": [config / "Code/User/mcp.json", config / "Code/User/settings.json"],
        "codex": [_directory(environ, "CODEX_HOME", home / ".codex") / "config.toml"],
        "gemini": [home / ".gemini/settings.json"],
        "windsurf": [home / ".codeium/windsurf/mcp_config.json"],
        "opencode": [config / "opencode/opencode.json", config / "opencode/opencode.jsonc"],
    }
    return [ClientFile(client=client, path=path) for path in paths[client]]


def project_places(client: Client, *, cwd: Path) -> list[ClientFile]:
    """List the files of the project in a directory. They may come with a foreign checkout."""
    paths: dict[Client, list[str]] = {
        "claude-code": [".mcp.json"],
        "cursor": [".cursor/mcp.json"],
        "vscode": [".vscode/mcp.json"],
        "codex": [".codex/config.toml"],
        "gemini": [".gemini/settings.json"],
        "opencode": ["opencode.json", "opencode.jsonc", ".opencode/opencode.json"],
    }
    return [
        ClientFile(client=client, path=cwd / path, workspace=cwd, is_checked_in=True) for path in paths.get(client, [])
    ]


def named_place(path: Path) -> ClientFile:
    """Make the ``ClientFile`` of a named path. Its project is the directory above a client's, such as ``.vscode``."""
    directory = path.parent
    inner = {".cursor", ".vscode", ".codex", ".gemini", ".opencode"}
    workspace = directory.parent if directory.name in inner else directory
    client = "gemini" if directory.name == ".gemini" else "file"
    return ClientFile(client=client, path=path, workspace=workspace)


def _directory(environ: Mapping[str, str], variable: str, default: Path) -> Path:
    directory = environ.get(variable, "")
    return Path(directory) if directory.startswith("/") else default
