"""Lists files of a workspace that may be read and never written: those from which the owner's programs run code later.

Code planted in them runs when the owner next calls git, or opens a shell, an editor or an agent there; or they direct a
tool of the owner's, with its credentials, to another host. Files whose code only runs when the owner builds, tests or
starts the project (``Makefile``, ``package.json``, ``conftest.py``) are the agent's work, and are not protected. Nor
are instructions for agents (``AGENTS.md``). Pure.
"""

import unicodedata
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from gloveport.late_pattern import late_pattern
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
    (
        "a shell reads it that comes into the directory",
        ".env .envrc .mise.local.toml .mise.toml mise.local.toml mise.toml",
    ),
    ("an editor reads it", ".dir-locals-2.el .dir-locals.el .emacs .exrc .gvimrc .lvimrc .nvim.lua .nvimrc .vimrc"),
    (
        "a debugger or an interpreter reads it that starts in the directory",
        "$irbrc .byebugrc .gdbinit .ghci .iex.exs .irbrc .jdbrc .lldbinit .ocamlinit .octaverc .pdbrc .perldb",
    ),
    (
        "a debugger or an interpreter reads it that starts in the directory",
        ".phpdbginit .pryrc .psysh.php .renviron .rprofile _irbrc irb.rc jdb.ini",
    ),
    ("git reads it", ".git-credentials .gitconfig .gitmodules"),
    ("it says what hooks of git run", ".overcommit.yml .pre-commit-config.yaml .pre-commit-config.yml"),
    ("it says what hooks of git run", "prek.toml"),
    ("it says what hooks of git run", ".lefthook.json .lefthook.toml .lefthook.yaml .lefthook.yml"),
    ("it says what hooks of git run", "lefthook.json lefthook.toml lefthook.yaml lefthook.yml"),
    (
        "it says what hooks of git run",
        ".lefthook-local.json .lefthook-local.toml .lefthook-local.yaml .lefthook-local.yml",
    ),
    ("it says what hooks of git run", "lefthook-local.json lefthook-local.toml lefthook-local.yaml lefthook-local.yml"),
    ("it says what an agent runs", ".aider.conf.yml .claude.json .crush.json .mcp.json crush.json gloveport.toml"),
    ("it says what an agent runs", "opencode.json opencode.jsonc"),
    ("it says what ripgrep runs", ".ripgreprc"),
    ("it says where credentials are sent, or what a package manager runs", ".netrc .npmrc .pypirc .yarnrc .yarnrc.yml"),
)
"""Names of files, in any directory, and why. A directory of such a name is not protected."""

DIRECTORIES: Final[Mapping[str, str]] = _list_names(
    ("it says what an editor runs", ".devcontainer .emacs.d .fleet .helix .idea .vim .vscode .zed"),
    (
        "it says what an agent runs",
        ".agents .amazonq .amp .claude .clinerules .codex .continue .crush .cursor .factory .gemini .junie .kilocode",
    ),
    ("it says what an agent runs", ".kiro .opencode .openhands .qwen .roo .trae .windsurf"),
    ("git runs what is in it", ".githooks .husky .lefthook .lefthook-local"),
    ("a shell reads it that comes into the directory", ".shadowenv.d"),
    ("it says where credentials are sent", ".aws .azure .docker .gnupg .kube .ssh"),
    ("it says what a package manager runs, and where credentials are sent", ".cargo"),
)
"""Names of directories that are protected with all their content, wherever they are, and why."""

BELOW: Final[Mapping[str, str]] = _list_names(
    ("git reads it", ".config/git"),
    ("Mercurial reads it", ".hg/hgrc .hg/hgrc-not-shared .hg/requires .hg/sharedpath"),
    ("Sapling reads it", ".sl/config .sl/requires .sl/sharedpath"),
    ("Jujutsu reads it", ".jj/repo .jj/workspace-config-id .jj/workspace-config.toml"),
    ("Jujutsu reads it", ".jj/repo/config-id .jj/repo/config.toml .jj/repo/store/git_target"),
    ("an agent runs what is in it", ".github/hooks"),
    (
        "a shell reads it that comes into the directory",
        ".config/mise .config/mise.local.toml .config/mise.toml .mise/config.local.toml .mise/config.toml",
    ),
    ("a shell reads it", ".config/fish"),
    ("an editor reads it", ".config/nvim"),
    ("a package manager runs what is in it", ".yarn/plugins .yarn/releases"),
)
"""The same, for files and directories in a parent of a certain name. Of one that is itself a parent here only a file is
protected: ``.jj/repo`` is one where the repository lies elsewhere.
"""

