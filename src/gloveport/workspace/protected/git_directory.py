"""What in a git directory makes git run something, or read its configuration from elsewhere. By descriptors, of places
that a program of the sandbox may change at the same time: nothing is followed, nothing is believed.
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

from gloveport.late_pattern import late_pattern
from gloveport.policy.decisions.protected_names import GIT_DIRECTORIES, GIT_FILES
from gloveport.workspace.files.descriptors import LIST, READ

PARTS: Final = tuple(sorted(map(os.fsencode, {*GIT_FILES, *GIT_DIRECTORIES, "commondir"})))
"""Paths below a git directory, or below that of a worktree, which alone has a ``commondir``."""

MOST_COPIED_BYTES: Final = 1 << 14
"""Of a configuration of which commands get a copy, and of what they may make of it."""

_MOST_BYTES: Final = 1 << 18
_MOST_NAMED: Final = 64
_MOST_NAMES: Final = 10_000
_LINE: Final = late_pattern(rb"^[ \t]*(?:\[[^\]\n]*\][ \t]*)?([A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(.*)$", re.MULTILINE)
_PROGRAMS: Final = frozenset(
    {b"askpass", b"clean", b"cmd", b"command", b"driver", b"editor", b"external", b"fsmonitor", b"helper", b"pager"}
    | {b"process", b"program", b"smudge", b"sshcommand", b"textconv"}
)


def is_git(directory: int) -> bool:
    """Whether git would take it for a git directory, whatever its name."""
    return all(_is_there(directory, name) for name in (b"HEAD", b"objects", b"refs"))


def complete(git: int) -> bool:
    """Give a git directory the empty parts that could be made otherwise, with its owner. Tell whether something was
    removed by which git would have taken its configuration from elsewhere: no git puts it there.
    """
    status = os.fstat(git)
    with contextlib.suppress(OSError):
        os.mkdir(b"hooks", 0o755, dir_fd=git)
        made = os.open(b"hooks", LIST, dir_fd=git)
        _give(made, status)
    for name in (b"config", *([b"config.worktree"] if b"worktreeconfig" in text(git, b"config").lower() else [])):
        with contextlib.suppress(OSError):
            made = os.open(name, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644, dir_fd=git)
            _give(made, status)
    try:
        os.unlink(b"commondir", dir_fd=git)
    except OSError:
        return False
    return True


def text(directory: int, name: bytes) -> bytes:
    """What a file says, as far as that is not too long; nothing where it is none."""
    with contextlib.suppress(OSError), FileIO(os.open(name, READ, dir_fd=directory)) as file:
        if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return file.read(_MOST_BYTES) or b""
    return b""


def values(configuration: bytes, key: bytes) -> list[bytes]:
    """All values of a key, whatever its section. Rather too many than too few."""
    joined = configuration.replace(b"\\\n", b"")
    return [_unquote(value) for name, value in _LINE.findall(joined) if name.lower() == key][:_MOST_NAMED]


def programs(configuration: bytes) -> list[bytes]:
    """Words of the values that git runs which may be paths of files."""
    joined = configuration.replace(b"\\\n", b"")
    commands = [value for name, value in _LINE.findall(joined) if name.lower() in _PROGRAMS][:_MOST_NAMED]
    words = [word for command in commands for word in _words(os.fsdecode(_unquote(command)).lstrip("!"))]
    return [word for word in words if word[:1] != b"-"][:_MOST_NAMED]


def names(directory: int | None) -> Iterator[bytes]:
    """The names in a directory, the first few thousand."""
    return (os.fsencode(entry.name) for entry in _entries(directory))


def links(directory: int | None) -> Iterator[bytes]:
    """Those of them that are symbolic links."""
    return (os.fsencode(entry.name) for entry in _entries(directory) if entry.is_symlink())


def _entries(directory: int | None) -> Iterator[os.DirEntry[str]]:
    if directory is not None:
        with os.scandir(directory) as entries:
            yield from islice(entries, _MOST_NAMES)


def _unquote(value: bytes) -> bytes:
    return b" ".join(_words(os.fsdecode(value), quotes='"', comments="#;"))


def _words(text: str, *, quotes: str = "'\"", comments: str = "") -> list[bytes]:
    """Its words, by default as a shell would read them."""
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


def _give(made: int, owner: os.stat_result) -> None:
    """Give what was made just now to an owner, unless somebody has put something of others in its place."""
    if os.fstat(made).st_uid == os.geteuid():
        os.fchown(made, owner.st_uid, owner.st_gid)
    os.close(made)
