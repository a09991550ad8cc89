"""A door of one execution: sockets on which its programs are answered, and on which nobody else can speak.

They listen in the network namespace of the execution's sandbox. So who speaks is known from the socket, and nothing
that is said has to be believed.
"""

import contextlib
import logging
import selectors
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from gloveport.event_loop import Selector
from gloveport.task_group import open_task_group

_MOST_CONNECTIONS = 64
_PAUSE_SECONDS = 0.05

Answer: TypeAlias = Callable[[socket.socket], Awaitable[None]]
"""Answers on one connection until it is over, and closes it. An ``OSError`` of its own connection is no fault."""

_log = logging.getLogger(__name__)


def open_door(listeners: Sequence[socket.socket], answer: Answer) -> AbstractAsyncContextManager[None]:
    """Answer on these sockets, several connections at a time. On leaving, every connection is closed.

    Args:
        listeners: They do not block; they are another's to close.
        answer: What is said on each connection.
    """
    return _open_door(listeners, answer) if listeners else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _open_door(listeners: Sequence[socket.socket], answer: Answer) -> AsyncIterator[None]:
    async with open_task_group() as tasks:
        tasks.start_soon(_accept, listeners, answer, tasks)
        yield


async def _accept(listeners: Sequence[socket.socket], answer: Answer, tasks: TaskGroup) -> None:
    places = anyio.Semaphore(_MOST_CONNECTIONS)  # who wants more at once waits in the kernel's queue
    with Selector() as events:
        for listener in listeners:
            events.register(listener.fileno(), selectors.EVENT_READ, listener)
        while True:
            await events.wait()
            for key, _ in events.select(0):
                await places.acquire()
                try:
                    connection, _ = key.data.accept()
                except OSError as error:
                    places.release()
                    if not isinstance(error, BlockingIOError):  # no descriptors just now, say
                        await anyio.sleep(_PAUSE_SECONDS)
                    continue
                tasks.start_soon(_answer, answer, connection, places)


async def _answer(answer: Answer, connection: socket.socket, places: anyio.Semaphore) -> None:
    try:
        with connection:
            await answer(connection)
    except OSError:  # it broke: whoever spoke knows
        pass
    except Exception:  # noqa: BLE001 - one connection that goes wrong is closed; no other one, and no run, ends with it
        _log.exception("a connection of a sandbox went wrong")
    finally:
        places.release()
