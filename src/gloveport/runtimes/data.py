"""Finds the packages of the extra ``data``: which of the server's site-packages programs get, and what these need.

The server never imports them, and a program gets nothing else that is installed with the server: each entry of
site-packages that belongs to one of these distributions, or to one they require, is a mount of its own.
"""

import csv
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from gloveport.model import PRIVATE, Mount, Value

NAMES = ("numpy", "pandas", "matplotlib")
"""What the extra holds in pyproject.toml, by the names that are imported too."""

PLACE = "/opt/data"
"""Where the packages lie inside. Nobody can write there, so it may stand on PYTHONPATH."""

_SETTINGS = {
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": f"{PRIVATE}/matplotlib",
    # Every sandbox is fresh, so all fonts of the host would be read anew for each program that draws.
    "MPL_IGNORE_SYSTEM_FONTS": "1",
    # Else a thread for each processor of the host, which limits count; and what has threads can't be forked.
    "OPENBLAS_NUM_THREADS": "1",
}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_INSTALL = "pip install 'gloveport[data]'"


class Data(Value):
    """What programs of one interpreter have of ``NAMES``."""

    modules: tuple[str, ...] = ()
    """Those that they can import."""

    mounts: tuple[Mount, ...] = ()
    """What is mounted for it; nothing where the interpreter has packages of its own."""

    env: Mapping[str, str] = {}
    detail: str
    """What there is, or why there is nothing."""

    repair: str = ""
    """What would make it better."""

    unusable: str = ""
    """What to tell a program that looks for one, where they are installed for another version of Python."""


def find(interpreter: str, extension: str, own: Sequence[str]) -> Data:
    """What the programs of an interpreter get.

    Args:
        interpreter: Its path.
        extension: How its extension modules end, which names implementation, version and platform.
        own: Those of ``NAMES`` that it has itself. They are the operator's choice: nothing is mixed with them.
    """
    if own:
        lacking = join_names([name for name in NAMES if name not in own])
        return Data(
            modules=tuple(own),
            env=_SETTINGS,
            detail=f"{interpreter} has {join_names(own)} itself" + (f", and no {lacking}" if lacking else ""),
            repair=f"install {lacking} for it too, or let runtimes.python name another" if lacking else "",
        )
    installed, mounts = _find_installed(tuple(sys.path))
    if any(f"{PLACE}/{name}" not in mounts for name in NAMES):  # or by a distributor who does not say which files
        return Data(detail=f"programs have no {join_names(NAMES, last='or')}", repair=_INSTALL)
    if extension != EXTENSION_SUFFIXES[0]:
        return Data(
            detail=f"installed for {EXTENSION_SUFFIXES[0]}, but programs run on {interpreter}: {extension}",
            repair=f"set runtimes.python to {base()}, or install Gloveport with {interpreter}",
            unusable=f"{join_names(NAMES)} are installed for another version of Python (gloveport doctor)",
        )
    compiled = Path(importlib.util.cache_from_source(f"{mounts[f'{PLACE}/{NAMES[0]}'].source}/__init__.py")).exists()
    return Data(
        modules=NAMES,
        mounts=tuple(mounts.values()),
        env={"PYTHONPATH": PLACE, **_SETTINGS},
        detail=join_names([f"{name} {next(_read_headers(installed[name], 'Version'), '')}" for name in NAMES])
        + ("" if compiled else "; not compiled, so that each program that imports them takes a second more"),
        repair="" if compiled else f"{sys.executable} -m compileall -q {installed[NAMES[0]].locate_file('')}",
    )


@functools.lru_cache(maxsize=1)  # forty files are read and parsed for it
def _find_installed(_path: tuple[str, ...]) -> tuple[Mapping[str, Distribution], Mapping[str, Mount]]:
    """The extra's distributions by name, and what is mounted of them by place, when this was first asked for."""
    installed = _closure()
    return installed, {mount.target: mount for one in installed.values() for mount in _mounts(one)}


def _closure() -> dict[str, Distribution]:
    """The extra's distributions and all that they require, by name, as far as they are installed."""
    found: dict[str, Distribution] = {}
    queue = list(NAMES)
    while queue:
        name = queue.pop()
        if name in found:
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # required on another platform or version: what is required here was installed
        queue += _requirements_of(found[name])
    return found


def _requirements_of(one: Distribution) -> Iterator[str]:
    """Names that a distribution requires, those of its own extras left out."""
    for requirement in _read_headers(one, "Requires-Dist"):
        wanted, _, condition = requirement.partition(";")
        name = _NAME.match(wanted)
        if name and "extra" not in condition:
            yield re.sub(r"[-_.]+", "-", name[0]).lower()


def _read_headers(one: Distribution, name: str) -> Iterator[str]:
    """The values of a header of its metadata. To parse all of it as a mail takes twenty times as long."""
    head, _, _ = (one.read_text("METADATA") or "").partition("\n\n")
    for line in head.splitlines():
        if line.startswith(f"{name}: "):
            yield line.removeprefix(f"{name}: ")


def _mounts(one: Distribution) -> Iterator[Mount]:
    """What can be imported of what a distribution has put directly into site-packages. Links are resolved.

    Not its metadata: each mount takes a sixth of a millisecond in every sandbox that is built.
    """
    rows = csv.reader((one.read_text("RECORD") or "").splitlines())
    for name in sorted({row[0].partition("/")[0] for row in rows if row}):
        path = Path(str(one.locate_file(name)))
        # Scripts lie outside, and the bytecode of single modules beside that of others.
        if name not in {"", "..", "__pycache__"} and path.suffix not in {".dist-info", ".pth"} and path.exists():
            yield Mount(source=str(path.resolve()), target=f"{PLACE}/{name}")


def base() -> Path:
    """The interpreter that the server's virtual environment was made with."""
    return Path(sys.base_exec_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"


def join_names(names: Sequence[str], last: str = "and") -> str:
    """Join names as a sentence does."""
    return f" {last} ".join(filter(None, [", ".join(names[:-1]), *names[-1:]]))
