"""``python -m bench [CASE…] [--json]``: medians and ratios, never single times: these machines are noisy.

A case is a pair of things to do once: the subject and its baseline. They are done in turn, so that both see the same
machine. With ``--json``: ``{"machine": …, "cases": [{"name", "baseline", "samples", "median_ms", "p95_ms",
"baseline_median_ms", "ratio"}]}``.
"""

import argparse
import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import anyio
from deno import find_deno_bin

from gloveport.config import Config
from gloveport.engine import Engine
from gloveport.model import Language, Request
from gloveport.server.app import assemble

SAMPLES = 30
WARM_UP = 3


@dataclass(frozen=True, kw_only=True)
class Case:
    name: str
    language: Language
    code: str
    baseline: str
    command: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Figure:
    name: str
    baseline: str
    samples: int
    median_ms: float
    p95_ms: float
    baseline_median_ms: float
    ratio: float


def cases(scratch: Path) -> list[Case]:
    program = scratch / "program.ts"
    program.write_text("console.log(1)\n")
    python = "/usr/bin/python3"
    return [
        Case(
            name="python-cold",
            language="python",
            code="print(1)",
            baseline=f"{python} -c, no sandbox",
            command=(python, "-c", "print(1)"),
        ),
        Case(
            name="typescript-cold",
            language="typescript",
            code="console.log(1)",
            baseline="deno run, no sandbox",
            command=(find_deno_bin(), "run", "--quiet", str(program)),
        ),
        Case(
            name="shell-cold",
            language="shell",
            code="echo 1",
            baseline="bash -c, no sandbox",
            command=("/bin/bash", "-c", "echo 1"),
        ),
    ]


async def measure(case: Case, engine: Engine) -> Figure:
    async def subject() -> None:
        result = await engine.execute(Request(language=case.language, code=case.code), caller="bench")
        assert (result.status, result.stdout.text) == ("ok", "1\n"), result

    async def baseline() -> None:
        answer = await anyio.run_process(case.command)
        assert answer.stdout == b"1\n"

    times: dict[Callable[[], Awaitable[None]], list[float]] = {subject: [], baseline: []}
    for _ in range(WARM_UP + SAMPLES):
        for action, taken in times.items():
            started = time.perf_counter()
            await action()
            taken.append((time.perf_counter() - started) * 1000)
    ours, theirs = (taken[WARM_UP:] for taken in times.values())
    return Figure(
        name=case.name,
        baseline=case.baseline,
        samples=SAMPLES,
        median_ms=round(statistics.median(ours), 2),
        p95_ms=round(statistics.quantiles(ours, n=20)[-1], 2),
        baseline_median_ms=round(statistics.median(theirs), 2),
        ratio=round(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)), 2),
    )


async def main() -> None:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__.partition("\n")[0])
    parser.add_argument("case", nargs="*", help="names of cases; all when none is named")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gloveport-bench-") as scratch:
        known = {case.name: case for case in cases(Path(scratch))}
        if unknown := set(asked.case) - set(known):
            parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(known)}")
        async with assemble(Config(), {"GLOVEPORT_STATE": f"{scratch}/state"}) as engine:
            figures = [await measure(known[name], engine) for name in asked.case or known]
    machine = f"{platform.platform()}, {len(os.sched_getaffinity(0))} processors, Python {platform.python_version()}"
    if asked.json:
        print(json.dumps({"machine": machine, "cases": [asdict(figure) for figure in figures]}, indent=2))
        return
    print(f"{machine}\n\n{'case':<18}{'median ms':>10}{'p95 ms':>10}{'baseline ms':>13}{'ratio':>8}  baseline")
    for figure in figures:
        print(
            f"{figure.name:<18}{figure.median_ms:>10.2f}{figure.p95_ms:>10.2f}{figure.baseline_median_ms:>13.2f}"
            f"{figure.ratio:>8.2f}  {figure.baseline}"
        )


if __name__ == "__main__":
    anyio.run(main)
