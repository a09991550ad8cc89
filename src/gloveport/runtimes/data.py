"""Finds the packages of the extra ``data`` in the server's site-packages, with their dependencies, for programs.

The server never imports them, and programs get nothing else that is installed with the server: a separate tree holds
only the files of these distributions and of those that they require.
"""

import contextlib
import errno
import functools
import hashlib
import importlib.util
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from gloveport.late_libraries import csv
from gloveport.late_pattern import late_pattern
from gloveport.model import PRIVATE, Mount, Value

NAMES = ("numpy", "pandas", "matplotlib")
"""The packages of the extra in pyproject.toml; their modules have the same names."""

PLACE = "/opt/data"
"""The packages' directory in the sandbox. No program can write there, so it may be on PYTHONPATH."""

_SETTINGS = {
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": f"{PRIVATE}/matplotlib",
    # Every sandbox is fresh, so each program that draws would read all fonts of the host again.
    "MPL_IGNORE_SYSTEM_FONTS": "1",
    # Else a thread for each processor of the host: threads count towards limits, and prevent forking.
    "OPENBLAS_NUM_THREADS": "1",
}
_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTALL = (
    "in a checkout of Gloveport, by what has installed it: `pip install '.[data]'`, `uv tool install '.[data]'` or "
    "`pipx install --force '.[data]'`"
)


class Data(Value):
    """The packages among ``NAMES`` that programs of one interpreter get."""

    modules: tuple[str, ...] = ()
    """The packages that programs can import."""

    sources: Mapping[str, str] = {}
    """Files that the interpreter does not have itself: path below ``PLACE`` → path on the host."""

    digest: str = ""
    """Digest of ``sources`` and the files there."""

    mounts: tuple[Mount, ...] = ()
    """The mount of the tree, once the tree is built."""

    env: Mapping[str, str] = {}
    detail: str
    """Which packages there are, or why there are none."""

    repair: str = ""
    """How to repair it."""

    unusable: str = ""
    """A message for a program that imports one, if they are installed for another version of Python."""


def find(interpreter: str, extension: str, own: Sequence[str]) -> Data:
    """Find the packages for programs of an interpreter. ``extension`` is the suffix of its extension modules, which has
    implementation, version and platform. The packages of ``NAMES`` that it has itself, its ``own``, are the operator's
    choice, and not mixed with ours.
    """
    if own:
        lacking = join_names([name for name in NAMES if name not in own])
        return Data(
            modules=tuple(own),
            env=_SETTINGS,
            detail=f"{interpreter} has {join_names(own)} itself" + (f", and no {lacking}" if lacking else ""),
            repair=f"install {lacking} for it too, or let runtimes.python name another" if lacking else "",
        )
    installed, sources = _find_installed(tuple(sys.path))
    if any(name not in sources for name in NAMES):  # not installed, or by a distributor without a list of files
        return Data(detail=f"programs have no {join_names(NAMES, last='or')}", repair=_INSTALL)
    if extension != EXTENSION_SUFFIXES[0]:
        return Data(
            detail=f"installed for {EXTENSION_SUFFIXES[0]}, but programs run on {interpreter}: {extension}",
            repair=f"set runtimes.python to {base()}, or install Gloveport with {interpreter}",
            unusable=f"{join_names(NAMES)} are installed for another version of Python (gloveport doctor)",
        )
    compiled = Path(importlib.util.cache_from_source(f"{sources[NAMES[0]]}/__init__.py")).exists()
    return Data(
        modules=NAMES,
        sources=sources,
        digest=_digest(installed.values(), compiled=compiled),
        env={"PYTHONPATH": PLACE, **_SETTINGS},
        detail=join_names([f"{name} {next(_read_headers(installed[name], 'Version'), '')}" for name in NAMES])
        + ("" if compiled else "; not compiled, so that each program that imports them takes a second more"),
        repair="" if compiled else f"{sys.executable} -m compileall -q {installed[NAMES[0]].parent}",
    )


def without_tree(why: OSError) -> Data:
    """The outcome if the tree can't be built."""
    message = f"{join_names(NAMES)} can't be shown to programs: {why}"
    repair = "make the state directory writable for this user alone"
    if why.errno in {errno.ENOSPC, errno.EDQUOT}:
        repair = "make room on the disk of the state directory: they may take 260 MB"
    return Data(detail=message, repair=repair, unusable=message)


@functools.lru_cache(maxsize=1)  # forty files are read and parsed for it
def _find_installed(path: tuple[str, ...]) -> tuple[Mapping[str, Path], Mapping[str, str]]:
    """Find the extra's distributions by name, and the files to show, once for this process."""
    installed = _closure(path)
    return installed, {name: source for one in installed.values() for name, source in _sources(one)}


def _digest(installed: Iterable[Path], *, compiled: bool) -> str:
    """Digest the content of distributions: their records have a digest of each file except bytecode."""
    sha256 = hashlib.sha256(str(compiled).encode())
    for record in sorted(_read(one, "RECORD") for one in installed):
        sha256.update(f"{len(record)} {record}".encode())
    return sha256.hexdigest()


def _closure(path: Sequence[str]) -> dict[str, Path]:
    """Find the installed ones of the extra's distributions and of all that they require: name → metadata directory.

    ``importlib.metadata`` would find them too, but its import takes as long as all the rest.
    """
    installed: dict[str, Path] = {}
    for place in map(Path, path):
        with contextlib.suppress(OSError):
            for info in place.glob("*.dist-info"):
                installed.setdefault(_normalize(info.name.partition("-")[0]), info)
    found: dict[str, Path] = {}
    queue = list(NAMES)
    while queue:
        name = queue.pop()
        if name in found or name not in installed:
            continue  # required only on another platform or version: pip has installed all that is required here
        found[name] = installed[name]
        queue += _requirements_of(found[name])
    return found


def _normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirements_of(one: Path) -> Iterator[str]:
    """Yield the names that a distribution requires, without those of its extras."""
    for requirement in _read_headers(one, "Requires-Dist"):
        specifier, _, condition = requirement.partition(";")
        name = _NAME.match(specifier)
        if name and "extra" not in condition:
            yield _normalize(name[0])


def _read(one: Path, name: str) -> str:
    try:
        return (one / name).read_text("utf-8")
    except OSError:
        return ""


def _read_headers(one: Path, name: str) -> Iterator[str]:
    """Yield the values of a metadata header. The email parser would take twenty times as long."""
    head, _, _ = _read(one, "METADATA").partition("\n\n")
    for line in head.splitlines():
        if line.startswith(f"{name}: "):
            yield line.removeprefix(f"{name}: ")


def _sources(one: Path) -> Iterator[tuple[str, str]]:
    """Yield a distribution's importable top-level entries in site-packages, and its name and version."""
    first = {line.partition("/")[0] for line in _read(one, "RECORD").splitlines()}  # still quoted as in CSV
    for name in sorted({row[0] for part in first for row in csv.reader([part]) if row}):
        path = one.parent / name
        # Not scripts, which are elsewhere, nor the shared __pycache__ of single modules. And of the metadata only the
        # name and version: files about the installation may hold paths of the host.
        if path.suffix == ".dist-info":
            yield f"{name}/METADATA", str(path / "METADATA")
        elif name not in {"", "..", "__pycache__"} and path.suffix != ".pth" and path.exists():
            yield name, str(path)


def base() -> Path:
    """Return the path of the interpreter that the server's virtual environment was made with."""
    return Path(sys.base_exec_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Join names as a sentence does."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
