"""The tool ``git_show``: one commit, or whatever else a revision names, as text."""

from gloveport.workspace.git import patches
from gloveport.workspace.git.invocation import DIFFERENCES, GitAnswer, check_revision, pathspec, run_git
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Bytes, ContextLines, Excerpt, Globs, join_arguments


class RevisionText(Excerpt, GitAnswer):
    """The answer of ``git_show``, as it is on the wire. ``files`` are those whose patch came back."""

    rev: str
    content: str
    files: list[patches.File]


async def git_show(
    run: RunProgram,
    *,
    rev: str = "HEAD",
    path: str | None = None,
    paths: Globs = None,
    include_diff: bool = True,
    context_lines: ContextLines = 3,
    max_bytes: Bytes = patches.MAX_BYTES,
) -> RevisionText:
    """A commit with its patch, or a file as it was (`HEAD:name`).

    Of a merge the patch is what agrees with no parent. A tag can be shown too.

    Raises:
        WorkspaceError: GIT_ERROR, also for a revision that is not there; INVALID_ARGUMENT; or as ``check_path``,
            ``RunProgram``.
    """
    limit = pathspec(join_arguments(paths, path))
    ran = await run_git(
        run,
        *("show", "--format=fuller", "--encoding=UTF-8", "--no-show-signature", "--no-notes", "--cc"),
        *DIFFERENCES,
        *((f"--unified={context_lines}", "--patch") if include_diff else ("--no-patch",)),
        check_revision(rev),
        *limit,
        most_bytes=max_bytes + 1,
    )
    content, excerpt = patches.cut_text(ran.stdout, max_bytes)
    return {
        **ran.answer,
        "rev": rev,
        "content": content,
        "files": patches.find_files(ran.stdout[:max_bytes]) if include_diff else [],
        **excerpt,
    }
