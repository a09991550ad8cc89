"""Python runtime: finds an interpreter and its files on the host, and prepares programs for it."""

import ast
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.late_pattern import late_pattern
from gloveport.model import OUT, OUT_LINKS, SCRATCH, Grant, Mount, Program, Value
from gloveport.model.json_value import JsonValue
from gloveport.real_paths import real
from gloveport.runtimes import data
from gloveport.runtimes.data import Data

LIGHT = (
    "collections",
    "contextlib",
    "copy",
    "csv",
    "datetime",
    "functools",
    "itertools",
    "json",
    "math",
    "random",
    "re",
    "string",
    "time",
)
"""Modules with little memory: each fork copies the page tables of all memory, at the expense of each program."""

COMMON = (
    *LIGHT,
    *("asyncio", "base64", "bisect", "calendar", "concurrent.futures", "dataclasses", "decimal", "fractions", "glob"),
    *("hashlib", "heapq", "inspect", "logging", "operator", "pathlib", "pprint", "shutil", "statistics", "subprocess"),
    *("tempfile", "textwrap", "threading", "traceback", "typing", "urllib.parse", "uuid"),
)
"""For programs that mention one of these, or ``await``. 8 MB and 40 ms, of which asyncio and ssl are a third."""

WITH_DATA = (*COMMON, "numpy", "pandas", "matplotlib.pyplot")
"""For programs that mention one of these. 65 MB and half a second more."""

_DISTRIBUTION = "/usr/bin/python3"
_SYSTEM = ("/usr/bin", "/usr/lib", "/usr/lib64")
_RESERVED_PATHS = (SCRATCH, OUT, *OUT_LINKS, "/dev", "/proc", "/run")
_ELSEWHERE = "/opt/python"
_OLDEST = (3, 11)
_GUEST = Path(__file__).parents[1] / "guest"
_QUESTION = f"""
import _frozen_importlib_external as importlib, _imp, os, sys  # json and importlib would add half to the time
print(ascii({{
    "version": sys.version_info[:2],
    "executable": sys.executable,
    "real": os.path.realpath(sys.executable),
    "prefixes": [sys.prefix, sys.base_prefix],
    "extension": _imp.extension_suffixes()[0],
    "standard_modules": " ".join(getattr(sys, "stdlib_module_names", ())),
    "packages": {{name: spec.origin for name in {data.NAMES} if (spec := importlib.PathFinder.find_spec(name))}},
}}))
sys.stdout.flush()
def is_compiled(source):
    compiled = importlib.cache_from_source(source)
    kept = open(compiled, "rb").read(12)[8:] if os.path.exists(compiled) else b""
    return kept == (int(os.stat(source).st_mtime) & 0xFFFF_FFFF).to_bytes(4, "little")
if os.access(sys.argv[1], os.W_OK):
    files = (os.path.join(place, name) for place, _, names in os.walk(sys.argv[1]) for name in names)
    if not all(is_compiled(file) for file in files if file.endswith(".py")):
        import compileall
        compileall.compile_dir(sys.argv[1], quiet=2)
"""
_DATA_WORD = late_pattern(rf"\b(?:{'|'.join(data.NAMES)})\b")
_COMMON_WORD = late_pattern(rf"\b(?:await|{'|'.join(name.partition('.')[0] for name in COMMON[len(LIGHT) :])})\b")
_ANSWER_SECONDS = 20
_MOST_NAMED = 12


class Python(Value):
    """A Python interpreter. It also runs the init process of every sandbox."""

    executable: str
    """The interpreter's path in the sandbox."""

    version: tuple[int, int]
    extension: str = ""
    """Suffix of its extension modules, which has implementation, version and platform."""
    standard_modules: frozenset[str]
    """Names of the modules of its standard library, which is another in each version."""
    binds: tuple[Mount, ...]
    data: Data
    beside: tuple[Mount, ...] = ()
    """Mounts for the other interpreters of a session, whose sandbox is one for Python."""

    @property
    def packages(self) -> str:
        """The packages that programs can import, in words."""
        named = f"Python {self.version[0]}.{self.version[1]} has its standard library"
        if self.data.modules:
            return f"{named}, {_list_names(self.data.modules)}"
        return f"{named}; {self.data.unusable}" if self.data.unusable else named

    def prepare(self, source: str, grant: Grant, types: str = "") -> Program:  # noqa: ARG002 - asked as every runtime
        """Prepare ``source`` to run in the init process. Pure."""
        preload: tuple[str, ...] = LIGHT
        if self.data.modules == data.NAMES and _DATA_WORD.search(source):
            preload = WITH_DATA
        elif _COMMON_WORD.search(source):
            preload = COMMON
        return Program(name="program.py", source=source, preload=preload, binds=self.beside)

    def setup_session(self, grant: Grant, types: str = "") -> Mapping[str, JsonValue]:  # noqa: ARG002 - as above
        """See ``Runtime``: empty, for the supervisor forks the interpreter from itself."""
        return {}


def in_environment(python: Python, name: str, modules: Sequence[str]) -> Python:
    """Make the interpreter of an environment, whose packages replace those of the extra ``data``."""
    detail = f"the environment {name} has {_list_names(modules) or 'no packages'}"
    return python.model_copy(update={"data": Data(modules=tuple(modules), detail=detail)})


def _list_names(modules: Sequence[str]) -> str:
    return data.join_names(modules[:_MOST_NAMED]) + (" and others" if len(modules) > _MOST_NAMED else "")


