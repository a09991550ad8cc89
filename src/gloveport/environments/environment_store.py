"""Environments on disk: locks by their requirements, wheels and trees by their contents.

    locks/WANTED.toml   the lock of a set of requirements; WANTED is a digest of all that it depends on. Locks of npm
                        are JSON
    wheels/SHA256       files from an index, for the next build with the same file
    unpacked/…          the installed files of a wheel, with their digests: see ``wheel_store``
    files/              each content of a tree once
    trees/ADDRESS-…     sealed, read-only; ADDRESS is a digest of the lock, the interpreter and the platform. Each build
                        has a path of its own, so a sandbox with a removed tree never passes for one with the next
    trees/ADDRESS.files digest of each file of the tree
    trees/ADDRESS.json  the packages of the tree. A tree without it does not count
    installed/ADDRESS   packages that are installed with Gloveport for programs, see ``installed_tree``. Its users share
                        a lock file by its name
    work/               builds in progress; the next build removes leftovers of a killed one

The maker of a lock or a tree holds a lock file by its name, so two concurrent makers make one.
"""

import contextlib
import fcntl
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.atomic_file import replace_file
from gloveport.environments.lock_files import hold_lock
from gloveport.environments.lock_requests import LockRequest, make_address
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock
from gloveport.environments.seal import (
    SealedTree,
    TreeBounds,
    join_trees,
    keep_contents,
    link_tree,
    refuse_shadows,
    verify_tree,
)
from gloveport.environments.wheel_store import MOST_RECORD_BYTES, WheelStore
from gloveport.file_descriptors import LIST, closing
from gloveport.late_libraries import secrets, tempfile
from gloveport.model.packages import LockedPackage
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.model.value import Value
from gloveport.user_directories import make_private_directory, read_private

_LOCK_NAME: Final = ".held"


class BuiltTree(Value):
    """A sealed tree, and what is in it."""

    address: str
    lock_sha256: str
    interpreter: str
    built: float
    """When it was built, in seconds since the epoch."""

    bytes: int
    packages: tuple[LockedPackage, ...]
    modules: tuple[str, ...]
    left_out: tuple[str, ...] = ()
    directory: str = ""
    """Name of the directory that is mounted; empty if that is its address."""
    boot: str = ""
    """The host's boot in which it was written; empty once it is known to be on the disk."""


