"""Runs git: its command line, its environment, and the meaning of its failures.

Filters (clean, process) are not run either. A file with a filter is compared without it, so it may show as changed when
it is not; git's complaint is returned as a warning. A filter that the repository calls required makes git fail: then
git is run again, with that filter optional.
"""

import errno
import os
import re
from collections.abc import Iterable
from typing import Final, TypedDict

from msgspec import Struct

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import check_path, raw
from gloveport.workspace.program import ProgramOutput, RunProgram

SECONDS: Final = 10.0

_SETTINGS: Final = (
    # Programs that git would start. An empty command means none.
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "core.pager=cat",
    "core.sshCommand=false",
    "credential.helper=",
    "diff.external=",
    "filter.lfs.clean=",
    "filter.lfs.process=",
    "filter.lfs.required=false",
    "protocol.allow=never",
    # Settings that would change the format or the truth of an answer: an index may hold a false untracked cache.
    "color.ui=false",
    "core.quotePath=false",
    "core.untrackedCache=false",
    "status.renameLimit=400",
    # Memory for one file: larger files count as binary.
    "core.bigFileThreshold=16m",
    # Threads count as processes, of which git may start none.
    "core.preloadIndex=false",
    "index.threads=1",
)

_COMMAND: Final = (
    *("git", "--no-pager", "--no-optional-locks", "--literal-pathspecs"),
    # Named explicitly, so that git searches no parent directory, ignores core.worktree, and does not check owners.
    *("--git-dir=.git", "--work-tree=."),
    *(word for setting in _SETTINGS for word in ("-c", setting)),
)

_VARIABLES: Final = {
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C.UTF-8",
}

DIFFERENCES: Final = (
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-color-moved", "--no-relative"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=dirty"),
    *("--find-renames", "-l400", "-O/dev/null"),
)
"""Options of every command that may show differences."""

_SAYS_NO_REPOSITORY: Final = (b"fatal: not a git repository", b"warning: Not a git repository")
_NO_INDEX: Final = b"usage: git diff --no-index "
"""Outside of a repository, git diff takes its options for another command's."""

_NO_PROCESS: Final = os.strerror(errno.EAGAIN).encode()
_REQUIRED: Final = re.compile(rb"^fatal: .*: clean filter '(.*)' failed$", re.MULTILINE)
_MOST_REQUIRED: Final = 8
_MOST_ARGUMENTS: Final = 1 << 16
_MOST_WORDS: Final = 400
_NOT_THERE: Final = 127


class GitAnswer(TypedDict):
    """The common fields of all git tools' answers, as on the wire."""

    is_repo: bool
    warnings: list[str]


class GitOutput(Struct, frozen=True, kw_only=True):
    """The output of git.

    Attributes:
        stdout: All of it, or its beginning; empty if there is no repository.
        truncated: Whether there was more.
        answer: Whether there is a repository, and git's complaints despite its success.
    """

    stdout: bytes
    truncated: bool
    answer: GitAnswer


_NO_REPOSITORY: Final[GitAnswer] = {"is_repo": False, "warnings": ["there is no git repository"]}
_NOTHING: Final = GitOutput(stdout=b"", truncated=False, answer=_NO_REPOSITORY)


async def run_git(run: RunProgram, *arguments: str, most_bytes: int) -> GitOutput:
    """Run git at the root of the workspace, and read at most so many bytes of its output.

    Raises:
        WorkspaceError: GIT_ERROR; or as ``run``.
    """
    optional: list[str] = []
    while True:
        variables = {**_VARIABLES, **_optional(optional)}
        # None of these commands needs another program.
        ran = await run((*_COMMAND, *arguments), variables=variables, seconds=SECONDS, most_bytes=most_bytes)
        required = _REQUIRED.search(ran.stderr)
        if ran.exit_code == 0 or ran.truncated or required is None or len(optional) == _MOST_REQUIRED:
            return _check_output(ran)
        optional.append(required[1].decode(errors="replace"))


def check_revision(name: str) -> str:
    """Check a revision's name, so that git takes it for nothing else.

    Raises:
        WorkspaceError: INVALID_ARGUMENT.
    """
    if not name or name.startswith("-") or set(name) & set("\0\r\n") or not name.isprintable():
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            "a revision is empty, begins with - or holds what is no printable character",
            hint="name a branch, a tag or a commit; HEAD is the last one",
        )
    _demand_short((name,))
    return name


def pathspec(paths: Iterable[str]) -> tuple[str, ...]:
    """Arguments that limit git to these paths and what lies below them; none where one of them is the root.

    They are names as in git: links are not followed, and deleted files may be named.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, also for a name that is not UTF-8; or as ``check_path``.
    """
    checked = [check_path(path) for path in paths]
    if not checked or "." in checked:
        return ("--",)
    try:
        names = [raw(path).decode() for path in checked]
    except UnicodeDecodeError as error:
        raise WorkspaceError(
            "INVALID_ARGUMENT", "git can't be asked for a name that is not UTF-8", hint="ask for its directory"
        ) from error
    _demand_short(names)
    return ("--", *names)


def _demand_short(arguments: Iterable[str]) -> None:
    if sum(map(len, arguments)) > _MOST_ARGUMENTS:
        raise WorkspaceError("INVALID_ARGUMENT", f"the arguments are longer than {_MOST_ARGUMENTS} characters")


def _optional(filters: list[str]) -> dict[str, str]:
    """Settings that make filters optional. As variables, because a hostile name may hold any character."""
    settings = {"GIT_CONFIG_COUNT": str(len(filters))} if filters else {}
    for number, name in enumerate(filters):
        settings |= {f"GIT_CONFIG_KEY_{number}": f"filter.{name}.required", f"GIT_CONFIG_VALUE_{number}": "false"}
    return settings


def _check_output(ran: ProgramOutput) -> GitOutput:
    if ran.exit_code == 0 or (ran.truncated and not ran.timed_out):
        answer: GitAnswer = {"is_repo": True, "warnings": _warnings(ran)}
        return GitOutput(stdout=ran.stdout, truncated=ran.truncated, answer=answer)
    if ran.stderr.startswith(_SAYS_NO_REPOSITORY) or _NO_INDEX in ran.stderr:
        return _NOTHING
    if ran.timed_out:
        raise WorkspaceError(
            "GIT_ERROR", f"git was ended after {SECONDS:.0f} s", hint="name a path, or ask for less", retryable=True
        )
    words = ran.stderr.decode(errors="replace").strip()[:_MOST_WORDS]
    if ran.exit_code == _NOT_THERE:
        raise WorkspaceError("GIT_ERROR", f"git can't be run in the sandbox: {words}", hint="install git")
    raise WorkspaceError(
        "GIT_ERROR",
        words.removeprefix("fatal: ") or f"git ended with exit code {ran.exit_code}",
        details={"exit_code": ran.exit_code},
    )


def _warnings(ran: ProgramOutput) -> list[str]:
    if _NO_PROCESS in ran.stderr:
        return ["programs that the repository names, filters say, are not run: files are compared as they are"]
    return [line[:_MOST_WORDS] for line in ran.stderr.decode(errors="replace").splitlines()[:4]]
