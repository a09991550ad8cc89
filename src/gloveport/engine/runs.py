"""Runs that may outlive the requests that began them: begun, attended to, awaited, cancelled.

A run is bound to whom it was begun for: nobody else learns that it exists. What it asks for while it goes on, a word of
a person's or of a model's, it asks whoever attends to it just then. Nothing here survives the server.
"""

import contextlib
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from gloveport.engine.live import LiveOutput
from gloveport.errors import UpstreamError
from gloveport.model import Language, Result
from gloveport.sampling.model_question import Answer, ModelQuestion
from gloveport.task_group import open_task_group

Hear: TypeAlias = Callable[[str, str], None]
"""Takes a stream's name and the text that has just come on it. Must not wait."""

_KEPT_SECONDS = 600.0
_MOST_KEPT = 128


@dataclass(eq=False, kw_only=True)
class SamplingRequest:
    """A question to the client's model, which waits for its answer."""

    id: str
    question: ModelQuestion
    _answer: Answer | UpstreamError | None = None
    _answered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_settled(self) -> bool:
        """Whether it has been answered."""
        return self._answered.is_set()

    def settle(self, answer: Answer | UpstreamError) -> None:
        """Answer it. What comes after the first answer means nothing."""
        self._answer = self._answer or answer
        self._answered.set()

    async def answer(self) -> Answer:
        """The answer, when it is there.

        Raises:
            UpstreamError: There is none.
        """
        await self._answered.wait()
        if isinstance(self._answer, Answer):
            return self._answer
        raise self._answer or UpstreamError("client_failed", "The client's model has not answered.")


@dataclass(eq=False, kw_only=True)
class Run:
    """One run, going on or over.

    Attributes:
        owner: For whom it was begun; opaque.
        language: Of its program.
        result: What came of it; None while it goes on, or when it failed.
        failure: Why there is no result.
        handed_out: Whether its id was given away, so that it may outlive the request that began it.
        needs: Questions to the client's model that wait.
        queued: Ids of questions to a person that were left to the queue, and the client was told so.
        hear: Gets the output as it comes, for whoever attends to it.
        live: What it has written, while there is no result.
    """

    id: str
    owner: str
    language: Language
    result: Result | None = None
    failure: Exception | None = None
    ended: float = 0.0
    handed_out: bool = False
    needs: list[SamplingRequest] = field(default_factory=list)
    queued: set[str] = field(default_factory=set)
    hear: Hear | None = None
    live: LiveOutput = field(default_factory=LiveOutput)
    _scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    _stirred: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_over(self) -> bool:
        """Whether nothing more comes of it."""
        return self.ended > 0

    def stir(self) -> None:
        """Wake those who attend to it: there is something new."""
        self._stirred.set()
        self._stirred = anyio.Event()

    async def stirs(self, seconds: float) -> bool:
        """Wait until there is something new; tell whether there is. To be asked before one looks, for none is missed.

        What is new is looked up by whoever has waited: nothing may be awaited between the look and this.
        """
        with anyio.move_on_after(max(0.0, seconds)) as waiting:
            await self._stirred.wait()
        return not waiting.cancelled_caught

    async def ask_model(self, question: ModelQuestion) -> Answer:
        """Ask the model of whoever attends to this.

        Raises:
            UpstreamError: There is no answer.
        """
        need = SamplingRequest(id=f"ask-{os.urandom(8).hex()}", question=question)
        self.needs.append(need)
        self.stir()
        try:
            return await need.answer()
        finally:
            self.needs.remove(need)
            self.stir()

    def output(self, stream: str, text: str) -> None:
        """Take a piece of its output."""
        if self.hear is not None:
            self.hear(stream, text)

    def expect(self, seconds: float) -> None:
        """End it when so much time has passed, unless this is called again: its client may have gone for good."""
        self._scope.deadline = anyio.current_time() + seconds

    def cancel(self) -> None:
        """End it: its sandbox dies."""
        self._scope.cancel()


class Runs:
    """The runs of one server."""

    def __init__(self, tasks: TaskGroup) -> None:
        self._tasks = tasks
        self._runs: dict[str, Run] = {}

    def begin(self, owner: str, language: Language, execute: Callable[[Run], Awaitable[Result]]) -> Run:
        """Begin a run. It goes on until it ends by itself, is cancelled, or the server ends."""
        run = Run(id=f"run-{os.urandom(8).hex()}", owner=owner, language=language)
        self._forget()
        self._runs[run.id] = run
        self._tasks.start_soon(self._go, run, execute)
        return run

    def find(self, run_id: str, owner: str) -> Run | None:
        """The run of this id, if it was begun for this owner and is remembered."""
        self._forget()
        run = self._runs.get(run_id)
        return run if run is not None and run.owner == owner else None

    def drop(self, run: Run) -> None:
        """Forget a run at once: nobody will ask for it."""
        self._runs.pop(run.id, None)

    async def end(self) -> None:
        """End those that go on; wait until they are over."""
        going = [run for run in self._runs.values() if not run.is_over]
        for run in going:
            run.cancel()
        for run in going:
            while not run.is_over:
                await run.stirs(math.inf)

    async def _go(self, run: Run, execute: Callable[[Run], Awaitable[Result]]) -> None:
        try:
            with run._scope:  # noqa: SLF001 - its own
                run.result = await execute(run)
        except Exception as error:  # noqa: BLE001 - no other run ends with it; who attends to it raises it
            run.failure = error
        finally:
            run.ended = time.monotonic()
            run.stir()

    def _forget(self) -> None:
        """What is over is not kept for ever, however many there are; what has ended first goes first."""
        now = time.monotonic()
        over = sorted((run for run in self._runs.values() if run.is_over), key=lambda run: run.ended)
        surplus = len(over) - _MOST_KEPT
        for number, run in enumerate(over):
            if number < surplus or now - run.ended > _KEPT_SECONDS:
                del self._runs[run.id]


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Runs]:
    """Room for runs. On leaving, those that go on are ended."""
    async with open_task_group() as tasks:
        yield Runs(tasks)
