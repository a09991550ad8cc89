"""The host's side of a fork server: one bubblewrap sandbox in which sandboxes of one profile are forked.

The fork server is ``guest/zygote.py``. Each child reports its isolation, which is checked here before the child is
handed out, as with a sandbox built for one program.
"""

import base64
import contextlib
import errno
import functools
import os
import signal
import socket
import struct
from collections.abc import AsyncIterator
from io import FileIO
from typing import TYPE_CHECKING

import anyio
from msgspec import Struct, field

from gloveport.errors import ForkRefusedError, GuestError, SandboxError
from gloveport.late_module import late_module
from gloveport.model import Limits
from gloveport.model.byte_size import ByteSize
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import ExitStatus
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.kernel_memory import free_leftovers
from gloveport.sandbox.launch import apparmor, bubblewrap
from gloveport.sandbox.launch.bubblewrap_process import BubblewrapProcess, is_dead, kill
from gloveport.sandbox.launch.spawn import ZYGOTE, Bubblewrap, EarlyProcess, new_name, socketpair
from gloveport.sandbox.plan import PathProtection, Plan
from gloveport.sandbox.run import file_watches, frames
from gloveport.sandbox.run.isolation_check import expect_isolation
from gloveport.sandbox.seccomp.compiler import compile_filter

if TYPE_CHECKING:
    from gloveport.sandbox.run import confined, program_channel, supervised_calls
else:
    confined = late_module("gloveport.sandbox.run.confined")
    program_channel = late_module("gloveport.sandbox.run.program_channel")
    supervised_calls = late_module("gloveport.sandbox.run.supervised_calls")

_STATUS = struct.Struct("ii")
_ASK_SECONDS = 15.0
# An interpreter reserves addresses, and what all of a user's processes have in flight counts against each that sends.
_WITH_THE_PROGRAM = ("RLIMIT_CPU", "RLIMIT_AS", "RLIMIT_NOFILE")
# Limits of the fork server itself, which runs only our code: far above its needs.
_LIMITS = Limits(memory_bytes=ByteSize(4 << 30), processes=4096, cpus=1024)


