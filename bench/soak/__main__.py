"""``python -m bench.soak [RUNS | --sessions N]``: very many runs, several at once, with crashes, kills and timeouts.

With ``--sessions``: so many sessions of ten calls instead of runs. Some are cancelled. Each result must be right. What
the server holds of the host is counted after a warm-up of a tenth as many, and again in the end: nothing may have
become more but memory, and that by a tenth at most. Exits with 1 when it is not so.
"""

import argparse
import dataclasses
import gc
import importlib.util
import itertools
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import anyio
from rich.console import Console
from rich.table import Table

from bench.processes import rss_bytes, settled
from bench.programs import every_kind
from bench.soak.mix import KINDS, PANDAS, Run, runs
from bench.soak.sessions import Visit, visits
from bench.soak.traces import MEMORY, count
from bench.subjects import WARM, execution, fill_pool
from gloveport.bootstrap.app import assemble
from gloveport.engine.execution import Engine

_RUNS = 20_000
_SEED = 20_000
_CALLERS = 8
_GROWTH = 1.1
_PROGRESS_SECONDS = 5
_COUNTS = 5
_RUNS_BETWEEN_COUNTS = 50
_SHOWN = 10

Plan: TypeAlias = Iterator[Run | Visit]


@dataclass(kw_only=True)
class Soak:
    """A soak as it goes on.

    Attributes:
        done: Runs by kind.
        wrong: Wrong ones by kind.
        faults: What came of the first that were wrong.
        before, after: What the server held after the warm-up and in the end.
    """

    total: int
    done: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    before: Mapping[str, float] = field(default_factory=dict)
    after: Mapping[str, float] = field(default_factory=dict)

    async def go_on(self, scratch: Path, plan: Plan) -> None:
        """From the warm-up to the second count."""
        async with assemble(WARM, {"GLOVEPORT_STATE": str(scratch / "state")}) as assembled:
            engine = dataclasses.replace(assembled, spool=scratch)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell)
                await fill_pool(execution(engine, program) for program in every_kind())
                await self._run(engine, itertools.islice(plan, self.warm_up))
                self.before = await self._least_at_rest(engine, plan, scratch)
                await self._run(engine, itertools.islice(plan, self.total))
                self.after = await self._least_at_rest(engine, plan, scratch)
                tasks.cancel_scope.cancel()

    @property
    def warm_up(self) -> int:
        """Runs before the first count."""
        return self.total // 10

    def grown(self) -> list[str]:
        """What has become more than it may."""
        return [
            name
            for name, held in self.before.items()
            if self.after and self.after[name] > held * (_GROWTH if name in MEMORY else 1)
        ]

    async def _least_at_rest(self, engine: Engine, plan: Plan, scratch: Path) -> Mapping[str, float]:
        """The least of some counts with some runs in between. A fork server that has just been replaced, say, is there
        until the last sandbox that it forked has been used; a leak is there each time.
        """
        counts = []
        for number in range(_COUNTS):
            if number:
                await self._run(engine, itertools.islice(plan, _RUNS_BETWEEN_COUNTS))
            engine.archive.close()  # outputs kept for reading on are bounded, and ours by right
            gc.collect()
            await settled()
            counts.append(count(scratch))
        return {name: min(held[name] for held in counts) for name in counts[0]}

    async def _run(self, engine: Engine, plan: Plan) -> None:
        async def caller() -> None:
            for run in plan:
                fault = await run.find_fault(engine)
                self.done[run.name] += 1
                if fault:
                    self.wrong[run.name] += 1
                    self.faults.append(f"{run.name}: {fault}")
                    del self.faults[_SHOWN:]

        async with anyio.create_task_group() as tasks:
            for _ in range(_CALLERS):
                tasks.start_soon(caller)

    async def _tell(self) -> None:
        started = time.monotonic()
        planned = self.warm_up + self.total + 2 * (_COUNTS - 1) * _RUNS_BETWEEN_COUNTS
        while True:
            await anyio.sleep(_PROGRESS_SECONDS)
            done = self.done.total()
            print(
                f"{done:>8,} of {planned:,} runs, {done / (time.monotonic() - started):.0f}/s, "
                f"wrong: {self.wrong.total()}, server: {rss_bytes(os.getpid()) / 2**20:.1f} MiB",
                file=sys.stderr,
            )

    def tables(self) -> list[Table]:
        """Runs by kind, and what the server held."""
        results = Table("program", "runs", "wrong")
        for name, number in sorted(self.done.items()):
            results.add_row(name, f"{number:,}", f"{self.wrong[name]:,}")
        results.add_section()
        results.add_row("all", f"{self.done.total():,}", f"{self.wrong.total():,}")
        if not self.after:
            return [results]
        held = Table("held by the server at rest", "after warm-up", "in the end", "grown")
        for name, before in self.before.items():
            held.add_row(name, f"{before:.4g}", f"{self.after[name]:.4g}", "YES" if name in self.grown() else "no")
        return [results, held]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="bench.soak", description=__doc__.partition("\n")[0])
    parser.add_argument("runs", nargs="?", type=int, default=_RUNS, help="runs after the warm-up (%(default)s)")
    parser.add_argument("--sessions", type=int, metavar="N", help="so many sessions of ten calls instead of runs")
    parser.add_argument("--seed", type=int, default=_SEED, help="another one is another mix (%(default)s)")
    asked = parser.parse_args()
    kinds = (*KINDS, PANDAS) if importlib.util.find_spec("pandas") else KINDS
    plan: Plan = visits(asked.seed) if asked.sessions else runs(kinds, asked.seed)
    soak = Soak(total=asked.sessions or asked.runs)
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    started = time.monotonic()
    interrupted = False
    with tempfile.TemporaryDirectory(prefix="gloveport-soak-") as directory:
        tempfile.tempdir = directory  # what the server would leave in /tmp is left here
        try:
            anyio.run(soak.go_on, Path(directory), plan)
        except KeyboardInterrupt:
            interrupted = True
    for table in soak.tables():
        console.print(table)
    for fault in soak.faults:
        print(fault)
    console.print(f"{time.monotonic() - started:.0f} s, {'interrupted' if interrupted else 'to the end'}")
    if interrupted:
        return 130
    return 1 if soak.wrong or soak.grown() else 0


if __name__ == "__main__":
    sys.exit(main())
