"""Makes sandboxes that may write to a workspace, and keeps its protected paths from the programs in them."""

import contextlib
import functools
import math
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from msgspec import Struct, field
from msgspec.structs import replace

from gloveport import door
from gloveport.egress.outbound_session import EgressSession, Gateway, RequestJournal
from gloveport.engine.reach import Reach
from gloveport.errors import ConfigError, SandboxError
from gloveport.guard import Ending, Guard
from gloveport.late_module import late_module
from gloveport.model import Limits, Program
from gloveport.model.egress import Egress
from gloveport.policy.decisions.grant import retain_unchanged
from gloveport.sandbox.base import Child, Outcome
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import raw
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import config_copies, protected_paths, protected_state
from gloveport.workspace.protected.config_copies import ConfigCopy
from gloveport.workspace.protected.descent import Mark
from gloveport.workspace_service.command_types import PreparedCommand, Take
from gloveport.workspace_service.prefetch import SandboxPrefetch

if TYPE_CHECKING:
    from gloveport.egress.proxy import handler
else:
    handler = late_module("gloveport.egress.proxy.handler")

VALUE_BYTES: Final = 256

_TRIES: Final = 4
"""How often a sandbox is begun because a protected path was moved while it started."""

_SHORT_SECONDS: Final = 0.002