class EnvironmentStore(Struct, frozen=True):
    """The environments below one state directory, which only Gloveport may write."""

    root: Path

    def create(self) -> None:
        """Make the directories. Raises OSError if they can't be made."""
        make_private_directory(self.root)
        for name in ("locks", "wheels", "unpacked", "files", "trees", "installed", "work"):
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    @property
    def wheels(self) -> WheelStore:
        """The store of wheels, and of their installed files."""
        return WheelStore(self.root)

    # -- Locks

    def load_lock(self, request: LockRequest) -> bytes | None:
        """The stored lock of these requirements, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            return read_private(self._lock_path(request), MOST_LOCK_BYTES + 1)
        return None

    def save_lock(self, request: LockRequest, lock: Lock) -> None:
        """Store the lock of these requirements."""
        replace_file(self._lock_path(request), lock.text.encode())

    def _lock_path(self, request: LockRequest) -> Path:
        return self.root / "locks" / f"{request.digest}.toml"

    # -- Trees

    def find_tree(self, lock_sha256: str, interpreter: str) -> BuiltTree | None:
        """The tree of a lock, if it was built."""
        return self._read(self.address_of(lock_sha256, interpreter))

    @staticmethod
    def address_of(lock_sha256: str, interpreter: str) -> str:
        """The address of the tree of a lock."""
        return make_address(lock_sha256, interpreter, os.uname().machine)

    def path_of(self, tree: BuiltTree) -> Path:
        """The directory of a tree that is mounted."""
        return self.root / "trees" / (tree.directory or tree.address)

    def list_trees(self) -> list[BuiltTree]:
        """All trees, the latest first."""
        found = (self._read(path.stem) for path in (self.root / "trees").glob("*.json"))
        return sorted((one for one in found if one is not None), key=lambda one: -one.built)

    def note_use(self, tree: BuiltTree) -> None:
        """Remember that the tree was used now."""
        with contextlib.suppress(OSError):
            os.utime(self._record_path(tree.address))

    def last_used(self, tree: BuiltTree) -> float:
        """When the tree was last used, in seconds since the epoch."""
        return self._record_path(tree.address).stat().st_mtime

    def seal(self, source: Path, lock: Lock, interpreter: str, bounds: TreeBounds, names: Iterable[str]) -> BuiltTree:
        """Check the files that a sandbox has left at ``source``, and make the tree of the lock that they were installed
        from. Programs can import ``names`` besides Python modules.

        Raises:
            Denied: It holds something that no environment may hold.
            OSError: It can't be written.
        """
        with self.hold("files"):
            return self._make_tree(keep_contents(source, self.root / "files", bounds), lock, interpreter, names)

    def join(
        self,
        parts: Iterable[SealedTree],
        lock: Lock,
        interpreter: str,
        bounds: TreeBounds,
        standard_modules: AbstractSet[str],
    ) -> BuiltTree:
        """Make the tree of a lock from the installed files of each of its wheels. The rest is as for ``seal``.

        Raises:
            Denied: A module of a wheel is one of the interpreter's ``standard_modules``, or as for ``seal``.
            FileNotFoundError: Since they were found, a ``collect`` has removed some.
        """
        joined = join_trees(parts, bounds)
        refuse_shadows(joined.modules, standard_modules)
        with self.hold("files"):
            return self._make_tree(joined, lock, interpreter, ())

    def _make_tree(self, sealed: SealedTree, lock: Lock, interpreter: str, names: Iterable[str]) -> BuiltTree:
        address = self.address_of(lock.sha256, interpreter)
        with self.open_work() as work:
            link_tree(sealed, work / "tree", self.root / "files")
            tree = BuiltTree(
                address=address,
                lock_sha256=lock.sha256,
                interpreter=interpreter,
                built=time.time(),
                bytes=sealed.bytes,
                packages=lock.packages,
                modules=(*sealed.modules, *names),
                left_out=tuple(sealed.left_out),
                boot=_read_boot(),
                directory=f"{address}-{secrets.token_hex(4)}",
            )
            for leftover in (self.root / "trees").glob(f"{address}-*"):  # left by a Gloveport that was killed meanwhile
                remove_directory(leftover)
            place = self.path_of(tree)
            (work / "tree").chmod(0o755)  # else only root can move it
            (work / "tree").replace(place)
            place.chmod(0o555)
            self._write(tree, sealed)
        return tree

    def find_whole_tree(self, lock_sha256: str, interpreter: str) -> BuiltTree | None:
        """The tree of a lock to run programs in, if it is built and complete.

        A sync at each build would also wait for everybody else's writes, so there is none. After a power cut a name can
        therefore exist without its content: a tree of an earlier boot is compared with its digests, once.
        """
        tree = self.find_tree(lock_sha256, interpreter)
        if tree is None or tree.boot in {"", _read_boot()}:
            return tree
        if any(self.verify(tree)):
            self.remove(tree)
            return None
        tree = tree.model_copy(update={"boot": ""})
        replace_file(self._record_path(tree.address), tree.model_dump_json().encode())
        return tree

    def verify(self, tree: BuiltTree) -> Iterator[str]:
        """Yield the differences of a tree from what was built."""
        digests = _read_object(self._record_path(tree.address).with_suffix(".files"))
        yield from verify_tree(self.path_of(tree), _texts(digests.get("files")), _texts(digests.get("links")))

    def remove(self, tree: BuiltTree) -> None:
        """Remove a tree. Programs that run in it lose it."""
        self._record_path(tree.address).unlink(missing_ok=True)
        self._record_path(tree.address).with_suffix(".files").unlink(missing_ok=True)
        remove_directory(self.path_of(tree))

    def collect(self, used_trees: Iterable[BuiltTree], unused_seconds: float) -> tuple[list[BuiltTree], int]:
        """Remove trees that are not in ``used_trees`` and unused for so long, and contents that no tree uses; return
        the trees, and how many bytes of files and wheels became free.
        """
        addresses = {one.address for one in used_trees}
        now = time.time()
        removed = [
            one
            for one in self.list_trees()
            if one.address not in addresses and now - self.last_used(one) >= unused_seconds
        ]
        for one in removed:
            self.remove(one)
        for path in (self.root / "installed").iterdir():
            if now - path.stat().st_mtime >= unused_seconds:
                with self.hold(f"{path.name}.installed", wait=False) as unused:
                    if unused:
                        remove_directory(path)
        with self.hold("files"):  # contents of a tree that is being sealed are not linked yet
            for path in (self.root / "trees").glob("*-*"):  # left by a build that was killed before it wrote a record
                if not self._record_path(path.name.partition("-")[0]).exists():
                    remove_directory(path)
            unpacked = self.wheels.collect(unused_seconds)
            freed = 0
            for path in [*(self.root / "files").glob("*/*"), *(self.root / "wheels").iterdir()]:
                with contextlib.suppress(FileNotFoundError):  # a build has just given a wheel its name
                    status = path.stat()
                    old = now - status.st_mtime >= unused_seconds
                    if status.st_nlink == 1 and path.name not in unpacked and (old or path.parent.name != "wheels"):
                        path.unlink()
                        freed += status.st_size
        return removed, freed

    # -- Work

    @contextlib.contextmanager
    def open_work(self) -> Iterator[Path]:
        """A work directory; on leaving it is removed. Leftovers of a killed Gloveport are removed first."""
        with contextlib.ExitStack() as stack:
            with self.hold("work"):  # nobody takes a directory without a lock yet for a leftover
                for path in (self.root / "work").glob("build-*"):
                    with contextlib.suppress(OSError), hold_lock(path / _LOCK_NAME, wait=False) as ours:
                        if ours:
                            remove_directory(path)
                place = Path(tempfile.mkdtemp(prefix="build-", dir=self.root / "work"))
                stack.callback(remove_directory, place)
                stack.enter_context(hold_lock(place / _LOCK_NAME, wait=True))
            yield place

    def keep_installed(self, address: str) -> AbstractContextManager[object]:
        """Mark a tree of installed packages as in use within the context, however long that is: see ``collect``."""
        return hold_lock(self.root / "work" / f"{address}.installed.lock", wait=False, kind=fcntl.LOCK_SH)

    def hold(self, name: str, *, wait: bool = True) -> AbstractContextManager[bool]:
        """Lock this name among all processes of this host; tell whether we got it."""
        return hold_lock(self.root / "work" / f"{name}.lock", wait=wait)

    def _record_path(self, address: str) -> Path:
        return self.root / "trees" / f"{address}.json"

    def _write(self, tree: BuiltTree, sealed: SealedTree) -> None:
        record = self._record_path(tree.address)
        contents = {"files": sealed.files, "links": sealed.links}
        replace_file(record.with_suffix(".files"), json.dumps(contents).encode())
        replace_file(record, tree.model_dump_json().encode())

    def _read(self, address: str) -> BuiltTree | None:
        with contextlib.suppress(WrongShapeError):
            return read_value(BuiltTree, _read_object(self._record_path(address)))
        return None


def _read_object(path: Path) -> dict[str, object]:
    with contextlib.suppress(OSError, ValueError, RecursionError):
        parsed = json.loads(read_private(path, MOST_RECORD_BYTES))
        return parsed if isinstance(parsed, dict) else {}
    return {}


def _read_boot() -> str:
    """The id of this boot of the host."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()


