"""Starts a server's process as the leader of its own process group, and ends the whole group."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from io import FileIO
from pathlib import Path
from typing import IO, Final

import anyio

from gloveport.errors import UpstreamError
from gloveport.hub.connection.server_command import directory, environment, program
from gloveport.model.hub import Server
from gloveport.policy.wording import quote_sent

_LAUNCH = Path(__file__).with_name("server_launch.py")
GRACE_SECONDS: Final = 2.0
"""How long to wait after each step of ending a process: closing its input, SIGTERM, SIGKILL."""


def start_process(
    name: str, server: Server, environ: Mapping[str, str], secrets: Mapping[str, str]
) -> "subprocess.Popen[bytes]":
    """Start the process, with pipes for its standard streams. Arguments as for ``stdio_connection.connect``.

    Raises:
        UpstreamError: ``server_unavailable``: the process can't be started.
    """
    env = environment(server, environ, secrets)
    path = program(name, server, env)
    launched = (sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), ",".join(env), path, *server.command)
    try:
        return subprocess.Popen(  # noqa: S603 - the operator's own words, and no shell
            launched,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd=directory(server, env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = (
            f"{error.strerror}: {quote_sent(directory(server, env))}"
            if isinstance(error, OSError)
            else "a variable holds a NUL"
        )
        raise UpstreamError(
            "server_unavailable",
            f"The server {quote_sent(name)} can't be started: {why}.",
            hint="Look at its command, its directory and its environment in the configuration.",
        ) from error


def exit_status(process: "subprocess.Popen[bytes]") -> str:
    """Describe how the process has ended, if it is known. The process is not reaped, so nobody else gets its pid."""
    found = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if found is None:
        return ""
    if found.si_code == os.CLD_EXITED:
        return f" with status {found.si_status}"
    return f" by the signal {signal.Signals(found.si_status).name}"


async def end_process(process: "subprocess.Popen[bytes]", graces: tuple[float, float] | None = None) -> None:
    """Close the process's input, wait, send SIGTERM, wait, then kill its whole group, and wait until it has ended."""
    if process.returncode is not None:
        return
    with anyio.CancelScope(shield=True):
        _close(process.stdin)
        if graces and not await wait_ended(process, graces[0]):
            _signal(process, signal.SIGTERM)
            await wait_ended(process, graces[1])
        _signal(process, signal.SIGKILL)  # also what the process has left running in its group
        await wait_ended(process, GRACE_SECONDS)
    process.poll()
    _close(process.stdout)
    _close(process.stderr)


def _signal(process: "subprocess.Popen[bytes]", number: int) -> None:
    """Signal the process's group. The process is not reaped, so its pid, the group's id, can't be another's by now."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _close(pipe: IO[bytes] | None) -> None:
    """Close a pipe, and notify who waits for it: else they would wait on, and the event loop would mistake the next
    file with the same number for it.
    """
    assert pipe is not None  # noqa: S101 - it was asked for
    if not pipe.closed:
        anyio.notify_closing(pipe.fileno())
        with contextlib.suppress(BrokenPipeError):
            pipe.close()


async def wait_ended(process: "subprocess.Popen[bytes]", seconds: float) -> bool:
    """Wait for the end of the process, for so many seconds at most, without reaping it."""
    with FileIO(os.pidfd_open(process.pid)) as descriptor, anyio.move_on_after(seconds):
        await anyio.wait_readable(descriptor)
        return True
    return False
