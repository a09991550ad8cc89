"""Resolves and builds environments in sandboxes: three programs, of which the last has no way out.

    resolve   uv makes a lock from requirements       the index is its only door
    fetch     a program of ours gets what it names    the same door
    install   uv unpacks and compiles                 no door is answered

All of them write into one directory, whose size is watched. When they are dead, this process looks at what they have
left, and makes the tree of it (``environments/seal.py``).
"""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TypeAlias

from anyio import to_thread
from pydantic import ByteSize

from gloveport.egress.outbound_session import Gateway
from gloveport.engine.build_sandboxes import BuildSandboxes, ProgramEnding
from gloveport.engine.reach import Reach
from gloveport.environments.environment_store import BuiltTree, EnvironmentStore
from gloveport.environments.indexes import Indexes
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock, read_lock, refuse_young
from gloveport.environments.seal import TreeBounds
from gloveport.errors import Denied
from gloveport.guard import Guard
from gloveport.model import GUEST, MIB, Grant, Limits, Mount, Program
from gloveport.model.egress import Api, Egress, Rule
from gloveport.model.hub import Sampling
from gloveport.model.packages import PACKAGES
from gloveport.policy.hosts.authorities import find, parse_pattern
from gloveport.runtimes.python import Python
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan, System, make_plan
from gloveport.sandbox.pool import zygote_process

OnProgress: TypeAlias = Callable[[str], None]
"""Takes a few words on what is being done now. Must not wait."""

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

_UV: Final = "/opt/uv/uv"
_INDEX: Final = "/opt/index"


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """How environments are built.

    Attributes:
        indexes: Where packages come from.
        cooldown_days: What is younger is left out.
        bounds: How much one may hold.
        uv: Path of uv on this host.
    """

    indexes: Indexes
    cooldown_days: float
    bounds: TreeBounds
    uv: str

    @property
    def cutoff(self) -> datetime | None:
        """What was uploaded later is too young; None where nothing is."""
        return datetime.now(UTC) - timedelta(days=self.cooldown_days) if self.cooldown_days else None


