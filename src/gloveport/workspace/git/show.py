"""One commit, or whatever else a revision names, as text."""

from collections.abc import Sequence
from typing import TypedDict

from gloveport.workspace.files.tree import Tree
from gloveport.workspace.git import patches
from gloveport.workspace.git.command import DIFFERENCES, ask, only, revision, warnings
from gloveport.workspace.program import RunProgram


class Shown(TypedDict):
    """The answer of ``git_show``, as it is on the wire. ``files`` are those whose patch came back."""

    is_repo: bool
    rev: str
    content: str
    files: list[patches.File]
    truncated: bool
    truncated_by: str | None
    output_lines: int
    output_bytes: int
    warnings: list[str]


async def git_show(
    tree: Tree,
    run: RunProgram,
    *,
    rev: str = "HEAD",
    paths: Sequence[str] = (),
    include_diff: bool = True,
    context_lines: int = 3,
    max_bytes: int = 262_144,
) -> Shown:
    """Show a commit with its patch, of a merge what agrees with no parent; or a tag, or a file (``HEAD:name``).

    Raises:
        WorkspaceError: GIT_ERROR, also for a revision that is not there; INVALID_ARGUMENT; or as ``Tree.checked``,
            ``RunProgram``.
    """
    limit = only(tree, paths)
    ran = await ask(
        run,
        *("show", "--format=fuller", "--encoding=UTF-8", "--no-show-signature", "--no-notes", "--cc"),
        *DIFFERENCES,
        *((f"--unified={context_lines}", "--patch") if include_diff else ("--no-patch",)),
        revision(rev),
        *limit,
        most_bytes=max_bytes + 1,
    )
    content, excerpt = patches.cut(ran.stdout if ran else b"", max_bytes)
    return {
        "is_repo": ran is not None,
        "rev": rev,
        "content": content,
        "files": patches.files(ran.stdout[:max_bytes]) if ran and include_diff else [],
        **excerpt,
        "warnings": warnings(ran) if ran else ["there is no git repository"],
    }
