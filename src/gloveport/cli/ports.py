"""``gloveport ports``: opens a port of an agent's command to a browser of this host, for as long as this runs.

It listens on a loopback address of its own, so that browsers do not send it cookies of other servers of this host.
Connections of other users are closed unread. A program in the sandbox can't open a connection through it.
"""

import contextlib
import errno
import json
import os
import secrets
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeAlias

import typer

from gloveport.cli.folded_lines import echo_lines
from gloveport.errors import ConfigError
from gloveport.untrusted_text import printable, shorten

if TYPE_CHECKING:
    from anyio.abc import SocketStream

_Tell: TypeAlias = Callable[[str], None]
_Handle: TypeAlias = Callable[[socket.socket], Coroutine[Any, Any, None]]

app = typer.Typer()

_LINE_BYTES = 1 << 20
_SHOWN_CHARACTERS = 100
_ANSWER_SECONDS = 20.0
"""How long a server may take to answer: longer than it waits for a free connection to the sandbox."""
_BACKLOG = 1024
_PAUSE_SECONDS = 0.1
_CLOSED_SECONDS = 1.0
"""Pause between two looks whether a client has closed its connection."""
_STUCK_SECONDS = 30.0
"""How long a program may read nothing of what is left of a closed connection."""


class _Sandbox(NamedTuple):
    """A command or session of a server: its id, what runs in it, and the server's socket."""

    name: str
    what: str
    server: str


@dataclass
class _Passed:
    """How many pieces of data have been passed on in one direction."""

    pieces: int = 0


@app.callback(invoke_without_command=True)
def ports(context: typer.Context) -> None:
    """Open a port of an agent's command to your browser; without a command, print whose ports there are."""
    if context.invoked_subcommand is None:
        found = list(_find_sandboxes())
        echo_lines([f"{one.name}  {_title(one)}" for one in found] or ["No command of a workspace runs."])


@app.command("open")
def open_port(
    port: Annotated[int, typer.Argument(min=1, max=65535, help="On which a program of the command listens.")],
    identifier: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Of the command or session; its first characters are enough.")
    ] = None,
) -> None:
    """Open a port at an address of this host's loopback, until this is ended. Pages of it may reach the network: what
    they know of the workspace can leave by your browser.
    """
    import anyio

    sandbox = _choose(port, identifier)
    try:
        anyio.run(_serve, sandbox, port)
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


def _title(sandbox: _Sandbox) -> str:
    return shorten(printable(sandbox.what), _SHOWN_CHARACTERS)


def _find_sandboxes() -> Iterator[_Sandbox]:
    from gloveport.cli import run_protocol
    from gloveport.cli.port_service import port_directory

    path = port_directory(os.environ)
    try:
        with run_protocol.open_directory(path) as directory:
            servers = run_protocol.names(directory)
    except FileNotFoundError:
        return
    except OSError as error:
        raise ConfigError(
            f"{path} can't be read: {error.strerror or error}",
            hint="have a directory of this user there, or set GLOVEPORT_STATE to another",
        ) from error
    for server in servers:
        try:
            with _ask(server, {}) as connection:
                answer = _read(connection)[0]
        except TimeoutError:
            process = server.partition("-")[0]
            typer.echo(f"The server of process {process} does not answer.", err=True)
            continue
        except OSError:  # it has ended
            continue
        yield from (_Sandbox(name, what, server) for name, what in answer["sandboxes"].items())


def _choose(port: int, identifier: str | None) -> _Sandbox:
    found = [one for one in _find_sandboxes() if identifier is None or one.name.startswith(identifier)]
    if not found:
        what = "no command of a workspace runs" if identifier is None else f"{identifier} is no id"
        raise ConfigError(what, hint="gloveport ports prints them; a server started by session='new' goes on there")
    failed = {"error": "the server does not answer", "hint": "it may have ended, or be stopped"}
    for one in reversed(found):
        with contextlib.suppress(OSError), _ask(one.server, {"id": one.name, "port": port}) as connection:
            answer, descriptor = _read(connection)
            if descriptor is not None:
                os.close(descriptor)
                return one
            failed = answer
    raise ConfigError(failed["error"], hint=failed["hint"])


def _ask(server: str, message: dict[str, object]) -> socket.socket:
    """Connect to a server, and send it a message. Raises OSError."""
    from gloveport.cli import run_protocol
    from gloveport.cli.port_service import port_directory

    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(_ANSWER_SECONDS)
        directory = stack.enter_context(run_protocol.open_directory(port_directory(os.environ)))
        connection.connect(run_protocol.address(directory, server))
        if not run_protocol.is_of_this_user(connection):
            raise PermissionError(server)
        connection.sendall(json.dumps(message).encode() + b"\n")
        return connection.dup()


def _read(connection: socket.socket) -> tuple[dict[str, Any], int | None]:
    """Read a server's answer, and the descriptor beside it. Raises OSError."""
    data, descriptors, flags, _ = socket.recv_fds(connection, _LINE_BYTES, 1)
    if flags & socket.MSG_CTRUNC:  # the kernel had no number for the descriptor
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    while data and not data.endswith(b"\n") and len(data) < _LINE_BYTES:
        data += (piece := connection.recv(_LINE_BYTES))
        if not piece:
            break
    if not data.endswith(b"\n"):
        raise ConnectionResetError("the server has ended")
    return json.loads(data), descriptors[0] if descriptors else None


