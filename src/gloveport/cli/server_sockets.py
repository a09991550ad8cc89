"""Sockets by which commands find the servers of the same user."""

import contextlib
import fcntl
import logging
import os
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final, TypeAlias

import anyio
from anyio.abc import TaskGroup

from gloveport.cli import run_protocol
from gloveport.cli.command_connection import CommandConnection
from gloveport.server.transports.acceptor import accept_some
from gloveport.task_group import open_task_group
from gloveport.untrusted_text import printable_lines
from gloveport.user_directories import make_private_directory

Answer: TypeAlias = Callable[[CommandConnection], Coroutine[Any, Any, None]]
"""Serves one command of this user, until it disconnects."""

_BACKLOG: Final = 64
_PAUSE_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


@contextlib.asynccontextmanager
async def serve_commands(path: Path, name: str, command: str, answer: Answer) -> AsyncIterator[None]:
    """Answer each ``command`` that connects to the socket ``name`` in the directory ``path``, and nobody else, until
    the context is left. A socket that can't be made is only a warning. An exception in ``answer`` ends its connection,
    not the server.
    """

    async def answer_user(connection: CommandConnection) -> None:
        async with connection:
            if not run_protocol.is_of_this_user(connection.socket):
                return
            try:
                await answer(connection)
            except (anyio.BrokenResourceError, anyio.EndOfStream, anyio.IncompleteRead, anyio.DelimiterNotFound):
                pass  # the command is gone, or its message is malformed
            except Exception as error:  # noqa: BLE001 - see above
                _log.warning("a connection to the socket of %s failed: %s", command, printable_lines(repr(error)))

    async with contextlib.AsyncExitStack() as stack:
        try:
            listener = stack.enter_context(_listen(path, name))
        except OSError as error:
            _log.warning("%s will not find this server: %s", command, error)
        else:
            tasks = await stack.enter_async_context(open_task_group())
            tasks.start_soon(_accept_commands, listener, command, tasks, answer_user)
        yield


async def _accept_commands(listener: socket.socket, command: str, tasks: TaskGroup, answer: Answer) -> None:
    while True:
        await anyio.wait_readable(listener)
        try:
            connections = accept_some(listener)
        except OSError as error:
            _log.warning("%s can't be answered just now: %s", command, error.strerror)
            await anyio.sleep(_PAUSE_SECONDS)
            continue
        for connection in connections:
            tasks.start_soon(answer, CommandConnection(connection))


@contextlib.contextmanager
def _listen(path: Path, name: str) -> Iterator[socket.socket]:
    """Listen on a socket in the directory, which is made if necessary. Sockets without a listener are removed.

    Raises:
        OSError: The socket can't be made.
    """
    make_private_directory(path)
    with run_protocol.open_directory(path) as directory, socket.socket(socket.AF_UNIX) as listener:
        fcntl.flock(directory, fcntl.LOCK_EX)  # between bind and listen a socket looks as if it had no listener
        for other in run_protocol.names(directory):
            _remove_dead(directory, other)
        listener.bind(run_protocol.address(directory, name))
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        fcntl.flock(directory, fcntl.LOCK_UN)
        try:
            yield listener
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=directory)


def _remove_dead(directory: int, name: str) -> None:
    with socket.socket(socket.AF_UNIX) as other:
        other.settimeout(0)
        try:
            other.connect(run_protocol.address(directory, name))
        except ConnectionRefusedError:
            os.unlink(name, dir_fd=directory)
        except OSError:  # its backlog is full, so it has a listener
            pass
