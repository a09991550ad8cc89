"""What a soak runs: kinds of programs, how often each comes, and what must come of it. The same seed, the same runs."""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import anyio

from gloveport.engine.execution import Engine
from gloveport.model import Language, LimitName, Narrowing, Request, Result, Status
from gloveport.model.json_value import JsonValue

_NUMBER = "NUMBER"
_AS_GIVEN = Narrowing()
_SHORT = Narrowing(wall_seconds=0.2)
_LONGEST_BEFORE_CANCEL = 0.05


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of program.

    Attributes:
        share: How often it comes, in relation to the others.
        code: In it, ``NUMBER`` stands for a number that no other run has: nobody may get another's result.
        status: One of these must come.
        value: What must come for the number.
        error: Type and message that must come; empty for none.
        limit: The limit that must be reported.
        cancelled: It never ends by itself, and is cancelled after a while.
    """

    name: str
    share: int
    code: str
    language: Language = "python"
    limits: Narrowing = _AS_GIVEN
    status: tuple[Status, ...] = ("ok",)
    value: Callable[[int], JsonValue] = lambda _: None
    error: tuple[str, str] | None = None
    limit: LimitName | None = None
    cancelled: bool = False


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run of a kind.

    Attributes:
        cancel_seconds: When it is cancelled; None for a run that is left alone.
    """

    kind: Kind
    number: int
    cancel_seconds: float | None

    def request(self) -> Request:
        """What the engine is asked."""
        code = self.kind.code.replace(_NUMBER, str(self.number))
        return Request(language=self.kind.language, code=code, limits=self.kind.limits)

    @property
    def name(self) -> str:
        """Its line in the table."""
        return self.kind.name

    async def find_fault(self, engine: Engine) -> str:
        """Run it, and say what is wrong with what came of it; nothing when it is right."""
        with anyio.move_on_after(self.cancel_seconds) as scope:
            try:
                result = await engine.execute(self.request(), caller="soak")
            except Exception as error:  # noqa: BLE001 - an engine that raises is what is looked for
                return repr(error)
            told = result.model_dump_json(exclude={"grant"}, exclude_defaults=True)
            return "" if self.cancel_seconds is None and self.is_right(result) else told[:600]
        return "" if scope.cancelled_caught else "it neither ended nor was cancelled"

    def is_right(self, result: Result) -> bool:
        """Tell whether this is what must come of it."""
        kind = self.kind
        error = None if result.error is None else (result.error.type, result.error.message)
        return (
            result.status in kind.status
            and result.value == kind.value(self.number)
            and (kind.error is None or error == kind.error)
            and (kind.limit in result.limits_hit if kind.limit else not result.limits_hit)
        )


def runs(kinds: Sequence[Kind], seed: int) -> Iterator[Run]:
    """Run after run, for ever."""
    choose = random.Random(seed)
    shares = [kind.share for kind in kinds]
    number = 0
    while True:
        number += 1
        kind = choose.choices(kinds, shares)[0]
        delay = choose.uniform(0, _LONGEST_BEFORE_CANCEL)
        yield Run(kind=kind, number=number, cancel_seconds=delay if kind.cancelled else None)


def _sevenfold(number: int) -> JsonValue:
    return number * 7


KINDS: Final = (
    Kind(name="python", share=500, code="print(NUMBER)\nNUMBER * 7", value=_sevenfold),
    Kind(
        name="python, a file in a fresh /tmp",
        share=80,
        code="import os\nfound = os.listdir('/tmp')\nopen('/tmp/left', 'w').write('x' * 100_000)\n[found, NUMBER * 7]",
        value=lambda number: [["program.py"], number * 7],
    ),
    Kind(
        name="python, a child process",
        share=40,
        code="import subprocess\nint(subprocess.run(['expr', 'NUMBER', '*', '7'], capture_output=True).stdout)",
        value=_sevenfold,
    ),
    Kind(
        name="python, a child process left behind",
        share=30,
        code="import subprocess\nsubprocess.Popen(['sleep', '1000'], start_new_session=True)\nNUMBER * 7",
        value=_sevenfold,
    ),
    Kind(
        name="python, large output",
        share=20,
        code="print('x' * 200_000)\nNUMBER * 7",
        value=_sevenfold,
        limit="output_bytes",
    ),
    Kind(
        name="python, exception",
        share=50,
        code="raise ValueError('no')",
        status=("error",),
        error=("ValueError", "no"),
    ),
    Kind(
        name="python, sys.exit",
        share=30,
        code="import sys\nsys.exit(3)",
        status=("error",),
        error=("SystemExit", "3"),
    ),
    Kind(
        name="python, segmentation fault",
        share=30,
        code="import ctypes\nctypes.string_at(0)",
        status=("error",),
        error=("signal", "ended by SIGSEGV"),
    ),
    Kind(
        name="python, abort",
        share=20,
        code="import os\nos.abort()",
        status=("error",),
        error=("signal", "ended by SIGABRT"),
    ),
    Kind(
        name="python, kills itself",
        share=30,
        code="import os\nos.kill(os.getpid(), 9)",
        status=("error",),
        error=("signal", "ended by SIGKILL"),
    ),
    Kind(
        name="python, too much memory",
        share=12,
        code="bytearray(1 << 30)",
        limits=Narrowing(memory_bytes=64 << 20),
        status=("killed", "error"),  # the latter where no cgroup counts the whole sandbox
        limit="memory_bytes",
    ),
    Kind(
        name="python, too many processes",
        share=8,
        code="import os, time\nfor _ in range(64):\n    if os.fork() == 0:\n        time.sleep(1000)",
        limits=Narrowing(processes=16),
        status=("error",),
        error=("BlockingIOError", "[Errno 11] Resource temporarily unavailable"),
        limit="processes",
    ),
    Kind(
        name="python, never ends",
        share=8,
        code="while True: pass",
        limits=_SHORT,
        status=("timeout",),
        limit="wall_seconds",
    ),
    Kind(
        name="python, never ends, nor does its child",
        share=7,
        code="import subprocess\nsubprocess.run(['sleep', '1000'])",
        limits=_SHORT,
        status=("timeout",),
        limit="wall_seconds",
    ),
    Kind(name="python, cancelled", share=35, code="import time\ntime.sleep(1000)", cancelled=True),
    Kind(
        name="python with a child, cancelled",
        share=10,
        code="import subprocess\nsubprocess.run(['sleep', '1000'])",
        cancelled=True,
    ),
    Kind(name="shell", share=60, language="shell", code="echo $((NUMBER * 7))", value=_sevenfold),
    Kind(
        name="shell, fails",
        share=8,
        language="shell",
        code="exit 4",
        status=("error",),
        error=("exit", "exit code 4"),
    ),
    Kind(
        name="shell, never ends",
        share=4,
        language="shell",
        code="sleep 1000",
        limits=_SHORT,
        status=("timeout",),
        limit="wall_seconds",
    ),
    Kind(name="shell, cancelled", share=4, language="shell", code="sleep 1000", cancelled=True),
    Kind(
        name="typescript",
        share=12,
        language="typescript",
        code="const n: number = NUMBER; n * 7",
        value=_sevenfold,
    ),
    Kind(
        name="typescript, exception",
        share=4,
        language="typescript",
        code="throw new TypeError('no')",
        status=("error",),
        error=("TypeError", "no"),
    ),
    Kind(name="typescript, cancelled", share=2, language="typescript", code="while (true) {}", cancelled=True),
)

PANDAS: Final = Kind(
    name="python, pandas",
    share=10,
    code="import pandas\nint(pandas.Series([NUMBER] * 7).sum())",
    value=_sevenfold,
)
