"""The way out over HTTP: the same requests from a sandbox, straight, and through mitmproxy, to one far side.

The program that asks is the same text everywhere (``web_client.py``). In the sandbox it does not know the key, which
the far side demands: Gloveport injects it and scrubs each answer.
"""

import contextlib
import json
import sys
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias

import anyio
from anyio.streams.text import TextReceiveStream
from mcp import Client

from bench import mitmproxy
from bench.baselines import ENVIRON, interpreter
from bench.far_side import BIG_BYTES
from bench.measure import Contender, Duel, Figure, Footprint, Sample, WrongAnswer, reached
from bench.processes import forget_peak, peak_rss_bytes, rss_bytes, settled
from bench.programs import Program
from bench.subjects import call, served
from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.model import Request
from gloveport.model.reading import read_value

_NAME, _ADDRESS = "api.bench.test", "127.0.0.21"
_API, _VARIABLE, _KEY = "bench", "BENCH_KEY", "bench-7Qm2vX9rT4kLw8Zp3Nc6"
_MARK = f"[secret {_API}.bearer]"
_CLIENT = Path(__file__).with_name("web_client.py")  # importing it would run it
_MIB = 1 << 20

_SMALL = ("small", "200")
_EVENTS = ("events", "5")
_LOAD = ("load", "8", "0.25", "0.75")


@dataclass(frozen=True, kw_only=True)
class FarSide:
    """A server that is asked."""

    port: int
    ca_file: Path
    name: str = _NAME

    def program(self, *, address: str, key: str, measure: tuple[str, ...]) -> str:
        """The client, as a text, with these arguments."""
        arguments = [_NAME, str(self.port), address, key, *measure]
        return f"import sys; sys.argv[1:] = {arguments}\n{_CLIENT.read_text()}"

    @property
    def configuration(self) -> str:
        """What says of a server of ours that its programs may ask it."""
        return f"""[api.{_API}]
hosts = ["{_NAME}:{self.port}"]
addresses = ["{_ADDRESS}"]
ca_file = {json.dumps(str(self.ca_file))}
auth = [{{ kind = "bearer", secret = "env:{_VARIABLE}" }}]
"""


@contextlib.asynccontextmanager
async def far_side(scratch: Path) -> AsyncIterator[FarSide]:
    """One that listens."""
    ca_file = scratch / "far-side.pem"
    command = [sys.executable, "-m", "bench.far_side", _ADDRESS, _NAME, _KEY, str(ca_file)]
    async with await anyio.open_process(command, stdin=None, stderr=None) as process:
        assert process.stdout is not None
        try:
            port = int(await TextReceiveStream(process.stdout).receive())
            yield FarSide(port=port, ca_file=ca_file)
        finally:
            process.terminate()


Way: TypeAlias = Callable[[FarSide, tuple[str, ...]], Contender]
"""Takes a far side and what is measured of it."""


@dataclass(frozen=True, kw_only=True)
class Race:
    """A duel of two ways to one far side. Goal and ``ratio_of`` as in ``Duel``.

    Attributes:
        measure_what: What the client does.
    """

    name: str
    measure_what: tuple[str, ...]
    baseline: str
    opponent: Way
    goal: str
    ratio_of: Literal["time", "runs/s"] = "time"

    async def measure(self, scratch: Path) -> Figure:
        """See ``bench.measure.Case``."""
        async with far_side(scratch) as far:
            duel = Duel(
                name=self.name,
                subject=from_a_sandbox(far, self.measure_what),
                baseline=self.baseline,
                opponent=self.opponent(far, self.measure_what),
                goal=self.goal,
                ratio_of=self.ratio_of,
            )
            return await duel.measure(scratch)


def from_a_sandbox(far: FarSide, measure: tuple[str, ...]) -> Contender:
    """Through the proxy door of a sandbox, new for each sample."""
    request = Request(language="python", code=far.program(address=_NAME, key="", measure=measure))

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        config = read_value(Config, tomllib.loads(far.configuration))
        environ = {"GLOVEPORT_STATE": str(scratch / "state"), _VARIABLE: _KEY}
        async with assemble(config, environ) as engine:

            async def run() -> str:
                result = await engine.execute(request, caller="bench")
                if result.status != "ok":
                    raise WrongAnswer(result.model_dump_json(exclude={"grant"}, exclude_defaults=True))
                return result.stdout.text

            yield _printed(run)

    return opened


def direct(far: FarSide, measure: tuple[str, ...]) -> Contender:
    """With nothing between."""

    @contextlib.asynccontextmanager
    async def opened(_: Path) -> AsyncIterator[Sample]:
        yield _outside(far, measure, {"SSL_CERT_FILE": str(far.ca_file)})

    return opened


def through_mitmproxy(far: FarSide, measure: tuple[str, ...]) -> Contender:
    """Asked by CONNECT, as the proxy door is."""

    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async with mitmproxy.listening(scratch, far.ca_file) as (url, authority):
            yield _outside(far, measure, {"HTTPS_PROXY": url, "SSL_CERT_FILE": str(authority)})

    return opened


def _outside(far: FarSide, measure: tuple[str, ...], environ: dict[str, str]) -> Sample:
    code = far.program(address=_ADDRESS, key=_KEY, measure=measure)

    async def run() -> str:
        ended = await anyio.run_process([interpreter(), "-c", code], env={**ENVIRON, **environ}, check=False)
        if ended.returncode:
            raise WrongAnswer(f"the client ended with {ended.returncode}: {ended.stderr.decode(errors='replace')}")
        return ended.stdout.decode()

    return _printed(run)


def _printed(run: Callable[[], Awaitable[str]]) -> Sample:
    async def sample() -> float:
        await settled()
        return float(await run())

    return sample


@dataclass(frozen=True, kw_only=True)
class Download:
    """What a gigabyte that is scrubbed on its way costs the server process: its peak, over what it held at rest."""

    name: str
    goal: str

    async def measure(self, scratch: Path) -> Footprint:
        """See ``bench.measure.Case``."""
        size = BIG_BYTES - len(_KEY) + len(_MARK)  # its last bytes are the key: so it was scrubbed to the end
        async with far_side(scratch) as far:
            code = far.program(address=_NAME, key="", measure=("big",))
            program = Program(language="python", code=code, prints=f"{size}\n")
            async with served(scratch, far.configuration, {_VARIABLE: _KEY}) as (url, pid), Client(url) as client:
                await settled()
                before = rss_bytes(pid)
                forget_peak(pid)
                await call(client, program)()
                mib = (peak_rss_bytes(pid) - before) / _MIB
        return Footprint(name=self.name, mib=round(mib, 2), goal=self.goal, holds=reached(self.goal, mib))


_MITMPROXY = f"mitmproxy {mitmproxy.VERSION}"

CASES: Final = (
    Race(name="https", measure_what=_SMALL, baseline="direct", opponent=direct, goal="<= +1.5 ms"),
    Race(name="https-events", measure_what=_EVENTS, baseline="direct", opponent=direct, goal="<= +20 ms"),
    Race(
        name="https-kept",
        measure_what=(*_LOAD, "kept"),
        baseline=_MITMPROXY,
        opponent=through_mitmproxy,
        goal=">= 3",
        ratio_of="runs/s",
    ),
    Race(
        name="https-fresh",
        measure_what=(*_LOAD, "fresh"),
        baseline=_MITMPROXY,
        opponent=through_mitmproxy,
        goal=">= 3",
        ratio_of="runs/s",
    ),
    Download(name="https-download", goal="<= 61.0"),  # 64 MB
)
