"""Runs uv in sandboxes for builds of Python packages: to resolve a lock, fetch its files, and install them.

While a door is open uv builds nothing (``--no-build``): no package code runs.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import BuildHost, read_lock_file, write_input
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.build_sandboxes import BuildSandboxes, ProgramEnding
from gloveport.environments.indexes import Indexes
from gloveport.environments.locks import BuiltWheel, PythonLock, Wheel, read_lock, refuse_young, select_aged
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.late_module import late_module
from gloveport.model import GUEST, Grant, Mount
from gloveport.model.packages import PACKAGES
from gloveport.runtimes.python import Python

if TYPE_CHECKING:
    from gloveport.environments import source_distributions
else:
    source_distributions = late_module("gloveport.environments.source_distributions")

UV: Final = "/opt/uv/uv"
INDEX: Final = "/opt/index"
WHEELS: Final = "wheels"
"""The files of packages, in the directory that sandboxes share."""

COMMON: Final = ("--config-file", f"{PACKAGES}/uv.toml", "--no-progress", "--cache-dir")
"""Options of every uv command; a cache directory follows."""

CACHE: Final = f"{PACKAGES}/cache"
_RETRIES: Final = "1"
"""With its own three, uv tells only after 8 to 17 seconds that an index can't be reached."""

_BUILT: Final = "built"
_PLACE_OF_BUILT: Final = f"file://{PACKAGES}/{_BUILT}/"


