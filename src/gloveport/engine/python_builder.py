"""Resolves and builds environments of Python in sandboxes.

    resolve   uv makes a lock from requirements         the index is its only door
    fetch     a program of ours gets its files          the same door
    install   uv unpacks and compiles one wheel         there is no door

Each writes into a directory of its own, whose size is watched. When it is dead, this process checks the files that it
left and takes them over. The installed files of a wheel are kept (``environments/wheel_store.py``), so the next
environment with that wheel needs no program. Packages that may be built from source are built before
(``source_builder``).
"""

import contextlib
import functools
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import RefuseBuilds, write_input
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.build_sandboxes import BuildSandboxes
from gloveport.engine.source_builder import SourceBuilder
from gloveport.engine.uv_sandboxes import COMMON, UV, WHEELS, UvSandboxes
from gloveport.environments.environment_store import BuiltTree
from gloveport.environments.lock_requests import LockRequest
from gloveport.environments.locks import BuiltWheel, Lock, Pin, add_built, read_lock
from gloveport.environments.seal import SealedTree
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.model import GUEST, MIB, OUT, Grant
from gloveport.model.byte_size import ByteSize
from gloveport.model.packages import PACKAGES
from gloveport.task_group import run_all


class PythonBuilder(Struct, frozen=True, kw_only=True):
    """A ``Builder`` of packages of Python."""

    uv: UvSandboxes

    @property
    def grant(self) -> Grant:
        """See ``Builder``."""
        return self.uv.grant

    async def resolve(
        self, request: LockRequest, guard: Guard, on_progress: OnProgress, refuse_builds: RefuseBuilds
    ) -> Lock:
        """See ``Builder``."""
        built: list[BuiltWheel] = []
        sources = SourceBuilder(uv=self.uv)
        for pinned in request.build:
            built.append(await sources.build(pinned, built, guard, on_progress, refuse_builds))
        on_progress(f"resolving {len(request.specifiers)} requirements")
        lock = await self.uv.resolve(request.specifiers, built, guard)
        data = add_built(lock.text, built).encode()
        return await compute(len(data), read_lock, data, self.uv.python.version)

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """See ``Builder``."""
        store, interpreter = self.uv.host.store, self.uv.python.extension
        data = lock.text.encode()
        pins = (await compute(len(data), read_lock, data, self.uv.python.version)).pins

        def load_unpacked() -> dict[str, SealedTree]:
            found = ((pin.name, store.wheels.load_unpacked(pin.wheel, interpreter)) for pin in pins)
            return {name: part for name, part in found if part is not None}

        parts = await to_thread.run_sync(load_unpacked)
        lacking = [pin for pin in pins if pin.name not in parts]
        await self.uv.fetch([pin.wheel for pin in lacking], guard, on_progress)
        there = len(parts)

        async def install(build: BuildSandboxes, pin: Pin, place: str) -> None:
            parts[pin.name] = await self._install(build, pin, place)
            on_progress(f"installing packages: {len(parts) - there} of {len(lacking)}")

        small = [pin for pin in lacking if store.wheels.size_of(pin.wheel) <= _IN_MEMORY_BYTES]
        for pin in lacking:
            if pin not in small:
                async with self._open([pin], is_shared=True) as build:
                    await install(build, pin, f"{PACKAGES}/installed")
        if small:
            async with self._open(small, is_shared=False) as build:
                jobs = (functools.partial(install, build, pin, OUT) for pin in small)
                await run_all(jobs, os.cpu_count() or 1)
        in_order = [parts[pin.name] for pin in pins]
        bounds, standard_modules = self.uv.host.bounds, self.uv.python.standard_modules
        return await to_thread.run_sync(store.join, in_order, lock, interpreter, bounds, standard_modules)

    @contextlib.asynccontextmanager
    async def _open(self, pins: Sequence[Pin], *, is_shared: bool) -> AsyncIterator[BuildSandboxes]:
        """Sandboxes without a door, to install wheels; unless they share a directory, they write to memory."""
        grant = self.uv.host.grant(())
        if not is_shared:
            limits = grant.limits.model_copy(update={"out_bytes": _OUT_BYTES})
            grant = grant.model_copy(update={"limits": limits})
        async with self.uv.open(grant, is_shared=is_shared) as build:
            write_input(build.work / "uv.toml", "")
            for pin in pins:
                write_input(build.work / f"{pin.name}.txt", pin.requirement)
            await self.uv.take_stored(build, (pin.wheel for pin in pins))
            for path in (build.work, *build.work.rglob("*")):  # a sandbox that only reads owns none of these
                path.chmod(0o755)
            yield build

    async def _install(self, build: BuildSandboxes, pin: Pin, place: str) -> SealedTree:
        """Install a wheel in a sandbox that can write nowhere else, and keep the installed files. ``place`` is the
        target as the sandbox sees it: ``OUT`` in memory, or a path below the directory of a build of this wheel alone.
        """
        host, found = self.uv.host, list[SealedTree]()

        def take(out: int) -> None:
            root = Path(f"/proc/self/fd/{out}") if place == OUT else build.work / "installed"
            tree = host.store.wheels.keep_unpacked(pin.wheel, self.uv.python.extension, root / "tree", host.bounds)
            found.append(tree)

        python, target = host.system.python, f"{place}/tree/python"
        which = ("--find-links", f"{PACKAGES}/{WHEELS}", "--require-hashes", "-r", f"{PACKAGES}/{pin.name}.txt")
        command = (UV, "pip", "install", *COMMON, f"{place}/cache", *_INSTALL, "--python", python, "--target", target)
        program = (python, "-I", f"{GUEST}/python/install_wheel.py", target)
        ending = await build.run((*program, *command, *which), None, take)
        if not found:
            raise ending.failure("package_refused", f"{pin.wheel.file} can't be installed")
        return found[0]


_OUT_BYTES: Final = ByteSize(512 * MIB)
_IN_MEMORY_BYTES: Final = 32 << 20
"""Larger wheels are installed on the disk: their files may be some ten times as large."""

_INSTALL: Final = ("--offline", "--no-index", "--no-deps", "--only-binary", ":all:", "--quiet")
