"""The processes of one bubblewrap sandbox, their pid namespace, and the channel to our first process inside."""

import contextlib
import errno
import json
import os
import select
import signal
import socket
from collections.abc import Iterator, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct

from gloveport.errors import MORE_FILES, GuestError, SandboxError
from gloveport.sandbox.base import ExitStatus
from gloveport.sandbox.launch.launcher import Launched
from gloveport.sandbox.plan import Door
from gloveport.sandbox.run import frames

ASK_DOCTOR = "`gloveport doctor` names the missing layer and the command that repairs it"
"""The hint for failures of which only the failing process's words are known."""

_OTHER_FILE_SYSTEM = (
    "have it on a file system with id-mapped mounts, such as ext4, and in a container, whose overlay has none, on a "
    "volume; or start Gloveport as an ordinary user"
)
_CLOSED_DIRECTORY = (
    "this file is protected, and its directory is closed to the owner of the workspace: give it to them (chown), or "
    "open it (chmod)"
)
_HINTS: Final = {
    "(mount_setattr)": _OTHER_FILE_SYSTEM,
    os.strerror(errno.EMFILE): MORE_FILES,
    f"[Errno {errno.EACCES}] syscall(437, ": _CLOSED_DIRECTORY,  # openat2
}
"""What a failing process may say → what to do about it."""

_START_SECONDS = 20.0
_INFORMATION_BYTES = 4096
_DIAGNOSIS_BYTES = 4096


def make_build_error(words: str) -> SandboxError:
    """The error for a sandbox that could not be built, as the process says that has failed."""
    hint = next((hint for text, hint in _HINTS.items() if text in words), ASK_DOCTOR)
    return SandboxError(f"the sandbox could not be built: {words}", hint=hint)


class BubblewrapProcess(Struct, kw_only=True):
    """Bubblewrap's processes, and the channel to our first process inside.

    Attributes:
        uid: The host's uid of all of them, if not ours.
        mount_identities: Device and inode of each bind's source, as found before anything was started.
        network: Socket to the process that prepares the network from outside, if no process inside does.
        inner: Process descriptor of the pid namespace's init: readable when all of the namespace is dead.
    """

    process: Launched
    channel: socket.socket
    uid: int | None
    mount_identities: tuple[tuple[int, int], ...]
    info: FileIO
    diagnosis: FileIO
    network: socket.socket | None
    inner: FileIO | None = None
    _number: int = 0
    """The process id of the same init; once it is dead, the number may be another process's."""

    async def find_inner(self) -> FileIO:
        """Open the pid namespace's init. Call it when our first process has sent its first frame.

        Raises:
            GuestError: It has died.
        """
        await self.process.wait_started()
        information = json.loads(self.info.read(_INFORMATION_BYTES) or b"{}")
        self.inner = open_child(information.get("child-pid"), self.process)
        self._number = information["child-pid"]
        return self.inner

    async def prepare_network(
        self, doors: Sequence[Door], connectors: Sequence[int], stack: contextlib.ExitStack
    ) -> frames.NetworkSockets:
        """Set up the network namespace of the init that was found. ``stack`` closes the received sockets.

        Raises:
            GuestError: It can't be set up.
        """
        if self.network is None or self.inner is None:
            return frames.NetworkSockets()
        self.network.send(b"%d" % self._number)
        sockets = await frames.receive_network(self.network, doors, connectors, stack)
        if is_dead(self.inner):
            raise GuestError("it died while its network was set up")  # if it still lives, the number was its own
        await anyio.wait_readable(self.network)  # until the process is gone: the program must not meet it
        return sockets

    @contextlib.contextmanager
    def report_failures(self) -> Iterator[None]:
        """Turn failures during the build of a sandbox into one error, with the words of the failing process.

        Raises:
            SandboxError: Always, when something goes wrong.
        """
        try:
            with anyio.fail_after(_START_SECONDS):
                yield
        except (TimeoutError, GuestError, OSError) as error:
            data = b"" if self.diagnosis.closed else self.diagnosis.read(_DIAGNOSIS_BYTES) or b""
            words = data.decode(errors="replace").strip()
            raise make_build_error(words or str(error) or "no answer in time") from error

    async def exit_status(self) -> ExitStatus:
        """Bubblewrap's exit status: the program's exit code, or 128 + the signal that ended it."""
        await self.process.wait()
        code = self.process.code
        return ExitStatus(code=code if code is not None and code >= 0 else None)

    async def end(self) -> None:
        """Kill all that is left and wait until nothing is."""
        if self.network is not None:
            self.network.close()  # ends that process, whatever it is doing
        self.process.kill()  # works also before bubblewrap has built its namespaces
        if self.inner is not None:
            await kill(self.inner)
            self.inner.close()
        await self.process.wait()


async def kill(inner: FileIO) -> None:
    """Kill a pid namespace by its init and wait until nothing of it is left."""
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(inner.fileno(), signal.SIGKILL)
    await anyio.wait_readable(inner)


def is_dead(inner: FileIO) -> bool:
    """Whether a pid namespace is dead, by its init's process descriptor."""
    poll = select.poll()
    poll.register(inner, select.POLLIN)
    return bool(poll.poll(0))


def open_child(pid: object, parent: Launched) -> FileIO:
    """A process descriptor of a process whose number and parent are known.

    Raises:
        GuestError: There is no such child: it has died, and its number may be another process's by now.
    """
    if not isinstance(pid, int):
        raise GuestError("bubblewrap told no process id")
    with contextlib.ExitStack() as stack:
        try:
            descriptor = stack.enter_context(FileIO(os.pidfd_open(pid)))
            status = Path(f"/proc/{pid}/stat").read_bytes()  # with a name of any bytes
        except OSError as error:
            raise GuestError("it died while it was built") from error
        if int(status.rpartition(b")")[2].split()[1]) != parent.pid:
            raise GuestError("it died while it was built")
        stack.pop_all()
    return descriptor
