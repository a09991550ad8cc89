"""Programs of others that the bench installs from PyPI: each in an environment of its own, where caches are, once."""

import os
import subprocess
import sys
from pathlib import Path

import anyio

from bench.measure import Unavailable

_INSTALL_SECONDS = 600


def cache() -> Path:
    """Where the bench keeps things."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gloveport-bench"


async def installed(package: str, version: str, program: str) -> str:
    """The path of a program of a package.

    Raises:
        Unavailable: It is not installed and can't be.
    """
    directory = cache() / f"{package}-{version}"
    path = directory / "bin" / program
    pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--quiet", f"{package}=={version}"]
    try:
        if not path.exists():
            print(f"bench: installing {package}", file=sys.stderr)
            with anyio.fail_after(_INSTALL_SECONDS):
                await anyio.run_process([sys.executable, "-m", "venv", "--clear", str(directory)], stderr=None)
                await anyio.run_process(pip, stderr=None)
        await anyio.run_process([str(path), "--version"])
    except (OSError, subprocess.CalledProcessError, TimeoutError) as error:
        repair = f"{sys.executable} -m venv --clear {directory} && {' '.join(pip)}"
        raise Unavailable(f"{package} can't be installed: {error}", repair) from error
    return str(path)
