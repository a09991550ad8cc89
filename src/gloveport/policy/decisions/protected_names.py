"""Which files of a workspace may be read and never written: those by which a later program of the owner runs something.

What is planted in them runs when the owner next calls git, opens a shell, an editor or an agent there, or it leads a
tool of theirs, with its credentials, to another host. What only runs when the owner builds, tests or starts the project
(``Makefile``, ``package.json``, ``conftest.py``) is what agents are asked to write, and is not protected. Nor is what
tells agents what to do (``AGENTS.md``). Pure.
"""

import unicodedata
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from gloveport.untrusted_text import UNSEEN

Kind: TypeAlias = Literal["git", "file", "directory"]


def _list_names(*groups: tuple[str, str]) -> dict[str, str]:
    return {name: why for why, names in groups for name in names.split()}


FILES: Final[Mapping[str, str]] = _list_names(
    (
        "a shell reads it",
        ".bash_aliases .bash_login .bash_logout .bash_profile .bashrc .cshrc .kshrc .login .logout .mkshrc .profile",
    ),
    (
        "a shell reads it",
        ".inputrc .tcshrc .zlogin .zlogout .zprofile .zshenv .zshrc",
    ),
    ("a shell reads it that comes into the directory", ".env .envrc .mise.toml mise.toml"),
    ("an editor reads it", ".dir-locals-2.el .dir-locals.el .emacs .exrc .gvimrc .lvimrc .nvim.lua .nvimrc .vimrc"),
    (
        "a debugger or an interpreter reads it that starts in the directory",
        ".gdbinit .irbrc .lldbinit .pdbrc .pryrc .renviron .rprofile",
    ),
    ("git reads it", ".git-credentials .gitconfig .gitmodules"),
    ("it says what hooks of git run", ".overcommit.yml .pre-commit-config.yaml .pre-commit-config.yml"),
    ("it says what hooks of git run", ".lefthook.yaml .lefthook.yml lefthook.yaml lefthook.yml"),
    ("it says what an agent runs", ".aider.conf.yml .claude.json .mcp.json gloveport.toml opencode.json"),
    ("it says what ripgrep runs", ".ripgreprc"),
    ("it says where credentials are sent, or what a package manager runs", ".netrc .npmrc .pypirc .yarnrc .yarnrc.yml"),
)
"""Names of files, wherever they lie, and why. A directory of such a name is one like any other."""

DIRECTORIES: Final[Mapping[str, str]] = _list_names(
    ("it says what an editor runs", ".devcontainer .emacs.d .fleet .helix .idea .vim .vscode .zed"),
    (
        "it says what an agent runs",
        ".agents .amazonq .claude .codex .continue .cursor .gemini .kiro .opencode .qwen .roo .windsurf",
    ),
    ("git runs what is in it", ".githooks .husky"),
    ("it says where credentials are sent", ".aws .azure .docker .gnupg .kube .ssh"),
    ("it says what a package manager runs, and where credentials are sent", ".cargo"),
)
"""Names of directories all of which is protected, wherever they lie, and why."""

BELOW: Final[Mapping[str, str]] = _list_names(
    ("git reads it", ".config/git"),
    ("a shell reads it", ".config/fish"),
    ("an editor reads it", ".config/nvim"),
    ("a package manager runs what is in it", ".yarn/plugins .yarn/releases"),
)
"""The same, of directories that lie in one of a certain name."""

GIT_FILES: Final = frozenset({"config", "config.worktree", "info/attributes"})
GIT_DIRECTORIES: Final = frozenset({"hooks"})
"""Below a ``.git`` that git may write, and below each git directory of a submodule in it."""

_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(FILES, "file"),
    **dict.fromkeys(DIRECTORIES, "directory"),
    ".git": "git",
}
_PARTED: Final = tuple(path.partition("/")[::2] for path in BELOW)
_KINDS_IN: Final[Mapping[str, Mapping[str, Kind]]] = {
    above: {**{name: "directory" for first, name in _PARTED if first == above}, **_KINDS} for above, _ in _PARTED
}

SPELLINGS: Final = tuple(_KINDS)
"""Each name as it is usually written, for a directory that holds more names than anybody reads."""


def kind_of(name: str, above: str = "") -> Kind | None:
    """What of this name is protected: a file, or a directory with all that is in it. None where nothing is.

    Args:
        name: Its last part.
        above: The name of the directory that it lies in.
    """
    return kinds_in(above).get(fold_name(name))


def kinds_in(above: str) -> Mapping[str, Kind]:
    """The same of all that a directory of this name may hold, by names as ``fold_name`` has them."""
    return _KINDS_IN.get(fold_name(above), _KINDS)


def fold_name(name: str) -> str:
    """What names have in common that some file system takes for one: without case, compatibility and unseen letters."""
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFKD", name)
    seen = (letter for letter in letters if unicodedata.category(letter) != "Cf" and not UNSEEN.match(letter))
    return "".join(seen).casefold()


def protected_part(path: str, exempt: AbstractSet[str] = frozenset()) -> str | None:
    """The part of a path for which no tool may write it; None where it may. All of ``.git`` is git's to write.

    Args:
        path: Below the workspace, in its one spelling.
        exempt: Names, and paths, that the operator lets be written, and what lies below them.
    """
    above = ""
    parts = PurePosixPath(path).parts
    for number, name in enumerate(parts):
        here = "/".join(parts[: number + 1])
        if here in exempt or name in exempt:
            return None
        kind = kind_of(name, above)
        if kind in {"git", "directory"} or (kind == "file" and number == len(parts) - 1):
            return here
        above = name
    return None
