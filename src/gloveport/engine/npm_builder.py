"""Resolves and builds environments of npm packages in sandboxes whose only doors are the registries.

    resolve   Deno makes a lock from requirements, and a program of ours adds how old each package is
    install   Deno fetches, compares with the digests of the lock, and unpacks; it runs no script of a package

When they are dead, this process checks the files that they left, and makes the tree of them (``environments/seal.py``).
This process itself writes the file that says which names programs can import.
"""

import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Final

from anyio import to_thread
from msgspec import Struct

from gloveport.engine.build_host import BuildHost, RefuseBuilds, read_lock_file, write_input
from gloveport.engine.build_progress import OnProgress
from gloveport.engine.build_sandboxes import BuildSandboxes
from gloveport.environments.environment_store import BuiltTree
from gloveport.environments.lock_requests import LockRequest
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock, load_operator_lock, refuse_young
from gloveport.environments.npm_locks import NpmLock, PackageLock, read_npm_lock, read_package_lock
from gloveport.environments.registries import Registries
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.model import GUEST, Grant
from gloveport.model.packages import PACKAGES
from gloveport.policy.npm_requests import OF_JSR
from gloveport.runtimes.typescript import DENO, DENO_CONFIG, RESERVED_BYTES, Deno

PLATFORM: Final = "npm"
"""The platform of its trees, as ``EnvironmentStore`` names it."""

_CACHE: Final = f"{PACKAGES}/cache"
_DENO_LOCK: Final = "deno.lock"
_MODULES: Final = "node_modules"
_ENV: Final = {"DENO_DIR": _CACHE, "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"}
_INSTALL: Final = (DENO, "install", "--quiet", "--node-modules-dir=manual", "--node-modules-linker=hoisted")
_NO_AGE: Final = "0"


class NpmBuilder(Struct, frozen=True, kw_only=True):
    """A ``Builder`` of packages of npm.

    Attributes:
        registries: Where packages come from.
    """

    host: BuildHost
    registries: Registries
    deno: Deno

    @property
    def grant(self) -> Grant:
        """See ``Builder``."""
        return self.host.grant(self.registries.hosts)

    async def resolve(
        self,
        request: LockRequest,
        guard: Guard,
        on_progress: OnProgress,
        refuse_builds: RefuseBuilds,  # noqa: ARG002 - see ``Builder``: nothing is
    ) -> NpmLock:
        """See ``Builder``."""
        requirements = request.specifiers
        if "@jsr" not in self.registries.scopes and any(one.startswith(OF_JSR) for one in requirements):
            raise Denied(
                "registry_unknown",
                "Nobody has said where packages of JSR come from.",
                hint='the owner can add it: packages.npm_scopes = { "@jsr" = "https://npm.jsr.io" }',
            )
        on_progress(f"resolving {len(requirements)} requirements of npm")
        cutoff = self.host.cutoff
        path = request.package_lock
        own = await compute(MOST_LOCK_BYTES, load_package_lock, path) if path else None
        by_name = {_name_of(one): one for one in requirements}
        async with self._open_sandboxes(by_name) as build:
            if own is not None:
                ranges = {name: one.removeprefix(f"npm:{name}").removeprefix("@") for name, one in by_name.items()}
                seed = own.to_seed({name: versions or "*" for name, versions in ranges.items()})
                write_input(build.work / "package-lock.json", seed)
            age = cutoff.isoformat(timespec="seconds") if cutoff else _NO_AGE
            ending = await build.run((*_INSTALL, "--lockfile-only", f"--minimum-dependency-age={age}"), guard)
            if ending.outcome.exit_code == 0:
                write = (self.host.system.python, "-I", f"{GUEST}/python/write_npm_lock.py")
                ending = await build.run((*write, f"{PACKAGES}/{_DENO_LOCK}", _CACHE, f"{PACKAGES}/lock.json"), None)
            if ending.outcome.exit_code != 0:
                if ending.has_cause_of_its_own:
                    raise ending.failure("packages_unresolved", "The registry can't be read")
                failure = ending.failure("packages_unresolved", "There are no versions that fit together")
                if cutoff:
                    failure.hint = (
                        "correct the requirements; versions younger than "
                        f"{self.host.cooldown_days:g} days are left out, and those whose age the registry does not say"
                    )
                raise failure
            data = await to_thread.run_sync(read_lock_file, build.work / "lock.json")
            lock = await compute(len(data), read_npm_lock, data)
        if own is not None:
            own.refuse_others(lock)
        refuse_young(lock.packages, cutoff)
        return lock

    async def build(self, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """See ``Builder``."""
        data = lock.text.encode()
        named = await compute(len(data), read_npm_lock, data)
        on_progress(f"fetching and unpacking {len(lock.packages)} packages of npm")
        imports = {name: f"npm:{name}@{version}" for name, version in named.direct.items()}
        async with self._open_sandboxes(named.requirements) as build:
            write_input(build.work / _DENO_LOCK, named.deno_lock)
            ending = await build.run((*_INSTALL, "--frozen", f"--minimum-dependency-age={_NO_AGE}"), guard)
            if ending.outcome.exit_code != 0:
                raise ending.failure("package_refused", "The packages can't be installed")
            on_progress("checking what was installed")
            # We write nothing below a name that a sandbox could have made a link.
            tree = build.work.parent / "tree-of-npm"
            tree.mkdir(mode=0o700)
            try:
                (build.work / _MODULES).rename(tree / _MODULES)
            except OSError as error:
                raise Denied(
                    "package_refused", f"Nothing was installed: {error.strerror}.", hint="try again"
                ) from error
            write_input(tree / DENO_CONFIG, json.dumps({"nodeModulesDir": "manual", "imports": imports}))
            names = [f"npm:{name}" for name in sorted(imports)]
            return await to_thread.run_sync(self.host.store.seal, tree, lock, PLATFORM, self.host.bounds, names)

    @contextlib.asynccontextmanager
    async def _open_sandboxes(self, imports: Mapping[str, str]) -> AsyncIterator[BuildSandboxes]:
        """Sandboxes in whose directory Deno finds the requirements and the registries."""
        opened = self.host.open_sandboxes(self.grant, self.deno.binds, _ENV, reserved_bytes=RESERVED_BYTES)
        async with opened as build:
            settings = {"nodeModulesDir": "manual", "imports": dict(imports), "lock": f"./{_DENO_LOCK}"}
            write_input(build.work / DENO_CONFIG, json.dumps(settings))
            write_input(build.work / ".npmrc", self.registries.to_npmrc())
            yield build


def load_package_lock(path: str) -> PackageLock:
    """The ``package-lock.json`` of an operator. Raises Denied if it can't be read."""
    try:
        return read_package_lock(load_operator_lock(path))
    except OSError as error:
        reason = f"The lock {path} can't be read: {error.strerror}."
        raise Denied("lock_unreadable", reason, hint="correct npm_lock of the environment") from error


def _name_of(requirement: str) -> str:
    """The name that a requirement is imported by, as it stands in ``deno.json``."""
    return requirement.removeprefix("npm:")[:1] + requirement.removeprefix("npm:")[1:].partition("@")[0]
