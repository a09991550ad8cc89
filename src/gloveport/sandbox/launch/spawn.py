"""Starts bubblewrap, and builds with it sandboxes for one program each.

Whatever happens, when such a context is left, every process of the sandbox is dead, its cgroup removed and its uid free
again.
"""

import base64
import contextlib
import functools
import marshal
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import anyio
from msgspec import Struct

from gloveport.errors import SandboxError
from gloveport.file_descriptors import closing
from gloveport.late_module import late_module
from gloveport.model import GUEST
from gloveport.sandbox.base import Child
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.cgroups.kernel_memory import free_leftovers
from gloveport.sandbox.launch import bubblewrap, uid_lease
from gloveport.sandbox.launch.bubblewrap_process import BubblewrapProcess, make_build_error
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.plan import Door, Plan, TextFile
from gloveport.sandbox.reaper import launch, reaper
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.isolation_check import expect_isolation
from gloveport.sandbox.seccomp.compiler import compile_filter

if TYPE_CHECKING:
    from gloveport.sandbox.run import confined, program_channel
else:
    confined = late_module("gloveport.sandbox.run.confined")
    program_channel = late_module("gloveport.sandbox.run.program_channel")

ZYGOTE = f"{GUEST}/zygote.py"
"""The program of a fork server."""

_INIT = f"{GUEST}/init.py"
_STAGE = "/run"

Options: TypeAlias = Callable[[Plan, bubblewrap.Descriptors, Mapping[str, str]], list[str]]


class UidRange(Struct, frozen=True, kw_only=True):
    """Unprivileged uids for sandboxes of a server that runs as root."""

    first: int
    count: int


class EarlyProcess(Struct, frozen=True, kw_only=True):
    """A process that ``Bubblewrap`` has started early: ``spawn`` adopts it, or closing ``stack`` kills it.

    Attributes:
        stack: Closes our descriptors of it.
    """

    process: BubblewrapProcess
    stack: contextlib.ExitStack


class _Prepared(Struct, frozen=True, kw_only=True):
    """The inputs of a launch: see ``Launcher.launch``.

    Attributes:
        process: Makes the yielded process from the launched one.
    """

    passed: tuple[int, ...]
    held_descriptors: tuple[int, ...]
    process: "functools.partial[BubblewrapProcess]"


