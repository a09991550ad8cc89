"""Finds files that git tracks although their names or a .gitignore mark them as made by tools: people wrote these."""

from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.gitignore import NAMES
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.git.invocation import run_git
from gloveport.workspace.program import RunProgram

_LIST_BYTES: Final = 1 << 19
_LINKS: Final = (b"120000", b"160000")  # modes of symbolic links and of submodules, which are no files
_MOST_KEPT: Final = 8
_State: TypeAlias = tuple[tuple[int, int, int, int] | None, ...]

_cache: "OrderedDict[_State, Sequence[bytes]]" = OrderedDict()
"""Cached results, by the state of the index and the root's .gitignore: asking git takes longer than searching."""


async def find_hidden_files(tree: Tree, run: RunProgram) -> Sequence[bytes]:
    """Names of tracked files that are hidden, ignored, or lie in such directories, at most some thousands. Empty if git
    can't tell. Rules of a .gitignore below the root are those of the last change of the index.
    """
    state = tuple(_identify(tree, path) for path in (".git/index", ".gitignore"))
    if state[0] is None:
        return ()
    if state not in _cache:
        patterns = ["--exclude=.*", *(f"--exclude={name.decode()}" for name in sorted(NAMES))]
        try:
            words = ("ls-files", "-z", "--stage", "--cached", "--ignored", "--exclude-standard", *patterns)
            listed = await run_git(run, *words, most_bytes=_LIST_BYTES)
        except WorkspaceError:
            return ()
        _cache[state] = tuple(
            row.partition(b"\t")[2] for row in listed.stdout.split(b"\0")[:-1] if not row.startswith(_LINKS)
        )
        if len(_cache) > _MOST_KEPT:
            _cache.popitem(last=False)
    return _cache[state]


def _identify(tree: Tree, path: str) -> tuple[int, int, int, int] | None:
    """A value that changes whenever a file does; None if there is no file."""
    with suppress(WorkspaceError), tree.open_file(path) as opened:
        status = opened.status
        return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
    return None