class UvSandboxes(Struct, frozen=True, kw_only=True):
    """Sandboxes with uv, and uv's settings.

    Attributes:
        indexes: Where packages come from.
        uv: Path of uv on this host, without links.
        python: The interpreter that environments are for.
    """

    host: BuildHost
    indexes: Indexes
    uv: str
    python: Python

    @property
    def grant(self) -> Grant:
        """See ``Builder``."""
        return self.host.grant(self.indexes.hosts)

    @property
    def places(self) -> list[str]:
        """The indexes as sandboxes see them."""
        directories = iter(range(len(self.indexes.directories)))
        return [f"file://{INDEX}/{next(directories)}" if url.startswith("file:") else url for url in self.indexes.urls]

    @contextlib.asynccontextmanager
    async def open(self, grant: Grant, *more: Mount, is_shared: bool = True) -> AsyncIterator[BuildSandboxes]:
        """Sandboxes of a grant: that of builds, or one that reaches nothing. Their directory has an empty ``WHEELS``.
        They are shown ``more`` paths. See ``BuildHost.open_sandboxes``.
        """
        binds = (
            *more,
            Mount(source=self.uv, target=UV),
            *(Mount(source=path, target=f"{INDEX}/{number}") for number, path in enumerate(self.indexes.directories)),
        )
        env = {"UV_PYTHON_DOWNLOADS": "never", "UV_HTTP_RETRIES": _RETRIES}
        if grant.egress.apis:  # without it the sandbox has no certificates, and uv does not start
            env["UV_SYSTEM_CERTS"] = "1"
        async with self.host.open_sandboxes(grant, binds, env, is_shared=is_shared) as build:
            (build.work / WHEELS).mkdir()
            yield build

    async def take_stored(self, build: BuildSandboxes, wheels: Iterable[Wheel]) -> None:
        """Copy files of the store to ``WHEELS``. Raises Denied if one is not there any more."""
        for one in wheels:
            if not await to_thread.run_sync(self.host.store.wheels.take, one, build.work / WHEELS / one.file):
                raise Denied("package_refused", f"{one.file} is gone.", hint="try again")

    async def resolve(self, requirements: Sequence[str], built: Sequence[BuiltWheel], guard: Guard) -> PythonLock:
        """Resolve requirements to versions; a built package has only the built version.

        Raises:
            Denied: There are none, or some are younger than the cooldown.
        """
        async with self.open(self.grant) as build:
            for one in built:
                wheel = Wheel(url="", file=one.file, sha256=one.wheel_sha256)
                place = source_distributions.write_directory_index(build.work / _BUILT, one)
                await to_thread.run_sync(self.host.store.wheels.take, wheel, place)
            write_input(build.work / "requirements.in", "\n".join(requirements) + "\n")
            write_input(build.work / "uv.toml", self._settings(built))
            which = ("--python", self.host.system.python, "--no-build")
            how = ("--format", "pylock.toml", "--no-header", "--quiet")
            files = ("-o", f"{PACKAGES}/pylock.toml", f"{PACKAGES}/requirements.in")
            ending = await build.run((UV, "pip", "compile", *COMMON, CACHE, *which, *how, *files), guard)
            if ending.outcome.exit_code != 0:
                raise self._resolution_failure(ending)
            data = await to_thread.run_sync(read_lock_file, build.work / "pylock.toml")
            lock = await compute(len(data), read_lock, data, self.python.version)
        for one in built:  # no other package may come under its name
            if any(pin.name == one.name and pin.wheel.sha256 != one.wheel_sha256 for pin in lock.pins):
                raise Denied("package_refused", f"{one.name} is another than what was built.", hint=LYING)
        ageless = (f"file://{INDEX}/", _PLACE_OF_BUILT)  # the age of a built wheel is that of its source
        refuse_young(select_aged(lock, ageless), self.host.cutoff)
        return lock

    async def fetch(self, wheels: Iterable[Wheel], guard: Guard, on_progress: OnProgress) -> None:
        """Get these wheels into the store.

        Raises:
            Denied: A wheel can't be had, does not match its digest, or holds forbidden content.
        """
        store = self.host.store.wheels
        lacking = await to_thread.run_sync(lambda: [one for one in wheels if not store.has(one)])
        if not lacking:  # stored wheels were checked when they came
            return
        on_progress(f"fetching {len(lacking)} packages")
        for one in lacking:
            if one.url.startswith(_PLACE_OF_BUILT):
                reason = f"{one.file} was built from source, and is here no more."
                raise Denied("package_refused", reason, hint="build it again: gloveport env lock")
        async with self.open(self.grant) as build:
            await self.fetch_files(build, lacking, guard)
            for one in lacking:
                if not await to_thread.run_sync(store.keep, one, build.work / WHEELS / one.file):
                    raise Denied("package_refused", f"{one.file} is another than the lock says.", hint=LYING)

    async def fetch_files(self, build: BuildSandboxes, files: Iterable[Wheel], guard: Guard | None) -> None:
        """Fetch files that are not in ``WHEELS`` yet, and check the contents of wheels. A file without a digest is a
        page.

        Raises:
            Denied: A file can't be had, or holds forbidden content.
        """
        downloads = [{"url": one.url, "file": one.file, "sha256": one.sha256 or None} for one in files]
        write_input(build.work / "fetch.json", json.dumps(downloads))
        bounds = self.host.bounds
        fetch = (self.host.system.python, "-I", f"{GUEST}/python/fetch_wheels.py", f"{PACKAGES}/fetch.json")
        ending = await build.run((*fetch, f"{PACKAGES}/{WHEELS}", str(bounds.bytes), str(bounds.files)), guard)
        if ending.outcome.exit_code != 0:
            raise ending.failure("package_refused", "The packages can't be fetched")

    def _settings(self, built: Sequence[BuiltWheel]) -> str:
        """The indexes, and how old packages must be. An index on this host's disk tells no age, and needs none."""
        lines = []
        if cutoff := self.host.cutoff:
            lines.append(f'exclude-newer = "{cutoff.isoformat(timespec="seconds")}"')
        first = [_PLACE_OF_BUILT] if built else []  # the first index that has a name is the only one asked
        places = [*first, *self.places]
        for number, place in enumerate(places, 1):
            lines += ["[[index]]", f"url = {json.dumps(place)}"]
            lines += ["exclude-newer = false"] if place.startswith("file:") and cutoff else []
            lines += ["default = true"] if number == len(places) else []
        return "\n".join(lines) + "\n"

    def _resolution_failure(self, ending: ProgramEnding) -> Denied:
        text = ending.text
        if "filtered by `exclude-newer`" in text and "published at" not in text:
            return Denied(
                "package_of_unknown_age",
                f"The index does not say when packages were uploaded (PEP 700), so the cooldown of "
                f"{self.host.cooldown_days:g} days lets none of them in.",
                hint="set packages.cooldown_days = 0 if you trust this index, or name one that says it",
            )
        if ending.has_cause_of_its_own:
            return ending.failure("packages_unresolved", "The index can't be read")
        failure = ending.failure("packages_unresolved", "There are no versions that fit together")
        if self.host.cooldown_days:
            failure.hint = (
                f"correct the requirements; versions younger than {self.host.cooldown_days:g} days are left out, "
                "and so is what has no wheel for this Python"
            )
        if "no usable wheels" in text:
            failure.hint = (
                'the owner can write build = ["NAME==VERSION"] in the environment for what has no wheel: code of its '
                "own builds it then, without a network"
            )
        return failure


LYING: Final = "the index, or somebody on the way, has sent another file: don't use it before you know why"