class Bubblewrap(Struct, frozen=True, kw_only=True):
    """The bubblewrap backend: builds a sandbox for each program.

    Attributes:
        uids: The uids to drop to; None when this process is an ordinary user already.
        tree: Where cgroups are made; None if the host offers none and the policy accepts that.
        landlock_abi: The least accepted Landlock ABI.
    """

    launcher: Launcher
    program: Path
    uids: UidRange | None
    tree: cgroup.CgroupTree | None
    landlock_abi: int

    def start(self, plan: Plan) -> contextlib.AbstractAsyncContextManager[Child]:
        """See ``sandbox.base.Sandbox``."""
        return self.build(plan)

    @contextlib.asynccontextmanager
    async def build(self, plan: Plan, early_process: EarlyProcess | None = None) -> "AsyncIterator[confined.Confined]":
        """As ``start``, for callers that do more than run a program.

        ``early_process``: from ``begin_build``, for the same walls.

        Raises:
            SandboxError: A wall of the plan can't be built on this host.
        """
        if plan.writable:
            raise SandboxError("nothing of the host can be written in a sandbox that no fork server makes")
        with contextlib.ExitStack() as stack:
            async with (
                contextlib.AsyncExitStack() as leftovers,
                self.spawn(plan, _INIT, bubblewrap.arguments, plan.doors, early_process) as spawned,
            ):
                with spawned.report_failures(), contextlib.ExitStack() as opened:
                    # Made while bubblewrap starts.
                    group = stack.enter_context(self.tree.group(new_name("run"), plan.limits)) if self.tree else None
                    await leftovers.enter_async_context(free_leftovers(group))
                    entrances = opened.enter_context(group.open_entrances()) if group else ()
                    mounts = [mount.target for mount in plan.mounts]
                    setup = {"landlock": plan.landlock, "mounts": mounts, "python": bool(plan.preload)}
                    await frames.send(spawned.channel, setup, entrances)
                    await frames.receive_descriptors(spawned.channel, 0)  # now it runs, so all is mounted
                    inner = await spawned.find_inner()
                    network = await spawned.prepare_network(plan.doors, plan.connectors, stack)
                    walls, pid, directories = await expect_isolation(
                        spawned.channel,
                        stack,
                        landlock_abi=self.landlock_abi,
                        mount_identities=spawned.mount_identities,
                    )
                    if group is not None and not entrances:
                        group.attach(pid)
                    channel = stack.enter_context(program_channel.ProgramChannel.open(spawned.channel, spawned.uid))
                child = confined.Confined(
                    plan=plan,
                    channel=channel,
                    pid=pid,
                    inner=inner,
                    walls=walls,
                    group=group,
                    doors=network.doors,
                    connectors=network.connectors,
                    uid=spawned.uid,
                    directories=directories,
                    rlimits={},
                    over=inner,
                    ends_with_report=False,
                    exit_status=spawned.exit_status,
                )
                try:
                    with contextlib.closing(child):
                        yield child
                finally:
                    if group is not None:
                        group.lift_quota()

    @contextlib.asynccontextmanager
    async def spawn(
        self,
        plan: Plan,
        script: str,
        options: Options,
        doors: Sequence[Door] | None = None,
        early_process: EarlyProcess | None = None,
    ) -> AsyncIterator[BubblewrapProcess]:
        """Launch → bubblewrap → ``script``, a file inside, with the number of its end of the channel as argument.
        ``doors`` are opened from outside, by a process that launch leaves behind and that also sets up the network;
        None if processes inside do that. ``early_process`` is the whole process, if it was started before.

        Raises:
            SandboxError: They can't be started.
        """
        with contextlib.ExitStack() as stack:
            if early_process is not None:
                stack.enter_context(early_process.stack)
                spawned = early_process.process
            else:
                with _as_sandbox_error(), self._prepare(plan, script, options, doors, stack) as prepared:
                    spawned = prepared.process(
                        process=await self.launcher.launch(prepared.passed, prepared.held_descriptors, stack)
                    )
            try:
                yield spawned
            finally:
                with anyio.CancelScope(shield=True):
                    await spawned.end()

    def begin_build(self, plan: Plan) -> EarlyProcess:
        """Start the first sandbox, before there is an event loop. Raises SandboxError if it can't be started."""
        return self._begin(plan, _INIT, bubblewrap.arguments, plan.doors)

    def begin_zygote(self, plan: Plan) -> EarlyProcess:
        """As ``begin_build``, for a fork server."""
        return self._begin(plan, ZYGOTE, bubblewrap.arguments_of_zygote, None)

    def _begin(self, plan: Plan, script: str, options: Options, doors: Sequence[Door] | None) -> EarlyProcess:
        with contextlib.ExitStack() as stack:
            with _as_sandbox_error(), self._prepare(plan, script, options, doors, stack) as prepared:
                process = prepared.process(
                    process=self.launcher.launch_first(prepared.passed, prepared.held_descriptors, stack)
                )
            return EarlyProcess(process=process, stack=stack.pop_all())

    @contextlib.contextmanager
    def _prepare(
        self,
        plan: Plan,
        script: str,
        options: Options,
        doors: Sequence[Door] | None,
        stack: contextlib.ExitStack,
    ) -> Iterator[_Prepared]:
        """Prepare the inputs of a launch. ``stack`` closes our descriptors, and returns the uid."""
        lease = stack.enter_context(uid_lease.lease(self.uids.first, self.uids.count)) if self.uids else None
        uid = lease.uid if lease else None
        mount_identities = tuple(_identity(mount.source) for mount in plan.mounts)
        channel, theirs = socketpair(stack)
        network, far_network = (None, None) if doors is None else socketpair(stack)
        with theirs, far_network or contextlib.nullcontext():
            diagnosis, stderr = frames.open_pipe(stack)
            info, info_end = frames.open_pipe(stack)
            with stderr, info_end, contextlib.ExitStack() as passed:
                files = [_memory(passed, _content_of(file)) for file in plan.files]
                inherited = [info_end.fileno(), theirs.fileno(), *files]
                if far_network:  # a fork server has each child do both by itself
                    code = compile_filter(os.uname().machine, plan.families, ptrace=plan.ptrace)
                    inherited += [_memory(passed, code), far_network.fileno()]
                numbers = iter(range(reaper.FIRST, reaper.FIRST + len(inherited)))
                descriptors = bubblewrap.Descriptors(
                    info=next(numbers),
                    control=next(numbers),
                    files=tuple(next(numbers) for _ in files),
                    seccomp=next(numbers, None),
                    network=next(numbers, None),
                )
                specification = self._specify(plan, script, options, descriptors, uid, inherited, passed)
                yield _Prepared(
                    passed=(stderr.fileno(), specification, *inherited),
                    held_descriptors=(lease.lock,) if lease else (),
                    process=functools.partial(
                        BubblewrapProcess,
                        channel=channel,
                        uid=uid,
                        mount_identities=mount_identities,
                        info=info,
                        diagnosis=diagnosis,
                        network=network,
                    ),
                )

    def _specify(
        self,
        plan: Plan,
        script: str,
        options: Options,
        descriptors: bubblewrap.Descriptors,
        uid: int | None,
        inherited: list[int],
        stack: contextlib.ExitStack,
    ) -> int:
        """The specification for ``launch.py``. Bubblewrap's arguments are a further inherited descriptor."""
        program = str(self.program)
        mount_sources = (mount.source for mount in plan.mounts)
        # At its own path if possible: AppArmor's profiles are attached by the program's path.
        sources = list(dict.fromkeys([*([] if _is_public(self.program) else [program]), *mount_sources]))
        staged = {} if uid is None else {source: f"{_STAGE}/{index}" for index, source in enumerate(sources)}
        # By descriptor: the sandbox can read the command line of its pid 1, which is bubblewrap.
        arguments = reaper.FIRST + len(inherited)
        inherited.append(_memory(stack, "\0".join(options(plan, descriptors, staged)).encode()))
        command = (*plan.interpreter, f"{GUEST}/start.py", script, str(descriptors.control))
        argv = [staged.get(program, program), "--args", str(arguments), "--", *command]
        spec: dict[str, object] = {"argv": argv, "uid": uid, "sources": sources, "stage": _STAGE}
        spec["owned"] = [mount.source for mount in plan.mounts if mount in plan.writable or mount.as_owner]
        if descriptors.network is not None:
            spec |= {"network": descriptors.network, "doors": plan.doors, "connectors": [*map(int, plan.connectors)]}
            spec |= {"sysctls": dict(plan.sysctls), "masked": plan.masked}
        return _memory(stack, marshal.dumps(spec))


