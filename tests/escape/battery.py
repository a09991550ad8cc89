"""Runs the hostile programs against engines on this host, as whoever it is started as. A process of its own:

    python -m tests.escape.battery REPORT-DESCRIPTOR [NAME…]

It has a secret in its environment, and nothing may come out on its standard output but what it writes itself: nothing.
"""

import contextlib
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import anyio
from tests.escape import header, host

from gloveport.config import Config
from gloveport.engine import Engine
from gloveport.errors import SandboxError
from gloveport.model import Limits, Policy, Request, Result
from gloveport.server import app

AT_ONCE = 4
_HANG_SECONDS = 30
_FOLLOW_UP = Request(language="python", code="sum(range(10))")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the table."""

    case: str
    identity: str
    tries: str
    proves: str
    expected: str
    outcome: str
    held: bool


@dataclass(frozen=True, kw_only=True)
class Battery:
    """Engines, one for each set of mounts, and the host's side."""

    engines: dict[str, Engine]
    side: host.FarSide
    directory: Path
    cgroups: bool

    async def run(self, cases: Sequence[header.Case]) -> AsyncIterator[Verdict]:
        """Run all, a few at a time, and look after each few what is left on the host."""
        await self.follow_up()  # what the first run leaves in memory is no leak
        before = self.traces()
        for start in range(0, len(cases), AT_ONCE):
            batch = cases[start : start + AT_ONCE]
            faults: dict[str, list[str]] = {case.name: [] for case in batch}
            outcomes: dict[str, str] = {}
            async with anyio.create_task_group() as tasks:
                for case in batch:
                    tasks.start_soon(self.judge, case, faults[case.name], outcomes)
            after = [*self.side.reached(), *await self.follow_up()]
            now = self.traces()
            after += [f"{name}: {before[name]} became {now[name]}" for name in before if before[name] != now[name]]
            for case in batch:
                wrong = [*faults[case.name], *(f"in this batch: {fault}" for fault in after)]
                yield Verdict(
                    case=case.name,
                    identity="root" if os.geteuid() == 0 else "user",
                    tries=case.tries,
                    proves=", ".join(case.proves),
                    expected=case.expectation(cgroups=self.cgroups),
                    outcome="; ".join([outcomes[case.name], *wrong]),
                    held=not wrong,
                )

    async def judge(self, case: header.Case, faults: list[str], outcomes: dict[str, str]) -> None:
        """Run one program as often as it asks for and find fault with what comes of it."""
        words = self.side.words
        source = re.sub(f"@({'|'.join(words)})@", lambda found: words[found[1]], case.source)
        engine = self.engines[case.mounts]
        witness = host.Witness(engine.sandbox)
        engine = replace(engine, sandbox=witness)
        request = Request(language=case.language, code=source, limits=case.limits)
        for _ in range(case.runs):
            result: Result | None = None
            outcome = "hangs"
            with anyio.move_on_after(_HANG_SECONDS):
                try:
                    result = await engine.execute(request, caller="escape")
                    outcome = _told(result)
                except SandboxError as error:
                    outcome = f"refused: {error.args[0]}"
                except Exception as error:  # noqa: BLE001 - an engine that raises is what is looked for
                    outcome = f"the engine raised {error!r}"
                    faults.append("no result")
            outcomes[case.name] = outcome
            text = "" if result is None else result.model_dump_json(exclude={"grant"})
            met = any(expected.met_by(result) for expected in case.expectations(cgroups=self.cgroups))
            if not met or outcome == "hangs":
                faults.append("not as expected")
            if "ESCAPED" in text:
                faults.append("it got through")
            if os.environ[host.CANARY] in text:
                faults.append("it knows the secret")
        faults += witness.left

    async def follow_up(self) -> list[str]:
        """A plain program must run as if nothing had happened."""
        result = await self.engines["none"].execute(_FOLLOW_UP, caller="escape")
        return [] if (result.status, result.value) == ("ok", 45) else [f"the next run: {_told(result)}"]

    def traces(self) -> dict[str, object]:
        """See ``host.traces``; kept output is forgotten first, its files are ours by right."""
        for engine in self.engines.values():
            engine.archive.close()
        groups = [
            path
            for engine in self.engines.values()
            if engine.sandbox.tree is not None
            for path in engine.sandbox.tree.directories.values()
        ]
        return host.traces(self.directory, groups)


def _told(result: Result) -> str:
    """What came of a program, in a line."""
    told: list[str] = [result.status, *result.limits_hit]
    if result.status == "ok":
        told.append(json.dumps(result.value)[:400])
    if result.error is not None:
        told.append(f"{result.error.type}: {result.error.message}"[-400:])
    if result.status == "error":
        told.append(result.stderr.text[-400:])
    return " ".join(told)


@contextlib.asynccontextmanager
async def assembled(directory: Path) -> AsyncIterator[Battery]:
    """A battery on this host."""
    async with contextlib.AsyncExitStack() as stack:
        side = stack.enter_context(host.far_side(directory))
        engines = {}
        for name in ("none", "hostile", "beneath"):
            policy = Policy(
                mounts=host.mounts(name, side), limits=Limits(stored_output_bytes="4MiB", memory_bytes="1GiB")
            )
            environ = {"GLOVEPORT_STATE": str(directory / f"audit/{name}")}
            engines[name] = await stack.enter_async_context(app.assemble(Config(policy=policy), environ))
        cgroups = engines["none"].sandbox.tree is not None
        yield Battery(engines=engines, side=side, directory=directory, cgroups=cgroups)


async def main(report: int, names: list[str]) -> None:
    """Run the programs whose names contain one of ``names``, or all; write one JSON document a line."""
    host.adopt_orphans()
    paths = [path for path in sorted(header.CASES.iterdir()) if not names or any(name in path.name for name in names)]
    cases = sorted((header.read(path) for path in paths), key=lambda case: ("timeout" in case.expect, case.name))
    with tempfile.TemporaryDirectory(prefix="gloveport-escape-") as temporary, os.fdopen(report, "w") as file:
        directory = Path(temporary)
        directory.chmod(0o755)
        tempfile.tempdir = temporary  # where engines put large output: a name left there is a trace
        async with assembled(directory) as battery:
            async for verdict in battery.run(cases):
                print(json.dumps(asdict(verdict)), file=file, flush=True)


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]), sys.argv[2:])
