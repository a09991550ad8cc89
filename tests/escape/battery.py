"""Runs the hostile programs against engines on this host, as whoever it is started as. A process of its own:

    python -m tests.escape.battery REPORT-DESCRIPTOR [--cold] [--share=NUMBER/ALL] [NAME…]

It has a secret in its environment, and nothing may come out on its standard output but what it writes itself: nothing.
"""

import contextlib
import json
import logging
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import anyio
from tests.escape import header, host
from tests.escape.warm import Warm
from tests.ordinary import reveal

from gloveport import event_loop
from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.engine.execution import Engine
from gloveport.errors import SandboxError
from gloveport.model import Limits, Policy, Result
from gloveport.policy.decisions.grant import grant_for
from gloveport.sandbox.plan import make_plan

AT_ONCE = 16
_HANG_SECONDS = 90
_PLAIN = header.parse("plain.py", "# expect: value 45\n# proves: E9\n# tries: nothing\nsum(range(10))")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """One line of the table."""

    case: str
    identity: str
    temperature: str
    tries: str
    proves: str
    expected: str
    outcome: str
    held: bool


@dataclass(kw_only=True)
class Trial:
    """One program at one temperature, and what came of it."""

    case: header.Case
    temperature: str
    results: list[Result | None] = field(default_factory=list)
    outcome: str = ""
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Battery:
    """An engine, the host's side, and the sandboxes that wait.

    Attributes:
        engine: Builds each sandbox for its program, and mounts nothing.
        warm: The backend that never does.
        places: As many as the engine has. Programs wait here without a limit: in its own queue a slow host would have
            them refused after a time.
        share: Which of how many shares of all trials is run; in each, a program is run once at most.
    """

    engine: Engine
    warm: Warm
    side: host.FarSide
    directory: Path
    cgroups: bool
    temperatures: Sequence[str]
    places: anyio.CapacityLimiter
    share: tuple[int, int] = (0, 1)

    async def run(self, cases: Sequence[header.Case]) -> AsyncIterator[Verdict]:
        """Run all, a few at a time, and look after each few what is left on the host."""
        for temperature in self.temperatures:  # what the first run leaves in memory is no leak
            await self.follow_up(temperature)
        step = AT_ONCE // len(self.temperatures) * self.share[1]
        for start in range(0, len(cases), step):
            trials = [
                Trial(case=case, temperature=temperature)
                for place, case in enumerate(cases[start : start + step], start)
                for temperature in self._temperatures_of(case, place)
            ]
            if "warm" in self.temperatures:
                await self.prepare(trials)
            await self.warm.settled()
            before = self.traces()
            async with anyio.create_task_group() as tasks:
                for trial in trials:
                    tasks.start_soon(self.judge, trial)
            after = self.side.reached()
            for temperature in self.temperatures:
                after += await self.follow_up(temperature)
            await self.warm.settled()
            now = self.traces()
            after += [f"{name}: {before[name]} became {now[name]}" for name in before if before[name] != now[name]]
            for trial in trials:
                trial.faults += [f"in this batch: {fault}" for fault in after]
                if not self.alike(trial, trials):
                    trial.faults.append("not the same cold and warm")
                yield self.verdict(trial)

    def _temperatures_of(self, case: header.Case, place: int) -> Sequence[str]:
        """Those of our share; all of them where one is, and its values are to be compared."""
        number, count = self.share
        ours = [one for turn, one in enumerate(self.temperatures) if (place + turn) % count == number]
        return self.temperatures if ours and self._is_compared(case) else ours

    def _is_compared(self, case: header.Case) -> bool:
        return any(expected.kind == "alike" for expected in case.expectations(cgroups=self.cgroups))

    async def prepare(self, trials: Sequence[Trial]) -> None:
        """Have sandboxes wait for all that will be run warm."""
        for case in [_PLAIN, *(trial.case for trial in trials if trial.temperature == "warm")]:
            policy = self.policy(case.mounts)
            grant = grant_for(policy, self.engine.reach.egress, case.request(case.source, cgroups=self.cgroups))
            program = self.engine.runtimes[case.language].prepare(case.source, grant)
            with contextlib.suppress(SandboxError):  # no sandbox can be planned: the engine is to refuse it
                plan = make_plan(program, grant, self.engine.system, self.engine.reach.network)
                await self.warm.prepare(plan, policy)

    async def judge(self, trial: Trial) -> None:
        """Run one program as often as it asks for and find fault with what comes of it."""
        case, words = trial.case, self.side.words
        source = re.sub(f"@({'|'.join(words)})@", lambda found: words[found[1]], case.source)
        witness = host.Witness(self.warm if trial.temperature == "warm" else self.engine.sandbox)
        engine = replace(self.engine, policy=self.policy(case.mounts), sandbox=witness)
        for _ in range(case.runs):
            result: Result | None = None
            trial.outcome = "hangs"
            async with self.places:
                with anyio.move_on_after(_HANG_SECONDS):
                    try:
                        result = await engine.execute(case.request(source, cgroups=self.cgroups), caller="escape")
                        trial.outcome = _told(result)
                    except SandboxError as error:
                        trial.outcome = f"refused: {error.args[0]}"
                    except Exception as error:  # noqa: BLE001 - an engine that raises is what is looked for
                        trial.outcome = f"the engine raised {error!r}"
                        trial.faults.append("no result")
            text = "" if result is None else result.model_dump_json(exclude={"grant"})
            expectations = case.expectations(cgroups=self.cgroups)
            met = any(expected.met_by(result, trial.results) for expected in expectations)
            trial.results.append(result)
            if not met or trial.outcome == "hangs":
                trial.faults.append("not as expected")
            if "ESCAPED" in text:
                trial.faults.append("it got through")
            if os.environ[host.CANARY] in text:
                trial.faults.append("it knows the secret")
        if trial.temperature == "warm":
            await self.warm.wait_cleared()
        trial.faults += witness.found()

    def verdict(self, trial: Trial) -> Verdict:
        """What is to be said of a trial."""
        return Verdict(
            case=trial.case.name,
            identity="root" if os.geteuid() == 0 else "user",
            temperature=trial.temperature,
            tries=trial.case.tries,
            proves=", ".join(trial.case.proves),
            expected=trial.case.expectation(cgroups=self.cgroups),
            outcome="; ".join([trial.outcome, *trial.faults]),
            held=not trial.faults,
        )

    async def follow_up(self, temperature: str) -> list[str]:
        """A plain program must run as if nothing had happened."""
        if temperature == "warm":
            await self.prepare([])
        engine = replace(self.engine, sandbox=self.warm if temperature == "warm" else self.engine.sandbox)
        result = await engine.execute(_PLAIN.request(_PLAIN.source, cgroups=self.cgroups), caller="escape")
        return [] if (result.status, result.value) == ("ok", 45) else [f"the next run, {temperature}: {_told(result)}"]

    def alike(self, trial: Trial, trials: Sequence[Trial]) -> bool:
        """Whether a program's values are the same at every temperature, if it asks for that."""
        others = [other for other in trials if other.case == trial.case]
        return not self._is_compared(trial.case) or all(_values(other) == _values(trial) for other in others)

    def policy(self, mounts: str) -> Policy:
        """The operator's policy with these mounts."""
        return self.engine.policy.model_copy(update={"mounts": host.mounts(mounts, self.side)})

    def traces(self) -> dict[str, object]:
        """See ``host.traces``; kept output is forgotten first, its files are ours by right."""
        self.engine.archive.close()
        tree = self.engine.sandbox.cold.tree
        return host.traces(self.directory, [] if tree is None else [*tree.directories.values()])