@contextlib.contextmanager
def _as_sandbox_error() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise make_build_error(str(error)) from error


def _content_of(file: TextFile) -> bytes:
    return base64.b64decode(file.text) if file.is_base64 else file.text.encode()


def new_name(kind: str) -> str:
    """A name for a cgroup."""
    return f"{kind}-{os.urandom(8).hex()}"


def socketpair(stack: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
    """Our end, which does not block and reports the sender's process, and the sandbox's end."""
    ours, theirs = socket.socketpair()
    stack.enter_context(ours)
    ours.settimeout(0)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)  # before the other end can write
    return ours, theirs


def _identity(source: str) -> tuple[int, int]:
    """Device and inode of a bind's source, reached without a symbolic link.

    Raises:
        OSError: It is missing, or a component of its path is a link.
    """
    with closing(launch.open_plain(source)) as descriptor:
        status = os.fstat(descriptor)
        return status.st_dev, status.st_ino


def _is_public(program: Path) -> bool:
    """Whether every user can execute it at its path, and only root could replace it."""
    status = [path.stat() for path in (program, *program.parents)]
    modes = (one.st_uid == 0 and one.st_mode & 0o023 == 0o001 for one in status)
    return all(modes) and not program.is_relative_to(_STAGE)


def _memory(stack: contextlib.ExitStack, data: bytes) -> int:
    """A descriptor from which ``data`` can be read once: bubblewrap reads to the end."""
    file = stack.enter_context(FileIO(os.memfd_create("gloveport"), "w+"))
    file.write(data)
    file.seek(0)
    return file.fileno()
