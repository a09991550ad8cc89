"""Asks a person about a request while the program waits for the answer, and withdraws the question when it does not."""

from typing import Final, TypedDict, Unpack

import anyio
from msgspec import Struct

from gloveport.approvals.question import Verdict
from gloveport.egress.transport.stream import SocketStream
from gloveport.guard import Asker
from gloveport.task_group import open_task_group

_LOOK_SECONDS: Final = 0.5


class _About(TypedDict):
    subject: str
    run: str
    caller: str
    session: str
    detail: str


class ProgramAsker(Struct, frozen=True, kw_only=True):
    """A ``guard.Asker``. Clients give up long before a person answers, and try again. If the questions stayed, one
    answer would send all of these requests, though nobody waits for them.

    Attributes:
        wire: The program's connection.
    """

    asker: Asker
    wire: SocketStream

    async def ask(self, text: str, **about: Unpack[_About]) -> Verdict:
        """See ``guard.Asker``. Raises OSError where the program has closed the connection."""
        verdicts: list[Verdict] = []
        async with open_task_group() as tasks:
            tasks.start_soon(self._cancel_at_end, tasks.cancel_scope)
            verdicts.append(await self.asker.ask(text, **about))
        if not verdicts or self.wire.has_hung_up():
            raise OSError("the program has not waited for the owner's answer")
        return verdicts[0]

    async def _cancel_at_end(self, scope: anyio.CancelScope) -> None:
        while True:
            if self.wire.has_hung_up():
                scope.cancel()
            await anyio.sleep(_LOOK_SECONDS)
