"""Finds the parts of a git directory that make git run programs, or read its configuration from elsewhere. Works on
descriptors of directories that a sandboxed program may change concurrently: no link is followed, nothing is believed.
"""

import contextlib
import os
import re
import shlex
import stat
from collections.abc import Iterator
from io import FileIO
from itertools import islice
from typing import Final

from gloveport.file_descriptors import LIST, READ
from gloveport.late_pattern import late_pattern
from gloveport.policy.decisions.protected_names import GIT_DIRECTORIES, GIT_FILES

PARTS: Final = tuple(sorted(map(os.fsencode, {*GIT_FILES, *GIT_DIRECTORIES, "commondir"})))
"""Paths below a git directory, or below a worktree's, which alone has a ``commondir``."""

MOST_COPIED_BYTES: Final = 1 << 14
"""The largest configuration of which commands get a copy, and the largest changed copy."""

_MOST_BYTES: Final = 1 << 18
_MOST_NAMED: Final = 64
_MOST_NAMES: Final = 10_000
_LINE: Final = late_pattern(rb"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_COMMANDS: Final = late_pattern(rb"^[ \t]*(?:exec|x)[ \t]+(.*)$", re.MULTILINE)
_PROGRAMS: Final = frozenset(
    {b"askpass", b"clean", b"cmd", b"command", b"driver", b"editor", b"external", b"fsmonitor", b"helper", b"pager"}
    | {b"process", b"program", b"smudge", b"sshcommand", b"textconv"}
)


def is_git(directory: int) -> bool:
    """Whether git would accept it as a git directory, whatever its name."""
    return all(_is_there(directory, name) for name in (b"HEAD", b"objects", b"refs"))


def complete(git: int) -> bool:
    """Create missing parts of a git directory, empty and with its owner, so that no command can. Tell whether an entry
    was removed that would have redirected git's configuration: git itself never makes one.
    """
    status = os.fstat(git)
    with contextlib.suppress(OSError):
        os.mkdir(b"hooks", 0o755, dir_fd=git)
        descriptor = os.open(b"hooks", LIST, dir_fd=git)
        _give(descriptor, status)
    for name in (b"config", *([b"config.worktree"] if b"worktreeconfig" in text(git, b"config").lower() else [])):
        with contextlib.suppress(OSError):
            descriptor = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=git)
            _give(descriptor, status)
    try:
        os.unlink(b"commondir", dir_fd=git)
    except OSError:
        return False
    return True


def remove_translations(sapling: int) -> None:
    """Remove what Sapling has translated git's configuration to, in its directory in a git directory. It believes these
    files if their time is that of git's, which any command can set; and writes them at each start where they lack.
    """
    for name in (b"config-git-repo", b"config-git-user"):
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=sapling)


def text(directory: int, name: bytes) -> bytes:
    """The text of a file, if it is not too long; empty if it is no file."""
    with contextlib.suppress(OSError), FileIO(os.open(name, READ, dir_fd=directory)) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(_MOST_BYTES) or b""
    return b""


def values(configuration: bytes, key: bytes) -> list[bytes]:
    """All values of a key in any section: rather too many than too few."""
    joined = configuration.replace(b"\\\n", b"")
    return [_unquote(value) for name, value in _LINE.findall(joined) if name.lower() == key][:_MOST_NAMED]


def programs(configuration: bytes) -> list[bytes]:
    """Words in the values that git executes which may be paths of files."""
    joined = configuration.replace(b"\\\n", b"")
    commands = [value for name, value in _LINE.findall(joined) if name.lower() in _PROGRAMS][:_MOST_NAMED]
    words = [word for command in commands for word in _words(os.fsdecode(_unquote(command)).lstrip("!"))]
    return [word for word in words if word[:1] != b"-"][:_MOST_NAMED]


def rebase_commands(todo: bytes) -> bytes:
    """The commands in the text of a rebase that is to go on, a line each; empty if there are none."""
    return b"\n".join(_COMMANDS.findall(todo))


def names(directory: int | None) -> Iterator[bytes]:
    """The names in a directory, the first few thousand."""
    return (os.fsencode(entry.name) for entry in _entries(directory))


def links(directory: int | None) -> Iterator[bytes]:
    """The names that are symbolic links."""
    return (os.fsencode(entry.name) for entry in _entries(directory) if entry.is_symlink())


def _entries(directory: int | None) -> Iterator[os.DirEntry[str]]:
    if directory is not None:
        with os.scandir(directory) as entries:
            yield from islice(entries, _MOST_NAMES)


def _unquote(value: bytes) -> bytes:
    return b" ".join(_words(os.fsdecode(value), quotes='"', comments="#;"))


def _words(text: str, *, quotes: str = "'\"", comments: str = "") -> list[bytes]:
    """Its words, by default as in a shell."""
    reader = shlex.shlex(text, posix=True)
    reader.whitespace_split, reader.quotes, reader.commenters = True, quotes, comments
    try:
        read = [*reader]
    except ValueError:
        read = text.replace('"', " ").split()
    return [os.fsencode(word) for word in read if "\0" not in word]


def _is_there(directory: int, name: bytes) -> bool:
    try:
        os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return False
    return True


def _give(descriptor: int, owner: os.stat_result) -> None:
    """Give a new file to an owner, unless another user's file has taken its place."""
    if os.fstat(descriptor).st_uid == os.geteuid():
        os.fchown(descriptor, owner.st_uid, owner.st_gid)
    os.close(descriptor)
