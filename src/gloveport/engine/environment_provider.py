"""Provides the environment of a run: a named one, the default, or one that the program requests in its own text."""

import errno
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager, contextmanager, nullcontext
from functools import partial
from typing import Final

import anyio
from anyio import to_thread
from msgspec import Struct, field

from gloveport.engine.advisories import Advisory, AdvisoryService
from gloveport.engine.build_host import LIMITS, Builder
from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.build_sandboxes import MAKE_ROOM
from gloveport.engine.ecosystems import Ecosystem
from gloveport.engine.run_environment import PackageTree, RunEnvironment
from gloveport.environments.environment_store import BuiltTree, EnvironmentStore
from gloveport.environments.lock_requests import LockRequest
from gloveport.environments.locks import MOST_LOCK_BYTES, Lock
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.guard import Guard
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import Grant, Language, Request
from gloveport.model.packages import Environment, Install, LockedPackage, PackageRules
from gloveport.policy.npm_requests import NPM
from gloveport.policy.package_requests import covers, name_of, package_of, refuse_names
from gloveport.policy.wording import join_listed, quote_sent
from gloveport.untrusted_text import one_line

INLINE: Final = "inline"
_HOLD_SECONDS: Final = 0.05
_MOST_WAITING: Final = 16
"""Programs of one caller that wait for packages: each holds its text and files in memory."""

_BUILDS: Final = 3
_BUILDS_OF_CALLER: Final = 2
"""One caller leaves a place to others: a build may take half an hour."""

_WAITING_BUILDS: Final = 32
_ADD: Final = "the owner can add it: [environments.NAME]"


