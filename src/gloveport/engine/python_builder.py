"""Resolves and builds environments of Python in sandboxes: three programs, of which the last has no way out.

    resolve   uv makes a lock from requirements       the index is its only door
    fetch     a program of ours gets what it names    the same door
    install   uv unpacks and compiles                 no door is answered

All of them write into one directory, whose size is watched. When they are dead, this process looks at what they have
left, and makes the tree of it (``environments/seal.py``).
"""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anyio import to_thread

from gloveport.engine.build_host import BuildHost, OnProgress, read_lock_file, write_input
from gloveport.engine.build_sandboxes import BuildSandboxes, ProgramEnding
from gloveport.environments.environment_store import BuiltTree
from gloveport.environments.indexes import Indexes
from gloveport.environments.locks import Lock, Wheel, read_lock, refuse_young, select_aged
from gloveport.errors import Denied
from gloveport.guard import Guard
from gloveport.model import GUEST, Grant, Mount
from gloveport.model.packages import PACKAGES
from gloveport.runtimes.python import Python

_UV: Final = "/opt/uv/uv"
_INDEX: Final = "/opt/index"


@dataclass(frozen=True, kw_only=True)
class PythonBuilder:
    """A ``Builder`` of packages of Python.

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

    async def resolve(self, requirements: Sequence[str], guard: Guard, on_progress: OnProgress) -> Lock:
        """See ``Builder``."""
        on_progress(f"resolving {len(requirements)} requirements")
        async with self._open_sandboxes() as build:
            write_input(build.work / "requirements.in", "\n".join(requirements) + "\n")
            write_input(build.work / "uv.toml", self._uv_settings())
            which = ("--python", self.host.system.python, "--no-build")
            how = ("--format", "pylock.toml", "--no-header", "--quiet")
            files = ("-o", f"{PACKAGES}/pylock.toml", f"{PACKAGES}/requirements.in")
            said = await build.run((_UV, "pip", "compile", *_COMMON, *which, *how, *files), guard)
            if said.outcome.exit_code != 0:
                raise self._resolution_failure(said)
            lock = read_lock(read_lock_file(build.work / "pylock.toml"), self.python.version)
        refuse_young(select_aged(lock, [f"file://{_INDEX}/"]), self.host.cutoff)
        return lock

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """See ``Builder``."""
        named = read_lock(lock.text.encode(), self.python.version)
        wheels = {one.wheel.file: one.wheel for one in named.pins}
        async with self._open_sandboxes() as build:
            directory = build.work / "wheels"
            directory.mkdir()
            here = [file for file, one in wheels.items() if self.host.store.take_wheel(one, directory / file)]
            on_progress(f"fetching {len(wheels) - len(here)} packages, {len(here)} are here")
            if len(here) < len(wheels):  # what is here was looked at when it came
                await self._fetch(build, wheels, guard)
            for file, one in wheels.items():
                if file not in here and not self.host.store.keep_wheel(one, directory / file):
                    raise Denied("package_refused", f"{file} is another than the lock says.", hint=_LYING)
            on_progress(f"installing {len(wheels)} packages")
            write_input(build.work / "requirements.txt", named.requirements())
            write_input(build.work / "uv.toml", "")
            where = ("--python", self.host.system.python, "--target", f"{PACKAGES}/tree/python")
            which = ("--find-links", f"{PACKAGES}/wheels", "--require-hashes", "-r", f"{PACKAGES}/requirements.txt")
            said = await build.run((_UV, "pip", "install", *_COMMON, *_INSTALL, *where, *which), None)
            if said.outcome.exit_code != 0:
                raise said.failure("package_refused", "The packages can't be installed")
            on_progress("checking what was installed")
            tree = build.work / "tree"
            tree.mkdir(exist_ok=True)
            return await to_thread.run_sync(self.host.store.seal, tree, lock, self.python.extension, self.host.bounds)

    async def _fetch(self, build: BuildSandboxes, wheels: Mapping[str, Wheel], guard: Guard) -> None:
        """Fetch what is not there, and look at what is in each."""
        told = [{"url": one.url, "file": file, "sha256": one.sha256} for file, one in wheels.items()]
        write_input(build.work / "fetch.json", json.dumps(told))
        bounds = self.host.bounds
        fetch = (self.host.system.python, "-I", f"{GUEST}/python/fetch_wheels.py", f"{PACKAGES}/fetch.json")
        said = await build.run((*fetch, f"{PACKAGES}/wheels", str(bounds.bytes), str(bounds.files)), guard)
        if said.outcome.exit_code != 0:
            raise said.failure("package_refused", "The packages can't be fetched")

    @contextlib.asynccontextmanager
    async def _open_sandboxes(self) -> AsyncIterator[BuildSandboxes]:
        binds = (
            Mount(source=self.uv, target=_UV),
            *(Mount(source=path, target=f"{_INDEX}/{number}") for number, path in enumerate(self.indexes.directories)),
        )
        env = {"PYC_INVALIDATION_MODE": "UNCHECKED_HASH", "UV_PYTHON_DOWNLOADS": "never"}
        if self.indexes.hosts:  # else the sandbox has no certificates, without which uv does not start
            env["UV_SYSTEM_CERTS"] = "1"
        async with self.host.open_sandboxes(self.grant, binds, env) as build:
            yield build

    def _uv_settings(self) -> str:
        """The indexes, and how old packages must be. An index on this host's disk tells no age, and needs none."""
        lines = []
        if cutoff := self.host.cutoff:
            lines.append(f'exclude-newer = "{cutoff.isoformat(timespec="seconds")}"')
        directories = iter(range(len(self.indexes.directories)))
        for number, url in enumerate(self.indexes.urls, 1):
            is_directory = url.startswith("file:")
            place = f"file://{_INDEX}/{next(directories)}" if is_directory else url
            lines += ["[[index]]", f"url = {json.dumps(place)}"]
            lines += ["exclude-newer = false"] if is_directory and cutoff else []
            lines += ["default = true"] if number == len(self.indexes.urls) else []
        return "\n".join(lines) + "\n"

    def _resolution_failure(self, said: ProgramEnding) -> Denied:
        text = said.text
        if "filtered by `exclude-newer`" in text and "published at" not in text:
            return Denied(
                "package_of_unknown_age",
                f"The index does not say when packages were uploaded (PEP 700), so the cooldown of "
                f"{self.host.cooldown_days:g} days lets none of them in.",
                hint="set packages.cooldown_days = 0 if you trust this index, or name one that says it",
            )
        failure = said.failure("packages_unresolved", "There are no versions that fit together")
        if self.host.cooldown_days:
            failure.hint = (
                f"correct the requirements; versions younger than {self.host.cooldown_days:g} days are left out, "
                "and so is what has no wheel for this Python"
            )
        return failure


_COMMON: Final = ("--config-file", f"{PACKAGES}/uv.toml", "--cache-dir", f"{PACKAGES}/cache", "--no-progress")
_INSTALL: Final = ("--offline", "--no-index", "--no-deps", "--only-binary", ":all:", "--compile-bytecode", "--quiet")
_LYING: Final = "the index, or somebody on the way, has sent another file: don't use it before you know why"