def _share_of(words: Collection[str]) -> tuple[int, int]:
    for word in words:
        if word.startswith("--share="):
            number, _, count = word.removeprefix("--share=").partition("/")
            return int(number), int(count)
    return 0, 1


def _values(trial: Trial) -> list[object]:
    """The values of a trial's runs."""
    return [None if result is None else result.value for result in trial.results]


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
async def assembled(directory: Path, words: Collection[str]) -> AsyncIterator[Battery]:
    """A battery on this host, of which nothing may be left in the end."""
    async with contextlib.AsyncExitStack() as stack:
        side = stack.enter_context(host.far_side(directory))
        policy = Policy(limits=Limits(stored_output_bytes=4 << 20, memory_bytes=1 << 30))
        config = Config(policy=policy, pool=PoolSettings(forked=0, booted=0))
        engine = await stack.enter_async_context(app.assemble(config, {"GLOVEPORT_STATE": str(directory / "audit")}))
        warm = Warm(engine=engine)
        battery = Battery(
            engine=engine,
            warm=warm,
            side=side,
            directory=directory,
            cgroups=engine.sandbox.cold.tree is not None,
            temperatures=("cold",) if "--cold" in words else ("cold", "warm"),
            places=anyio.CapacityLimiter(config.admission.concurrent_runs),
            share=_share_of(words),
        )
        await battery.follow_up("cold")
        before = battery.traces()
        async with contextlib.aclosing(warm):
            yield battery
        if (now := battery.traces()) != before:
            raise RuntimeError(f"when nothing waits any more: {before} became {now}")


async def main(report: int, words: list[str]) -> None:
    """Run the programs whose names contain one of ``words``, or all; write one JSON document a line."""
    names = [word for word in words if not word.startswith("--")]
    logging.getLogger("gloveport").addHandler(logging.NullHandler())  # what a server logs is no output of a program
    host.adopt_orphans()
    if os.geteuid() == 0:
        reveal([])  # a mount namespace of our own: what other tests mount on this host is no trace of a program
    paths = [path for path in sorted(header.CASES.iterdir()) if not names or any(name in path.name for name in names)]
    cases = sorted((header.read(path) for path in paths), key=lambda case: ("timeout" in case.expect, case.name))
    with tempfile.TemporaryDirectory(prefix="gloveport-escape-") as temporary, os.fdopen(report, "w") as file:
        directory = Path(temporary)
        directory.chmod(0o755)
        tempfile.tempdir = temporary  # where engines put large output: a name left there is a trace
        async with assembled(directory, words) as battery:
            async for verdict in battery.run(cases):
                print(json.dumps(asdict(verdict)), file=file, flush=True)


if __name__ == "__main__":
    event_loop.run(main, int(sys.argv[1]), sys.argv[2:])  # as a server does: programs of this user may leave no watch
