"""Which files of a workspace may be read and never written: those by which a later program of the owner runs something.

What is planted in them runs when the owner next calls git, opens a shell, an editor or an agent there. Pure.
"""

from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath
from typing import Final

FILES: Final = frozenset(
    {".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".cshrc", ".envrc", ".inputrc", ".kshrc", ".login"}
    | {".logout", ".profile", ".tcshrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc"}
    | {".dir-locals.el", ".emacs", ".exrc", ".nvim.lua", ".nvimrc", ".vimrc"}
    | {".env", ".gitconfig", ".gitmodules", ".mcp.json", ".ripgreprc", "gloveport.toml"}
)
"""Names of files, wherever they lie."""

DIRECTORIES: Final = frozenset(
    {".claude", ".codex", ".cursor", ".devcontainer", ".gemini", ".githooks", ".husky", ".idea", ".vim", ".vscode"}
)
"""Names of directories all of which is protected, wherever they lie."""

GIT_FILES: Final = frozenset({"config", "config.worktree", "info/attributes"})
GIT_DIRECTORIES: Final = frozenset({"hooks"})
"""Below a ``.git`` that git may write, and below each git directory of a submodule in it."""


def protected_part(path: str, exempt: AbstractSet[str] = frozenset()) -> str | None:
    """The part of a path for which no tool may write it; None where it may. All of ``.git`` is git's to write.

    Args:
        path: Below the workspace, in its one spelling.
        exempt: Names, and paths, that the operator lets be written, and what lies below them.
    """
    parts = PurePosixPath(path).parts
    for number, name in enumerate(parts):
        here = "/".join(parts[: number + 1])
        if here in exempt or name in exempt:
            return None
        lowered = name.lower()  # on some file systems .GIT/config is the same file
        if lowered == ".git" or lowered in DIRECTORIES or (lowered in FILES and number == len(parts) - 1):
            return here
    return None
