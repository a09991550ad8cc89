"""One siege, as whoever starts it: ``python -m bench.siege.siege DESCRIPTOR OPTIONS``; ``__main__`` starts it.

Each case has a calm phase, an attack, and a time after it, in which everything must come back to what it was. What an
attack costs others is compared with what the same number of runs costs that only spin: a share of the processors.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import anyio
from mcp import Client

from bench.programs import every_kind
from bench.siege import leftovers
from bench.siege.callers import Honest, Server, attack, serving
from bench.siege.case import Case, find_cases, spinning
from bench.siege.samples import Samples, Window, probing
from bench.siege.verdict import SLOWED, Verdict, fair, ratios, slowed
from bench.soak.traces import count_objects
from bench.subjects import call, fill_pool
from gloveport import event_loop

_CALM_SECONDS: Final = 10.0
_BREATH_SECONDS: Final = 2.0
_LOOK_SECONDS: Final = 2.0
_AFTER_SECONDS: Final = 6.0
_PATIENCE_SECONDS: Final = 60.0
_REST_SECONDS: Final = 1.0
_DISKS: Final = "/var/tmp"


@dataclass(kw_only=True)
class Siege:
    """A server with both of its callers, and all that is looked at.

    Attributes:
        known: Our own children.
        calm: What was sampled before the first case.
    """

    options: argparse.Namespace
    server: Server
    honest: Honest
    hostile: Client
    samples: Samples
    known: frozenset[int]
    calm: Mapping[str, Window] = field(default_factory=dict)

    async def settle(self) -> None:
        """Sample what everything takes while nothing else goes on. Before that caches and the pool are filled."""
        await fill_pool(call(self.hostile, program) for program in every_kind())
        await anyio.sleep(_CALM_SECONDS / 2)
        began = time.monotonic()
        await anyio.sleep(_CALM_SECONDS)
        self.calm = self.samples.window(began, time.monotonic())

    async def try_case(self, case: Case) -> Verdict:
        """A case. Where something of the host's was slow or more, and nothing of ours was wrong, it is tried once more,
        and that counts: others use the machine too.
        """
        if case.needs_cgroups and not count_objects(self.server.pid)["cgroups"]:
            return Verdict(case=case.name, takes=case.takes, said="not tried: there are no cgroups here")
        verdict = await self._go_through(case)
        if verdict.faults and all(fault.startswith((SLOWED, leftovers.ON_THE_HOST)) for fault in verdict.faults):
            print(f"siege: {case.name}: once more, for {'; '.join(verdict.faults)}", file=sys.stderr)
            verdict = await self._go_through(case)
        return verdict

    async def _go_through(self, case: Case) -> Verdict:
        """All phases of a case: calm, a reference, the attack, and the time after it."""
        verdict = Verdict(case=case.name, takes=case.takes)
        before, caches = await self._count_at_rest(), leftovers.caches()
        began = time.monotonic()
        await anyio.sleep(_BREATH_SECONDS)
        calm = self.samples.window(began, time.monotonic())
        spun = await self._attack(spinning(case), Verdict(case="", takes=""))
        reference = fair(self.calm, calm, spun)
        seen = await self._attack(case, verdict)
        verdict.ratios = ratios(seen, reference)
        verdict.faults += slowed(seen, reference)
        await self._wait_for_calm(verdict, reference, before, caches)
        verdict.faults += self.samples.faults_between(began, time.monotonic())
        return verdict

    async def _attack(self, case: Case, verdict: Verdict) -> Mapping[str, Window]:
        """The attack: what was sampled while it lasted."""
        options, seconds = self.options, case.seconds or self.options.seconds
        settings = {"scale": options.scale, "seconds": seconds, "seed": options.seed}
        began = time.monotonic()
        said = await attack(self.hostile, self.server, case, settings)
        seen = self.samples.window(began + _REST_SECONDS, time.monotonic())  # they begin one after the other
        verdict.said = f"{len(said)} runs, {said[-1]}" if said else "nothing ran"
        verdict.faults += [text for text in said if text.startswith("FAULT")]
        return seen

    async def _wait_for_calm(
        self,
        verdict: Verdict,
        reference: Mapping[str, Window],
        before: Mapping[str, float],
        caches: Mapping[str, int],
    ) -> None:
        """Wait until nothing is slower and nothing more than it was; what still is after a minute is a fault."""
        began = time.monotonic()
        while True:
            looked = time.monotonic()
            await anyio.sleep(_LOOK_SECONDS)
            slow = slowed(self.samples.window(looked, time.monotonic()), reference)
            left = leftovers.grown(before, await self._count_at_rest())
            verdict.after_seconds = time.monotonic() - began
            if not slow and not left and verdict.after_seconds >= _AFTER_SECONDS:
                return
            if verdict.after_seconds > _PATIENCE_SECONDS:
                verdict.faults += [f"still slow: {text}" for text in slow]
                verdict.faults += [f"{text} ({leftovers.grown_caches(caches)})" for text in left]
                return

    async def _count_at_rest(self) -> Mapping[str, float]:
        async with self.honest.silenced():
            await anyio.sleep(_REST_SECONDS)
            return leftovers.count(self.server.pid, self.known, self.server.uids)


@contextlib.asynccontextmanager
async def besieging(options: argparse.Namespace, scratch: Path) -> AsyncIterator[Siege]:
    """A siege that has been begun; the honest caller goes on until it is over."""
    samples = Samples()
    with probing(samples, scratch) as probes:
        async with (
            serving(scratch) as server,
            Client(server.url, mode="legacy") as client,
            Client(server.url, mode="legacy") as hostile,
            anyio.create_task_group() as tasks,
        ):
            honest = Honest(samples=samples, client=client)
            tasks.start_soon(honest.go_on)
            siege = Siege(
                options=options,
                server=server,
                honest=honest,
                hostile=hostile,
                samples=samples,
                known=frozenset({probes}),
            )
            await siege.settle()
            yield siege
            tasks.cancel_scope.cancel()


async def run(options: argparse.Namespace, cases: Sequence[Case]) -> None:
    """Try the cases one after the other, and what the server leaves in the end. Each verdict is written as a line."""
    leftovers.adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="gloveport-siege-", dir=_DISKS) as directory:
        async with besieging(options, Path(directory)) as siege:
            print(f"siege: calm: {_texts(siege.calm)}", file=sys.stderr)
            known = siege.known
            for case in cases:
                _tell(options.descriptor, await siege.try_case(case))
        verdict = Verdict(case="(the server's end)", takes="what is left when it has stopped")
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (left := [*leftovers.orphans(known)]) and time.monotonic() < deadline:
            time.sleep(_REST_SECONDS)  # noqa: ASYNC251 - nothing else goes on any more
        verdict.faults += [f"process {pid} is left" for pid in left]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        _tell(options.descriptor, verdict)


def _tell(descriptor: int, verdict: Verdict) -> None:
    os.write(descriptor, json.dumps(dataclasses.asdict(verdict)).encode() + b"\n")


def _texts(windows: Mapping[str, Window]) -> str:
    return ", ".join(f"{name} {window.median:.1f} ({window.high:.1f})" for name, window in sorted(windows.items()))


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(prog="bench.siege.siege")
    parser.add_argument("descriptor", type=int)
    parser.add_argument("case", nargs="*")
    parser.add_argument("--scale", type=float, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    options = parser.parse_args()
    # The caller must not fail where a user has no epoll watch left: it is the server that is tried.
    event_loop.run(run, options, find_cases(options.case))


if __name__ == "__main__":
    main()