@dataclass(frozen=True, kw_only=True)
class EnvironmentBuilder:
    """Runs the programs of builds.

    Attributes:
        egress: What the operator says of the way out: an API for the host of an index counts, with its credential.
        python: The interpreter that environments are for.
    """

    store: EnvironmentStore
    settings: BuildSettings
    gateway: Gateway
    backend: Bubblewrap
    system: System
    python: Python
    egress: Egress

    @property
    def grant(self) -> Grant:
        """What the programs of a build may do: read from the indexes."""
        apis: dict[str, Api] = {}
        for number, host in enumerate(self.settings.indexes.hosts):
            place = parse_pattern(host)
            owners = find(self.egress, place.scheme, place.host, place.port)
            if owners is not None:
                apis[owners[0]] = owners[1]
            else:
                apis[f"index-{number}"] = Api(hosts=(host,), rules=(Rule(action="allow", methods=("GET", "HEAD")),))
        return Grant(limits=LIMITS, egress=self.egress.model_copy(update={"apis": apis, "yolo": False}))

    async def resolve(self, requirements: Sequence[str], guard: Guard, on_progress: OnProgress) -> Lock:
        """Find versions of what is required, and of all that this needs.

        Args:
            requirements: As pip writes them.
            guard: Has the grant of builds, and writes down what they fetch.
            on_progress: Is told what is being done.

        Raises:
            Denied: There are none, or some are younger than the cooldown.
            SandboxError: This host can't build the sandbox.
        """
        on_progress(f"resolving {len(requirements)} requirements")
        async with self._open_sandboxes() as build:
            _write(build.work / "requirements.in", "\n".join(requirements) + "\n")
            _write(build.work / "uv.toml", self._uv_settings())
            how = ("--no-build", "--format", "pylock.toml", "--no-header", "--quiet", "--python", self.system.python)
            files = ("-o", f"{PACKAGES}/pylock.toml", f"{PACKAGES}/requirements.in")
            said = await build.run((_UV, "pip", "compile", *_COMMON, *how, *files), guard)
            if said.outcome.exit_code != 0:
                raise self._resolution_failure(said)
            lock = read_lock(_read(build.work / "pylock.toml"), self.python.version)
        refuse_young(lock, self.settings.cutoff, [f"file://{_INDEX}/"])
        return lock

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """Install what a lock names, and seal it.

        Raises:
            Denied: A file is another than the lock says, or something is in it that no environment may hold.
            SandboxError: This host can't build the sandbox.
        """
        wheels = {one.wheel.file: one.wheel for one in lock.pins}
        async with self._open_sandboxes() as build:
            directory = build.work / "wheels"
            directory.mkdir()
            here = [file for file, one in wheels.items() if self.store.take_wheel(one, directory / file)]
            on_progress(f"fetching {len(wheels) - len(here)} packages, {len(here)} are here")
            told = [{"url": one.url, "file": file, "sha256": one.sha256} for file, one in wheels.items()]
            _write(build.work / "fetch.json", json.dumps(told))
            bounds = self.settings.bounds
            fetch = (self.system.python, "-I", f"{GUEST}/python/fetch_wheels.py", f"{PACKAGES}/fetch.json")
            said = await build.run((*fetch, f"{PACKAGES}/wheels", str(bounds.bytes), str(bounds.files)), guard)
            if said.outcome.exit_code != 0:
                raise said.failure("package_refused", "The packages can't be fetched")
            for file, one in wheels.items():
                if file not in here and not self.store.keep_wheel(one, directory / file):
                    raise Denied("package_refused", f"{file} is another than the lock says.", hint=_LYING)
            on_progress(f"installing {len(wheels)} packages")
            _write(build.work / "requirements.txt", lock.requirements())
            _write(build.work / "uv.toml", "")
            where = ("--python", self.system.python, "--target", f"{PACKAGES}/tree/python")
            which = ("--find-links", f"{PACKAGES}/wheels", "--require-hashes", "-r", f"{PACKAGES}/requirements.txt")
            said = await build.run((_UV, "pip", "install", *_COMMON, *_INSTALL, *where, *which), None)
            if said.outcome.exit_code != 0:
                raise said.failure("package_refused", "The packages can't be installed")
            on_progress("checking what was installed")
            tree = build.work / "tree"
            tree.mkdir(exist_ok=True)
            return await to_thread.run_sync(self.store.seal, tree, lock, self.python.extension, bounds)

    @contextlib.asynccontextmanager
    async def _open_sandboxes(self) -> AsyncIterator[BuildSandboxes]:
        """Sandboxes that write into one directory; on leaving, all of it is gone."""
        reach = Reach(self.grant.egress, self.gateway.authority.certificate, {}, Sampling())
        with contextlib.ExitStack() as stack:
            work = stack.enter_context(self.store.open_work()) / "build"
            work.mkdir(mode=0o700)
            async with zygote_process.start(self.backend, self._plan(work, reach)) as zygote:
                yield BuildSandboxes(
                    work=work, zygote=zygote, gateway=self.gateway, reach=reach, bounds=self.settings.bounds
                )

    def _plan(self, work: Path, reach: Reach) -> Plan:
        indexes = self.settings.indexes.directories
        program = Program(
            name="build",
            binds=(
                Mount(source=str(Path(self.settings.uv).resolve()), target=_UV),
                *(Mount(source=path, target=f"{_INDEX}/{number}") for number, path in enumerate(indexes)),
            ),
            env={"PYC_INVALIDATION_MODE": "UNCHECKED_HASH", "UV_SYSTEM_CERTS": "1", "UV_PYTHON_DOWNLOADS": "never"},
        )
        grant = self.grant.model_copy(update={"writable": (Mount(source=str(work), target=PACKAGES),)})
        system = self.system.model_copy(update={"packages": (), "env": {}})
        return make_plan(program, grant, system, reach.way_out)

    def _uv_settings(self) -> str:
        """The indexes, and how old packages must be. An index on this host's disk tells no age, and needs none."""
        lines = []
        if cutoff := self.settings.cutoff:
            lines.append(f'exclude-newer = "{cutoff.isoformat(timespec="seconds")}"')
        directories = iter(range(len(self.settings.indexes.directories)))
        for number, url in enumerate(self.settings.indexes.urls, 1):
            is_directory = url.startswith("file:")
            place = f"file://{_INDEX}/{next(directories)}" if is_directory else url
            lines += ["[[index]]", f"url = {json.dumps(place)}"]
            lines += ["exclude-newer = false"] if is_directory and cutoff else []
            lines += ["default = true"] if number == len(self.settings.indexes.urls) else []
        return "\n".join(lines) + "\n"

    def _resolution_failure(self, said: ProgramEnding) -> Denied:
        text = said.text
        if "filtered by `exclude-newer`" in text and "published at" not in text:
            return Denied(
                "package_of_unknown_age",
                f"The index does not say when packages were uploaded (PEP 700), so the cooldown of "
                f"{self.settings.cooldown_days:g} days lets none of them in.",
                hint="set packages.cooldown_days = 0 if you trust this index, or name one that says it",
            )
        failure = said.failure("packages_unresolved", "There are no versions that fit together")
        if self.settings.cooldown_days:
            failure.hint = (
                f"correct the requirements; versions younger than {self.settings.cooldown_days:g} days are left out, "
                "and so is what has no wheel for this Python"
            )
        return failure


_COMMON: Final = ("--config-file", f"{PACKAGES}/uv.toml", "--cache-dir", f"{PACKAGES}/cache", "--no-progress")
_INSTALL: Final = ("--offline", "--no-index", "--no-deps", "--only-binary", ":all:", "--compile-bytecode", "--quiet")
_LYING: Final = "the index, or somebody on the way, has sent another file: don't use it before you know why"


def _write(path: Path, text: str) -> None:
    """Write a file of ours, where a program of an earlier step may have put anything."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor, not a path
        file.write(text)


def _read(path: Path) -> bytes:
    """Read a file that a sandbox has left, as far as a lock may go."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor, not a path
            return file.read(MOST_LOCK_BYTES)
    except OSError as error:
        raise Denied(
            "lock_unreadable", f"The resolver has left no lock: {error.strerror}.", hint="try again"
        ) from error
