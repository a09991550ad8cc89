"""A directory of skills on the disk: lists, reads and changes them, each atomically, with one writer at a time.

A save writes a new directory beside the others, syncs it to the disk, and then exchanges it with the skill's in one
system call. A concurrent reader has opened the old one or the new one. Leftovers of a killed save are cleared by the
next save.
"""

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.atomic_file import EXCHANGE, NOREPLACE, rename
from gloveport.errors import ConfigError, Denied
from gloveport.file_descriptors import CREATE, LIST, closing
from gloveport.late_pattern import late_pattern
from gloveport.openat2 import open_beneath
from gloveport.skills.frontmatter import FILE, check_name, is_name
from gloveport.skills.snapshot import (
    MOST_BYTES,
    Fingerprint,
    Snapshot,
    check_files,
    read_fingerprint,
    read_snapshot,
    unknown_skill,
)
from gloveport.user_directories import make_private_directory

MOST_SKILLS: Final = 20_000
"""The most skills that are saved in one directory, and that are listed from it, whoever put them there."""

MOST_STORED_BYTES: Final = 1 << 30
"""Of all saved skills in one directory: clients save them, and must not fill the disk."""

_MOST_ENTRIES: Final = 4 * MOST_SKILLS
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LEFTOVER: Final = late_pattern(r"\.gloveport-[0-9a-f]{16}")


class SkillStore(Struct, frozen=True, kw_only=True):
    """The skills of one directory.

    Attributes:
        directory: Their directory, which need not exist.
        origin: Where it is, in words for a person and a model.
        writable: Whether skills may be saved here.
        root: A directory above it, below which no link is followed: others than the owner write there.
    """

    directory: Path
    origin: str
    writable: bool = False
    root: Path | None = None

    def require_readable(self) -> None:
        """Raise ConfigError if there is a directory, and it can't be read: then not to find a skill says nothing."""
        try:
            with self._open():
                return
        except FileNotFoundError:
            return
        except OSError as error:
            raise ConfigError(
                f"the skills in {self.directory} can't be read: {error.strerror}",
                hint="run as the user whose skills they are, or name another directory as skills.directory",
            ) from error

    def names(self) -> list[str]:
        """Names of possible skills, sorted; only some of very many."""
        with contextlib.suppress(OSError), self._open() as directory, os.scandir(directory) as found:
            entries = islice(found, _MOST_ENTRIES)
            named = (one.name for one in entries if is_name(one.name) and one.is_dir(follow_symlinks=False))
            return sorted(islice(named, MOST_SKILLS))
        return []

    def is_empty(self) -> bool:
        """Whether there is no skill, without looking at all."""
        try:
            os.stat(self.directory)  # noqa: PTH116 - on the way of each run, and most hosts have none
        except OSError:
            return True
        with contextlib.suppress(OSError), self._open() as directory, os.scandir(directory) as found:
            return not any(is_name(one.name) for one in found)
        return True

    def read(self, name: str) -> Snapshot:
        """Read a skill. Raises Denied if there is none of this name, or it can't be used."""
        check_name(name)
        with contextlib.suppress(OSError), self._open() as directory:
            return read_snapshot(directory, name)
        raise unknown_skill(name)

    def fingerprint(self, name: str) -> Fingerprint | None:
        """See ``read_fingerprint``; None also where there is no such skill."""
        with contextlib.suppress(OSError), self._open() as directory:
            return read_fingerprint(directory, name) if is_name(name) else None
        return None

    def is_unchanged(self, name: str, fingerprint: Fingerprint) -> bool:
        """Whether a skill still has this fingerprint. Fast."""
        place = f"{self.directory}/{name}"
        try:
            for path, *before in fingerprint:
                status = os.lstat(f"{place}/{path}".rstrip("/"))
                if before != [status.st_ino, status.st_size, status.st_ctime_ns]:
                    return False
        except OSError:
            return False
        return True

    def has(self, name: str) -> bool:
        """Whether there may be a skill of this name."""
        with contextlib.suppress(OSError), self._open() as directory:
            return is_name(name) and stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
        return False

    def stamps(self, names: Iterable[str] | None = None) -> dict[str, tuple[int, int, int]]:
        """A stamp of each skill, or of these, which changes with its ``SKILL.md``."""
        stamps: dict[str, tuple[int, int, int]] = {}
        skill_names = self.names() if names is None else names
        with contextlib.suppress(OSError), self._open() as directory:
            for name in skill_names:
                with contextlib.suppress(OSError):
                    status = os.stat(f"{name}/{FILE}", dir_fd=directory, follow_symlinks=False)
                    stamps[name] = status.st_mtime_ns, status.st_ino, status.st_size
        return stamps

    def change_time(self) -> int:
        """When a skill was last added, removed or saved: the directory's time in nanoseconds; 0 if there is none."""
        with contextlib.suppress(OSError), self._open() as directory:
            return os.fstat(directory).st_mtime_ns
        return 0

    @contextlib.contextmanager
    def _open(self) -> Iterator[int]:
        if self.root is None:
            with closing(os.open(self.directory, _LIST)) as directory:
                yield directory
            return
        below = os.fsencode(self.directory.relative_to(self.root))
        with closing(os.open(self.root, _LIST)) as root, closing(open_beneath(root, below, _LIST)) as directory:
            yield directory

    @contextlib.contextmanager
    def lock(self) -> Iterator[int]:
        """Lock the directory. Later callers wait. Raises ConfigError if it can't be written."""
        try:
            make_private_directory(self.directory)
            directory = os.open(self.directory, _LIST)
        except OSError as error:
            raise self._unwritable(error) from error
        with closing(directory):
            try:
                fcntl.flock(directory, fcntl.LOCK_EX)
            except OSError as error:
                raise self._unwritable(error) from error
            yield directory

    def save(
        self,
        name: str,
        files: Mapping[str, bytes],
        *,
        instead_of: str | None = None,
        record: Callable[[], object] = lambda: None,
    ) -> Snapshot:
        """Write all files of a skill atomically. ``instead_of`` is the digest of the present skill, which is replaced;
        None if there may be none. ``record`` is called before the skill can be read, while nobody else saves or removes
        any.

        Raises:
            Denied: Another skill is there by now, all are too large together, or these files are no valid skill.
            ConfigError: It can't be written.
        """
        check_name(name)
        check_files(files)
        with self.lock() as directory:
            try:
                _clear_leftovers(directory)
                self._require(name, instead_of)
                self._require_room(directory, files, is_new=instead_of is None)
                hidden = f".gloveport-{secrets.token_hex(8)}"
                try:
                    _write_tree(directory, hidden, files)
                    record()
                    _move_into_place(directory, hidden, name, replaces=instead_of is not None)
                    os.fsync(directory)
                finally:
                    _remove_tree(directory, hidden)
            except OSError as error:
                raise self._unwritable(error) from error
        return Snapshot(name, dict(files))

    def remove(self, name: str, *, sha256: str, forget: Callable[[], object]) -> None:
        """Remove a skill, if it still has this digest. ``forget``: called once it is removed, and before there may be
        another of its name.

        Raises:
            Denied: It has changed, or is gone.
            ConfigError: It can't be removed.
        """
        with self.lock() as directory:
            try:
                self._require(name, sha256)
                hidden = f".gloveport-{secrets.token_hex(8)}"
                os.rename(name, hidden, src_dir_fd=directory, dst_dir_fd=directory)
                forget()
                os.fsync(directory)
                _remove_tree(directory, hidden)
            except OSError as error:
                raise self._unwritable(error) from error

    def _require(self, name: str, sha256: str | None) -> None:
        if sha256 is None:
            if os.path.lexists(self.directory / name):
                raise Denied(
                    "skill_exists", f"There is a skill {name!a} already.", hint="Update it, or use another name."
                )
        elif self.read(name).sha256 != sha256:
            raise Denied(
                "skill_changed",
                f"Somebody has changed {name!a} meanwhile. Nothing was done.",
                hint="Read it, try again.",
            )

    def _require_room(self, directory: int, files: Mapping[str, bytes], *, is_new: bool) -> None:
        number = len(self.names())
        if is_new and number >= MOST_SKILLS:
            raise Denied("too_many_skills", f"There are {MOST_SKILLS} skills.", hint="Delete some.")
        if (number + 1) * MOST_BYTES <= MOST_STORED_BYTES:
            return  # few skills can't be too large
        if _count_bytes(directory) + sum(map(len, files.values())) > MOST_STORED_BYTES:
            raise Denied("skills_too_large", f"All skills have {MOST_STORED_BYTES} bytes at most.", hint="Delete some.")

    def _unwritable(self, error: OSError) -> ConfigError:
        return ConfigError(
            f"skills can't be kept in {self.directory}: {error.strerror}",
            hint="make the directory writable, or name another as skills.directory",
        )