def remove_directory(path: Path) -> None:
    """Remove a directory with all its contents, as far as possible, even if directories in it are read-only.

    Code of a package may have nested them deeper than Python calls functions and than the kernel reads paths: each is
    moved to the top, then emptied. A killed build may still be dying, and exchange any of them for a link.
    """
    prefix, places, emptied = f"{path}/{secrets.token_hex(8)}.", [str(path)], 0
    with contextlib.suppress(OSError):
        _open_to_owner(str(path))
    while emptied < len(places):
        with contextlib.suppress(OSError), closing(os.open(places[emptied], LIST)) as directory:
            for entry in [*os.scandir(directory)]:
                with contextlib.suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        _open_to_owner(entry.name, directory)
                        places.append(f"{prefix}{len(places)}")
                        os.rename(entry.name, places[-1], src_dir_fd=directory)
                    else:
                        os.unlink(entry.name, dir_fd=directory)
        emptied += 1
    for place in reversed(places):
        with contextlib.suppress(OSError):
            Path(place).rmdir()


def _open_to_owner(name: str, directory: int | None = None) -> None:
    with closing(os.open(name, LIST | os.O_PATH, dir_fd=directory)) as descriptor:
        Path(f"/proc/self/fd/{descriptor}").chmod(0o700)


def _texts(table: object) -> Mapping[str, str]:
    return {str(name): str(text) for name, text in table.items()} if isinstance(table, dict) else {}
