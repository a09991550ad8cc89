"""The two kinds of packages: how each is asked for, locked, built, and shown to programs."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

from msgspec import Struct, field

from gloveport.engine.build_host import Builder
from gloveport.engine.npm_builder import PLATFORM
from gloveport.environments.lock_requests import LockRequest, NpmLockRequest, PythonLockRequest
from gloveport.environments.locks import Lock, load_operator_lock, read_lock, refuse_young, select_aged
from gloveport.environments.npm_locks import read_npm_lock
from gloveport.environments.registries import Registries
from gloveport.errors import Denied
from gloveport.model import Language
from gloveport.model.packages import NPM_PACKAGES, PACKAGES, Environment
from gloveport.policy.npm_requests import MetadataError, normalize_npm_requirement, read_imports
from gloveport.policy.package_requests import name_of, normalize_pin, normalize_requirement, read_metadata
from gloveport.runtimes import Runtime, python, typescript

_OF_PYTHON: Final = {
    "PYTHONPATH": f"{PACKAGES}/python",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": "/run/gloveport/matplotlib",
    # As for the data packages: each sandbox would read fonts anew, and threads can't be forked.
    "MPL_IGNORE_SYSTEM_FONTS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


class Ecosystem(Protocol):
    """One kind of packages.

    Attributes:
        languages: Languages whose programs can have them.
        platform: The platform that trees are built for, as ``EnvironmentStore`` names it.
        target: Where programs see them.
        env: Variables that tell programs of them.
        commands_env: Variables that tell commands of a workspace of them.
        programs: Where the packages' programs lie.
        builder: Makes locks and trees; None where this host can't.
        missing: Why it can't, and what to do about it.
    """

    languages: tuple[Language, ...]
    platform: str
    target: str
    env: Mapping[str, str]
    commands_env: Mapping[str, str]
    programs: str
    builder: Builder | None
    missing: str

    def read_request(self, language: Language, code: str, default: Environment | None) -> tuple[str, ...]:
        """The packages that a program requests in its own text; nothing of it is executed. ``default`` is the
        environment that it would otherwise run in.

        Raises:
            Denied: It can't be read.
        """

    def request_of(self, settings: Environment) -> LockRequest | None:
        """The packages of this kind in an environment, in canonical spelling; None if there are none."""

    def lock_request(self, requirements: tuple[str, ...]) -> LockRequest:
        """All that the lock of these requirements depends on, with no further settings of the operator."""

    def read_lock(self, data: bytes) -> Lock:
        """A stored lock. Raises Denied if it can't be read."""

    def load_own_lock(self, name: str, settings: Environment) -> Lock | None:
        """The lock that the operator has written for an environment; None where we make it.

        Raises:
            Denied: It can't be read, or has a package younger than the cooldown.
        """

    def runtimes(
        self, runtimes: Mapping[Language, Runtime], name: str, modules: tuple[str, ...]
    ) -> Mapping[Language, Runtime]:
        """The runtimes for programs in the environment of this name, which can import these modules."""


