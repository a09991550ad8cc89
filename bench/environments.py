"""What environments cost: a program in a built one, its first use, and a build of wheels that are here.

Needs an index. What is fetched from it is kept where caches are.
"""

import contextlib
import ipaddress
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import anyio
from uv import find_uv_bin

from bench.installed import cache
from bench.measure import Case, Contender, Duel, Sample, Unavailable, WrongAnswer, timed
from bench.processes import settled
from bench.programs import PYTHON, Program
from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.engine.execution import Engine
from gloveport.engine.run_context import RunContext
from gloveport.environments.indexes import find_indexes
from gloveport.environments.locks import read_lock
from gloveport.environments.registries import find_registries
from gloveport.errors import Denied
from gloveport.guard import Guard
from gloveport.model import Grant, Request
from gloveport.model.egress import Api, Rule
from gloveport.model.packages import Environment
from gloveport.policy.hosts.authorities import parse_pattern

_ENVIRONMENTS: Final = {
    "python": Environment(python=("requests", "beautifulsoup4", "lxml", "openpyxl")),
    "npm": Environment(npm=("zod",)),
}
_NPM: Final = Program(
    language="typescript",
    code='import { z } from "zod";\nconsole.log(z.number().parse(1));',
    prints="1\n",
)
_FEW: Final = 10
_REMEDY: Final = "name an index that can be reached, as pip or npm would have it"


def _config() -> Config:
    """As the owner of these indexes would have it, where their addresses are not public."""
    hosts = (*find_indexes((), os.environ).hosts, *find_registries(None, {}, os.environ).hosts)
    places = [parse_pattern(host) for host in hosts]
    found = {str(info[4][0]) for one in places for info in socket.getaddrinfo(one.host, one.port, socket.AF_INET)}
    private = tuple(ipaddress.ip_network(one) for one in sorted(found) if not ipaddress.ip_address(one).is_global)
    read = (Rule(action="allow", methods=("GET", "HEAD")),)
    api = {"index": Api(hosts=hosts, networks=private, rules=read)} if private else {}
    return Config(environments=_ENVIRONMENTS, api=api)


@contextlib.asynccontextmanager
async def _with_environment(name: str, state: Path | None = None) -> AsyncIterator[tuple[Engine, Guard]]:
    """An engine that has an environment, which is built."""
    state = state or cache() / "environments"
    try:
        config = _config()
    except OSError as error:
        raise Unavailable(f"no index: {error}", _REMEDY) from error
    async with assemble(config, {**os.environ, "GLOVEPORT_STATE": str(state)}) as assembled:
        guard = Guard(grant=Grant(), audit=assembled.audit, caller="bench", run_id=RunContext().run_id)
        try:
            await assembled.environments.open_named(name, guard)
        except Denied as error:
            raise Unavailable(str(error), _REMEDY) from error
        yield assembled, guard


async def _run(assembled: Engine, program: Program, environment: str | None) -> None:
    request = Request(language=program.language, code=program.code, environment=environment)
    result = await assembled.execute(request, caller="bench")
    if (result.status, result.stdout.text) != ("ok", program.prints):
        raise WrongAnswer(result.model_dump_json(exclude={"grant"}, exclude_defaults=True))


def _used_again(environment: str | None) -> Contender:
    """A program in an environment that others have used before, or in none."""

    @contextlib.asynccontextmanager
    async def opened(_scratch: Path) -> AsyncIterator[Sample]:
        async with _with_environment("python") as (assembled, _):

            async def run() -> None:
                await _run(assembled, PYTHON, environment)

            yield timed(run)

    return opened


def _used_first(program: Program, environment: str | None) -> Contender:
    """The first program of a server that runs in an environment, or in none."""

    @contextlib.asynccontextmanager
    async def opened(_scratch: Path) -> AsyncIterator[Sample]:
        async def sample() -> float:
            async with _with_environment(environment or "python") as (assembled, _):
                await _run(assembled, program if environment is None else PYTHON, None)
                await settled()
                started = time.perf_counter()
                await _run(assembled, program, environment)
                return (time.perf_counter() - started) * 1000

        yield sample

    return opened


