"""The client of ``gloveport run``: has a running server of the same user run the program in a waiting sandbox.

See ``run_protocol``. Without such a server, or with unusual options, the command runs the program itself. This module
imports neither the SDK nor the command line's library, which would take five times as long as its own work.
"""

import contextlib
import json
import os
import select
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gloveport.cli import run_protocol
from gloveport.cli.exit_codes import of_unwritten
from gloveport.cli.run_options import RunOptions, read_run_options
from gloveport.errors import ConfigError

_ANSWER_SECONDS: Final = 1.0
_PIECE_BYTES: Final = 1 << 16
_NO_SERVER, _INTERRUPTED = 4, 130


class _FoundServer(NamedTuple):
    """A server that has accepted a connection."""

    connection: socket.socket
    code_bytes: int


def run_by_server(words: Sequence[str], environ: Mapping[str, str]) -> int | None:
    """Run a program as ``gloveport run`` with these words; return its exit code.

    Returns None without having done anything if there is no server, or if the command has to parse the words.

    Raises:
        UsageError: See ``RunOptions.request_fields``.
    """
    options = read_run_options(words)
    if options is None or options.files or options.out is not None:
        return None
    server = _find_server(options.config, environ)
    if server is None:
        return None
    with server.connection:
        return _run(server, options, options.request_fields(server.code_bytes))


def _find_server(config_path: Path | None, environ: Mapping[str, str]) -> _FoundServer | None:
    """Find a server of this user, this installation and the effective configuration."""
    try:
        mark = run_protocol.fingerprint(config_path, cwd=Path.cwd(), environ=environ)
        with run_protocol.open_directory(run_protocol.socket_directory(environ)) as directory:
            for name in run_protocol.names(directory):
                if mark is not None and name.startswith(mark):
                    with contextlib.suppress(OSError, EOFError, ValueError, KeyError):
                        return _connect(run_protocol.address(directory, name))
    except (OSError, ConfigError):  # the command will meet the same error, and report it
        pass
    return None


def _connect(address: str) -> _FoundServer:
    """Connect to a server. Raises OSError, EOFError, ValueError or KeyError if none of this user's answers there."""
    with contextlib.ExitStack() as stack:
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(_ANSWER_SECONDS)
        connection.connect(address)
        if not run_protocol.is_of_this_user(connection):
            raise PermissionError(address)
        _, hello = _receive(connection)
        server = _FoundServer(connection, int(json.loads(hello)["code_bytes"]))
        connection.settimeout(None)
        stack.pop_all()
        return server


def _run(server: _FoundServer, options: RunOptions, request: Mapping[str, object]) -> int:
    """Have the server run the program, write its output as it comes, and return its exit code."""
    message = {
        "request": request,
        "json": options.as_json,
        "encoding": sys.stdout.encoding,
        "terminals": [stream for stream in (1, 2) if os.isatty(stream)],
    }
    try:
        server.connection.sendall(run_protocol.pack(message))
        return _pass_on(server.connection)
    except KeyboardInterrupt:
        _cancel(server.connection)
        return _INTERRUPTED
    except (EOFError, ConnectionError):
        return _end("the server that ran it has ended\nhint: run it again", _NO_SERVER)


def _pass_on(connection: socket.socket) -> int:
    """Write output until the last frame; return its exit code. Raises EOFError or ConnectionError if none comes."""
    while True:
        kind, data = _receive(connection)
        if kind != run_protocol.JSON:
            try:
                _write(kind, data)
            except OSError as error:
                _cancel(connection)
                return of_unwritten(error)
            continue
        message = json.loads(data)
        return _end(message["error"], message["exit_code"]) if "error" in message else int(message["exit_code"])


def _receive(connection: socket.socket) -> tuple[int, bytes]:
    kind, size = run_protocol.HEAD.unpack(_receive_exactly(connection, run_protocol.HEAD.size))
    return kind, _receive_exactly(connection, size)


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        if not (piece := connection.recv(size - len(data))):
            raise EOFError
        data += piece
    return bytes(data)


def _write(stream: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        try:
            view = view[os.write(stream, view[:_PIECE_BYTES]) :]
        except BlockingIOError:  # another user of the stream has set O_NONBLOCK
            select.select([], [stream], [])


def _cancel(connection: socket.socket) -> None:
    """Cancel the run, and wait until nothing of it is left."""
    with contextlib.suppress(OSError, EOFError):
        connection.shutdown(socket.SHUT_WR)
        while True:
            _receive(connection)


def _end(text: str, code: int) -> int:
    sys.stderr.write(f"gloveport: {text}\n")
    return code
