"""Hands a program to the process inside a sandbox that will run it, and holds the host's ends of its streams.

A program comes when it is to run, or its interpreter is started ahead of it and waits for its text. It has no input, or
has a console: a pipe or a terminal, and a process that gets signals.
"""

import contextlib
import fcntl
import operator
import os
import socket
from collections.abc import Iterator, Mapping
from io import FileIO
from types import MappingProxyType
from typing import Self

import anyio
from msgspec import Struct

from gloveport.errors import GuestError
from gloveport.model import Program
from gloveport.sandbox.console import Console, close
from gloveport.sandbox.run import frames

_EVERY_SEAL = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
_READY = b"R"
# The fields of a program that are sent to the guest.
_JOB = ("name", "source", "argv", "text", "descriptor", "report", "variables", "directory", "terminal", "foreground")
_get_job = operator.attrgetter(*_JOB)


class ProgramChannel(Struct, kw_only=True):
    """The channel to one program.

    Attributes:
        near: Socket to the process inside that will run it, or start its interpreter.
        stdout: The program's output, if it has no terminal. It does not block.
        stderr: Likewise its standard error.
        far: The ends that the program writes to.
        stdin: Where a prestarted interpreter waits for the program.
        text: Memory file from which that interpreter reads the program instead.
        notes: Reports of its interpreter.
        terminal: Its terminal, if it has one.
    """

    near: socket.socket
    stdout: FileIO
    stderr: FileIO
    far: tuple[FileIO, FileIO]
    stdin: FileIO | None = None
    text: FileIO | None = None
    notes: FileIO | None = None
    terminal: FileIO | None = None
    _input: FileIO | None = None
    """Its input, if that is a pipe that stays open."""

    _stops: FileIO | None = None
    """Readable when the program is stopped, if that is watched."""

    _process: FileIO | None = None
    """The program's process descriptor."""

    @classmethod
    @contextlib.contextmanager
    def open(cls, near: socket.socket, uid: int | None) -> Iterator[Self]:
        """Open the pipes of its output, which are closed on leaving. For the rest see ``close``. ``uid`` is the host's
        uid of the program, if not ours: only their owner can open /dev/stdout.

        Raises:
            OSError: No descriptors are left.
        """
        with contextlib.ExitStack() as stack:
            (stdout, far_stdout), (stderr, far_stderr) = frames.open_pipe(stack), frames.open_pipe(stack)
            if uid is not None:
                for end in (far_stdout, far_stderr):
                    os.fchown(end.fileno(), uid, uid)
            yield cls(near=near, stdout=stdout, stderr=stderr, far=(far_stdout, far_stderr))

    async def start_ahead(self, program: Program, settings: Mapping[str, object]) -> None:
        """Start the interpreter ahead of its program, and wait until it is ready. See ``hand_over``.

        Raises:
            GuestError, OSError: It does not start.
        """
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self.stdin = FileIO(writing, "w")
        with FileIO(reading) as far:
            inputs = {0: far}
            if program.descriptor:
                self.text = FileIO(os.memfd_create("program", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "r+")
                inputs[program.descriptor] = self.text
            await self.hand_over(program.model_copy(update={"argv": program.waiting, "text": ""}), settings, inputs)
        await anyio.wait_readable(self.stdout)
        if self.stdout.read(1) != _READY:
            raise GuestError("the interpreter did not say that it is ready")

    def seal_text(self, text: str) -> None:
        """Write the text of a program to the memory file that its interpreter reads, and seal it against changes.

        Raises:
            OSError: It can't be sealed: it could still change.
        """
        assert self.text is not None  # noqa: S101 - its interpreter has it
        data, written = text.encode("utf-8", "surrogatepass"), 0
        while written < len(data):
            written += os.pwrite(self.text.fileno(), data[written:], written)
        fcntl.fcntl(self.text, fcntl.F_ADD_SEALS, _EVERY_SEAL)

    async def start_with_console(self, program: Program, settings: Mapping[str, object], process: FileIO) -> Console:
        """Start a program with a console. See ``hand_over``. ``process`` is closed with this channel.

        Raises:
            GuestError, OSError: It does not start.
        """
        self._process = process
        if program.terminal:
            await self.hand_over(program, settings)
            try:
                self.terminal = await frames.receive_descriptor(self.near, "r+")
            except GuestError as error:
                raise GuestError("no terminal is to be had, perhaps on all of this host") from error
            os.set_blocking(self.terminal.fileno(), False)
            input_ = output = self.terminal
        else:
            reading, writing = os.pipe()
            os.set_blocking(writing, False)
            input_ = self._input = FileIO(writing, "w")
            output = self.stdout
            with FileIO(reading) as far:
                await self.hand_over(program, settings, {0: far})
        if program.foreground:
            self._stops = await frames.receive_descriptor(self.near)
            os.set_blocking(self._stops.fileno(), False)
        return Console(
            input=input_,
            output=output,
            errors=self.stderr,
            stops=self._stops,
            process=process,
            is_terminal=bool(program.terminal),
        )

    async def hand_over(
        self,
        program: Program,
        settings: Mapping[str, object],
        inputs: Mapping[int, FileIO | socket.socket] = MappingProxyType({}),
    ) -> None:
        """Send the program, the far ends of its streams, and ``inputs``: further descriptors, by their number in its
        interpreter.

        The far ends are closed here, or the streams would never end. ``settings``: further values for the guest.

        Raises:
            GuestError, OSError: The process inside is gone.
        """
        job = {**dict(zip(_JOB, _get_job(program), strict=True)), **settings, "inputs": list(inputs)}
        job["session"] = program.session.model_dump(mode="json") if program.session else None
        descriptors = tuple(end.fileno() for end in (*self.far, *inputs.values()))
        await frames.send(self.near, {"program": job}, descriptors)
        for end in self.far:
            end.close()
        if program.report:  # our own code still runs there: only now may it send a descriptor
            self.notes = await frames.receive_descriptor(self.near)

    def close(self) -> None:
        """Close all that was opened for the program, except its output."""
        for file in (self.stdin, self.text, self.notes, self._process):
            if file is not None:
                file.close()
        for file in (self.terminal, self._input, self._stops):
            if file is not None:
                close(file)