async def _serve(sandbox: _Sandbox, port: int) -> None:
    from anyio import abc

    from gloveport.server.transports.peers import require_own_uid

    require_own_uid()
    address = ".".join(["127", *(str(1 + secrets.randbelow(254)) for _ in range(3))])
    try:
        listener = socket.create_server((address, port), backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"port {port} of this host can't be opened: {error.strerror}",
            hint="another program of this host may use it for all addresses; ports below 1024 are root's",
        ) from error
    echo_lines([f"http://{address}:{port}/ leads to port {port} of: {_title(sandbox)}"])
    typer.echo("Ctrl-C ends it. What is shown there an agent's programs have made.")

    trusted, past_texts = _trusted_users(), set[str]()

    def tell(text: str) -> None:
        """Print it once: pages and other users decide how often it happens."""
        if text not in past_texts:
            past_texts.add(text)
            typer.echo(text, err=True)

    async def handle(connection: socket.socket) -> None:
        try:
            client = await abc.SocketStream.from_socket(connection)
        except (OSError, ValueError):  # ValueError of anyio: it is gone already
            connection.close()
            return
        async with client:
            user = _user_of(client)
            if user in trusted:
                await _connect(client, sandbox, port, tell)
            elif user is not None:
                tell(f"Connections of user {user} are closed: only you and root reach it.")

    with listener:
        listener.setblocking(False)
        await _serve_connections(listener, handle, tell)


async def _serve_connections(listener: socket.socket, handle: _Handle, tell: _Tell) -> None:
    """Handle each connection, at the same time. Without a free descriptor, connections wait in the kernel's queue."""
    import anyio

    from gloveport.server.transports.acceptor import accept_some

    async with anyio.create_task_group() as tasks:
        while True:
            await anyio.wait_readable(listener)
            try:
                connections = accept_some(listener)
            except OSError as error:
                tell(f"Some connections have to wait: {error.strerror}")
                await anyio.sleep(_PAUSE_SECONDS)
                continue
            for connection in connections:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                tasks.start_soon(handle, connection)


def _trusted_users() -> frozenset[int]:
    """The users who may connect: this one, root and, under sudo, the caller, whose browser it is."""
    caller = os.environ.get("SUDO_UID", "") if os.geteuid() == 0 else ""
    return frozenset({os.geteuid(), 0, *map(int, filter(str.isdecimal, [caller]))})


def _user_of(client: "SocketStream") -> int | None:
    """Who has connected; None if the connection is gone. Every user of this host reaches its loopback."""
    from anyio.abc import SocketAttribute

    from gloveport.server.transports.peers import peer_uids

    connection = client.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    try:
        (uid,) = peer_uids([connection])
    except OSError:
        return None
    return uid


async def _connect(client: "SocketStream", sandbox: _Sandbox, port: int, tell: _Tell) -> None:
    """Relay bytes between a browser and the program, until one of them ends."""
    import anyio
    from anyio import abc

    try:
        with _ask(sandbox.server, {"id": sandbox.name, "port": port}) as control:
            await anyio.wait_readable(control)
            answer, descriptor = _read(control)
            if descriptor is None:
                tell(": ".join(filter(None, (answer["error"], answer["hint"]))))
                return
            inner = await abc.SocketStream.from_socket(socket.socket(fileno=descriptor))
            async with inner, anyio.create_task_group() as tasks:
                passed = _Passed()

                async def pass_on_to_program() -> None:
                    await _pass_on(client, inner, passed)
                    await _wait_closed(client)
                    tasks.cancel_scope.cancel()

                async def give_up() -> None:
                    await _wait_closed(client)
                    await _wait_stuck(passed)
                    tasks.cancel_scope.cancel()

                tasks.start_soon(pass_on_to_program)
                tasks.start_soon(give_up)
                tasks.start_soon(_pass_on, inner, client, _Passed())
    except (OSError, ValueError) as error:  # ValueError of anyio: the program has reset the connection already
        if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
            tell(f"Some connections were closed: {error.strerror}")
        else:
            tell("the server, or the command, has ended")


async def _wait_closed(client: "SocketStream") -> None:
    """Wait until a client has closed its connection. A program that has nothing to say, as the server of an event
    stream, would never learn that, and each reload of its page would keep a connection.
    """
    import anyio
    from anyio.abc import SocketAttribute

    from gloveport.server.transports.peers import has_closed

    connection = client.extra(SocketAttribute.raw_socket)  # noqa: S610 - not Django's
    while True:
        with contextlib.suppress(OSError):  # the kernel can't be asked just now
            if has_closed(connection):
                return
        await anyio.sleep(_CLOSED_SECONDS)


async def _wait_stuck(passed: _Passed) -> None:
    """Wait until a program has read nothing for a while: the end of an upload that it leaves unread is not seen."""
    import anyio

    pieces = -1
    while pieces != passed.pieces:
        pieces = passed.pieces
        await anyio.sleep(_STUCK_SECONDS)


async def _pass_on(source: "SocketStream", target: "SocketStream", passed: _Passed) -> None:
    import anyio

    try:
        async for piece in source:
            await target.send(piece)
            passed.pieces += 1
        await target.send_eof()
    except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
        await source.aclose()
        await target.aclose()
