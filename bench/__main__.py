"""``python -m bench [CASE…] [--runs N] [--json | --markdown]``: measure, and compare with the goals.

Exits with 1, and a line per case on standard error, when a goal is not reached or something does not work. With
``--json`` one object is printed::

    {"machine": …,
     "cases": [{"name", "baseline", "samples", "median_ms", "p95_ms", "baseline_median_ms", "added_ms", "ratio",
                "ratio_of", "goal", "holds", "runs", "tried", "others"}],
     "memory": [{"name", "mib", "goal", "holds", "runs"}],
     "skipped": {name: why}, "broken": {name: what}}

See ``bench.measure.Figure`` for what the fields mean, and ``docs/performance.md`` for what the cases are.
"""

import argparse
import contextlib
import logging
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
from rich.console import Console

from bench.cases import every_case
from bench.margin import measure_worst
from bench.measure import Case, Unavailable, WrongAnswer
from bench.report import Report
from gloveport.errors import GloveportError


async def measure(cases: Sequence[Case], runs: int) -> Report:
    """Measure one after the other, each so many times; nothing else of ours is running meanwhile."""
    report = Report()
    for case in cases:
        print(f"bench: {case.name}", file=sys.stderr)
        try:
            report.lines.append(await measure_worst(case, runs, _scratch))
        except* Unavailable as lacks:
            report.skipped[case.name] = "; to have it: ".join(_first(lacks).args)
        except* (WrongAnswer, GloveportError, TimeoutError) as faults:
            fault = _first(faults)
            report.broken[case.name] = f"{type(fault).__name__}: {fault}"
    return report


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as directory:
        path = Path(directory)
        path.chmod(0o755)  # unprivileged baselines read from it
        yield path


def _first(error: BaseException) -> BaseException:
    """What went wrong: task groups wrap it, some of them several times."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def main() -> int:
    """See the module."""
    logging.basicConfig(format="bench: %(name)s: %(message)s")  # a warning of an engine explains a figure
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.partition("\n")[0])
    parser.add_argument("case", nargs="*", help="names of cases; all when none is named")
    parser.add_argument("--runs", type=int, default=1, help="how often each is measured: the worst counts")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true")
    form.add_argument("--markdown", action="store_true")
    asked = parser.parse_args()
    known = {case.name: case for case in every_case()}
    if unknown := set(asked.case) - set(known):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    report = anyio.run(measure, [known[name] for name in asked.case or known], max(1, asked.runs))
    if asked.json:
        print(report.as_json())
    elif asked.markdown:
        print(report.as_markdown())
    else:
        console = Console(width=None if sys.stdout.isatty() else 160, highlight=False, markup=False)
        for part in report.as_tables():
            console.print(part)
    for fault in report.faults():
        print(fault, file=sys.stderr)
    return 1 if report.faults() else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
