"""What a measurement is: samples of two contenders taken in turn, their medians, and whether a goal is reached.

A single time says nothing on a machine that others use too, nor does a time of another day. So each figure is a ratio
to a baseline, or what comes on top of it, whose samples were taken between its own.
"""

import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from bench.processes import settled

_SAMPLES = 30
_SECONDS = 3.0
_WARM_UP = 3

Action: TypeAlias = Callable[[], Awaitable[None]]
"""Does once what is measured. Raises ``WrongAnswer`` when what came of it is not what must come of it."""

Sample: TypeAlias = Callable[[], Awaitable[float]]
"""Measures once: milliseconds per run."""

Contender: TypeAlias = Callable[[Path], AbstractAsyncContextManager[Sample]]
"""Sets up what is measured, with a directory to keep things in. Raises ``Unavailable`` where it can't be had."""


class Unavailable(Exception):  # noqa: N818 - nothing went wrong
    """A case can't be measured here. ``args``: why not, and what to do to have it measured."""


class WrongAnswer(Exception):  # noqa: N818 - as above
    """What was measured did not do its work, so its time counts for nothing."""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A line of the table.

    Attributes:
        median_ms, p95_ms: Of our samples, milliseconds per run.
        added_ms: Our median less the baseline's.
        ratio: With ``ratio_of`` "time", our median over the baseline's: less is better. With "runs/s", our runs per
            second over the baseline's: more is better.
        goal: "<= 0.20" or ">= 1.2", about the ratio; "<= +1.5 ms", about ``added_ms``; None where there is none.
        holds: Whether the goal is reached, in every run; None where there is none, or it can't be judged.
        runs: Of how many this is the worst.
        tried: How many were made, with those that don't count since others worked beside them.
        others: The share of the processors that others took, where too few runs count to judge.
    """

    name: str
    baseline: str
    samples: int
    median_ms: float
    p95_ms: float
    baseline_median_ms: float
    added_ms: float
    ratio: float
    ratio_of: Literal["time", "runs/s"]
    goal: str | None
    holds: bool | None
    runs: int = 1
    tried: int = 1
    others: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Footprint:
    """A line of the table of memory. Goal and holds as in ``Figure``, about the MiB."""

    name: str
    mib: float
    goal: str | None
    holds: bool | None
    runs: int = 1


class Case(Protocol):
    """Something that can be measured."""

    @property
    def name(self) -> str:
        """What the command line calls it."""

    async def measure(self, scratch: Path) -> Figure | Footprint:
        """Measure it.

        Args:
            scratch: An empty directory, removed afterwards.

        Raises:
            Unavailable: Something that it needs is not installed.
            WrongAnswer: Something that it measured does not work.
        """


@dataclass(frozen=True, kw_only=True)
class Duel:
    """A case with a baseline.

    Attributes:
        baseline: What the table calls ``opponent``.
        samples: At least so many of each.
    """

    name: str
    subject: Contender
    baseline: str
    opponent: Contender
    goal: str | None = None
    ratio_of: Literal["time", "runs/s"] = "time"
    samples: int = _SAMPLES

    async def measure(self, scratch: Path) -> Figure:
        """See ``Case``."""
        async with self.opponent(scratch) as opponent, self.subject(scratch) as subject:
            ours, theirs = await _in_turn(subject, opponent, self.samples)
        median, baseline = statistics.median(ours), statistics.median(theirs)
        added = median - baseline
        ratio = median / baseline if self.ratio_of == "time" else baseline / median
        return Figure(
            name=self.name,
            baseline=self.baseline,
            samples=len(ours),
            median_ms=round(median, 2),
            p95_ms=round(statistics.quantiles(ours, n=20)[-1], 2),
            baseline_median_ms=round(baseline, 2),
            added_ms=round(added, 2),
            ratio=round(ratio, 3),
            ratio_of=self.ratio_of,
            goal=self.goal,
            holds=reached(self.goal, added if is_added(self.goal) else ratio),
        )


def is_added(goal: str | None) -> bool:
    """Tell whether a goal is about what comes on top of the baseline."""
    return goal is not None and goal.endswith(" ms")


def reached(goal: str | None, value: float) -> bool | None:
    """Tell whether ``value`` is as a goal such as "<= 0.20", ">= 1.2" or "<= +1.5 ms" wants it."""
    if goal is None:
        return None
    sign, bound, *_ = goal.split()
    return value <= float(bound) if sign == "<=" else value >= float(bound)


def timed(action: Action) -> Sample:
    """One run, once nothing is left to do of the run before: what one caller of an idle server waits for."""

    async def sample() -> float:
        await settled()
        started = time.perf_counter()
        await action()
        return (time.perf_counter() - started) * 1000

    return sample


async def _in_turn(subject: Sample, opponent: Sample, samples: int) -> tuple[list[float], list[float]]:
    """At least so many samples of each, and for at least so long. The first are not counted: they fill caches."""
    ours: list[float] = []
    theirs: list[float] = []
    started = time.perf_counter()
    while len(ours) < _WARM_UP + samples or time.perf_counter() < started + _SECONDS:
        ours.append(await subject())
        theirs.append(await opponent())
    return ours[_WARM_UP:], theirs[_WARM_UP:]