class Environments(Struct, frozen=True, kw_only=True):
    """The operator's environments, and those that programs have asked for.

    Attributes:
        named: The configured environments, by name.
        rules: Which packages programs may request.
        warnings: Warnings to the operator about package indexes.
        advisories: Looks up advisories about packages; None where it can't be reached.
        asks_first: Whether builds look up advisories before they install.
    """

    named: Mapping[str, Environment]
    rules: PackageRules
    store: EnvironmentStore
    ecosystems: tuple[Ecosystem, ...]
    warnings: tuple[str, ...] = ()
    advisories: AdvisoryService | None = None
    asks_first: bool = False
    _trees: dict[tuple[str, ...], BuiltTree] = field(default_factory=dict)
    _requests: dict[str, list[tuple[Ecosystem, LockRequest]]] = field(default_factory=dict)
    _builds: AdmissionQueue = field(
        default_factory=lambda: AdmissionQueue(
            concurrent_runs=_BUILDS,
            queue_length=_WAITING_BUILDS,
            queue_seconds=LIMITS.wall_seconds,
            caller_runs=_BUILDS_OF_CALLER,
        )
    )
    """Of what programs ask for in their own text, which may be something else each time."""

    _waiting: Counter[str] = field(default_factory=Counter)
    """How many programs of each caller wait until somebody else has made what they need."""

    async def provide(
        self, request: Request, guard: Guard, share: str, on_progress: OnProgress
    ) -> RunEnvironment | None:
        """The environment that a program runs in, built first if it is missing; None for none.

        ``share``: from whose share of concurrent builds one comes that the program asks for in its own text.

        Raises:
            Denied: There is no such environment, it is for other languages, a requested package is not allowed or
                can't be had, or too many wait for theirs.
            SandboxError: This host can't build the sandboxes of builds.
        """
        languages = None if request.session is not None else (request.language,)
        if (name := request.environment) is not None:
            if name in self.named and request.language not in (served := self.named[name].served_languages):
                raise Denied(
                    "environment_of_other_language",
                    f"The environment {name} is for programs in {join_listed(sorted(served))}.",
                    hint="leave out environment, or write the program in another language",
                )
            return await self.open_named(name, guard, on_progress, languages)
        defaults = (n for n, one in self.named.items() if one.default and request.language in one.served_languages)
        default = next(defaults, None)
        settings = None if default is None else self.named[default]
        for ecosystem in self.ecosystems if self.rules.enabled else ():
            if requirements := ecosystem.read_request(request.language, request.code, settings):
                if refusal := refuse_names(self.rules, map(name_of, requirements)):
                    raise Denied(refusal.code, refusal.reason, hint=refusal.hint)
                lock_request = ecosystem.lock_request(requirements)
                place = partial(self._builds.place, share)
                tree = await self._provide(ecosystem, None, lock_request, guard, on_progress, place)
                return RunEnvironment(name=INLINE, trees=(self._open_tree(ecosystem, tree),))
        return None if default is None else await self.open_named(default, guard, on_progress, languages)

    async def open_named(
        self,
        name: str,
        guard: Guard,
        on_progress: OnProgress = no_progress,
        languages: Sequence[Language] | None = None,
    ) -> RunEnvironment:
        """An environment of the operator's, as far as programs in these languages need it; None for all. Raises as
        ``provide``.
        """
        if name not in self.named:
            raise self._deny_unknown(name)
        trees = [
            self._open_tree(ecosystem, await self._provide(ecosystem, name, lock_request, guard, on_progress))
            for ecosystem, lock_request in self._parts(name)
            if languages is None or any(language in ecosystem.languages for language in languages)
        ]
        return RunEnvironment(name=name, trees=tuple(trees))

    async def relock(self, name: str, guard: Guard, on_progress: OnProgress) -> list[Lock]:
        """Resolve one of the operator's environments anew, and keep its locks. Raises as ``provide``."""
        settings = self.named[name]
        if settings.lock is not None:
            raise Denied("lock_is_the_owners", f"The lock of {name} is {settings.lock}.", hint="make that one anew")
        locks = []
        for ecosystem, lock_request in self._parts(name):
            async with self._hold_name(lock_request.digest, guard.session):
                lock = await self._resolve(ecosystem, name, lock_request, guard, on_progress)
                self._check(name, lock)
                await to_thread.run_sync(self.store.save_lock, lock_request, lock)
            locks.append(lock)
        self._trees.clear()
        return locks

    def find_built(self, name: str) -> list[tuple[Lock, BuiltTree | None]]:
        """The locks of one of the operator's environments, and the tree of each if it was built."""
        parts = (self._find_part(name, *part) for part in self._parts(name))
        return [part for part in parts if part is not None]

    def is_built(self, name: str) -> bool:
        """Whether all of one of the operator's environments is built."""
        found = self.find_built(name)
        return len(found) == len(self._parts(name)) and all(tree is not None for _, tree in found)

    def who_has(self, modules: Sequence[str]) -> str:
        """The name of an environment that a program could import these from; empty where there is none. Of one that is
        not built yet only the requirements are known.
        """
        packages = {*map(package_of, modules)}
        requesting = ""
        for name in self.named:
            for ecosystem, lock_request in self._parts(name):
                _, tree = self._find_part(name, ecosystem, lock_request) or (None, None)
                if tree is not None and {*modules} <= {*tree.modules}:
                    return name
                if tree is None and packages <= {*map(name_of, lock_request.specifiers)}:
                    requesting = requesting or name
        return requesting

    async def suggest(self, modules: Sequence[str], request: Request) -> str:
        """Suggests how a program gets missing modules: the environment that has them, or the lines to write. A session
        stays in the environment in which it has begun.
        """
        if name := await compute(len(self.named) * MOST_LOCK_BYTES, self.who_has, modules):
            beginning = ', session="new"' if request.session is not None else ""
            return f'the environment {name} has it: environment="{name}"{beginning}'
        packages = [package_of(module) for module in modules]
        may_ask = self.rules.enabled and refuse_names(self.rules, packages) is None
        if packages[0].startswith(NPM):
            listed = ", ".join(f'"{package.removeprefix(NPM)}"' for package in packages)
            return f'import it from "{packages[0]}"' if may_ask else f"{_ADD} npm = [{listed}]"
        listed = ", ".join(f'"{package}"' for package in packages)
        if may_ask:
            return f"ask for it in the program: # /// script, # dependencies = [{listed}], # ///, a line each"
        return f"{_ADD} python = [{listed}]"

    def _parts(self, name: str) -> list[tuple[Ecosystem, LockRequest]]:
        """The kinds of packages in one of the operator's environments, with the requirements of each."""
        if name not in self._requests:
            pairs = ((one, one.request_of(self.named[name])) for one in self.ecosystems)
            self._requests[name] = [
                (ecosystem, lock_request) for ecosystem, lock_request in pairs if lock_request is not None
            ]
        return self._requests[name]

    def _open_tree(self, ecosystem: Ecosystem, tree: BuiltTree) -> PackageTree:
        self.store.note_use(tree)
        return PackageTree(ecosystem=ecosystem, tree=tree, path=self.store.path_of(tree))

    async def _provide(
        self,
        ecosystem: Ecosystem,
        name: str | None,
        lock_request: LockRequest,
        guard: Guard,
        on_progress: OnProgress,
        place: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
    ) -> BuiltTree:
        """A tree of packages, made if it is missing. ``place``: to be held while anything is made."""
        key = (name or "", ecosystem.platform, *lock_request.build, "", *lock_request.specifiers)
        cached_tree = self._trees.get(key)
        if cached_tree is not None and name is not None and self.store.path_of(cached_tree).exists():
            return cached_tree
        async with self._hold_name(lock_request.digest, guard.session):
            lock = await compute(MOST_LOCK_BYTES, self._find_lock, ecosystem, name, lock_request)
            if lock is None:
                async with place():
                    lock = await self._resolve(ecosystem, name, lock_request, guard, on_progress)
                # It is stored first: the lock that a person approves stays the same.
                await to_thread.run_sync(self.store.save_lock, lock_request, lock)
        self._check(name, lock)
        action = _action_of(name, lock_request.specifiers, lock)
        # While a person is asked, others who request the same are not kept waiting.
        async with guard.admit(action) as ending, self._hold_name(lock_request.digest, guard.session):
            tree = await to_thread.run_sync(self.store.find_whole_tree, lock.sha256, ecosystem.platform)
            ending.fields["built"] = tree is None
            if tree is None:
                await self._refuse_malware(lock, guard)
                async with place():
                    tree = await self._build(ecosystem, lock, guard, on_progress)
        if name is not None:
            self._trees[key] = tree
        return tree

    async def _build(self, ecosystem: Ecosystem, lock: Lock, guard: Guard, on_progress: OnProgress) -> BuiltTree:
        """Build the tree of a lock, unless somebody else has: other requirements may have the same lock."""
        builder = _builder_of(ecosystem)
        async with self._hold_name(f"{self.store.address_of(lock.sha256, ecosystem.platform)}.tree", guard.session):
            tree = await to_thread.run_sync(self.store.find_whole_tree, lock.sha256, ecosystem.platform)
            with _explain_errors():
                return tree or await builder.build(lock, _of_builds(guard, builder.grant), on_progress)

    async def audit(
        self, packages: Sequence[LockedPackage], guard: Guard
    ) -> list[tuple[LockedPackage, tuple[Advisory, ...]]]:
        """The advisories about packages that have any. Raises as ``AdvisoryService.find``."""
        if self.advisories is None:
            raise Denied(
                "environment_unavailable", "No sandbox can be built with this configuration.", hint="run doctor"
            )
        return await self.advisories.find(packages, _of_builds(guard, self.advisories.grant))

    async def _refuse_malware(self, lock: Lock, guard: Guard) -> None:
        """Refuse a lock with known malware, if the operator wants that looked up."""
        for one, found in await self.audit(lock.packages, guard) if self.asks_first else ():
            if malware := next((advisory for advisory in found if advisory.is_malware), None):
                raise Denied(
                    "package_malicious",
                    f"{one.name} {one.version} is known to do harm on purpose: {one_line(malware.id, 80)}.",
                    hint="do without it, and look where it is installed already",
                )

    def _find_part(
        self, name: str, ecosystem: Ecosystem, lock_request: LockRequest
    ) -> tuple[Lock, BuiltTree | None] | None:
        """The lock of one kind of packages, and its tree if it was built; None without a lock that can be read."""
        try:
            lock = self._find_lock(ecosystem, name, lock_request)
        except Denied:
            return None
        return None if lock is None else (lock, self.store.find_tree(lock.sha256, ecosystem.platform))

    def _find_lock(self, ecosystem: Ecosystem, name: str | None, lock_request: LockRequest) -> Lock | None:
        """The operator's lock, or the one that was made for these requirements. Raises Denied if it can't be read."""
        if name is not None and (own := ecosystem.load_own_lock(name, self.named[name])) is not None:
            return own
        data = self.store.load_lock(lock_request)
        return None if data is None else ecosystem.read_lock(data)

    def _check(self, name: str | None, lock: Lock) -> None:
        """Refuse packages that the operator's list for an environment lacks, or that no environment may have."""
        allowed = self.named[name].allow if name is not None else ()
        for one in lock.packages:
            if allowed and not covers(allowed, one):
                raise Denied(
                    "package_not_allowed",
                    f"{one.name} {one.version} would be in the environment {name}, whose `allow` does not name it.",
                    hint=f"add it to environments.{name}.allow, or do without what needs it",
                )

    async def _resolve(
        self, ecosystem: Ecosystem, name: str | None, lock_request: LockRequest, guard: Guard, on_progress: OnProgress
    ) -> Lock:
        async def refuse_builds(pinned: str, lock: Lock) -> None:
            """Decide about build code as about packages that programs import."""
            self._check(name, lock)
            async with guard.admit(_action_of(name, (pinned,), lock)):
                await self._refuse_malware(lock, guard)

        builder = _builder_of(ecosystem)
        with _explain_errors():
            return await builder.resolve(lock_request, _of_builds(guard, builder.grant), on_progress, refuse_builds)

    def _deny_unknown(self, name: str) -> Denied:
        there = f"There are: {join_listed(sorted(self.named))}." if self.named else "There are none."
        return Denied("unknown_environment", f"There is no environment {quote_sent(name)}.", hint=there)

    @asynccontextmanager
    async def _hold_name(self, name: str, owner: str) -> AsyncIterator[None]:
        """Lock this name: nobody else on this host makes what it names.

        Raises:
            Denied: Too many programs of this owner wait.
        """
        await to_thread.run_sync(self.store.create)
        with ExitStack() as waiting:
            is_counted = False
            while True:
                with self.store.hold(name, wait=False) as ours:
                    if ours:
                        waiting.close()
                        yield
                        return
                if not is_counted:
                    is_counted = True
                    waiting.enter_context(self._count_waiting(owner))
                await anyio.sleep(_HOLD_SECONDS)

    @contextmanager
    def _count_waiting(self, owner: str) -> Iterator[None]:
        """Count a program that waits. Raises Denied if there are too many of its owner."""
        if self._waiting[owner] >= _MOST_WAITING:
            raise Denied(
                "queue_full",
                f"{_MOST_WAITING} programs of yours wait for packages already.",
                hint="ask for fewer at a time: for the next one when an answer has come",
            )
        self._waiting[owner] += 1
        try:
            yield
        finally:
            self._waiting[owner] -= 1
            if not self._waiting[owner]:
                del self._waiting[owner]