class ZygoteProcess(Struct, kw_only=True):
    """A running fork server.

    Attributes:
        inner: Process descriptor of its pid namespace's init process.
        forks: How many children it has forked.
        worn: Set when it should be replaced, or is dead.
        retired: Set when it has been replaced.
    """

    backend: Bubblewrap
    plan: Plan
    spawned: BubblewrapProcess
    inner: FileIO
    forks: int = 0
    worn: anyio.Event = field(default_factory=anyio.Event)
    retired: anyio.Event = field(default_factory=anyio.Event)
    _children: int = 0
    _child_ended: anyio.Event = field(default_factory=anyio.Event)
    _asking: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _protections: tuple[PathProtection, ...] | None = ()
    """The protected paths of its next children, as last told to it."""

    @contextlib.asynccontextmanager
    async def fork(self, protections: tuple[PathProtection, ...] = ()) -> "AsyncIterator[confined.Confined]":
        """Fork a confined sandbox that waits for its program; on leaving, nothing is left of it. ``protections`` are
        the protected paths in directories that programs may write, parents first.

        Raises:
            SandboxError: The fork server is dead, a wall is missing, or a protected path does not exist.
        """
        self.forks += 1
        self._children += 1
        try:
            with contextlib.ExitStack() as stack:
                tree = self.backend.tree
                group = stack.enter_context(tree.group(new_name("run"), self.plan.limits)) if tree else None
                with self.spawned.report_failures():
                    with contextlib.ExitStack() as far:
                        channel, their_channel = socketpair(stack)
                        far.enter_context(their_channel)
                        status, their_status = socketpair(stack)
                        far.enter_context(their_status)
                        groups = far.enter_context(group.open_entrances()) if group else ()
                        descriptors = their_channel.fileno(), their_status.fileno(), *groups
                        await self._ask(descriptors, protections)
                    inner = stack.enter_context(await frames.receive_descriptor(status))
                async with free_leftovers(group), _kill_on_exit(inner, group):
                    with self.spawned.report_failures():
                        network = frames.NetworkSockets()
                        if self.plan.doors or self.plan.connectors:
                            network = await frames.receive_network(
                                channel, self.plan.doors, self.plan.connectors, stack
                            )
                        if self.plan.supervised:
                            listener = await frames.receive_descriptor(channel)
                            watched = [one.target for one in self.plan.writable]
                            stack.enter_context(supervised_calls.serve(listener, watched, self.spawned.uid))
                        walls, pid, directories = await expect_isolation(
                            channel, stack, landlock_abi=self.backend.landlock_abi
                        )
                        if group is not None and not groups:
                            group.attach(pid)
                        to_program = stack.enter_context(program_channel.ProgramChannel.open(channel, self.spawned.uid))
                    child = confined.Confined(
                        plan=self.plan,
                        channel=to_program,
                        pid=pid,
                        inner=inner,
                        walls=walls,
                        group=group,
                        doors=network.doors,
                        connectors=network.connectors,
                        uid=self.spawned.uid,
                        directories=directories,
                        protections=protections,
                        rlimits=_rlimits_of_all(self.plan),
                        over=status,
                        ends_with_report=True,
                        exit_status=functools.partial(_receive_exit_status, status),
                    )
                    with contextlib.closing(child):
                        yield child
        except SandboxError as error:
            if isinstance(error.__cause__, TimeoutError):  # a fork server that hangs would delay every run
                self.kill()
            raise
        finally:
            self._children -= 1
            self._child_ended.set()

    async def _ask(self, descriptors: tuple[int, ...], protections: tuple[PathProtection, ...]) -> None:
        """Have a child forked with these protected paths.

        Raises:
            TimeoutError, GuestError, OSError: The fork server does not answer, or is dead.
        """
        # A caller cancelled between question and answer would leave its answer to the next caller.
        with anyio.CancelScope(shield=True), anyio.fail_after(_ASK_SECONDS):
            async with self._asking:  # its protected paths apply to the next child
                if protections != self._protections:
                    self._protections = None
                    await frames.send_descriptors(self.spawned.channel)
                    await frames.send(self.spawned.channel, {"kept": protections})
                    await frames.expect(self.spawned.channel)
                    self._protections = protections
                await frames.send_descriptors(self.spawned.channel, descriptors)

    def is_alive(self) -> bool:
        """Whether it can still fork."""
        return not is_dead(self.inner)

    def kill(self) -> None:
        """End it, and all its children."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.inner.fileno(), signal.SIGKILL)

    async def until_dead(self) -> None:
        """Wait until it is dead."""
        await anyio.wait_readable(self.inner)

    async def until_childless(self) -> None:
        """Wait until none of its children is left."""
        while self._children:
            self._child_ended = anyio.Event()
            await self._child_ended.wait()


@contextlib.asynccontextmanager
async def start(
    backend: Bubblewrap, plan: Plan, early_process: EarlyProcess | None = None
) -> AsyncIterator[ZygoteProcess]:
    """Start a fork server for sandboxes of ``plan``; on leaving, it is dead, with all its children.
    ``early_process``: its process, if ``Bubblewrap.begin_zygote`` has started it.

    Raises:
        ForkRefusedError: No fork server can work on this host.
        SandboxError: It can't be built.
    """
    with contextlib.ExitStack() as stack:
        tree = backend.tree
        group = stack.enter_context(tree.group(new_name("zygote"), _LIMITS)) if tree else None
        async with backend.spawn(plan, ZYGOTE, bubblewrap.arguments_of_zygote, early_process=early_process) as spawned:
            with spawned.report_failures():
                with group.open_entrances() if group else contextlib.nullcontext(()) as groups:
                    await frames.send(spawned.channel, {"zygote": _profile(plan, len(groups))}, groups)
                ready, pid = await frames.expect(spawned.channel)
                if "refused" in ready:
                    raise _as_error(ready["refused"], backend)
                if ready.get("ready") != {"mounts": [list(identity) for identity in spawned.mount_identities]}:
                    raise GuestError("what is mounted in it is not what was named")
                inner = await spawned.find_inner()
                if group is not None:
                    if not groups:
                        group.attach(pid)
                    group.set_weight(cgroup.BACKGROUND)
            yield ZygoteProcess(backend=backend, plan=plan, spawned=spawned, inner=inner)


def _as_error(refusal: JsonValue, backend: Bubblewrap) -> ForkRefusedError:
    """The error for a fork server's report about the host."""
    report = refusal if isinstance(refusal, dict) else {}
    code, label = report.get("error"), report.get("apparmor")
    reason = os.strerror(code if isinstance(code, int) else errno.EPERM)
    if not label or label == apparmor.read_label():  # a profile that confines us too is not bubblewrap's
        return ForkRefusedError(f"no process inside bubblewrap can make namespaces: {reason}", hint=apparmor.UNKNOWN)
    return ForkRefusedError(
        f"AppArmor lets no process inside bubblewrap make namespaces: {reason}, by {label}",
        hint=apparmor.repair(backend.program),
    )


def _profile(plan: Plan, groups: int) -> dict[str, object]:
    """The fork server's settings for all its children; ``groups``: how many cgroups each enters by itself."""
    code = compile_filter(os.uname().machine, plan.families, supervised=plan.supervised, ptrace=plan.ptrace)
    return {
        "groups": groups,
        "rlimits": _rlimits_of_all(plan),
        "preload": plan.preload,
        "setup": {"landlock": plan.landlock, "mounts": [mount.target for mount in plan.mounts]},
        "tmpfs": [(tmpfs.path, tmpfs.size) for tmpfs in plan.tmpfs],
        "masked": plan.masked,
        "doors": plan.doors,
        "connectors": plan.connectors,
        "sysctls": dict(plan.sysctls),
        "filter": base64.b64encode(code).decode(),
        "watches": file_watches.read_bounds() if plan.supervised else None,
    }


async def _receive_exit_status(status: socket.socket) -> ExitStatus:
    """The exit status of a child, from the fork server.

    Raises:
        SandboxError: None comes: the fork server has died, and the child with it, whatever the program was doing.
    """
    data = status.recv(_STATUS.size)
    if len(data) < _STATUS.size:
        raise SandboxError("the fork server died and took the program with it", hint="run the program again")
    ended, left_behind = _STATUS.unpack(data)
    return ExitStatus(code=os.waitstatus_to_exitcode(ended), left_behind=left_behind)


@contextlib.asynccontextmanager
async def _kill_on_exit(inner: FileIO, group: cgroup.Cgroup | None) -> AsyncIterator[None]:
    """On leaving, kill the pid namespace of this init process."""
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            if group is not None and not is_dead(inner):
                group.lift_quota()
            await kill(inner)


def _rlimits_of_all(plan: Plan) -> dict[str, tuple[int, int]]:
    """The limits of each child from its start. The others come with the program."""
    return {name: limit for name, limit in plan.rlimits.items() if name not in _WITH_THE_PROGRAM}
