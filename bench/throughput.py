"""How many runs come to their end while so many callers always want the next one.

A caller starts a run as soon as its last has ended. Counted is what ends within a window that opens a while after the
callers have begun, so that nothing counts that was made before.
"""

import contextlib
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio

from bench import spawn_loop
from bench.baselines import ENVIRON, interpreter
from bench.measure import Action, Contender, Sample, WrongAnswer
from bench.processes import settled
from bench.programs import Program
from bench.subjects import runner
from gloveport.config import Config

_LEAD_SECONDS = 0.25
_WINDOW_SECONDS = 0.75


def engine(program: Program, config: Config, *, callers: int) -> Contender:
    """Callers of one engine."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async with runner(program, config, scratch) as run:

            async def sample() -> float:
                await settled()
                return await _window(run, callers)

            yield sample

    return opened


def bare_python(program: Program, *, callers: int) -> Contender:
    """As many processes, each of which does nothing but start the interpreter again and again."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        python = interpreter()
        command = [python, "-I", "-S", spawn_loop.__file__, str(callers), str(_LEAD_SECONDS), str(_WINDOW_SECONDS)]

        async def sample() -> float:
            await settled()
            counted = await anyio.run_process([*command, python, "-c", program.code], env=ENVIRON)
            return _per_run(int(counted.stdout))

        yield sample

    return opened


async def _window(run: Action, callers: int) -> float:
    ended = 0
    opens = time.perf_counter() + _LEAD_SECONDS
    closes = opens + _WINDOW_SECONDS

    async def caller() -> None:
        nonlocal ended
        while (now := time.perf_counter()) < closes:
            await run()
            now = time.perf_counter()
            ended += opens <= now < closes

    async with anyio.create_task_group() as tasks:
        for _ in range(callers):
            tasks.start_soon(caller)
    return _per_run(ended)


def _per_run(runs: int) -> float:
    """Milliseconds per run."""
    if runs == 0:
        raise WrongAnswer(f"no run ended within {_WINDOW_SECONDS} s")
    return _WINDOW_SECONDS * 1000 / runs
