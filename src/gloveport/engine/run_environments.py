"""Which environment a run gets: a named one, the default, or one that the program asks for in its own text."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread

from gloveport.engine.environment_builder import EnvironmentBuilder, OnProgress
from gloveport.environments.environment_store import BuiltTree, EnvironmentStore, LockRequest
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock, read_lock, refuse_young
from gloveport.errors import Denied
from gloveport.guard import Guard
from gloveport.model import Grant, Language, Mount, Request
from gloveport.model.packages import PACKAGES, Environment, Install, PackageRules
from gloveport.policy.package_requests import (
    MetadataError,
    covers,
    name_of,
    normalize_requirement,
    package_of,
    read_metadata,
    refuse_names,
)
from gloveport.policy.wording import join_listed, quote_sent

INLINE: Final = "inline"
_HOLD_SECONDS: Final = 0.05
_SETTINGS: Final = {
    "PYTHONPATH": f"{PACKAGES}/python",
    "MPLBACKEND": "agg",
    "MPLCONFIGDIR": "/run/gloveport/matplotlib",
    # As for the packages for data work: fonts are read anew in each sandbox, and threads can't be forked.
    "MPL_IGNORE_SYSTEM_FONTS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def no_progress(_what: str) -> None:
    """An ``OnProgress`` that tells nobody."""


@dataclass(frozen=True, kw_only=True)
class RunEnvironment:
    """The environment of one run.

    Attributes:
        name: The operator's name of it, or ``inline``.
        path: The tree on this host.
    """

    name: str
    tree: BuiltTree
    path: Path

    @property
    def label(self) -> str:
        """What a result calls it."""
        return f"{self.name} ({self.tree.lock_sha256[:12]})"

    @property
    def mount(self) -> Mount:
        """How programs see it."""
        return Mount(source=str(self.path), target=PACKAGES)

    @property
    def env(self) -> Mapping[str, str]:
        """What programs are told about it."""
        return _SETTINGS


@dataclass(frozen=True, kw_only=True)
class Environments:
    """The operator's environments, and those that programs have asked for.

    Attributes:
        named: By name, what the configuration says.
        rules: What programs may ask for.
        builder: Makes what is not there; None where this host has no uv.
        missing: Why it has none.
        warnings: What the operator should know about where packages come from.
    """

    named: Mapping[str, Environment]
    rules: PackageRules
    store: EnvironmentStore
    interpreter: str
    version: tuple[int, int]
    cooldown_days: float
    indexes: tuple[str, ...]
    builder: EnvironmentBuilder | None = None
    missing: str = ""
    warnings: tuple[str, ...] = ()
    _known: dict[tuple[str, ...], BuiltTree] = field(default_factory=dict)

    async def provide(
        self, request: Request, guard: Guard, on_progress: OnProgress = no_progress
    ) -> RunEnvironment | None:
        """The environment that a program runs in, which is built where it is not there; None for none.

        Raises:
            Denied: There is no such environment, what the program asks for is not allowed, or can't be had.
            SandboxError: This host can't build the sandboxes of builds.
        """
        if request.environment is not None:
            if request.environment not in self.named:
                raise self._deny_unknown(request.environment)
            return await self.open_named(request.environment, guard, on_progress)
        if asked := self._asked_by(request.language, request.code):
            if refusal := refuse_names(self.rules, map(name_of, asked)):
                raise Denied(refusal.code, refusal.reason, hint=refusal.hint)
            return self._open_tree(INLINE, await self._provide(None, asked, guard, on_progress))
        default = next((name for name, one in self.named.items() if one.default), None)
        return None if default is None else await self.open_named(default, guard, on_progress)

    async def open_named(self, name: str, guard: Guard, on_progress: OnProgress = no_progress) -> RunEnvironment:
        """One of the operator's. Raises as ``provide``."""
        settings = self.named[name]
        return self._open_tree(name, await self._provide(name, requirements_of(settings), guard, on_progress))

    async def relock(self, name: str, guard: Guard, on_progress: OnProgress = no_progress) -> Lock:
        """Resolve one of the operator's anew, and keep the lock. Raises as ``provide``."""
        settings = self.named[name]
        if settings.lock is not None:
            raise Denied("lock_is_the_owners", f"The lock of {name} is {settings.lock}.", hint="make that one anew")
        wanted = self.lock_request(requirements_of(settings))
        async with self._hold_name(wanted.digest):
            lock = await self._resolve(wanted.requirements, guard, on_progress)
            self._check(name, lock)
            self.store.save_lock(wanted, lock)
        self._known.clear()
        return lock

    def find_built(self, name: str) -> tuple[Lock | None, BuiltTree | None]:
        """What there is of one of the operator's."""
        try:
            lock = self._find_lock(name, self.lock_request(requirements_of(self.named[name])))
        except Denied:
            return None, None
        return lock, None if lock is None else self.store.find_tree(lock.sha256, self.interpreter)

    def who_has(self, modules: Sequence[str]) -> str:
        """The name of an environment that a program could import these from; empty where there is none."""
        trees = {name: self.find_built(name)[1] for name in self.named}
        return next((name for name, tree in trees.items() if tree and {*modules} <= {*tree.modules}), "")

    def suggest(self, modules: Sequence[str]) -> str:
        """What to do about modules that a program has not found: the environment that has them, or what to write."""
        if name := self.who_has(modules):
            return f'the environment {name} has it: environment="{name}"'
        packages = [package_of(module) for module in modules]
        listed = ", ".join(f'"{package}"' for package in packages)
        if self.rules.enabled and refuse_names(self.rules, packages) is None:
            return f"ask for it in the program: # /// script, # dependencies = [{listed}], # ///, a line each"
        return f"the owner can add it: [environments.NAME] python = [{listed}]"

    def lock_request(self, requirements: tuple[str, ...]) -> LockRequest:
        """All that the lock of these depends on."""
        return LockRequest(
            requirements=requirements,
            indexes=self.indexes,
            cooldown_days=self.cooldown_days,
            interpreter=self.interpreter,
        )

    def _open_tree(self, name: str, tree: BuiltTree) -> RunEnvironment:
        self.store.note_use(tree)
        return RunEnvironment(name=name, tree=tree, path=self.store.path_of(tree))

    def _asked_by(self, language: Language, code: str) -> tuple[str, ...]:
        if language != "python" or not self.rules.enabled:
            return ()
        try:
            return read_metadata(code)
        except MetadataError as error:
            raise Denied(
                "metadata_unreadable",
                f"The block `# /// script` of the program can't be read: {error}.",
                hint='write it as PEP 723 has it: # /// script, # dependencies = ["NAME"], # ///',
            ) from error

    async def _provide(
        self, name: str | None, requirements: tuple[str, ...], guard: Guard, on_progress: OnProgress
    ) -> BuiltTree:
        known = self._known.get((name or "", *requirements))
        if known is not None and name is not None and self.store.path_of(known).exists():
            return known
        wanted = self.lock_request(requirements)
        async with self._hold_name(wanted.digest):
            lock = await to_thread.run_sync(self._find_lock, name, wanted)
            if lock is None:
                lock = await self._resolve(requirements, guard, on_progress)
                self.store.save_lock(wanted, lock)  # what a person is asked about stays what it was
            self._check(name, lock)
            action = Install(
                environment=name,
                asked=tuple(sorted({name_of(one) for one in requirements})),
                packages=lock.packages,
                lock_sha256=lock.sha256,
            )
            async with guard.admit(action) as ending:
                tree = self.store.find_tree(lock.sha256, self.interpreter)
                ending.fields["built"] = tree is None
                if tree is None:
                    builder = self._builder()
                    tree = await builder.build(lock, _of_builds(guard, builder.grant), on_progress)
        self._known[name or "", *requirements] = tree
        return tree

    def _find_lock(self, name: str | None, wanted: LockRequest) -> Lock | None:
        """The operator's lock, or the one that was made for these requirements.

        Raises:
            Denied: It can't be read.
        """
        if name is not None and (path := self.named[name].lock) is not None:
            try:
                with Path(path).open("rb") as file:
                    lock = read_lock(file.read(MOST_LOCK_BYTES), self.version)
            except OSError as error:
                reason = f"The lock {path} can't be read: {error.strerror}."
                raise Denied("lock_unreadable", reason, hint=f"correct environments.{name}.lock") from error
            cutoff = datetime.now(UTC) - timedelta(days=self.cooldown_days) if self.cooldown_days else None
            refuse_young(lock, cutoff, ["file:"])
            return lock
        data = self.store.load_lock(wanted)
        return None if data is None else read_lock(data, self.version)

    def _check(self, name: str | None, lock: Lock) -> None:
        """Refuse what the operator's list for an environment leaves out, and what no environment may have."""
        allowed = self.named[name].allow if name is not None else ()
        for one in lock.packages:
            if allowed and not covers(allowed, one):
                raise Denied(
                    "package_not_allowed",
                    f"{one.name} {one.version} would be in the environment {name}, whose `allow` does not name it.",
                    hint=f"add it to environments.{name}.allow, or do without what needs it",
                )

    async def _resolve(self, requirements: tuple[str, ...], guard: Guard, on_progress: OnProgress) -> Lock:
        builder = self._builder()
        return await builder.resolve(requirements, _of_builds(guard, builder.grant), on_progress)

    def _builder(self) -> EnvironmentBuilder:
        if self.builder is None:
            raise Denied("environment_unavailable", f"No environment can be built here: {self.missing}.", hint=_UV_HINT)
        return self.builder

    def _deny_unknown(self, name: str) -> Denied:
        there = f"There are: {join_listed(sorted(self.named))}." if self.named else "There are none."
        return Denied("unknown_environment", f"There is no environment {quote_sent(name)}.", hint=there)

    @asynccontextmanager
    async def _hold_name(self, name: str) -> AsyncIterator[None]:
        """Be the only one on this host who makes what is called so."""
        await to_thread.run_sync(self.store.create)
        while True:
            with self.store.hold(name, wait=False) as ours:
                if ours:
                    yield
                    return
            await anyio.sleep(_HOLD_SECONDS)


_UV_HINT: Final = "install uv beside Gloveport: pip install uv"


def requirements_of(settings: Environment) -> tuple[str, ...]:
    """The requirements of one of the operator's environments, in the one spelling that each has."""
    return tuple(sorted({normalize_requirement(one) for one in settings.python}))


def _of_builds(guard: Guard, grant: Grant) -> Guard:
    """A guard for what builds fetch: under the same run, with the grant of builds."""
    return Guard(
        grant=grant, audit=guard.audit, caller=guard.caller, run_id=guard.run_id, session=guard.session, asker=None
    )
