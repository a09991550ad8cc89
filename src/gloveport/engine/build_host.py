"""Common parts of environment builds: the grant of their programs, their sandboxes, their bounds."""

import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import anyio
from anyio import to_thread
from msgspec import Struct

from gloveport.egress.outbound_session import Gateway
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.build_sandboxes import BuildSandboxes
from gloveport.engine.reach import Reach
from gloveport.environments.environment_store import BuiltTree, EnvironmentStore
from gloveport.environments.lock_requests import LockRequest
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock
from gloveport.environments.seal import TreeBounds
from gloveport.environments.wheel_store import open_left
from gloveport.errors import Denied
from gloveport.file_descriptors import CREATE
from gloveport.guard import Guard
from gloveport.model import MIB, Grant, Limits, Mount, Program
from gloveport.model.byte_size import ByteSize
from gloveport.model.egress import Api, Egress, Method, Rule
from gloveport.model.hub import Sampling
from gloveport.model.packages import PACKAGES
from gloveport.policy.hosts.authorities import find, parse_pattern
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import System, make_plan
from gloveport.sandbox.pool import zygote_process

RefuseBuilds: TypeAlias = Callable[[str, Lock], Awaitable[None]]
"""Refuses a build of ``NAME==VERSION`` that is not allowed; gets the lock of all packages whose code runs in it."""

LIMITS: Final = Limits(
    wall_seconds=1800,
    cpu_seconds=1800,
    cpus=float(min(4, os.cpu_count() or 1)),
    memory_bytes=ByteSize(2048 * MIB),
    processes=256,
    open_files=1024,
    file_bytes=ByteSize(4096 * MIB),
    scratch_bytes=ByteSize(64 * MIB),
    out_bytes=ByteSize(MIB),
)
"""Of each of the programs of a build."""


class Builder(Protocol):
    """Makes locks, and package trees from them, in sandboxes whose only door leads to the package indexes."""

    @property
    def grant(self) -> Grant:
        """The grant of a build's programs."""

    async def resolve(
        self, request: LockRequest, guard: Guard, on_progress: OnProgress, refuse_builds: RefuseBuilds
    ) -> Lock:
        """Resolve requirements, in the spelling of ``policy``, and their dependencies to versions; build packages that
        may be built from source. ``guard`` has the grant of builds, and records what they fetch; ``refuse_builds``
        decides before anything is built.

        Raises:
            Denied: There are no such versions, or some are younger than the cooldown.
            SandboxError: This host can't build the sandbox.
        """

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """Install the packages of a lock, and seal the tree.

        Raises:
            Denied: A file differs from the lock, or the tree holds something that no environment may hold.
            SandboxError: This host can't build the sandbox.
        """


class BuildHost(Struct, frozen=True, kw_only=True):
    """What every build needs.

    Attributes:
        bounds: How large an environment may be.
        cooldown_days: Younger packages are left out.
        egress: The operator's outbound rules: an API for the host of an index applies, with its credential.
        limits: Of each of the programs of a build.
        spared_bytes: How much room builds leave on the disk of the state directory.
    """

    store: EnvironmentStore
    bounds: TreeBounds
    cooldown_days: float
    gateway: Gateway
    backend: Bubblewrap
    system: System
    egress: Egress
    limits: Limits = LIMITS
    spared_bytes: int = 64 * MIB

    @property
    def cutoff(self) -> datetime | None:
        """Packages uploaded later are too young; None where there is no cooldown."""
        return datetime.now(UTC) - timedelta(days=self.cooldown_days) if self.cooldown_days else None

    def grant(self, hosts: Sequence[str], methods: tuple[Method, ...] = ("GET", "HEAD")) -> Grant:
        """The grant of a build's programs: to read from these hosts."""
        apis: dict[str, Api] = {}
        for number, host in enumerate(hosts):
            place = parse_pattern(host)
            owners = find(self.egress, place.scheme, place.host, place.port)
            if owners is not None:
                apis[owners[0]] = owners[1]
            else:
                apis[f"index-{number}"] = Api(hosts=(host,), rules=(Rule(action="allow", methods=methods),))
        return Grant(limits=self.limits, egress=self.egress.model_copy(update={"apis": apis, "yolo": False}))

    @contextlib.asynccontextmanager
    async def open_sandboxes(
        self,
        grant: Grant,
        binds: Sequence[Mount],
        env: Mapping[str, str],
        *,
        reserved_bytes: int = 0,
        is_shared: bool = True,
    ) -> AsyncIterator[BuildSandboxes]:
        """Sandboxes that share one directory; on leaving, it is removed. ``binds`` are host paths that their programs
        need. If ``is_shared``, they write there: each then finds files of the one before, even if that was taken over.
        """
        reach = Reach(grant.egress, self.gateway.authority.certificate, {}, Sampling())
        system = self.system.model_copy(update={"packages": (), "env": {}})
        stack = contextlib.ExitStack()
        place = await to_thread.run_sync(stack.enter_context, self.store.open_work())  # it may remove much
        work = place / "build"
        try:
            work.mkdir(mode=0o700)
            work_mounts = (Mount(source=str(work), target=PACKAGES),)
            program_binds = tuple(binds) if is_shared else (*binds, *work_mounts)
            program = Program(name="build", binds=program_binds, env=env, reserved_bytes=reserved_bytes)
            writing = grant.model_copy(update={"writable": work_mounts if is_shared else ()})
            plan = make_plan(program, writing, system, reach.way_out)
            async with zygote_process.start(self.backend, plan) as zygote:
                yield BuildSandboxes(
                    work=work,
                    zygote=zygote,
                    gateway=self.gateway,
                    reach=reach,
                    bounds=self.bounds,
                    spared_bytes=self.spared_bytes,
                )
        finally:
            with anyio.CancelScope(shield=True):  # thousands of files: nobody else shall wait meanwhile
                await to_thread.run_sync(stack.close)


def write_input(path: Path, text: str) -> None:
    """Write a file of ours to a place where a program of an earlier step may have put anything."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, CREATE, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(text)


def read_lock_file(path: Path) -> bytes:
    """Read a file that a sandbox has left, at most as large as a lock may be. Raises Denied if there is none."""
    try:
        with open_left(path) as file:
            return file.read(MOST_LOCK_BYTES)
    except OSError as error:
        raise Denied(
            "lock_unreadable", f"The resolver has left no lock: {error.strerror}.", hint="try again"
        ) from error
