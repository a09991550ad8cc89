"""Python: finds an interpreter on the host and what of the host it needs, and prepares programs for it."""

import json
import shutil
import subprocess
from pathlib import Path

from gloveport.errors import ConfigError
from gloveport.model import Grant, Mount, Program, Value

_DISTRIBUTION = "/usr/bin/python3"
_SYSTEM = ("/usr/bin", "/usr/lib")
_OLDEST = (3, 11)
_QUESTION = """
import json, os, sys
print(json.dumps([sys.version_info[:2], sys.executable, os.path.realpath(sys.executable), sys.prefix, sys.base_prefix]))
"""
_ANSWER_SECONDS = 20


class Python(Value):
    """An interpreter. It is also the one that runs the init process of every sandbox."""

    executable: str
    """Its path, the same on the host and inside."""

    version: tuple[int, int]
    binds: tuple[Mount, ...]

    def prepare(self, source: str, grant: Grant) -> Program:  # noqa: ARG002 - every runtime is asked the same way
        """The program that runs ``source`` inside the init process. Pure."""
        return Program(name="program.py", source=source)


def find(configured: str | None) -> Python:
    """Find the interpreter: the configured one, else the distribution's, else the first ``python3`` on PATH.

    Raises:
        ConfigError: There is none, it does not run, is too old, or lies where it can't be mounted.
    """
    path = configured or (_DISTRIBUTION if Path(_DISTRIBUTION).exists() else shutil.which("python3"))
    if path is None:
        raise ConfigError("no Python interpreter found for programs", hint="install python3, or set runtimes.python")
    try:
        asked = subprocess.run(  # noqa: S603 - the operator's choice, run isolated from environment and directory
            [path, "-I", "-c", _QUESTION], capture_output=True, check=True, timeout=_ANSWER_SECONDS, env={}, cwd="/"
        )
        version, executable, real, *prefixes = json.loads(asked.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise ConfigError(
            f"runtimes.python: {path} does not run: {error}", hint="name a Python interpreter that this user may run"
        ) from error
    if tuple(version) < _OLDEST:
        raise ConfigError(
            f"runtimes.python: {path} is Python {version[0]}.{version[1]}",
            hint=f"Gloveport runs programs on Python {_OLDEST[0]}.{_OLDEST[1]} or newer",
        )
    return Python(executable=executable, version=tuple(version), binds=_binds(prefixes, real))


def _binds(prefixes: list[str], real: str) -> tuple[Mount, ...]:
    """The directories of an interpreter that the system's do not cover, none inside another."""
    wanted: list[Path] = []
    for prefix in sorted({Path(prefix) for prefix in prefixes} - {Path("/usr")}):
        if prefix == Path("/") or prefix in (Path("/home"), Path("/root"), Path.home()):
            raise ConfigError(
                f"runtimes.python: its files lie directly in {prefix}, which no sandbox may see",
                hint="use an interpreter in a directory of its own, such as a virtual environment",
            )
        wanted.append(prefix)
    if not any(Path(real).is_relative_to(place) for place in [*map(Path, _SYSTEM), *wanted]):
        wanted.append(Path(real))
    outermost = [path for path in wanted if not any(path != other and path.is_relative_to(other) for other in wanted)]
    return tuple(Mount(source=str(path.resolve()), target=str(path)) for path in outermost)
