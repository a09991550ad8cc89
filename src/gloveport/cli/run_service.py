"""Runs programs for ``gloveport run`` of the same user, in the sandboxes that wait in this server.

See ``run_protocol``. What they may do is what any ``gloveport run`` with this configuration may; a server whose command
line says more than the configuration does not offer it.
"""

import codecs
import contextlib
import json
import math
import os
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
"""Of what stands in a request besides the program."""


def answer_runs(
    engine: "Engine", limits: "Limits", mark: str, environ: Mapping[str, str]
) -> AbstractAsyncContextManager[None]:
    """Take programs until the context is left; then those that run are ended.

    ``limits`` is what the owner's policy gives at most, ``mark`` the fingerprint of the configuration that the engine
    was made from. The state directory is looked up in ``environ``.
    """
    path, name = run_protocol.socket_directory(environ), f"{mark}-{os.getpid()}"
    return serve_commands(path, name, "gloveport run", _RunService(engine, limits).answer)


class _RunService:
    def __init__(self, engine: "Engine", limits: "Limits") -> None:
        self._engine = engine
        self._limits = limits

    async def answer(self, connection: CommandConnection) -> None:
        """Run one program for whoever has connected."""
        await connection.send(run_protocol.pack({"code_bytes": self._limits.code_bytes}))
        told = await self._receive(connection)
        encoding = codecs.lookup(told["encoding"]).name
        queue, pending = anyio.create_memory_object_stream[bytes](math.inf)

        def write_later(stream: int, data: bytes) -> None:
            queue.send_nowait(run_protocol.HEAD.pack(stream, len(data)) + data)

        printer = Printer.of(write_later, encoding, [int(stream) for stream in told["terminals"]])
        async with open_task_group() as watching:
            watching.start_soon(_cancel_at_end, connection, watching.cancel_scope)
            async with pending, anyio.create_task_group() as sending:
                sending.start_soon(_send_all, connection, pending)
                with queue:
                    queue.send_nowait(run_protocol.pack(await self._run(told, printer)))

    async def _receive(self, connection: CommandConnection) -> Mapping[str, Any]:
        stream = BufferedByteReceiveStream(connection)
        kind, size = run_protocol.HEAD.unpack(await stream.receive_exactly(run_protocol.HEAD.size))
        if kind != run_protocol.JSON or size > 8 * self._limits.code_bytes + _REQUEST_BYTES:
            raise ValueError(size)
        told: Mapping[str, Any] = json.loads(await stream.receive_exactly(size))
        return told

    async def _run(self, told: Mapping[str, Any], printer: Printer) -> Mapping[str, object]:
        """The last frame."""
        try:
            request = read_request({name: told["request"].get(name) for name in run_protocol.ASKED})
        except UsageError as error:
            return {"error": printable_lines(str(error)), "exit_code": _USAGE}
        try:
            result = await run_program(self._engine, request, self._limits, printer, as_json=bool(told["json"]))
        except GloveportError as error:
            return {"error": printable_lines(str(error)), "exit_code": exit_codes.of_error(error)}
        return {"exit_code": exit_codes.OF_A_RUN[result.status]}


async def _send_all(connection: CommandConnection, pending: MemoryObjectReceiveStream[bytes]) -> None:
    with contextlib.suppress(anyio.BrokenResourceError):  # it has gone: ``_cancel_at_end`` is told as well
        async for frame in pending:
            await connection.send(frame)


async def _cancel_at_end(connection: CommandConnection, scope: anyio.CancelScope) -> None:
    """Whoever asked says nothing more: when its end comes, nobody wants the program any more."""
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        await connection.receive()
    scope.cancel()
