"""Runs that may outlive the requests that began them: starts, awaits and cancels them.

A run is bound to its owner: nobody else learns that it exists. While it runs, its questions to a person or a model go
to the client that attends to it at that moment. Nothing here survives the server.
"""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct, field

from gloveport.background_jobs import Job, Jobs, Retention
from gloveport.engine.live import LiveOutput
from gloveport.errors import Denied, UpstreamError
from gloveport.model import Language, Result
from gloveport.policy.wording import FINAL
from gloveport.sampling.model_question import Answer, ModelQuestion
from gloveport.task_group import open_task_group

OnOutput: TypeAlias = Callable[[str, str], None]
"""Takes a stream's name and its latest text. Must not wait."""


class SamplingRequest(Struct, eq=False, kw_only=True):
    """A pending question to the client's model.

    Attributes:
        is_sent: Whether it was sent to a client that is silent if its user refuses, as on 2026-07-28.
    """

    id: str
    question: ModelQuestion
    is_sent: bool = False
    _answer: Answer | UpstreamError | Denied | None = None
    _answered: anyio.Event = field(default_factory=anyio.Event)

    @property
    def is_settled(self) -> bool:
        """Whether it has been answered."""
        return self._answered.is_set()

    def settle(self, answer: Answer | UpstreamError | Denied) -> None:
        """Answer it. Only the first answer counts."""
        self._answer = self._answer or answer
        self._answered.set()

    def refuse(self, reason: str = "The client's user has not allowed this question to its model.") -> None:
        """Settle it: the user of the client has not allowed it."""
        self.settle(Denied("approval_denied", reason, hint=FINAL))

    def give_up(self, seconds: float) -> None:
        """Settle it: there was no answer within so many seconds."""
        message = f"The client's model has not answered within {seconds:g} s."
        if self.is_sent:
            self.refuse(f"{message} Its user may have refused.")
        self.settle(UpstreamError("client_timeout", message, hint="Ask for less."))

    async def answer(self) -> Answer:
        """The answer, when it is there. Raises UpstreamError if there is none, Denied if a person has refused."""
        await self._answered.wait()
        if isinstance(self._answer, Answer):
            return self._answer
        raise self._answer or UpstreamError("client_failed", "The client's model has not answered.")


class Run(Job, eq=False, kw_only=True):
    """One run, running or over.

    Attributes:
        language: The language of its program.
        result: Its result; None while it runs, or when it failed.
        handed_out: Whether a client has its id, so that it may outlive the request that began it.
        needs: Pending questions to the client's model.
        queued: Ids of questions to a person that were left to the queue, which the client was told.
        on_output: Gets the output as it comes, for the attending client.
        live: Its output while there is no result.
    """

    language: Language
    result: Result | None = None
    handed_out: bool = False
    needs: list[SamplingRequest] = field(default_factory=list)
    queued: set[str] = field(default_factory=set)
    on_output: OnOutput | None = None
    live: LiveOutput = field(default_factory=LiveOutput)

    async def ask_model(self, question: ModelQuestion, seconds: float) -> Answer:
        """Ask the model of the attending client, and wait so long. Raises as ``SamplingRequest.answer``."""
        need = SamplingRequest(id=f"ask-{os.urandom(8).hex()}", question=question)
        self.needs.append(need)
        self.notify()
        try:
            with anyio.move_on_after(seconds):
                return await need.answer()
            need.give_up(seconds)
            return await need.answer()
        finally:
            self.needs.remove(need)
            self.notify()

    def output(self, stream: str, text: str) -> None:
        """Pass on a piece of its output."""
        if self.on_output is not None:
            self.on_output(stream, text)

    def expect(self, seconds: float) -> None:
        """End it after so much time unless this is called again: its client may have gone for good."""
        self.scope.deadline = anyio.current_time() + seconds

    def cancel(self) -> None:
        """End it: its sandbox dies."""
        self.scope.cancel()


class Runs(Jobs[Run]):
    """The runs of one server."""

    def __init__(self, tasks: TaskGroup) -> None:
        super().__init__(tasks, Retention(jobs=128, seconds=600.0))

    def begin(self, owner: str, language: Language, execute: Callable[[Run], Awaitable[Result]]) -> Run:
        """Begin a run."""
        run = Run(id=f"run-{os.urandom(8).hex()}", owner=owner, language=language)

        async def work(_: Run) -> None:
            run.result = await execute(run)

        self.start(run, work)
        return run


@contextlib.asynccontextmanager
async def running() -> AsyncIterator[Runs]:
    """Open the registry of runs. On leaving, running ones are ended."""
    async with open_task_group() as tasks:
        yield Runs(tasks)