def _action_of(name: str | None, specifiers: Sequence[str], lock: Lock) -> Install:
    names = tuple(sorted({name_of(one) for one in specifiers}))
    return Install(environment=name, requested_names=names, packages=lock.packages, lock_sha256=lock.sha256)


@contextmanager
def _explain_errors() -> Iterator[None]:
    """Say what to do where files of packages are gone, or can't be written. Raises Denied."""
    try:
        yield
    except FileNotFoundError as error:  # a ``gc`` removes what nobody has used for long, or at all
        reason = "Files of a package have just been removed."
        raise Denied("environment_unavailable", reason, hint="try again") from error
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise Denied("environment_unavailable", f"There is no room: {error.strerror}.", hint=MAKE_ROOM) from error


def _builder_of(ecosystem: Ecosystem) -> Builder:
    if ecosystem.builder is None:
        raise Denied(
            "environment_unavailable",
            f"No environment can be built here: {ecosystem.missing}.",
            hint="install it beside Gloveport",
        )
    return ecosystem.builder


def _of_builds(guard: Guard, grant: Grant) -> Guard:
    """A guard for the requests of builds: of the same run, with the grant of builds."""
    return Guard(
        grant=grant, audit=guard.audit, caller=guard.caller, run_id=guard.run_id, session=guard.session, asker=None
    )
