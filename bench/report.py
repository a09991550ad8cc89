"""Figures for people (a table), for documents (Markdown) and for programs (JSON)."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from deno import find_deno_bin
from rich.table import Table

from bench.baselines import interpreter
from bench.measure import Figure, Footprint, is_added
from gloveport.sandbox.detection import host

_FIGURES = (
    "case",
    "baseline",
    "samples",
    "runs",
    "median ms",
    "p95 ms",
    "baseline ms",
    "added ms",
    "ratio",
    "of",
    "goal",
    "holds",
)
_FOOTPRINTS = ("case", "runs", "MiB", "goal", "holds")


@dataclass(kw_only=True)
class Report:
    """What came of one run of the bench.

    Attributes:
        skipped: Case → why it could not be measured here.
        broken: Case → what did not work.
    """

    lines: list[Figure | Footprint] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    @property
    def figures(self) -> list[Figure]:
        """The lines with a baseline."""
        return [line for line in self.lines if isinstance(line, Figure)]

    @property
    def footprints(self) -> list[Footprint]:
        """The lines of memory."""
        return [line for line in self.lines if isinstance(line, Footprint)]

    def faults(self) -> list[str]:
        """A line for each case that does not work, or whose goal is not reached or can't be judged."""
        missed = [
            f"{line.name}: {_measured(line)}, the goal is {line.goal}" for line in self.lines if line.holds is False
        ]
        busy = [
            f"{line.name}: not judged, for others took up to {line.others:.0%} of the processors in {line.tried} runs"
            for line in self.figures
            if line.goal is not None and line.holds is None
        ]
        return [*missed, *busy, *(f"{name}: {fault}" for name, fault in self.broken.items())]

    def as_json(self) -> str:
        """One object: ``machine``, ``cases``, ``memory``, ``skipped``, ``broken``."""
        document = {
            "machine": machine(),
            "cases": [asdict(figure) for figure in self.figures],
            "memory": [asdict(footprint) for footprint in self.footprints],
            "skipped": self.skipped,
            "broken": self.broken,
        }
        return json.dumps(document, indent=2)

    def as_markdown(self) -> str:
        """The page's part that is measured."""
        parts = [machine(), _markdown(_FIGURES, self._figure_rows())]
        if self.footprints:
            parts.append(_markdown(_FOOTPRINTS, self._footprint_rows()))
        if self.skipped:
            parts.append("Not measured: " + "; ".join(f"{name} ({why})" for name, why in self.skipped.items()) + ".")
        return "\n\n".join(parts)

    def as_tables(self) -> list[Table | str]:
        """For a terminal."""
        shown: list[Table | str] = [machine()]
        if self.figures:
            shown.append(_table(_FIGURES, self._figure_rows()))
        if self.footprints:
            shown.append(_table(_FOOTPRINTS, self._footprint_rows()))
        return [*shown, *(f"{name}: {why}" for name, why in self.skipped.items())]

    def _figure_rows(self) -> list[list[str]]:
        return [
            [
                figure.name,
                figure.baseline,
                str(figure.samples),
                str(figure.runs) if figure.tried == figure.runs else f"{figure.runs} of {figure.tried}",
                f"{figure.median_ms:.2f}",
                f"{figure.p95_ms:.2f}",
                f"{figure.baseline_median_ms:.2f}",
                f"{figure.added_ms:+.2f}",
                f"{figure.ratio:.3f}",
                figure.ratio_of,
                figure.goal or "",
                _verdict(figure),
            ]
            for figure in self.figures
        ]

    def _footprint_rows(self) -> list[list[str]]:
        return [
            [footprint.name, str(footprint.runs), f"{footprint.mib:.2f}", footprint.goal or "", _verdict(footprint)]
            for footprint in self.footprints
        ]


def machine() -> str:
    """What it was measured on and with."""
    processor = _field("/proc/cpuinfo", "model name")
    memory = round(int(_field("/proc/meminfo", "MemTotal").split()[0]) / (1 << 20))
    programs = (
        f"Python {platform.python_version()} for the server",
        _version(interpreter()) + " for programs",
        _version(find_deno_bin()),
        _version(str(host.find_bubblewrap(None))),
    )
    return ", ".join(
        [platform.platform(), f"{len(os.sched_getaffinity(0))} processors ({processor})", f"{memory} GiB", *programs]
    )


def _version(program: str) -> str:
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return said.splitlines()[0].partition(" (")[0]


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return "unknown"


def _measured(line: Figure | Footprint) -> str:
    if isinstance(line, Footprint):
        return f"{line.mib} MiB"
    return f"{line.added_ms:+} ms" if is_added(line.goal) else f"{line.ratio} of {line.ratio_of}"


def _verdict(line: Figure | Footprint) -> str:
    if line.goal is not None and line.holds is None:
        return "not judged"
    return {None: "", True: "yes", False: "NO"}[line.holds]


def _table(columns: Iterable[str], rows: Iterable[list[str]]) -> Table:
    table = Table()
    for name in columns:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def _markdown(columns: Sequence[str], rows: Iterable[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
