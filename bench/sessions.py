"""Sessions: what a call in one waits for, what beginning, checkpoints and rewinds add, and what an idle one holds."""

import base64
import contextlib
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from bench.baselines import bare_python, interpreter
from bench.installed import installed
from bench.measure import Case, Contender, Duel, Footprint, Sample, WrongAnswer, reached, timed
from bench.processes import pss_bytes, sandboxes, settled
from bench.programs import PYTHON
from bench.subjects import WARM, engine
from gloveport.bootstrap.app import assemble
from gloveport.engine.execution import NEW, Engine
from gloveport.engine.previews import shown_pictures
from gloveport.engine.run_context import RunContext
from gloveport.engine.session import Session
from gloveport.model import Request
from gloveport.sandbox.pool.makers import SessionStarter
from gloveport.sandbox.pool.pool import Pool
from gloveport.sandbox.run.confined import Confined

_CALLER: Final = "bench"
_MIB: Final = 1 << 20
_HEAP: Final = "held = [bytes(1000) + str(n).encode() for n in range(20_000)]"
"""About 20 MiB of small objects."""

_FIGURE: Final = """
import random, matplotlib.pyplot as plt
plt.figure(figsize=(10, 7.5))
for seed in range(5): plt.plot(random.Random(seed).choices(range(100), k=60))
plt.show()
"""
_FIGURE_BYTES: Final = 200_000

_KERNEL: Final = str(Path(__file__).with_name("jupyter_loop.py"))
_LINE_BYTES: Final = 1000
_TOGETHER: Final = 10
"""Calls of one sample, where a single one would be lost in the noise."""


@dataclass(kw_only=True)
class _Session:
    """A session of an engine of this process."""

    engine: Engine
    id: str = field(default=NEW)

    async def call(self, code: str = PYTHON.code, prints: str = PYTHON.prints) -> None:
        """Make a call, which must print this."""
        request = Request(language="python", code=code, session=self.id)
        result = await self.engine.execute(request, caller=_CALLER)
        if (result.status, result.stdout.text) != ("ok", prints) or result.session is None:
            raise WrongAnswer(result.model_dump_json(exclude={"grant"}, exclude_defaults=True))
        self.id = result.session.id

    async def rewind(self) -> None:
        """Go back to before the last call."""
        _, state = await self.engine.session_requests.ask(self._found(), {"do": "rewind"}, caller=_CALLER)
        if state.state != "rewound":
            raise WrongAnswer(state.model_dump_json())

    async def close(self) -> None:
        """End it, and wait until nothing is left of it."""
        session = self._found()
        session.end("the bench ended it")
        await session.wait_over()

    @property
    def pid(self) -> int:
        """The host's number of its sandbox's first process."""
        child = self._found()._child  # noqa: SLF001 - nobody but a measurement wants it
        assert isinstance(child, Confined)
        return child.pid

    def _found(self) -> Session:
        return self.engine.sessions.find(self.id, _CALLER)


Use: TypeAlias = Callable[[_Session], Awaitable[float]]
"""Measures once: milliseconds."""


