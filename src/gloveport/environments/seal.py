"""Checks a package tree that a sandbox has installed, and seals it: copies it so that only this process has written it.

Each file is checked, digested, and copied into a store that holds every content once, so many environments take the
room of their distinct files. Trees consist of hard links into the store, from the output of one sandbox or several.
Nothing that a sandbox could still write to is part of a sealed tree.
"""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final

from msgspec import Struct, field

from gloveport.environments import contents
from gloveport.environments.contents import digest_entry, digest_in, keep_file, name_of, path_of, refusal
from gloveport.late_libraries import shutil

_MOST_DEPTH: Final = 64
_STARTED: Final = frozenset({"sitecustomize", "usercustomize", "apport_python_hook"})
"""Modules that every Python imports at its start, if they exist; the last one Ubuntu's."""

_SYSCONFIG: Final = "_sysconfigdata_"
"""Begins the name of a module of the standard library that is another on each platform, and no identifier."""

_UNUSUAL: Final = re.compile(r"[\x00-\x1f\x7f\\]")
_OURS: Final = frozenset({"gloveport_tools", "gloveport_notebook"})
_EXTENSIONS: Final = (".py", ".pyc", ".so", ".abi3.so")


TOO_MUCH: Final = "leave out the package that is so large, or raise packages.environment_bytes and environment_files"
"""The hint for a tree that is refused as too large."""


class TreeBounds(Struct, kw_only=True):
    """How much a tree may hold."""

    bytes: int
    files: int


class SealedTree(Struct):
    """A tree that was sealed.

    Attributes:
        directories: Paths of directories, each after its parent.
        files: Name of each file's content in the store, by its path: its digest, and ``.x`` where it can be executed.
        links: Target of each link, by its path.
        left_out: Paths that were not taken over.
    """

    bytes: int = 0
    directories: list[str] = field(default_factory=list)
    files: dict[str, str] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    @property
    def modules(self) -> list[str]:
        """The importable top-level names."""
        return sorted(_modules(self.files))


def measure_tree(root: Path, bounds: TreeBounds) -> str:
    """Why a growing tree is already too large; empty while it is not. It stops as soon as it knows.

    What can't be measured is too large: code of a package can make paths that the kernel does not read.
    """
    count = size = 0
    pending = [root]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    count += 1
                    with suppress(FileNotFoundError):
                        if entry.is_dir(follow_symlinks=False):
                            pending.append(Path(entry.path))
                        else:
                            size += entry.stat(follow_symlinks=False).st_blocks * 512
                    if count > bounds.files or size > bounds.bytes:
                        what = f"{bounds.files} files" if count > bounds.files else f"{bounds.bytes >> 20} MiB"
                        return f"it unpacks to more than {what}"
        except (FileNotFoundError, NotADirectoryError):
            continue  # a program has just removed it
        except OSError as error:
            return f"it unpacks to what can't be measured: {error.strerror}"
    return ""


def keep_contents(source: Path, store: Path, bounds: TreeBounds) -> SealedTree:
    """Copy the tree at ``source`` into the store; nothing writes to it any more. A sandbox has left it: every name and
    every file in it may be an attack.

    Raises:
        Denied: There is something in it that no environment may hold.
        OSError: It can't be written.
    """
    sealed = SealedTree()
    for path, directory, entry in _walk(source):
        kind = entry.st_mode
        if kind & (stat.S_ISUID | stat.S_ISGID) and not stat.S_ISDIR(kind):
            raise refusal(path, "is set-user-id or set-group-id")
        if stat.S_ISDIR(kind):
            sealed.directories.append(path)
            continue
        if stat.S_ISLNK(kind):
            link = os.readlink(name_of(path), dir_fd=directory)
            _refuse_link(path, link)
            sealed.links[path] = link
            continue
        if not stat.S_ISREG(kind):
            raise refusal(path, "is no file")
        if path.endswith(".pth"):  # Python executes their lines at every start
            sealed.left_out.append(path)
            continue
        sealed.bytes += entry.st_size
        _refuse_excess(sealed.bytes, len(sealed.files) + 1, path, bounds)
        sealed.files[path] = keep_file(path, directory, entry, store)
    return sealed


def join_trees(trees: Iterable[SealedTree], bounds: TreeBounds) -> SealedTree:
    """Merge trees. If two have the same file, the later one's counts, as in successive installations.

    Raises:
        Denied: They conflict, or are too large together.
    """
    joined, directories = SealedTree(), dict[str, None]()
    for one in trees:
        joined.bytes += one.bytes
        directories |= dict.fromkeys(one.directories)
        joined.files |= one.files
        joined.links |= one.links
        joined.left_out += one.left_out
        _refuse_excess(joined.bytes, len(joined.files), next(iter(one.files), ""), bounds)
    joined.directories = sorted(directories)
    if clash := (directories.keys() & {*joined.files, *joined.links}) or joined.files.keys() & joined.links.keys():
        raise refusal(min(clash), "is one thing in one package and another in another")
    spellings: dict[str, str] = {}
    for path in (*joined.directories, *joined.files, *joined.links):
        other = spellings.setdefault(path.casefold(), path)
        if other != path:
            raise refusal(path, f"differs from {other!a} by case alone")
    return joined


