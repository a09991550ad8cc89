"""Builds planned sandboxes with bubblewrap and sees each through to its end.

Whatever happens, leaving ``start``'s context means that every process of the sandbox is dead, its cgroup removed and
its uid free again.
"""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import anyio
import anyio.lowlevel

from gloveport.errors import GuestError, SandboxError
from gloveport.sandbox import bubblewrap, cgroup, identity, launch, seccomp
from gloveport.sandbox.base import Child, Plan
from gloveport.sandbox.built import Built, pipe

_START_SECONDS = 20.0
_STAGE = "/run"
_DIAGNOSIS_BYTES = 4096


@dataclass(frozen=True, kw_only=True)
class UidRange:
    """Unprivileged uids for sandboxes of a server that runs as root."""

    first: int
    count: int


@dataclass(frozen=True, kw_only=True)
class Bubblewrap:
    """The bubblewrap backend.

    Attributes:
        program: Path of bubblewrap.
        uids: The uids to drop to; None when this process is an ordinary user already.
        tree: Where cgroups are made; None where the host offers none and the policy does without.
        landlock_abi: The least Landlock that is accepted.
    """

    program: Path
    uids: UidRange | None
    tree: cgroup.Tree | None
    landlock_abi: int

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``."""
        with contextlib.ExitStack() as stack:
            uid = stack.enter_context(identity.lease(self.uids.first, self.uids.count)) if self.uids else None
            name = f"run-{os.urandom(8).hex()}"
            group = stack.enter_context(self.tree.group(name, plan.limits)) if self.tree else None
            try:
                built, info, diagnosis = self._begin(plan, uid, group, stack)
            except OSError as error:
                raise SandboxError(f"the sandbox could not be built: {error}") from error
            try:
                await self._confine(built, info, diagnosis)
                yield built
            finally:
                with anyio.CancelScope(shield=True):
                    await built.end()

    def _begin(
        self, plan: Plan, uid: int | None, group: cgroup.Group | None, stack: contextlib.ExitStack
    ) -> tuple[Built, FileIO, FileIO]:
        """Start its processes; with it come the ends of the pipes for bubblewrap's information and complaints."""
        shown = tuple(_identity(bind.source) for bind in plan.binds)
        channel, theirs = socket.socketpair()
        stack.enter_context(channel)
        channel.settimeout(0)
        channel.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before the other end can write
        with theirs:
            diagnosis, stderr = pipe(stack)
            info, info_end = pipe(stack)
            with stderr, info_end:
                process = self._spawn(plan, uid, theirs.fileno(), stderr.fileno(), info_end.fileno())
        return Built(plan=plan, process=process, channel=channel, group=group, uid=uid, shown=shown), info, diagnosis

    def _spawn(self, plan: Plan, uid: int | None, control: int, stderr: int, info: int) -> "subprocess.Popen[bytes]":
        """Start launch → bubblewrap → init. The descriptors named here are all that they inherit."""
        program = str(self.program)
        sources = list(dict.fromkeys([program, *(bind.source for bind in plan.binds)]))
        staged = {} if uid is None else {source: f"{_STAGE}/{index}" for index, source in enumerate(sources)}
        with contextlib.ExitStack() as stack:
            descriptors = bubblewrap.Descriptors(
                seccomp=_memory(stack, seccomp.compile_filter(os.uname().machine, plan.families)),
                info=info,
                control=control,
                files=tuple(_memory(stack, file.text.encode()) for file in plan.files),
            )
            options = "\0".join(bubblewrap.arguments(plan, descriptors, staged))
            # By descriptor: the sandbox can read the command line of its pid 1, which is bubblewrap.
            arguments = _memory(stack, options.encode())
            argv = [staged.get(program, program), "--args", str(arguments), "--", *plan.init, str(control)]
            spec = {"argv": argv, "uid": uid, "sources": sources, "stage": _STAGE}
            specification = _memory(stack, json.dumps(spec).encode())
            # In the thread that lives as long as the server: bubblewrap dies with the thread that started it.
            return subprocess.Popen(  # noqa: S603 - every word of the command line is ours
                [sys.executable, "-I", "-S", launch.__file__, str(specification)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={},
                cwd="/",
                pass_fds=(specification, arguments, descriptors.seccomp, info, control, *descriptors.files),
                start_new_session=True,
            )

    async def _confine(self, built: Built, info: FileIO, diagnosis: FileIO) -> None:
        """Wait until the sandbox stands; what went wrong becomes one error with bubblewrap's own words in it."""
        try:
            with anyio.fail_after(_START_SECONDS):
                await built.confine(info, self.landlock_abi)
        except (TimeoutError, GuestError, OSError) as error:
            with anyio.CancelScope(shield=True):
                await built.end()
            said = (diagnosis.read(_DIAGNOSIS_BYTES) or b"").decode(errors="replace").strip()
            raise SandboxError(
                f"the sandbox could not be built: {said or str(error) or 'no answer in time'}",
                hint="`gloveport doctor` names the missing layer and the command that repairs it",
            ) from error


def _identity(source: str) -> tuple[int, int]:
    """Device and inode of a bind's source, reached without a symbolic link.

    Raises:
        OSError: It is not there, or a component of its path is a link.
    """
    descriptor = launch.open_plain(source)
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_dev, status.st_ino


def _memory(stack: contextlib.ExitStack, data: bytes) -> int:
    """A descriptor from which ``data`` can be read once: bubblewrap reads to the end."""
    file = stack.enter_context(FileIO(os.memfd_create("gloveport"), "w+"))
    file.write(data)
    file.seek(0)
    return file.fileno()