@contextlib.contextmanager
def _in_memory() -> Iterator[Path]:
    """A directory for builds: where files were just removed by the thousand, ext4 looks long for a place for others."""
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-", dir="/dev/shm") as directory:
        yield Path(directory)


def _build(*, first: bool) -> Contender:
    """A build, from the lock to what programs can use, of wheels that other environments have, or have not."""

    @contextlib.asynccontextmanager
    async def opened(_scratch: Path) -> AsyncIterator[Sample]:
        async with contextlib.AsyncExitStack() as stack:
            async with _with_environment("python"):  # its wheels and its lock
                state = stack.enter_context(_in_memory()) / "state"
                shutil.copytree(cache() / "environments", state, symlinks=True)
            assembled, guard = await stack.enter_async_context(_with_environment("python", state))
            environments = assembled.environments

            async def sample() -> float:
                for _, tree in environments.find_built("python"):
                    if tree is not None:
                        environments.store.remove(tree)
                if first:
                    for place in ("unpacked", "files"):
                        shutil.rmtree(environments.store.root / place)
                    environments.store.create()
                await settled()
                started = time.perf_counter()
                await environments.open_named("python", guard)
                return (time.perf_counter() - started) * 1000

            yield sample

    return opened


def _installed_by_uv(*, first: bool) -> Contender:
    """The same lock, installed into an empty directory from uv's own cache, or from wheels that are not in it."""

    @contextlib.asynccontextmanager
    async def opened(_scratch: Path) -> AsyncIterator[Sample]:
        async with _with_environment("python") as (assembled, _):
            [(lock, _tree)] = assembled.environments.find_built("python")
            python, store = assembled.system.python, assembled.environments.store
        with _in_memory() as directory:
            target, file, wheels = directory / "target", directory / "pylock.toml", directory / "wheels"
            file.write_text(lock.text)
            command = [find_uv_bin(), "pip", "install", "--quiet", "--python", python, "--target", str(target)]
            if first:
                wheels.mkdir()
                for pin in read_lock(lock.text.encode(), sys.version_info[:2]).pins:
                    store.wheels.take(pin.wheel, wheels / pin.wheel.file)
                packages = sorted(map(str, wheels.iterdir()))
                command += ["--no-cache", "--offline", "--no-deps", "--compile-bytecode", *packages]
            else:
                command += ["--cache-dir", str(directory / "cache"), "-r", str(file)]

            async def sample() -> float:
                shutil.rmtree(target, ignore_errors=True)
                await settled()
                started = time.perf_counter()
                try:
                    await anyio.run_process(command)
                except subprocess.CalledProcessError as error:
                    raise WrongAnswer(error.stderr.decode()) from error
                return (time.perf_counter() - started) * 1000

            yield sample

    return opened


CASES: Final[list[Case]] = [
    Duel(
        name="environment-run",
        subject=_used_again("python"),
        baseline="a run without one",
        opponent=_used_again(None),
        goal="<= 1.2",
    ),
    Duel(
        name="environment-first",
        subject=_used_first(PYTHON, "python"),
        baseline="a run without one",
        opponent=_used_first(PYTHON, None),
        goal="<= +600 ms",
        samples=_FEW,
    ),
    Duel(
        name="environment-first-npm",
        subject=_used_first(_NPM, "npm"),
        baseline="a run without one",
        opponent=_used_first(PYTHON, None),
        goal="<= +600 ms",
        samples=_FEW,
    ),
    Duel(
        name="environment-build",
        subject=_build(first=False),
        baseline="uv pip install",
        opponent=_installed_by_uv(first=False),
        goal="<= 1.5",
        samples=_FEW,
    ),
    Duel(
        name="environment-build-first",
        subject=_build(first=True),
        baseline="uv pip install --no-cache --compile-bytecode",
        opponent=_installed_by_uv(first=True),
        samples=_FEW,
    ),
]
