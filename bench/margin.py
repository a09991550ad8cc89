"""Judges a case by the worst of several runs, and not at all where others use the processors meanwhile.

A goal that is reached on a good run only is not reached; one that is missed while others work may be.
"""

import dataclasses
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import anyio

from bench.measure import Case, Figure, Footprint, is_added

_QUIET: Final = 0.05
"""Part of the processors that a machine takes that has nothing to do."""

_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 20.0


async def measure_worst(
    case: Case, runs: int, scratch: Callable[[], AbstractContextManager[Path]]
) -> Figure | Footprint:
    """Measure so many times, each with a setting of its own; the worst, and whether the goal held in all.

    Where others used the processors before or after a run, no figure of time is judged. ``scratch`` makes an empty
    directory, once a run.

    Raises:
        Unavailable: See ``Case``.
        WrongAnswer: See ``Case``.
    """
    lines: list[Figure | Footprint] = []
    busy = 0.0
    for _ in range(runs):
        busy = max(busy, await _wait_quiet())
        with scratch() as directory:
            lines.append(await case.measure(directory))
        busy = max(busy, await _busy_share())
    worst = max(lines, key=_distance)
    holds = None if worst.goal is None else all(line.holds for line in lines)
    if isinstance(worst, Figure) and worst.goal is not None and busy > _QUIET:
        return dataclasses.replace(worst, runs=runs, holds=None, others=round(busy, 2))
    return dataclasses.replace(worst, runs=runs, holds=holds)


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
    before = _processor_ticks()
    await anyio.sleep(_LOOK_SECONDS)
    after = _processor_ticks()
    total, idle = (later - earlier for later, earlier in zip(after, before, strict=True))
    return 1 - idle / max(total, 1)


def _processor_ticks() -> tuple[int, int]:
    """Of all processors since boot: all, and those in which none had anything to do."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]]
    return sum(ticks), ticks[3] + ticks[4]
