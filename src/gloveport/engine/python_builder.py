"""Resolves and builds environments of Python in sandboxes: three programs, of which the last has no way out.

    resolve   uv makes a lock from requirements       the index is its only door
    fetch     a program of ours gets what it names    the same door
    install   uv unpacks and compiles                 no door is answered

All of them write into one directory, whose size is watched. When they are dead, this process looks at what they have
left, and makes the tree of it (``environments/seal.py``). What may be built from source is built before
(``source_builder``).
"""

from typing import Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import RefuseBuilds, write_input
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.source_builder import SourceBuilder
from gloveport.engine.uv_sandboxes import COMMON, UV, UvSandboxes
from gloveport.environments.environment_store import BuiltTree, LockRequest
from gloveport.environments.locks import BuiltWheel, Lock, add_built, read_lock
from gloveport.guard import Guard
from gloveport.model import Grant
from gloveport.model.packages import PACKAGES


class PythonBuilder(Struct, frozen=True, kw_only=True):
    """A ``Builder`` of packages of Python."""

    uv: UvSandboxes

    @property
    def grant(self) -> Grant:
        """See ``Builder``."""
        return self.uv.grant

    async def resolve(
        self, wanted: LockRequest, guard: Guard, on_progress: OnProgress, refuse_builds: RefuseBuilds
    ) -> Lock:
        """See ``Builder``."""
        built: list[BuiltWheel] = []
        sources = SourceBuilder(uv=self.uv)
        for pinned in wanted.build:
            built.append(await sources.build(pinned, built, guard, on_progress, refuse_builds))
        on_progress(f"resolving {len(wanted.specifiers)} requirements")
        lock = await self.uv.resolve(wanted.specifiers, built, guard)
        return read_lock(add_built(lock.text, built).encode(), self.uv.python.version)

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """See ``Builder``."""
        host, python = self.uv.host, self.uv.python
        named = read_lock(lock.text.encode(), python.version)
        async with self.uv.open(self.grant) as build:
            await self.uv.fetch(build, (one.wheel for one in named.pins), guard, on_progress)
            on_progress(f"installing {len(named.pins)} packages")
            write_input(build.work / "requirements.txt", named.requirements())
            write_input(build.work / "uv.toml", "")
            where = ("--python", host.system.python, "--target", f"{PACKAGES}/tree/python")
            which = ("--find-links", f"{PACKAGES}/wheels", "--require-hashes", "-r", f"{PACKAGES}/requirements.txt")
            said = await build.run((UV, "pip", "install", *COMMON, *_INSTALL, *where, *which), None)
            if said.outcome.exit_code != 0:
                raise said.failure("package_refused", "The packages can't be installed")
            on_progress("checking what was installed")
            tree = build.work / "tree"
            tree.mkdir(exist_ok=True)
            return await to_thread.run_sync(host.store.seal, tree, lock, python.extension, host.bounds)


_INSTALL: Final = ("--offline", "--no-index", "--no-deps", "--only-binary", ":all:", "--compile-bytecode", "--quiet")