class ProtectedSandboxes(Struct, eq=False, kw_only=True):
    """The sandboxes of one workspace.

    Attributes:
        target: Where programs see it.
        prefetch: Their default source.
        limits: Of each program.
        gateway: Their connections to the outside.
        reach: What they could reach when they were planned.
        reach_now: Tells what they could reach if they were planned now.
        state: Our state directory for this workspace: caches, and the journal of writes.
        first_protected: The protected paths of the first program, whose sandbox is begun already.
    """

    tree: Tree
    target: str
    prefetch: SandboxPrefetch
    limits: Limits
    gateway: Gateway
    reach: Reach
    reach_now: Callable[[], Reach]
    state: Path
    first_protected: protected_paths.ProtectedPaths | None = None
    _last_protected: protected_paths.ProtectedPaths = protected_paths.NOTHING
    _saved: protected_paths.ProtectedPaths = protected_paths.NOTHING
    """Those that the next server will find."""
    _running: int = 0
    """How many commands may write to it."""
    _own_writes: dict[Mark, Mark] = field(default_factory=dict)
    """Marks of files that we wrote for commands, with the marks before that: who had them protected still has."""
    _looking: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _looking_seconds: float = math.inf

    def __post_init__(self) -> None:
        self._saved = self._last_protected = self.first_protected or protected_state.load(self.state)

    def program_of(self, request: PreparedCommand, argv: Sequence[str]) -> Program:
        """The program of a command."""
        return Program(
            name="command",
            argv=tuple(argv),
            directory=self.inside(request.action.workdir),
            variables={**request.environment.variables, **request.variables},
            terminal=request.terminal,
        )

    async def run_admitted(
        self,
        request: PreparedCommand,
        guard: Guard,
        ending: Ending,
        warnings: list[str],
        run: Callable[[Confined], Awaitable[Outcome]],
        journal: RequestJournal,
    ) -> Outcome:
        """Have ``run`` run the admitted command, in a sandbox with open doors. ``warnings`` tell which protected paths
        changed.

        Raises:
            WorkspaceError: SANDBOX_UNAVAILABLE.
        """
        limits = self.limits.model_copy(update={"wall_seconds": request.seconds})
        try:
            async with self.notice_changes(warnings) as before:
                async with (
                    self.open_sandbox(limits, before, request.environment.take) as child,
                    self.open_doors(child, guard, journal),
                ):
                    outcome = await run(child)
                    warnings += await self.save_configs(child, config_copies.copies_in(child.protections, self.target))
                ending.fields |= {
                    "exit_code": outcome.exit_code,
                    "killed_by": outcome.killed_by,
                    "wall_ms": round(outcome.wall_seconds * 1000),
                }
        finally:
            ending.fields["appeared"] = [*warnings]
        return outcome

    @contextlib.asynccontextmanager
    async def notice_changes(self, warnings: list[str]) -> AsyncIterator[protected_paths.ProtectedPaths]:
        """The paths to protect from a program that may write; on leaving, ``warnings`` tell the changed ones."""
        before, self.first_protected = self.first_protected or await self.look(), None
        self._running += 1
        try:
            yield before
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    after, failure = await self._look()
                    warnings += protected_paths.differences(self.with_own_writes(before), self.with_own_writes(after))
                    if failure is not None:
                        warnings.append(f"{failure.args[0]}; no command runs until that is possible")
                finally:
                    self._running -= 1

    def with_own_writes(self, found: protected_paths.ProtectedPaths) -> protected_paths.ProtectedPaths:
        """The same, as if we had written nothing for commands."""
        return found.with_marks(self._own_writes) if self._own_writes else found

    async def save_configs(self, child: Child, copies: Sequence[ConfigCopy]) -> list[str]:
        """Take over the permitted changes to these copies; returns what became of them, for people."""
        changed = config_copies.read_changed(child.directories.private, copies)
        if not changed:
            return []
        with anyio.CancelScope(shield=True):
            async with self._looking:
                saved = await to_thread.run_sync(config_copies.save, self.tree, self._last_protected, changed)
        for mark, before in saved.marks.items():
            self._own_writes[mark] = self._own_writes.get(before, before)
        return saved.words

    @property
    def egress(self) -> Egress:
        """What commands can reach: of what they could reach when their sandboxes were planned, the unchanged part."""
        return self._left_of(self.reach.egress)

    def _left_of(self, granted: Egress) -> Egress:
        return retain_unchanged(granted, self.reach.egress, self.reach_now().egress)

    def inside(self, directory: str) -> str:
        """The path inside sandboxes of a directory of the workspace."""
        return self.target if directory == "." else f"{self.target}/{os.fsdecode(raw(directory))}"

    @contextlib.asynccontextmanager
    async def open_sandbox(
        self, limits: Limits, found: protected_paths.ProtectedPaths, take: Take | None = None
    ) -> AsyncIterator[Confined]:
        """A sandbox for one command, or one that ``take`` gives.

        Raises:
            WorkspaceError: SANDBOX_UNAVAILABLE, also where it dies before the command begins.
        """
        try:
            async with contextlib.AsyncExitStack() as stack:
                child = await self._take_sandbox(stack, found, take or self.prefetch.take)
                child.narrow(child.plan.model_copy(update={"limits": limits}))
                yield child
        except SandboxError as error:
            raise WorkspaceError("SANDBOX_UNAVAILABLE", str(error.args[0]), hint=error.hint, retryable=True) from error

    async def _take_sandbox(
        self, stack: contextlib.AsyncExitStack, found: protected_paths.ProtectedPaths, take: Take
    ) -> Confined:
        for tries_left in reversed(range(_TRIES)):
            try:
                return await stack.enter_async_context(take(found))
            except SandboxError:
                if not tries_left:
                    raise
            found = await self.look()
            if tries_left == 1:  # running commands may move what they have made, and nothing else
                found = found.without_made()
        raise AssertionError  # the last try returns or raises

    @contextlib.asynccontextmanager
    async def open_doors(self, child: Child, guard: Guard, journal: RequestJournal) -> AsyncIterator[None]:
        """Answer what the command asks on its doors: HTTP and TCP as granted, and no tools.

        What the configuration has taken back since it was granted, as while a package was built, is not reached.
        """
        guard = replace(guard, grant=guard.grant.model_copy(update={"egress": self._left_of(guard.grant.egress)}))

        @functools.cache
        def outlet() -> EgressSession:  # made at the first request: most commands make none
            return EgressSession(
                gateway=self.gateway,
                guard=guard,
                names=self.reach.names,  # of the addresses that its sandboxes have
                placeholders=child.placeholders,
                journal=journal,
            )

        async with door.open_door(child.doors, lambda connection: handler.answer(outlet(), connection)):
            yield

    async def look(self) -> protected_paths.ProtectedPaths:
        """Find the protected paths. Raises ConfigError if they can't be saved for the next server."""
        found, failure = await self._look()
        if failure is not None:
            raise failure
        return found

    async def _look(self) -> tuple[protected_paths.ProtectedPaths, ConfigError | None]:
        """The protected paths, and why they can't be saved. In a thread only if the last search took long: a change of
        threads is slow too.
        """
        async with self._looking:  # the later search must be the one that counts
            if self._looking_seconds > _SHORT_SECONDS:
                found = await to_thread.run_sync(self._find_protected)
            else:
                found = self._find_protected()
            self._last_protected = found
            if not protected_state.is_same(self._saved, found):
                try:
                    await to_thread.run_sync(protected_state.save, self.state, found)
                except ConfigError as error:
                    return found, error
                self._saved = found
        return found, None

    def _find_protected(self) -> protected_paths.ProtectedPaths:
        started = time.monotonic()
        found = protected_paths.find_protected(self.tree, self._last_protected, self._running)
        self._looking_seconds = time.monotonic() - started
        return found