def link_tree(sealed: SealedTree, target: Path, store: Path) -> None:
    """Make the new directory ``target`` from contents of a store on the same file system.

    Raises:
        OSError: It can't be written, or a content is missing.
    """
    target.mkdir(mode=0o755)
    directories = [target, *(target / path for path in sealed.directories)]
    for one in directories[1:]:
        one.mkdir(mode=0o755)
    for path, name in sealed.files.items():
        source, place = path_of(name, store), f"{target}/{path}"
        try:
            os.link(source, place)
        except FileNotFoundError:
            raise
        except OSError:  # the file system allows no further links to it
            shutil.copy(source, place)
    for path, link in sealed.links.items():
        (target / path).symlink_to(link)
    for one in reversed(directories):
        one.chmod(0o555)


def is_whole(sealed: SealedTree, store: Path) -> bool:
    """Whether a store has all contents of a tree unchanged."""
    return all(contents.is_whole(name, store) for name in {*sealed.files.values()})


def refuse_shadows(modules: list[str], standard_modules: AbstractSet[str]) -> None:
    """Refuse modules that would shadow the interpreter's standard library or ours, or be imported at every start.

    Raises:
        Denied: There is one.
    """
    for name in modules:
        is_standard = name in standard_modules or name.startswith(_SYSCONFIG)
        if is_standard or name in _OURS or name in _STARTED:
            what = "runs at every start of Python" if name in _STARTED else "stands in the place of another"
            raise refusal(f"python/{name}", f"{what}: no environment may hold it")


def verify_tree(root: Path, files: Mapping[str, str], links: Mapping[str, str]) -> Iterator[str]:
    """Yield the differences of a tree from its sealed state."""
    seen = set()
    for path, directory, entry in _walk(root):
        if stat.S_ISDIR(entry.st_mode):
            continue
        seen.add(path)
        if stat.S_ISLNK(entry.st_mode):
            if links.get(path) != os.readlink(name_of(path), dir_fd=directory):
                yield f"{path}: another link"
        elif path not in files:
            yield f"{path}: was not there"
        elif digest_entry(path, directory, entry) != digest_in(files[path]):
            yield f"{path}: another content"
    yield from (f"{path}: is missing" for path in (*files, *links) if path not in seen)


def _walk(root: Path) -> Iterator[tuple[str, int, os.stat_result]]:
    """Each path below, a descriptor of its parent directory, and its status; no link is followed."""
    for parent, names, files, directory in os.fwalk(root, follow_symlinks=False):
        below = parent[len(str(root)) + 1 :]
        if below.count("/") >= _MOST_DEPTH:
            raise refusal(below, "lies too deep")
        taken: dict[str, str] = {}
        names.sort()
        for name in sorted([*names, *files]):
            path = f"{below}/{name}" if below else name
            _refuse_name(path, name)
            other = taken.setdefault(name.casefold(), name)
            if other != name:
                raise refusal(path, f"differs from {other!a} by case alone")
            yield path, directory, os.stat(name, dir_fd=directory, follow_symlinks=False)


def _refuse_name(path: str, name: str) -> None:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        raise refusal(ascii(path), "is no text") from None
    if _UNUSUAL.search(name):
        raise refusal(ascii(path), "has characters that names don't have")


def _refuse_link(path: str, link: str) -> None:
    """Refuse a link that may lead out of the tree."""
    above, parts = len(PurePosixPath(path).parent.parts), PurePosixPath(link).parts
    ups = next((number for number, part in enumerate(parts) if part != ".."), len(parts))
    # After a name, ".." would start from that name's target, which may be another link.
    if link.startswith("/") or ups > above or ".." in parts[ups:]:
        raise refusal(path, f"leads out of the tree: {link!a}")


def _modules(files: Mapping[str, str]) -> set[str]:
    """The importable top-level names below ``python``: packages and modules."""
    found = set()
    for path in files:
        place, _, rest = path.partition("/")
        first, slash, _ = rest.partition("/")
        if place != "python" or not rest:
            continue
        name = first if slash else first.partition(".")[0] if rest.endswith(_EXTENSIONS) else ""
        if (name.isidentifier() or name.startswith(_SYSCONFIG)) and name not in {"__pycache__", "bin"}:
            found.add(name)
    return found


def _refuse_excess(size: int, files: int, path: str, bounds: TreeBounds) -> None:
    if size > bounds.bytes or files > bounds.files:
        raise refusal(path, "is more than an environment may hold", TOO_MUCH)
