"""Starts of Gloveport's commands, each as a process of its own: what a client, or a person at a prompt, waits for.

The baseline is a bare start of this interpreter, so that a busy moment is in both, and the goals are about what comes
on top of it. What is imported is measured in processor time, which no other process takes.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from bench.baselines import PEERS
from bench.line_client import connected
from bench.measure import Contender, Duel, Sample, WrongAnswer
from bench.subjects import GLOVEPORT

_SAMPLES: Final = 10
_BEFORE_INITIALIZE: Final = "import gloveport.cli.main, gloveport.cli.mcp_service, gloveport.cli.backend,"
_FOR_SERVING: Final = f"{_BEFORE_INITIALIZE} gloveport.config, gloveport.event_loop, gloveport.server.transports.stdio"
_FOR_EXECUTING: Final = f"{_FOR_SERVING}, gloveport.bootstrap.inspection, gloveport.server.tools.fast_execute"


def _bare(scratch: Path) -> float:  # noqa: ARG001 - as every start
    return _run([sys.executable, "-c", "pass"], {})


def _greeted(scratch: Path) -> float:
    began = time.perf_counter()
    with connected([GLOVEPORT, "serve", "--config", _config(scratch)], _environ(scratch), scratch / "log"):
        return 1000 * (time.perf_counter() - began)


def _executed(scratch: Path) -> float:
    began = time.perf_counter()
    with connected([GLOVEPORT, "serve", "--config", _config(scratch)], _environ(scratch), scratch / "log") as client:
        result = client.call("execute_code", {"language": "python", "code": "6 * 7"})
        taken = 1000 * (time.perf_counter() - began)
    if result.get("value") != 42:
        raise WrongAnswer(str(result))
    return taken


def _ran(scratch: Path) -> float:
    return _run([GLOVEPORT, "run", "--config", _config(scratch), "-c", "1"], _environ(scratch))


def _run_beside_server() -> Contender:
    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        command = [GLOVEPORT, "serve", "--config", _config(scratch)]
        with connected(command, _environ(scratch), scratch / "log") as client:
            client.call("execute_code", {"language": "python", "code": "1"})

            async def sample() -> float:
                return _ran(scratch)

            yield sample

    return opened


def _exec_true(scratch: Path) -> float:
    workspace = scratch / "workspace"
    workspace.mkdir(exist_ok=True)
    arguments = ["exec", "--config", _config(scratch), "--workspace", str(workspace), "--", "true"]
    return _run([GLOVEPORT, *arguments], _environ(scratch))


def _run(command: Sequence[str], variables: dict[str, str]) -> float:
    began = time.perf_counter()
    said = subprocess.run(
        command, capture_output=True, check=False, stdin=subprocess.DEVNULL, env={**os.environ, **variables}
    )
    taken = 1000 * (time.perf_counter() - began)
    if said.returncode != 0:
        raise WrongAnswer(said.stderr.decode(errors="replace")[-1000:])
    return taken


def _processor_time(code: str) -> Callable[[Path], float]:
    """Milliseconds of processor time of an interpreter that runs this."""

    def measure(_scratch: Path) -> float:
        process = subprocess.Popen([sys.executable, "-c", code])
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise WrongAnswer(f"{code} ended with {process.returncode}")
        return 1000 * (used.ru_utime + used.ru_stime)

    return measure


def _contender(measure: Callable[[Path], float]) -> Contender:
    @contextlib.asynccontextmanager
    async def opened(scratch: Path) -> AsyncIterator[Sample]:
        async def sample() -> float:
            return measure(scratch)

        yield sample

    return opened


def _config(scratch: Path) -> str:
    file = scratch / "gloveport.toml"
    file.touch(mode=0o600)
    return str(file)


def _environ(scratch: Path) -> dict[str, str]:
    return {"GLOVEPORT_STATE": str(scratch / "state")}


def _start(name: str, subject: Contender, goal: str | None) -> Duel:
    bare = f"{Path(sys.executable).name} -c pass"
    return Duel(name=name, subject=subject, baseline=bare, opponent=_contender(_bare), goal=goal, samples=_SAMPLES)


def _beside(peer: str, arguments: Sequence[str], goal: str | None) -> Duel:
    """``gloveport exec -- true`` and what others have for that."""
    opponent = replace(PEERS[peer], arguments=arguments, prints="")
    return Duel(
        name=f"start-exec-{peer.partition(' ')[0]}",
        subject=_contender(_exec_true),
        baseline=" ".join([opponent.program, *arguments]),
        opponent=opponent.open,
        goal=goal,
        samples=_SAMPLES,
    )


def _imports(name: str, code: str, goal: str) -> Duel:
    bare = f"{Path(sys.executable).name} -c pass, processor time"
    ours, theirs = _contender(_processor_time(code)), _contender(_processor_time("pass"))
    return Duel(name=name, subject=ours, baseline=bare, opponent=theirs, goal=goal, samples=_SAMPLES)


CASES: Final = (
    _start("start-initialize", _contender(_greeted), "<= +380 ms"),
    _start("start-execute", _contender(_executed), "<= +680 ms"),
    _start("start-run", _contender(_ran), "<= +330 ms"),
    _start("start-run-beside", _run_beside_server(), "<= +130 ms"),
    _start("start-exec", _contender(_exec_true), "<= +180 ms"),
    _beside("srt", ["true"], "<= 0.7"),
    _beside("codex sandbox", ["sandbox", "true"], None),
    _imports("imports-initialize", _FOR_SERVING, "<= 15"),
    _imports("imports-execute", _FOR_EXECUTING, "<= 20"),
)