def find(configured: str | None, *, path: str = os.defpath, with_data: bool = True) -> Python:
    """Find the interpreter: the configured one, else the distribution's, else the first ``python3`` on ``path``.

    If none is configured and the extra ``data`` was installed for another version, an interpreter of that version is
    preferred, but only one of the system: no home directory is shown to programs for it. ``path`` has no directory that
    a sandbox may write: the interpreter runs on this host, to be queried. ``with_data`` is whether to find the extra
    ``data``, which reads some forty files.

    Raises:
        ConfigError: There is no interpreter, or it does not run, is too old, or lies where it can't be mounted.
    """
    program = configured or (_DISTRIBUTION if Path(_DISTRIBUTION).exists() else find_executable("python3", path))
    if program is None:
        raise ConfigError("no Python interpreter found for programs", hint="install python3, or set runtimes.python")
    found = _ask(program, with_data=with_data)
    if configured is None and found.data.unusable:
        for other in _of_our_version():
            with contextlib.suppress(ConfigError):
                if (candidate := _ask(other)).data.modules:
                    return candidate
    return found


def _of_our_version() -> Iterator[str]:
    """Yield the system's interpreters that can load the server's extension modules."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for path in (Path("/usr/bin", version), data.base()):
        if path.exists() and real(path).is_relative_to("/usr"):
            yield str(path)


def _ask(path: str, *, with_data: bool = True) -> Python:
    """Query an interpreter. Raises ConfigError if it does not run, is too old, or lies where it can't be mounted."""
    answer = _query(path)
    version, executable = tuple(answer["version"]), answer["executable"]
    if version < _OLDEST:
        raise ConfigError(
            f"runtimes.python: {path} is Python {version[0]}.{version[1]}",
            hint=f"Gloveport runs programs on Python {_OLDEST[0]}.{_OLDEST[1]} or newer",
        )
    binds = _binds(answer["prefixes"], answer["real"])
    roots = [*_SYSTEM, *(bind.target for bind in binds)]
    own = [name for name, origin in answer["packages"].items() if _is_below(origin, roots)]  # not those in /usr/local
    binds, inside = _movable(binds, executable)
    found = data.find(executable, answer["extension"], own) if with_data else data.Data(detail="")
    return Python(
        executable=inside,
        version=version,
        extension=answer["extension"],
        standard_modules=frozenset(answer["standard_modules"].split()),
        binds=binds,
        data=found,
    )


def _query(path: str) -> dict[str, Any]:
    """Run an interpreter to query it. It also compiles our files, unless they are compiled: pip does so, uv does not.

    Raises:
        ConfigError: It does not run.
    """
    try:
        process = subprocess.run(  # noqa: S603 - the operator's choice, run isolated from environment and directory
            [path, "-I", "-c", _QUESTION, _GUEST],
            stdin=subprocess.DEVNULL,  # ours is a terminal or the client's pipe
            capture_output=True,
            check=True,
            timeout=_ANSWER_SECONDS,
            env={},
            cwd="/",
            process_group=0,  # else Ctrl-C would end it, and the error would say that it does not run
        )
        answer: dict[str, Any] = ast.literal_eval(process.stdout.decode())
    except (OSError, subprocess.SubprocessError, ValueError, SyntaxError) as error:
        if isinstance(error, subprocess.CalledProcessError | subprocess.TimeoutExpired):
            error.cmd = path  # without the query's code, for the message
        raise ConfigError(
            f"runtimes.python: {path} does not run: {error}", hint="name a Python interpreter that this user may run"
        ) from error
    return answer


def _binds(prefixes: list[str], program: str) -> tuple[Mount, ...]:
    """List the interpreter's directories outside the system's, none inside another."""
    paths: list[Path] = []
    home = Path(os.path.expanduser("~"))  # noqa: PTH111 - Path.home raises where there is none
    for prefix in sorted({Path(prefix) for prefix in prefixes} - {Path("/usr")}):
        if prefix == Path("/") or prefix in (Path("/home"), Path("/root"), home):
            raise ConfigError(
                f"runtimes.python: its files lie directly in {prefix}, which no sandbox may see",
                hint="use an interpreter in a directory of its own, such as a virtual environment",
            )
        paths.append(prefix)
    if not _is_below(program, [*_SYSTEM, *paths]):
        paths.append(Path(program))
    outermost = [path for path in paths if not any(path != other and path.is_relative_to(other) for other in paths)]
    return tuple(Mount(source=str(real(path)), target=str(path)) for path in outermost)


def _movable(binds: tuple[Mount, ...], executable: str) -> tuple[tuple[Mount, ...], str]:
    """Return the binds and the path in the sandbox. A directory that would hide one of the sandbox's own is moved.

    An interpreter finds its files relative to itself; those in a second directory it finds by that directory's name.
    """
    clashes = [bind for bind in binds if _is_below(bind.target, _RESERVED_PATHS)]
    if not clashes:
        return binds, executable
    if len(clashes) > 1 or not _is_below(executable, [clashes[0].target]):
        raise ConfigError(
            f"runtimes.python: files of {executable} lie in {clashes[-1].target}, where sandboxes have their own",
            hint="move that Python elsewhere, such as to /opt, or name another; without a name the system's is used",
        )
    moved = Mount(source=clashes[0].source, target=_ELSEWHERE)
    inside = f"{_ELSEWHERE}{executable.removeprefix(clashes[0].target)}"
    return tuple(moved if bind is clashes[0] else bind for bind in binds), inside


def _is_below(path: str | None, places: Iterable[str | Path]) -> bool:
    return path is not None and any(Path(path).is_relative_to(place) for place in places)
