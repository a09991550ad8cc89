"""The tool ``git_log``: the history of the workspace, or of a path in it, by pages of commits."""

from typing import Annotated, Final, NotRequired, TypedDict

from gloveport.model.constraints import Constraints
from gloveport.workspace.files.spelling import check_path
from gloveport.workspace.git.invocation import GitAnswer, check_revision, pathspec, run_git
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import NextAction, Text, next_action

_BYTES: Final = 4 << 20
_FIELDS: Final = ("%H", "%h", "%an", "%ae", "%aI", "%s")
_MOST_TEXT: Final = 1000
"""The most characters of one field: a commit may have a subject of megabytes."""


class Commit(TypedDict):
    """One commit; the date is ISO 8601 with its offset, or empty where the commit has none that makes sense."""

    hash: str
    short_hash: str
    author_name: str
    author_email: str
    author_date: str
    subject: str


class Log(GitAnswer):
    """The answer of ``git_log``, as it is on the wire. ``truncated``: there are older commits."""

    ref: str
    path: str
    max_count: int
    skip: int
    commits: list[Commit]
    truncated: bool
    next_action: NotRequired[NextAction]


async def git_log(
    run: RunProgram,
    path: Text = ".",
    *,
    ref: str = "HEAD",
    max_count: Annotated[int, Constraints(ge=1, le=100)] = 20,
    skip: Annotated[int, Constraints(ge=0, le=10_000)] = 0,
) -> Log:
    """Commits, the newest first.

    They lead to ``ref``, and change what lies at or below ``path``.

    Raises:
        WorkspaceError: GIT_ERROR, also for a revision that is not there; INVALID_ARGUMENT; or as ``check_path``,
            ``RunProgram``.
    """
    path = check_path(path)
    limit = pathspec((path,))
    ran = await run_git(
        run,
        *("log", "-z", f"--format={'%x00'.join(_FIELDS)}", "--encoding=UTF-8"),
        *("--no-show-signature", "--no-notes", "--no-color", "--no-follow", "--no-patch"),
        *(f"--max-count={max_count + 1}", f"--skip={skip}"),
        check_revision(ref),
        *limit,
        most_bytes=_BYTES,
    )
    found = _commits(ran.stdout)
    answer: Log = {
        "is_repo": ran.answer["is_repo"],
        "warnings": ran.answer["warnings"],
        "ref": ref,
        "path": path,
        "max_count": max_count,
        "skip": skip,
        "commits": found[:max_count],
        "truncated": len(found) > max_count or ran.truncated,
    }
    if answer["truncated"] and found:
        following = skip + len(answer["commits"])
        answer["next_action"] = next_action("git_log", path=path, ref=ref, max_count=max_count, skip=following)
    return answer


def _commits(output: bytes) -> list[Commit]:
    """The complete commits of an output that may be cut."""
    fields = [field.decode(errors="replace")[:_MOST_TEXT] for field in output.split(b"\0")[:-1]]
    commits: list[Commit] = []
    for at in range(0, len(fields) - len(_FIELDS) + 1, len(_FIELDS)):
        number, short, name, email, date, subject = fields[at : at + len(_FIELDS)]
        commits.append(
            Commit(
                hash=number, short_hash=short, author_name=name, author_email=email, author_date=date, subject=subject
            )
        )
    return commits
