"""Runs programs for ``gloveport run`` of the same user, in the waiting sandboxes of this server.

See ``run_protocol``. The programs have the rights of any ``gloveport run`` with this configuration; a server whose
command line changes the configuration does not offer this.
"""

import codecs
import contextlib
import json
import math
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream

from gloveport.cli import exit_codes, run_protocol
from gloveport.cli.command_connection import CommandConnection
from gloveport.cli.printer import Printer
from gloveport.cli.run_printing import read_request, run_program
from gloveport.cli.server_sockets import serve_commands
from gloveport.cli.usage import UsageError
from gloveport.errors import GloveportError
from gloveport.task_group import open_task_group
from gloveport.untrusted_text import printable_lines

if TYPE_CHECKING:
    from gloveport.engine.execution import Engine
    from gloveport.model import Limits

_USAGE: Final = 2
_REQUEST_BYTES: Final = 1 << 20
"""Most bytes of a request besides the program."""


def answer_runs(
    engine: "Engine", limits: "Limits", mark: str, environ: Mapping[str, str]
) -> AbstractAsyncContextManager[None]:
    """Run programs until the context is left, which ends running ones.

    ``limits`` are the owner's maximum limits, ``mark`` is the fingerprint of the engine's configuration, and
    ``environ`` determines the state directory.
    """
    path, name = run_protocol.socket_directory(environ), run_protocol.new_name(mark)
    return serve_commands(path, name, "gloveport run", _RunService(engine, limits).answer)


class _RunService:
    def __init__(self, engine: "Engine", limits: "Limits") -> None:
        self._engine = engine
        self._limits = limits

    async def answer(self, connection: CommandConnection) -> None:
        """Run the program of one connection."""
        await connection.send(run_protocol.pack({"code_bytes": self._limits.code_bytes}))
        message = await self._receive(connection)
        encoding = codecs.lookup(message["encoding"]).name
        queue, pending = anyio.create_memory_object_stream[bytes](math.inf)

        def write_later(stream: int, data: bytes) -> None:
            queue.send_nowait(run_protocol.HEAD.pack(stream, len(data)) + data)

        printer = Printer.of(write_later, encoding, [int(stream) for stream in message["terminals"]])
        async with open_task_group() as watching:
            watching.start_soon(_cancel_at_end, connection, watching.cancel_scope)
            async with pending, anyio.create_task_group() as sending:
                sending.start_soon(_send_all, connection, pending)
                with queue:
                    queue.send_nowait(run_protocol.pack(await self._run(message, printer)))

    async def _receive(self, connection: CommandConnection) -> Mapping[str, Any]:
        stream = BufferedByteReceiveStream(connection)
        kind, size = run_protocol.HEAD.unpack(await stream.receive_exactly(run_protocol.HEAD.size))
        if kind != run_protocol.JSON or size > 8 * self._limits.code_bytes + _REQUEST_BYTES:
            raise ValueError(size)
        message: Mapping[str, Any] = json.loads(await stream.receive_exactly(size))
        return message

    async def _run(self, message: Mapping[str, Any], printer: Printer) -> Mapping[str, object]:
        """Run a program; return the message of the last frame."""
        try:
            request = read_request({name: message["request"].get(name) for name in run_protocol.REQUEST_FIELDS})
        except UsageError as error:
            return {"error": printable_lines(str(error)), "exit_code": _USAGE}
        try:
            result = await run_program(self._engine, request, self._limits, printer, as_json=bool(message["json"]))
        except GloveportError as error:
            return {"error": printable_lines(str(error)), "exit_code": exit_codes.of_error(error)}
        return {"exit_code": exit_codes.OF_A_RUN[result.status]}


async def _send_all(connection: CommandConnection, pending: MemoryObjectReceiveStream[bytes]) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):  # the client is gone, as ``_cancel_at_end`` notices too
        async for frame in pending:
            await connection.send(frame)


async def _cancel_at_end(connection: CommandConnection, scope: anyio.CancelScope) -> None:
    """Cancel the run when the client's stream ends; the client sends nothing after its request."""
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        await connection.receive()
    scope.cancel()
