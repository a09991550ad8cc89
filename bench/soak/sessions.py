"""Sessions that are soaked: calls that go well, fail, hang, die, are cancelled or undone, and what must stay."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import anyio

from gloveport.engine.execution import NEW, Engine
from gloveport.errors import GloveportError
from gloveport.model import Narrowing, Request, Result, Status

_CALLS: Final = 10
_AS_GIVEN: Final = Narrowing()
_SHORT: Final = Narrowing(wall_seconds=1)
"""Time enough to set what is set before it hangs, also where eight sessions share a busy machine."""

_CANCEL_SECONDS: Final = 0.1
_SHOWN: Final = 600


@dataclass(frozen=True, kw_only=True)
class Step:
    """A kind of call. ``NUMBER`` in its code is the number that ``x`` and the file ``x`` hold when it has come through.

    Attributes:
        share: How often it comes, in relation to the others.
        code: What it runs.
        before: What a call before it runs, whose time is not short.
        stays: Whether what it did before it ended so is there afterwards.
        cancelled: It is cancelled after a while.
    """

    share: int
    code: str
    before: str = ""
    status: Status = "ok"
    stays: bool = True
    limits: Narrowing = _AS_GIVEN
    cancelled: bool = False


_SET: Final = "x = NUMBER\nwith open('x', 'w') as file: _ = file.write(str(NUMBER))\n"
_STEPS: Final = {
    "sets": Step(share=50, code=_SET),
    "starts a child": Step(share=5, code=_SET + "import subprocess; child = subprocess.Popen(['sleep', '1000'])"),
    "starts a thread": Step(
        share=3, code=_SET + "import threading, time; threading.Thread(target=time.sleep, args=(0.3,)).start()"
    ),
    "fails": Step(share=8, code=_SET + "1 / 0", status="error"),
    "hangs": Step(share=4, code=_SET + "while True: pass", status="timeout", limits=_SHORT),
    "takes no interrupt": Step(
        share=1,
        before="import signal; _ = signal.signal(signal.SIGINT, lambda *_: None)",
        code=_SET + "while True: pass",
        status="timeout",
        stays=False,
        limits=_SHORT,
    ),
    "dies": Step(share=4, code=_SET + "import os; os.kill(os.getpid(), 9)", status="error", stays=False),
    "exits at once": Step(share=2, code=_SET + "import os; os._exit(3)", status="error", stays=False),
    "is cancelled": Step(share=3, before=_SET, code="import time; time.sleep(1000)", cancelled=True),
}
_REWIND: Final = "is undone"
_LOOK: Final = "x, open('x').read()"


@dataclass(kw_only=True)
class Visit:
    """A session from its beginning to its end, as ``mix.Run`` is a run.

    Attributes:
        held: What ``x`` is now.
    """

    steps: tuple[str, ...]
    number: int
    held: int = 0
    _id: str = NEW
    _owner: str = field(default_factory=lambda: f"soak-{os.urandom(8).hex()}")

    @property
    def name(self) -> str:
        """Its line in the table."""
        return "session"

    async def find_fault(self, engine: Engine) -> str:
        """Go through it, and say what is wrong; nothing where all is right."""
        try:
            await self._call(engine, _SET.replace("NUMBER", "0"))
            if fault := await self._look(engine, 0):
                return fault
            for place, name in enumerate(self.steps):
                fault = await (self._rewind(engine) if name == _REWIND else self._take(engine, _STEPS[name], place + 1))
                if fault:
                    return f"{', '.join(self.steps[: place + 1])}: {fault}"
        except GloveportError as error:
            return repr(error)
        finally:
            await engine.sessions.end_of(self._owner, "the soak is done with it")
        return ""

    async def _take(self, engine: Engine, step: Step, number: int) -> str:
        value = self.number * 100 + number
        if step.before:
            result = await self._call(engine, step.before.replace("NUMBER", str(value)))
            if result.status != "ok":
                return _shown(result)
        with anyio.move_on_after(_CANCEL_SECONDS if step.cancelled else None):
            result = await self._call(engine, step.code.replace("NUMBER", str(value)), step.limits)
            state = "kept" if step.stays else "rewound"
            if not step.cancelled and (
                result.status != step.status or result.session is None or result.session.state != state
            ):
                return _shown(result)
        if not step.stays and step.before:  # the others can be interrupted
            await self._call(engine, "_ = signal.signal(signal.SIGINT, signal.default_int_handler)")
        if step.stays:
            self.held = value
        return await self._look(engine, self.held)

    async def _look(self, engine: Engine, expected: int) -> str:
        result = await self._call(engine, _LOOK)
        return "" if result.value == [expected, str(expected)] else f"{expected} expected: {_shown(result)}"

    async def _rewind(self, engine: Engine) -> str:
        """Undo the last call, which was a look."""
        session = engine.sessions.find(self._id, self._owner)
        _, state = await engine.session_requests.ask(session, {"do": "rewind"}, caller="soak")
        return await self._look(engine, self.held) if state.state == "rewound" else state.model_dump_json()

    async def _call(self, engine: Engine, code: str, limits: Narrowing = _AS_GIVEN) -> Result:
        request = Request(language="python", code=code, limits=limits, session=self._id)
        result = await engine.execute(request, caller="soak", share=self._owner)
        if result.session is not None:
            self._id = result.session.id
        return result


def visits(seed: int) -> Iterator[Visit]:
    """Session after session, for ever."""
    choose = random.Random(seed)
    names = [*_STEPS, _REWIND]
    shares = [*(step.share for step in _STEPS.values()), 5]
    number = 0
    while True:
        number += 1
        yield Visit(steps=tuple(choose.choices(names, shares, k=_CALLS)), number=number)


def _shown(result: Result) -> str:
    return result.model_dump_json(exclude={"grant"}, exclude_defaults=True)[:_SHOWN]
