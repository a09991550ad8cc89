"""Runs commands that print a secret, in a minimal environment; none of its processes outlives the answer."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import FileIO

import anyio

from gloveport.errors import ConfigError
from gloveport.secrets.secret_files import MOST_BYTES, decode_secret

# The variables that a command needs to find programs, its owner's files and unlocked keyring; never our own secrets.
_PASSED = ("PATH", "HOME", "LANG", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_CHUNK_BYTES = 4096


async def run_line(line: str, environ: Mapping[str, str]) -> str:
    """Run a command line and return its output, without the newline at its end. No shell reads the line.

    Raises:
        ConfigError: It is no command line, can't be started, fails, or prints too much or no text.
    """
    try:
        argv = shlex.split(line)
    except ValueError:
        raise ConfigError("it is no command line", hint="a quotation mark is not closed") from None
    if not argv:
        raise ConfigError("it names no command", hint="write the command and its arguments behind command:")
    return await _run(argv, environ)


async def ask_keyring(service: str, user: str, environ: Mapping[str, str]) -> str:
    """Ask the keyring of the system, in a process of its own: a backend may hang, or ask a person.

    Raises:
        ConfigError: As ``run_line``; also where there is no such entry.
    """
    argv = (sys.executable, "-P", "-X", "utf8", "-m", "keyring", "get", "--", service, user)
    try:
        return await _run(argv, environ)
    except ConfigError as error:
        raise ConfigError(
            "the keyring has no such entry, or is locked", hint=f"{shlex.join(('keyring', 'set', service, user))}"
        ) from error


async def _run(argv: Sequence[str], environ: Mapping[str, str]) -> str:
    process = _start(argv, environ)
    try:
        output = await _output(process)
        await _wait_ended(process)
    finally:
        # Its number, also its group's, is not reused before it is reaped: so this can hit no other process.
        os.killpg(process.pid, signal.SIGKILL)
        with anyio.CancelScope(shield=True):
            await _wait_ended(process)
        process.wait()
    if process.returncode:
        raise ConfigError(
            f"the command failed with status {process.returncode}", hint="run it by hand; it has to print the secret"
        )
    return decode_secret(output)


def _start(argv: Sequence[str], environ: Mapping[str, str]) -> "subprocess.Popen[bytes]":
    try:
        return subprocess.Popen(  # noqa: S603 - the operator's own words, and no shell
            argv,
            bufsize=0,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: environ[name] for name in _PASSED if name in environ},
            cwd="/",  # a relative name must not find a program in the directory that we were started in
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it holds a NUL"
        raise ConfigError(
            f"the command can't be started: {why}",
            hint="install it, or name it by its whole path; it is looked for along PATH",
        ) from error


async def _output(process: "subprocess.Popen[bytes]") -> bytes:
    """Its whole output."""
    output = bytearray()
    assert process.stdout is not None  # noqa: S101 - it was asked for
    with process.stdout as pipe:
        while True:
            await anyio.wait_readable(pipe)
            data = os.read(pipe.fileno(), _CHUNK_BYTES)
            output += data
            if not data:
                return bytes(output)
            if len(output) > MOST_BYTES:
                raise ConfigError(f"the command prints more than {MOST_BYTES} bytes", hint="print the secret alone")


async def _wait_ended(process: "subprocess.Popen[bytes]") -> None:
    """Wait for its end, without reaping it."""
    with FileIO(os.pidfd_open(process.pid)) as descriptor:
        await anyio.wait_readable(descriptor)
