"""Connects ``gloveport ports`` of the same user to ports in the sandboxes of a server's workspace.

    ports → server   {"id": NAME, "port": N}, or {} for a list
    server → ports   {"sandboxes": {NAME: TEXT}}, or {"error": TEXT, "hint": TEXT}, or {} with a descriptor
    ports → server   the end of the stream: the connection is not needed any more

Each message is a line. The kernel tells who is at the other end.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.streams.buffered import BufferedByteReceiveStream

from gloveport.cli import run_protocol
from gloveport.cli.command_connection import CommandConnection
from gloveport.cli.server_sockets import serve_commands
from gloveport.errors import GloveportError
from gloveport.user_directories import state_directory
from gloveport.workspace_service.sandbox_ports import PortError, SandboxPorts

if TYPE_CHECKING:
    from gloveport.audit.log import AuditLog

_LINE_BYTES: Final = 4096
_ASK_SECONDS: Final = 5.0


def port_directory(environ: Mapping[str, str]) -> Path:
    """Return the directory of the sockets of this user's servers. Raises ConfigError if there is no state directory."""
    return state_directory(environ) / "ports"


def answer_ports(
    ports: SandboxPorts, audit: "AuditLog", environ: Mapping[str, str]
) -> AbstractAsyncContextManager[None]:
    """Serve ``gloveport ports`` until the context is left, which ends all of its connections."""
    service = _PortService(ports, audit)
    name = run_protocol.new_name(str(os.getpid()))
    return serve_commands(port_directory(environ), name, "gloveport ports", service.answer)


class _PortService:
    def __init__(self, ports: SandboxPorts, audit: "AuditLog") -> None:
        self._ports = ports
        self._audit = audit
        self._written: set[tuple[str, int]] = set()

    async def answer(self, connection: CommandConnection) -> None:
        """Serve one connection."""
        try:
            await self._answer(connection)
        except GloveportError as error:
            await connection.send(_line({"error": str(error.args[0]), "hint": error.hint}))

    async def _answer(self, connection: CommandConnection) -> None:
        with anyio.move_on_after(_ASK_SECONDS) as time:
            request = json.loads(await BufferedByteReceiveStream(connection).receive_until(b"\n", _LINE_BYTES))
        if time.cancelled_caught:
            return
        if not request:
            await connection.send(_line({"sandboxes": self._ports.names()}))
            return
        name, port = str(request["id"]), int(request["port"])
        if not 0 < port < 1 << 16:
            raise PortError(f"{port} is no port")
        async with self._ports.connect(name, port) as opened:
            if (name, port) not in self._written:
                self._audit.append("port.opened", {"sandbox": name, "port": port})
                self._written.add((name, port))
            await connection.send(_line({}), (opened.fileno(),))
            with contextlib.suppress(anyio.EndOfStream):
                await connection.receive(1)


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
