"""Judges a case by the worst of several runs on an idle machine.

A goal that is reached on a good run only is not reached; one that is missed while others work may be. So a run beside
which others worked does not count, and is made again. The others are processes of this machine, which show before and
after a run, and other machines of a virtual one's host, which show as time that they stole in it.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final, NamedTuple

import anyio

from bench.measure import Case, Figure, Footprint, is_added

_QUIET: Final = 0.05
"""Part of the processors that a machine takes that has nothing to do."""

_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 20.0
_MOST_TRIES: Final = 2
"""For each run that is to count."""


async def measure_worst(
    case: Case, runs: int, scratch: Callable[[], AbstractContextManager[Path]]
) -> Figure | Footprint:
    """Measure until so many runs count, each with a setting of its own; the worst, and whether the goal held in all.

    Where too few figures of time count after twice as many runs, none is judged. ``scratch`` makes an empty directory,
    once a run.

    Raises:
        Unavailable: See ``Case``.
        WrongAnswer: See ``Case``.
    """
    quiet: list[Figure | Footprint] = []
    disturbed: list[tuple[Figure, float]] = []
    while len(quiet) < runs and len(quiet) + len(disturbed) < runs * _MOST_TRIES:
        before, stolen = await _wait_quiet(), _StolenShare()
        with scratch() as directory:
            line = await case.measure(directory)
        others = max(before, stolen.read(), await _busy_share())
        if isinstance(line, Figure) and line.goal is not None and others > _QUIET:
            disturbed.append((line, others))
        else:
            quiet.append(line)
    worst = max([*quiet, *(line for line, _ in disturbed)] if len(quiet) < runs else quiet, key=_distance)
    if isinstance(worst, Footprint):
        return dataclasses.replace(worst, runs=runs, holds=_hold(quiet))
    tried = len(quiet) + len(disturbed)
    if len(quiet) < runs:
        others = max(others for _, others in disturbed)
        return dataclasses.replace(worst, runs=tried, tried=tried, holds=None, others=round(others, 2))
    return dataclasses.replace(worst, runs=runs, tried=tried, holds=_hold(quiet))


def _hold(lines: Sequence[Figure | Footprint]) -> bool | None:
    return None if lines[0].goal is None else all(line.holds for line in lines)


def _distance(line: Figure | Footprint) -> float:
    """How bad it is, in the measure of its goal."""
    value = line.mib if isinstance(line, Footprint) else line.added_ms if is_added(line.goal) else line.ratio
    return -value if line.goal is not None and line.goal.startswith(">=") else value


async def _wait_quiet() -> float:
    """The share of the processors that others take, once it is small or will not become so."""
    end = time.monotonic() + _PATIENCE_SECONDS
    while (busy := await _busy_share()) > _QUIET and time.monotonic() < end:
        pass
    return busy


async def _busy_share() -> float:
    """The share of the processors that was taken for half a second, in which nothing of ours runs."""
    before = _Ticks.read()
    await anyio.sleep(_LOOK_SECONDS)
    after = _Ticks.read()
    return 1 - (after.idle - before.idle) / max(after.total - before.total, 1)


class _StolenShare:
    """The share of the processors that the host of this machine has given to others since it was made."""

    def __init__(self) -> None:
        self._before = _Ticks.read()

    def read(self) -> float:
        now, before = _Ticks.read(), self._before
        return (now.stolen - before.stolen) / max(now.total - before.total, 1)


class _Ticks(NamedTuple):
    """Of all processors since boot."""

    total: int
    idle: int
    stolen: int

    @classmethod
    def read(cls) -> "_Ticks":
        ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
        return cls(sum(ticks), ticks[3] + ticks[4], ticks[7])