def _count_bytes(directory: int) -> int:
    return sum(
        os.stat(name, dir_fd=below, follow_symlinks=False).st_size
        for _, _, names, below in os.fwalk(".", dir_fd=directory)
        for name in names
    )


def _write_tree(directory: int, name: str, files: Mapping[str, bytes]) -> None:
    os.mkdir(name, 0o700, dir_fd=directory)
    below: dict[str, dict[str, bytes]] = {}
    with closing(os.open(name, LIST, dir_fd=directory)) as tree:
        for path, data in sorted(files.items()):
            first, slash, rest = path.partition("/")
            if slash:
                below.setdefault(first, {})[rest] = data
                continue
            with closing(os.open(first, CREATE, 0o600, dir_fd=tree)) as file:
                with open(file, "wb", closefd=False) as stream:
                    stream.write(data)
                os.fsync(file)
        for first, inner in below.items():
            _write_tree(tree, first, inner)
        os.fsync(tree)


def _move_into_place(directory: int, hidden: str, name: str, *, replaces: bool) -> None:
    if rename(directory, hidden, name, EXCHANGE if replaces else NOREPLACE):
        return
    if replaces:  # a network file system: for a moment there is no skill of this name
        aside = f".gloveport-{secrets.token_hex(8)}"
        os.rename(name, aside, src_dir_fd=directory, dst_dir_fd=directory)
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)
        _remove_tree(directory, aside)
    else:
        os.rename(hidden, name, src_dir_fd=directory, dst_dir_fd=directory)


def _clear_leftovers(directory: int) -> None:
    for name in os.listdir(directory):
        if _LEFTOVER.fullmatch(name):
            _remove_tree(directory, name)


def _remove_tree(directory: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode):
            shutil.rmtree(name, dir_fd=directory)
