"""Builds wheels of source distributions. Code of a package runs in a sandbox that has no door, and in no other.

    find      a program of ours fetches the index's page of the project, and the file        the index is its only door
    look      another takes pyproject.toml out of it, and executes nothing                   no door is answered
    resolve   uv makes a lock of what the build needs, and those wheels are fetched          the index is its only door
    build     uv installs those wheels and builds                                            there is no door
    check     the host takes one file of the right name; a program checks its contents       no door is answered

Each has a directory of its own: no step with a door sees anything that the build could write to.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import RefuseBuilds, read_lock_file, write_input
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.build_sandboxes import BuildSandboxes
from gloveport.engine.uv_sandboxes import CACHE, COMMON, LYING, UV, WHEELS, UvSandboxes
from gloveport.environments.locks import BuiltWheel, Lock, PythonLock, Wheel, refuse_young
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.late_module import late_module
from gloveport.model import GUEST
from gloveport.model.packages import PACKAGES, LockedPackage
from gloveport.sandbox.detection.host import find_headers

if TYPE_CHECKING:
    from gloveport.environments import source_distributions
else:
    source_distributions = late_module("gloveport.environments.source_distributions")


class SourceBuilder(Struct, frozen=True, kw_only=True):
    """Builds wheels of source distributions, and keeps them in the store."""

    uv: UvSandboxes

    async def build(
        self,
        pinned: str,
        former: Sequence[BuiltWheel],
        guard: Guard,
        on_progress: OnProgress,
        refuse_builds: RefuseBuilds,
    ) -> BuiltWheel:
        """Build a wheel of ``pinned``, a canonical ``NAME==VERSION``, for which it may need ``former`` ones. The rest
        is as for ``Builder``.

        Raises:
            Denied: There is no such source distribution, it may not be built, or the build fails or leaves something
                else.
        """
        on_progress(f"fetching the source of {pinned}")
        package, source, requires = await self._fetch(pinned, guard)
        on_progress(f"resolving what {pinned} needs to be built")
        lock = await self.uv.resolve(requires, former, guard)
        runs = sorted((package, *lock.packages), key=lambda one: one.name)
        await refuse_builds(pinned, Lock(text=lock.text, packages=tuple(runs)))
        await self.uv.fetch((one.wheel for one in lock.pins), guard, on_progress)
        on_progress(f"building {pinned}")
        wheel = await self._build(package, source, lock)
        return BuiltWheel(
            **package.model_dump(),
            file=wheel.file,
            wheel_sha256=wheel.sha256,
            source_url=source.url,
            source_sha256=source.sha256,
        )

    async def _fetch(self, pinned: str, guard: Guard) -> tuple[LockedPackage, Wheel, tuple[str, ...]]:
        """Fetch the source distribution, and read its build requirements."""
        async with self.uv.open(self.uv.grant) as build:
            package, source = await self._find(build, pinned, guard)
            if not source.url.startswith("file:"):  # files on the operator's disk have no age
                refuse_young([package], self.uv.host.cutoff)
            await self.uv.fetch_files(build, [source], guard)
            if not await to_thread.run_sync(self.uv.host.store.wheels.keep, source, build.work / WHEELS / source.file):
                raise Denied("package_refused", f"{source.file} is another than the index says.", hint=LYING)
            read = (self.uv.host.system.python, "-I", f"{GUEST}/python/read_build_system.py")
            ending = await build.run((*read, f"{PACKAGES}/{WHEELS}/{source.file}", f"{PACKAGES}/pyproject.toml"), None)
            if ending.outcome.exit_code != 0:
                raise ending.failure("package_refused", f"The source of {pinned} can't be read")
            project = build.work / "pyproject.toml"
            text = await to_thread.run_sync(read_lock_file, project) if project.exists() else b""
        return package, source, await compute(len(text), source_distributions.read_build_requirements, text)

    async def _find(self, build: BuildSandboxes, pinned: str, guard: Guard) -> tuple[LockedPackage, Wheel]:
        """Ask the indexes one after the other, until one has this name."""
        name = pinned.partition("==")[0]
        for number, index in enumerate(self.uv.places):
            page = Wheel(url=f"{index}/{name}/{'index.html' * index.startswith('file:')}", file=f"{number}", sha256="")
            await self.uv.fetch_files(build, [page], guard)
            if (fetched := build.work / WHEELS / page.file).exists():
                data = await to_thread.run_sync(read_lock_file, fetched)
                found = await compute(len(data), source_distributions.find_source, data, page.url, pinned)
                if found is not None:
                    return found
                break
        raise Denied(
            "packages_unresolved",
            f"There is no source distribution of {pinned} with a sha256.",
            hint="correct the version; of several indexes the first that has a name is asked alone",
        )

    async def _build(self, package: LockedPackage, source: Wheel, lock: PythonLock) -> Wheel:
        """Run its code in a sandbox without a door, and keep the built wheel."""
        store, pinned = self.uv.host.store.wheels, f"{package.name} {package.version}"
        async with self.uv.open(self.uv.host.grant(()), *find_headers()) as build:
            await self.uv.take_stored(build, (source, *(pin.wheel for pin in lock.pins)))
            (build.work / WHEELS / source.file).rename(build.work / source.file)
            write_input(build.work / "requirements.txt", lock.requirements())
            write_input(build.work / "uv.toml", "")
            hashes = ("--build-constraints", f"{PACKAGES}/requirements.txt", "--require-hashes")
            which = ("--python", self.uv.host.system.python, *hashes, "--find-links", f"{PACKAGES}/{WHEELS}")
            what = ("--wheel", f"{PACKAGES}/{source.file}", "-o", f"{PACKAGES}/out")
            ending = await build.run((UV, "build", *COMMON, CACHE, *_BUILD, *which, *what), None)
            if ending.outcome.exit_code != 0:
                failure = ending.failure("package_refused", f"{pinned} can't be built")
                lacking = (name for pattern, name in _LACKING if re.search(pattern, ending.text, re.MULTILINE))
                if name := next(lacking, ""):
                    failure.hint = f"install {name} on this host, and build again"
                raise failure
            out, most_bytes = build.work / "out", self.uv.host.bounds.bytes
            wheel = await to_thread.run_sync(source_distributions.read_built, out, package, most_bytes)
            if not await to_thread.run_sync(store.keep, wheel, out / wheel.file):
                raise Denied("package_refused", f"The wheel of {pinned} has changed.", hint="try again")
        async with self.uv.open(self.uv.host.grant(())) as build:  # no file of the build is here
            await self.uv.take_stored(build, [wheel])
            await self.uv.fetch_files(build, [wheel], None)
        return wheel


_LACKING: Final = (
    (r"Python\.h: No such file", "the headers of Python (Debian: python3-dev)"),
    (r"\.h: No such file", "what has that header"),
    (
        r"(?:cc|\+\+|clang)' failed: No such|: '\S*(?:cc|\+\+|clang)'$|Unknown compiler|CMAKE_C\w*COMPILER",
        "a compiler (gcc)",
    ),
)
"""Missing parts, by the messages of compilers and build backends. A package may forge these to get another hint."""
_BUILD: Final = ("--offline", "--no-index", "--no-create-gitignore", "--no-sources")
