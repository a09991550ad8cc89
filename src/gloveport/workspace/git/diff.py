"""The tool ``git_diff``: differences between the last commit, the index and the files, untracked ones too.

Git does not compare untracked files. They are read here, through ``Tree``, and shown as patches that add them.
"""

import os
import stat
from functools import partial
from typing import Final

import anyio
import anyio.to_thread

from gloveport.task_group import finish_all
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import raw, spell_path
from gloveport.workspace.files.tree import Opened, Tree
from gloveport.workspace.git import patches
from gloveport.workspace.git.invocation import DIFFERENCES, GitAnswer, GitOutput, pathspec, run_git
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Bytes, ContextLines, Excerpt, Globs, join_arguments

_MOST_UNTRACKED: Final = 100
_UNTRACKED_BYTES: Final = 32 << 10
"""The most bytes of their patches if no path is named: files that a tool has left there are seldom wanted."""

_LIST_BYTES: Final = 1 << 19
_LOOKED_AT: Final = 8000
"""A NUL within so many first bytes makes a file binary, as for git."""


class Diff(Excerpt, GitAnswer):
    """The answer of ``git_diff``, as it is on the wire. ``files`` are those whose patch came back."""

    diff: str
    files: list[patches.File]
    include_untracked: bool


async def git_diff(  # noqa: PLR0913 - they are the tool's
    tree: Tree,
    run: RunProgram,
    *,
    path: str | None = None,
    paths: Globs = None,
    staged: bool = False,
    unstaged: bool = True,
    include_untracked: bool = True,
    context_lines: ContextLines = 3,
    max_bytes: Bytes = patches.MAX_BYTES,
) -> Diff:
    """What changed in the files, with staged in the index too, as a patch.

    One patch after the other: of the files against the index, of the index against HEAD, of untracked files.

    Raises:
        WorkspaceError: GIT_ERROR, INVALID_ARGUMENT; or as ``check_path``, ``RunProgram``.
    """
    named = join_arguments(paths, path)
    limit = pathspec(named)
    patch = ("diff", *DIFFERENCES, "--patch", f"--unified={context_lines}")
    others = ("ls-files", "--others", "--exclude-standard", "-z")
    include_untracked = unstaged and include_untracked
    calls = {
        "unstaged": (unstaged, patch, max_bytes + 1),
        "staged": (staged, (*patch, "--cached"), max_bytes + 1),
        "untracked": (include_untracked, others, _LIST_BYTES),
    }
    jobs = {
        name: partial(run_git, run, *words, *limit, most_bytes=most)
        for name, (is_included, words, most) in calls.items()
        if is_included
    }
    outputs = dict(zip(jobs, await finish_all(jobs.values(), (WorkspaceError,)), strict=True))
    whole = b"".join(ran.stdout for name, ran in outputs.items() if name != "untracked")
    warnings = [*dict.fromkeys(line for ran in outputs.values() for line in ran.answer["warnings"])]
    all_of_them = True
    if listed := outputs.get("untracked"):
        room = max_bytes - len(whole)
        added, all_of_them = await anyio.to_thread.run_sync(
            _diff_untracked, tree, listed, room, room if named else min(room, _UNTRACKED_BYTES)
        )
        whole += added
    text, excerpt = patches.cut_text(whole, max_bytes)
    if not all_of_them:
        warnings.append("not all untracked files are shown; git_status lists them, and paths shows those that it names")
        excerpt = {**excerpt, "truncated": True, "truncated_by": excerpt["truncated_by"] or "files"}
    return {
        "is_repo": all(ran.answer["is_repo"] for ran in outputs.values()),
        "diff": text,
        "files": patches.find_files(whole[:max_bytes]),
        "include_untracked": include_untracked,
        **excerpt,
        "warnings": warnings,
    }


def _diff_untracked(tree: Tree, listed: GitOutput, room: int, share: int) -> tuple[bytes, bool]:
    """Patches that add the listed files, and whether these are all.

    A little more than there is room for, since the text is cut later; only whole patches if the share is smaller.
    """
    names = listed.stdout.split(b"\0")[:-1]
    found: list[bytes] = []
    left_out = len(names) > _MOST_UNTRACKED or listed.truncated
    for name in names[:_MOST_UNTRACKED]:
        if room < 0:
            break
        try:
            with tree.open_file(spell_path(name)) as opened:
                patch = _addition(name, opened, min(room, share) + 1)
        except (WorkspaceError, OSError):  # it is gone, a separate repository, a FIFO or a link to outside
            continue
        if share < room and len(patch) > share:  # a smaller one may still fit
            left_out = True
            continue
        found.append(patch)
        room -= len(patch)
        share -= len(patch)
    return b"".join(found), not left_out


def _addition(name: bytes, opened: Opened, most_bytes: int) -> bytes:
    before, after = patches.quote_name(b"a/" + name), patches.quote_name(b"b/" + name)
    is_link = raw(opened.path) != name
    mode = b"120000" if is_link else b"100755" if opened.status.st_mode & stat.S_IXUSR else b"100644"
    head = b"diff --git %b %b\nnew file mode %b\n" % (before, after, mode)
    text = b"" if is_link else os.pread(opened.descriptor, most_bytes, 0)
    if not text:
        return head
    if b"\0" in text[:_LOOKED_AT]:
        return head + b"Binary files /dev/null and %b differ\n" % after
    lines = text.split(b"\n")
    last = lines.pop()
    count = len(lines) + bool(last)
    end = b"\t" if b" " in name and after[:1] != b'"' else b""
    span = b"+1" if count == 1 else b"+1,%d" % count
    added = b"".join(b"+%b\n" % line for line in lines)
    if last:
        added += b"+%b\n\\ No newline at end of file\n" % last
    return head + b"--- /dev/null\n+++ %b%b\n@@ -0,0 %b @@\n" % (after, end, span) + added