class PythonPackages(Struct, kw_only=True):
    """See ``Ecosystem``: packages of Python.

    Attributes:
        indexes: Where they come from.
        version: Version of their interpreter.
    """

    platform: str
    version: tuple[int, int]
    indexes: tuple[str, ...]
    cooldown_days: float
    builder: Builder | None = None
    missing: str = "uv is not there, which comes with Gloveport: pip install uv"
    languages: tuple[Language, ...] = ("python", "shell")
    target: str = PACKAGES
    programs: str = f"{PACKAGES}/python/bin"
    commands_env: Mapping[str, str] = field(default_factory=lambda: {"PYTHONPATH": f"{PACKAGES}/python"})
    env: Mapping[str, str] = field(default_factory=lambda: _OF_PYTHON)

    def read_request(
        self,
        language: Language,
        code: str,
        default: Environment | None,  # noqa: ARG002 - see ``Ecosystem``
    ) -> tuple[str, ...]:
        """See ``Ecosystem``."""
        try:
            return read_metadata(code) if language == "python" else ()
        except MetadataError as error:
            raise Denied(
                "metadata_unreadable",
                f"The block `# /// script` of the program can't be read: {error}.",
                hint='write it as PEP 723 has it: # /// script, # dependencies = ["NAME"], # ///',
            ) from error

    def request_of(self, settings: Environment) -> LockRequest | None:
        """See ``Ecosystem``."""
        if not settings.has_python:
            return None
        request = self.lock_request(tuple(sorted({*map(normalize_requirement, settings.python)})))
        return request.model_copy(update={"build": tuple(map(normalize_pin, settings.build))})

    def lock_request(self, requirements: tuple[str, ...]) -> PythonLockRequest:
        """See ``Ecosystem``."""
        return PythonLockRequest(
            requirements=requirements,
            indexes=self.indexes,
            cooldown_days=self.cooldown_days,
            interpreter=self.platform,
        )

    def read_lock(self, data: bytes) -> Lock:
        """See ``Ecosystem``."""
        return read_lock(data, self.version)

    def load_own_lock(self, name: str, settings: Environment) -> Lock | None:
        """See ``Ecosystem``."""
        if settings.lock is None:
            return None
        try:
            lock = read_lock(load_operator_lock(settings.lock), self.version)
        except OSError as error:
            reason = f"The lock {settings.lock} can't be read: {error.strerror}."
            raise Denied("lock_unreadable", reason, hint=f"correct environments.{name}.lock") from error
        cutoff = datetime.now(UTC) - timedelta(days=self.cooldown_days) if self.cooldown_days else None
        refuse_young(select_aged(lock, ["file:"]), cutoff)
        return lock

    def runtimes(
        self, runtimes: Mapping[Language, Runtime], name: str, modules: tuple[str, ...]
    ) -> Mapping[Language, Runtime]:
        """See ``Ecosystem``."""
        own = runtimes["python"]
        return (
            {**runtimes, "python": python.in_environment(own, name, modules)}
            if isinstance(own, python.Python)
            else runtimes
        )


class NpmPackages(Struct, kw_only=True):
    """See ``Ecosystem``: packages of npm."""

    registries: Registries
    cooldown_days: float
    builder: Builder | None = None
    missing: str = "Deno is not there: pip install deno"
    languages: tuple[Language, ...] = ("typescript", "javascript")
    platform: str = PLATFORM
    target: str = NPM_PACKAGES
    programs: str = f"{NPM_PACKAGES}/node_modules/.bin"
    commands_env: Mapping[str, str] = field(default_factory=lambda: {"NODE_PATH": f"{NPM_PACKAGES}/node_modules"})
    env: Mapping[str, str] = field(default_factory=dict)

    def read_request(self, language: Language, code: str, default: Environment | None) -> tuple[str, ...]:
        """See ``Ecosystem``. Packages of the default environment are imported without a request."""
        try:
            requested = read_imports(code) if language in self.languages else ()
        except MetadataError as error:
            raise Denied(
                "metadata_unreadable",
                f"What the program imports can't be had: {error}.",
                hint='write import { z } from "npm:zod@4", or another package of npm',
            ) from error
        default_request = default and self.request_of(default)
        there = {*map(name_of, default_request.specifiers if default_request else ())}
        return () if there.issuperset(map(name_of, requested)) else requested

    def request_of(self, settings: Environment) -> LockRequest | None:
        """See ``Ecosystem``."""
        if not settings.npm:
            return None
        request = self.lock_request(tuple(sorted({*map(normalize_npm_requirement, settings.npm)})))
        return request.model_copy(update={"package_lock": settings.npm_lock or ""})

    def lock_request(self, requirements: tuple[str, ...]) -> NpmLockRequest:
        """See ``Ecosystem``."""
        return NpmLockRequest(
            npm=requirements,
            registry=self.registries.url,
            scopes=self.registries.scopes,
            cooldown_days=self.cooldown_days,
        )

    def read_lock(self, data: bytes) -> Lock:
        """See ``Ecosystem``."""
        return read_npm_lock(data)

    def load_own_lock(self, name: str, settings: Environment) -> Lock | None:  # noqa: ARG002 - see ``Ecosystem``
        """See ``Ecosystem``: there is none."""
        return None

    def runtimes(
        self, runtimes: Mapping[Language, Runtime], name: str, modules: tuple[str, ...]
    ) -> Mapping[Language, Runtime]:
        """See ``Ecosystem``."""
        packages = [one.removeprefix("npm:") for one in modules]
        return {
            language: typescript.in_environment(own, name, packages) if isinstance(own, typescript.Deno) else own
            for language, own in runtimes.items()
        }
