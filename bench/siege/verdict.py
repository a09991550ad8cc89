"""When something is slowed: what was sampled against a fair reference, by medians and by the slowest tenth."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from bench.siege.samples import Window

_MOST: Final = 3.0
_HIGH: Final = 10

SLOWED: Final = "slowed:"
"""How a fault begins which says that something was slow during an attack."""

FLOORS: Final[Mapping[str, float]] = {
    "python": 20,
    "shell": 20,
    "command": 30,
    "fork": 5,
    "netns": 30,
    "mounts": 30,
    "fsync": 30,
    "read": 0.5,
    "disk": 20,
    "objects": 5,
}
"""Milliseconds: a median that is worse by less is no harm, nor is a slowest tenth that is worse by less than ten
times that. On a machine that others use too, such differences come and go."""


@dataclass(kw_only=True)
class Verdict:
    """A line of the table.

    Attributes:
        said: How the hostile runs ended, and what the last of them said.
        ratios: By name of a sample, its median during the attack over that of the reference.
        faults: Why the case has failed; empty when it has not.
        after_seconds: How long after the attack all was as before.
    """

    case: str
    takes: str
    said: str = ""
    ratios: dict[str, float] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)
    after_seconds: float = 0.0


def fair(*references: Mapping[str, Window]) -> dict[str, Window]:
    """The slowest of several references, sample by sample."""
    names = {name for reference in references for name in reference}
    found = {name: [reference[name] for reference in references if name in reference] for name in names}
    return {
        name: Window(max(window.median for window in windows), max(window.high for window in windows))
        for name, windows in found.items()
    }


def slowed(seen: Mapping[str, Window], reference: Mapping[str, Window]) -> list[str]:
    """What is slower than fair, in words."""
    found = []
    for name, floor in FLOORS.items():
        if name not in seen or name not in reference:
            continue
        window, expected = seen[name], reference[name]
        if _is_worse(window.median, expected.median, floor) or _is_worse(window.high, expected.high, _HIGH * floor):
            found.append(
                f"{SLOWED} {name} {window.median:.1f} (slowest tenth {window.high:.1f}) instead of"
                f" {expected.median:.1f} ({expected.high:.1f}) ms"
            )
    return found


def ratios(seen: Mapping[str, Window], reference: Mapping[str, Window]) -> dict[str, float]:
    """How much slower each median is."""
    return {name: seen[name].median / reference[name].median for name in FLOORS if name in seen and name in reference}


def _is_worse(took: float, expected: float, floor: float) -> bool:
    return took > _MOST * expected and took - expected > floor