def in_session(use: Use, *, begin: str = "") -> Contender:
    """A sample of one session after the other's calls, all in the same session."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async with assemble(WARM, {"GLOVEPORT_STATE": str(scratch / "state")}) as assembled:
            session = _Session(engine=assembled)
            await session.call(begin, "")

            async def sample() -> float:
                await settled()
                return await use(session)

            yield sample

    return opened


async def one_call(session: _Session) -> float:
    """A call in a session that waits."""
    return await _milliseconds(session.call)


async def calls_at_once(session: _Session) -> float:
    """Calls one directly after the other: each waits for the checkpoint of the one before. Per call."""
    await session.call()
    started = time.perf_counter()
    for _ in range(_TOGETHER):
        await session.call()
    return (time.perf_counter() - started) * 1000 / _TOGETHER


async def a_figure(session: _Session) -> float:
    """From the program to its picture, of more than 200 kB."""
    started = time.perf_counter()
    request = Request(language="python", code=_FIGURE, session=session.id)
    context = RunContext(shows_pictures=True)
    result = await session.engine.execute(request, caller=_CALLER, context=context)
    shown = shown_pictures(session.engine.artifacts, result.artifacts.files, _CALLER)
    sizes = [len(base64.b64encode(picture.data)) * 3 // 4 for picture in shown]
    took = (time.perf_counter() - started) * 1000
    if len(sizes) != 1 or sizes[0] < _FIGURE_BYTES:
        raise WrongAnswer(f"pictures of {sizes} bytes: {result.model_dump_json(exclude={'grant'})}")
    return took


async def a_rewind(session: _Session) -> float:
    """What it takes to undo a call."""
    await session.call()
    await settled()
    return await _milliseconds(session.rewind)


@contextlib.asynccontextmanager
async def beginning(scratch: Path) -> AsyncIterator[Sample]:
    """The first call of a session. Its end is not measured."""
    async with assemble(WARM, {"GLOVEPORT_STATE": str(scratch / "state")}) as assembled:

        async def sample() -> float:
            await settled()
            session = _Session(engine=assembled)
            took = await _milliseconds(session.call)
            await session.close()
            return took

        yield sample


@contextlib.asynccontextmanager
async def jupyter(_: Path) -> AsyncIterator[Sample]:
    """The same call of a Jupyter kernel, by its own client over its own sockets, without a sandbox."""
    python = await installed("ipykernel", "7.4.0", "jupyter-kernelspec")
    command = [str(Path(python).with_name("python")), _KERNEL]
    async with await anyio.open_process(command, stderr=None) as process:
        assert process.stdin is not None and process.stdout is not None  # noqa: PT018 - both are pipes
        lines = BufferedByteReceiveStream(process.stdout)
        await lines.receive_until(b"\n", _LINE_BYTES)

        async def run() -> None:
            await process.stdin.send(f"{PYTHON.code}\n".encode())  # type: ignore[union-attr]
            said = await lines.receive_until(b"\n", _LINE_BYTES)
            if said != b"1":
                raise WrongAnswer(f"the kernel printed {said!r}")

        yield timed(run)
        await process.stdin.aclose()


@dataclass(frozen=True, kw_only=True)
class Idle:
    """Proportional memory of a session that waits for its second call, less that of a sandbox that waits for a run."""

    name: str
    goal: str

    async def measure(self, scratch: Path) -> Footprint:
        """See ``bench.measure.Case``."""
        async with assemble(WARM, {"GLOVEPORT_STATE": str(scratch / "state")}) as assembled:
            await settled()
            began = _Session(engine=assembled)
            await began.call()
            await settled()
            session, waiting = map(_pss_of_sandbox, (began.pid, _waiting_pid(assembled)))
        mib = (session - waiting) / _MIB
        return Footprint(name=self.name, mib=round(mib, 2), goal=self.goal, holds=reached(self.goal, mib))


def _waiting_pid(engine: Engine) -> int:
    """The first process of a sandbox that waits for a program, of the kind that the session's was made of."""
    assert isinstance(engine.sandbox, Pool)
    maker = next(stock.maker for stock in engine.sandbox.stocks if isinstance(stock.maker, SessionStarter))
    return maker.source._waiting[0].child.pid  # noqa: SLF001 - as above


def _pss_of_sandbox(first: int) -> int:
    (found,) = [pids for pids in sandboxes(os.getpid()) if first in pids]
    return pss_bytes(found)


async def _milliseconds(action: Callable[[], Awaitable[None]]) -> float:
    started = time.perf_counter()
    await action()
    return (time.perf_counter() - started) * 1000


CASES: Final[list[Case]] = [
    Duel(
        name="session-call",
        subject=in_session(one_call),
        baseline=f"{interpreter()} -c",
        opponent=bare_python(PYTHON),
        goal="<= 0.14",
    ),
    Duel(
        name="session-begin",
        subject=beginning,
        baseline="a run without one",
        opponent=engine(PYTHON, WARM),
        goal="<= 1.3",
    ),
    Duel(
        name="session-checkpoint",
        subject=in_session(calls_at_once, begin=_HEAP),
        baseline="calls that wait for nothing",
        opponent=in_session(one_call, begin=_HEAP),
        goal="<= +2.0 ms",
    ),
    Duel(
        name="session-rewind",
        subject=in_session(a_rewind, begin=_HEAP),
        baseline="a call",
        opponent=in_session(one_call, begin=_HEAP),
        goal="<= +30 ms",
    ),
    Duel(
        name="session-figure",
        subject=in_session(a_figure, begin="import matplotlib.pyplot"),
        baseline="a call",
        opponent=in_session(one_call),
        goal="<= +120 ms",
    ),
    Duel(name="session-jupyter", subject=in_session(one_call), baseline="jupyter_client, ipykernel", opponent=jupyter),
    Idle(name="memory-session", goal="<= 14"),
]
