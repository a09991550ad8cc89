"""A request's body on its way while the answer is already awaited: a server may answer before it has read all."""

from collections.abc import Awaitable, Callable

import anyio
from anyio.abc import TaskGroup


class Upload:
    """Sends in a task of its own until it has ended or is stopped.

    Args:
        send: Sends all of it. What the connection raises is no concern of it: how that ends is told by the answer.
        give_up: Called when ``send`` raised, so that nobody waits for an answer that can't come.

    Attributes:
        fault: What ``send`` raised: the body's own trouble.
    """

    def __init__(self, tasks: TaskGroup, send: Callable[[], Awaitable[None]], give_up: Callable[[], None]) -> None:
        self.fault: Exception | None = None
        self._send = send
        self._give_up = give_up
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        tasks.start_soon(self._run)

    async def stop(self) -> None:
        """Stop it, and return when nothing of it goes on: nobody reads from the body any more."""
        self._scope.cancel()
        with anyio.CancelScope(shield=True):
            await self._ended.wait()

    async def _run(self) -> None:
        try:
            with self._scope:
                await self._send()
        except Exception as fault:  # noqa: BLE001 - it is raised where the answer is awaited
            self.fault = fault
            self._give_up()
        finally:
            self._ended.set()