GIT_FILES: Final = frozenset(
    {"config", "config.worktree", "info/attributes", "sl/config", "sl/requires", "sl/sharedpath"}
)
GIT_DIRECTORIES: Final = frozenset({"hooks"})
"""Directories in a ``.git`` that git may write, and in each submodule's git directory below it."""

_KINDS: Final[Mapping[str, Kind]] = {
    **dict.fromkeys(FILES, "file"),
    **dict.fromkeys(DIRECTORIES, "directory"),
    ".git": "git",
}
_PARTED: Final = tuple(path.rpartition("/")[::2] for path in BELOW)
_PARENTS: Final = frozenset(above for above, _ in _PARTED)
PARENT_NAMES: Final = frozenset(name for above in _PARENTS for name in above.split("/"))
"""Names of directories in which further names are protected."""

_DEEPEST: Final = max(above.count("/") + 1 for above in _PARENTS)
_KINDS_IN: Final[Mapping[str, Mapping[str, Kind]]] = {
    f"/{above}": {
        **{name: "file" if f"{above}/{name}" in _PARENTS else "directory" for first, name in _PARTED if first == above},
        **_KINDS,
    }
    for above in _PARENTS
}

_SHORT_NAME: Final = late_pattern(r"([^~.]{1,6})~[0-9]+(?:\.[^.]{1,3})?")


def _stem(name: str) -> str:
    """What the short name of a file begins with on FAT and NTFS: ``GIT~1`` is ``.git``, ``MCP~1.JSO`` ``.mcp.json``."""
    base, dot, _ = name.lstrip(".").rpartition(".")
    return (base if dot else name).replace(".", "").replace(" ", "")[:6]


_KINDS_OF_SHORT: Final[Mapping[str, Kind]] = {_stem(name): kind for name, kind in _KINDS.items()}


def kind_of(name: str, above: str = "") -> Kind | None:
    """What is protected under this name, the last part of a path: a file, or a directory with its content. None for an
    unprotected name. ``above`` is the path of its parent directory.
    """
    folded = fold_name(name).rstrip(". ")  # FAT and Windows drop these
    short = _SHORT_NAME.fullmatch(folded)
    return kinds_in(above).get(folded) or (_KINDS_OF_SHORT.get(short[1]) if short else None)


def kinds_in(above: str) -> Mapping[str, Kind]:
    """The protected names in the directory at this path, as folded by ``fold_name``."""
    if fold_name(above.rpartition("/")[2]) not in PARENT_NAMES:  # as nearly all
        return _KINDS
    last_parts = "/".join(above.rsplit("/", _DEEPEST)[-_DEEPEST:])  # a path may be long, and slow to fold
    folded = f"/{fold_name(last_parts)}"
    return next((kinds for ending, kinds in _KINDS_IN.items() if folded.endswith(ending)), _KINDS)


def fold_name(name: str) -> str:
    """Fold names that some file system treats as equal: ignores case, compatibility forms and invisible characters."""
    if name.isascii():
        return name.lower()
    letters = unicodedata.normalize("NFKD", name)
    visible_letters = (
        letter for letter in letters if unicodedata.category(letter) != "Cf" and not UNSEEN.match(letter)
    )
    return "".join(visible_letters).casefold()


def makes_git_directory(name: str) -> bool:
    """Whether git may take a directory for one of its own once it has a file of this name, and believe a ``config``
    beside it. For files that nobody has asked for by name.
    """
    return fold_name(name) == "head"


def protected_part(path: str, exempt: AbstractSet[str] = frozenset()) -> str | None:
    """The part that protects a path from all tools; None if they may write it. Only git may write in ``.git``. The path
    below the workspace has its canonical spelling; the operator has made names and paths ``exempt``, with all below.
    """
    parts = PurePosixPath(path).parts
    for number, name in enumerate(parts):
        here = "/".join(parts[: number + 1])
        if here in exempt or name in exempt:
            return None
        kind = kind_of(name, "/".join(parts[:number]))
        if kind in {"git", "directory"} or (kind == "file" and number == len(parts) - 1):
            return here
    return None
