"""A door of one execution: listening sockets that only its programs can reach, and that the server answers.

They listen in the network namespace of the execution's sandbox. So the socket tells who speaks, and no claim of a
program has to be believed.
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
"""Answers on one connection until it is over, and closes it. An ``OSError`` of that connection is no fault."""

_log = logging.getLogger(__name__)


def open_door(listeners: Sequence[socket.socket], answer: Answer) -> AbstractAsyncContextManager[None]:
    """Answer on these sockets, which do not block, several connections at a time. On leaving, every connection is
    closed; the caller closes the sockets.
    """
    return _open_door(listeners, answer) if listeners else contextlib.nullcontext()


@contextlib.asynccontextmanager
async def _open_door(listeners: Sequence[socket.socket], answer: Answer) -> AsyncIterator[None]:
    async with open_task_group() as tasks:
        tasks.start_soon(_accept, listeners, answer, tasks)
        yield


async def _accept(listeners: Sequence[socket.socket], answer: Answer, tasks: TaskGroup) -> None:
    places = anyio.Semaphore(_MOST_CONNECTIONS)  # more connections wait in the kernel's queue
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
                    if not isinstance(error, BlockingIOError):  # such as: no descriptors just now
                        await anyio.sleep(_PAUSE_SECONDS)
                    continue
                tasks.start_soon(_answer, answer, connection, places)


async def _answer(answer: Answer, connection: socket.socket, places: anyio.Semaphore) -> None:
    try:
        with connection:
            await answer(connection)
    except OSError:  # the connection broke: its program knows
        pass
    except Exception:  # noqa: BLE001 - one connection that goes wrong is closed; no other one, and no run, ends with it
        _log.exception("a connection of a sandbox went wrong")
    finally:
        places.release()
