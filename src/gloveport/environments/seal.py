"""Checks a tree of packages that a sandbox has installed, and seals it: what comes out is made by this process alone.

Each file is looked at, digested, and linked from a store in which every content is once, so that many environments cost
what their distinct files cost. Nothing that a sandbox could still write to is part of a sealed tree.
"""

import functools
import hashlib
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from io import FileIO
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field

from gloveport.errors import Denied

_CHUNK: Final = 1 << 20
_MOST_DEPTH: Final = 64
_STARTED: Final = frozenset({"sitecustomize", "usercustomize"})
"""What every Python imports at its start, if it is there."""

_UNUSUAL: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_OURS: Final = frozenset({"gloveport_tools", "gloveport_notebook"})
_EXTENSIONS: Final = (".py", ".pyc", ".so", ".abi3.so")


class TreeBounds(Struct, kw_only=True):
    """How much a tree may hold."""

    bytes: int
    files: int


class SealedTree(Struct):
    """What was sealed.

    Attributes:
        files: Digest of each file by its path.
        modules: What can be imported, by first names.
        left_out: Paths that were not taken over.
    """

    bytes: int = 0
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def measure_tree(root: Path, bounds: TreeBounds) -> str:
    """Why a tree that grows is too large already; empty while it is not. It looks no further than it has to."""
    count = size = 0
    pending = [root]
    while pending:
        with suppress(OSError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                count += 1
                with suppress(OSError):
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(Path(entry.path))
                    else:
                        size += entry.stat(follow_symlinks=False).st_blocks * 512
                if count > bounds.files or size > bounds.bytes:
                    what = f"{bounds.files} files" if count > bounds.files else f"{bounds.bytes >> 20} MiB"
                    return f"it unpacks to more than {what}"
    return ""


def seal_tree(source: Path, target: Path, store: Path, bounds: TreeBounds) -> SealedTree:
    """Make ``target`` of what lies below ``source``, of which nothing writes any more.

    Args:
        source: What a sandbox has left: every name and every file in it may be an attack.
        target: A directory that is not there yet.
        store: Directory of contents by digest, on the same file system.
        bounds: How much it may hold.

    Raises:
        Denied: There is something in it that no environment may hold.
        OSError: It can't be written.
    """
    sealed = SealedTree()
    target.mkdir(mode=0o755)
    directories = [target]
    for path, directory, entry in _walk(source):
        kind = entry.st_mode
        if kind & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(kind):
            raise _refusal(path, "is set-user-id or set-group-id")
        if stat.S_ISDIR(kind):
            (target / path).mkdir(mode=0o755)
            directories.append(target / path)
            continue
        if stat.S_ISLNK(kind):
            link = os.readlink(_name_of(path), dir_fd=directory)
            _refuse_link(path, link)
            (target / path).symlink_to(link)
            sealed.links[path] = link
            continue
        if not stat.S_ISREG(kind):
            raise _refusal(path, "is no file")
        if path.endswith(".pth"):  # lines that run at every start of Python, where it reads them
            sealed.left_out.append(path)
            continue
        sealed.bytes += entry.st_size
        if sealed.bytes > bounds.bytes or len(sealed.files) >= bounds.files:
            raise _refusal(path, "is more than an environment may hold")
        sealed.files[path] = _store_file(path, directory, entry, f"{target}/{path}", str(store))
    sealed.modules = sorted(_modules(sealed.files))
    for one in reversed(directories):
        one.chmod(0o555)
    return sealed


def refuse_shadows(modules: list[str]) -> None:
    """Refuse what would be imported in place of the standard library's or of ours, or at every start.

    Raises:
        Denied: There is one.
    """
    for name in modules:
        if name in sys.stdlib_module_names or name in _OURS or name in _STARTED:
            what = "runs at every start of Python" if name in _STARTED else "stands in the place of another"
            raise _refusal(f"python/{name}", f"{what}: no environment may hold it")


def verify_tree(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> Iterator[str]:
    """Yield what of a sealed tree is not as it was sealed."""
    seen = set()
    for path, directory, entry in _walk(root):
        if stat.S_ISDIR(entry.st_mode):
            continue
        seen.add(path)
        if stat.S_ISLNK(entry.st_mode):
            if links.get(path) != os.readlink(_name_of(path), dir_fd=directory):
                yield f"{path}: another link"
        elif path not in files:
            yield f"{path}: was not there"
        elif _digest(path, directory, entry) != files[path]:
            yield f"{path}: another content"
    yield from (f"{path}: is missing" for path in (*files, *links) if path not in seen)


def _walk(root: Path) -> Iterator[tuple[str, int, os.stat_result]]:
    """Each path below, a descriptor of the directory that it lies in, and what it is; no link is followed."""
    for parent, names, files, directory in os.fwalk(root, follow_symlinks=False):
        below = parent[len(str(root)) + 1 :]
        if below.count("/") >= _MOST_DEPTH:
            raise _refusal(below, "lies too deep")
        taken: dict[str, str] = {}
        names.sort()
        for name in sorted([*names, *files]):
            path = f"{below}/{name}" if below else name
            _refuse_name(path, name)
            other = taken.setdefault(name.casefold(), name)
            if other != name:
                raise _refusal(path, f"differs from {other!a} by case alone")
            yield path, directory, os.stat(name, dir_fd=directory, follow_symlinks=False)


def _refuse_name(path: str, name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise _refusal(ascii(path), "is no text") from None
    if _UNUSUAL.search(name):
        raise _refusal(ascii(path), "has characters that names don't have")


def _refuse_link(path: str, link: str) -> None:
    """Refuse a link that may lead out of the tree."""
    above, parts = len(PurePosixPath(path).parent.parts), PurePosixPath(link).parts
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    # Behind a name, ".." would lead to wherever that leads, which may be another link.
    if link.startswith("/") or ups > above or ".." in parts[ups:]:
        raise _refusal(path, f"leads out of the tree: {link!a}")


def _store_file(path: str, directory: int, entry: os.stat_result, place: str, store: str) -> str:
    """Digest a file, and link its content, which is in the store once, to its place."""
    mode = 0o555 if entry.st_mode & 0o100 else 0o444
    content: bytes | None = None
    if entry.st_size <= _CHUNK:  # as most are: read once, and what was read is what is digested and kept
        content = b"".join(_read(path, directory, entry))
        digest = hashlib.sha256(content).hexdigest()
        chunks = functools.partial(iter, (content,))
    else:
        digest = _digest(path, directory, entry)
        chunks = functools.partial(_read, path, directory, entry)
    kept = f"{store}/{digest[:2]}/{digest}{'.x' if mode & 0o100 else ''}"
    if not _is_kept(kept, entry.st_size, digest, content):
        with suppress(FileExistsError):
            os.mkdir(os.path.dirname(kept), mode=0o700)  # noqa: PTH102, PTH120 - many, and pathlib takes its time
        _write_copy(path, chunks(), kept, mode, digest)
    try:
        os.link(kept, place)
    except OSError:  # so many have it that the file system gives it no further name
        _write_copy(path, chunks(), place, mode, digest)
    return digest


def _is_kept(kept: str, size: int, digest: str, content: bytes | None) -> bool:
    """Whether the store has this content, and nobody has changed it there. To compare is quicker than to digest."""
    with suppress(OSError), open(kept, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        if content is not None:
            return file.read(size + 1) == content
        return os.fstat(file.fileno()).st_size == size and hashlib.file_digest(file, "sha256").hexdigest() == digest
    return False


def _write_copy(path: str, chunks: Iterable[bytes], place: str, mode: int, digest: str) -> None:
    """Write a file whose digest is known. The copy has that digest, or is not there."""
    part = f"{place}.{os.getpid()}.part"
    told = hashlib.sha256()
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
            for chunk in chunks:
                told.update(chunk)
                _write_all(file, chunk)
            os.fchmod(descriptor, mode)
        _refuse_change(path, digest, told.hexdigest())
        os.replace(part, place)  # noqa: PTH105 - as above
    except BaseException:
        os.unlink(part)  # noqa: PTH108 - as above
        raise


def _refuse_change(path: str, digest: str, now: str) -> None:
    if now != digest:
        raise _refusal(path, "changes while it is read")


def _write_all(file: FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _digest(path: str, directory: int, entry: os.stat_result) -> str:
    told = hashlib.sha256()
    for chunk in _read(path, directory, entry):
        told.update(chunk)
    return told.hexdigest()


def _read(path: str, directory: int, entry: os.stat_result) -> Iterator[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    descriptor = os.open(_name_of(path), flags, dir_fd=directory)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (entry.st_dev, entry.st_ino) or not stat.S_ISREG(found.st_mode):
            raise _refusal(path, "is another by now")
        left = entry.st_size
        while chunk := file.read(_CHUNK):
            left -= len(chunk)
            if left < 0:
                raise _refusal(path, "grows while it is read")
            yield chunk


def _name_of(path: str) -> str:
    return path.rpartition("/")[2]


def _modules(files: Mapping[str, str]) -> set[str]:
    """What can be imported of ``python``: its packages and its modules, by their first names."""
    found = set()
    for path in files:
        place, _, rest = path.partition("/")
        first, slash, _ = rest.partition("/")
        if place != "python" or not rest:
            continue
        name = first if slash else first.partition(".")[0] if rest.endswith(_EXTENSIONS) else ""
        if name.isidentifier() and name not in {"__pycache__", "bin"}:
            found.add(name)
    return found


def _refusal(path: str, why: str) -> Denied:
    return Denied(
        "environment_refused",
        f"What was installed is refused: {path} {why}.",
        hint="leave out the package that brings it, and tell its makers",
    )
