"""Runs commands in sandboxes that may write to a workspace, and keeps the protected paths from them."""

import contextlib
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
from anyio import to_thread
from msgspec import Struct, field

from gloveport import door
from gloveport.egress.outbound_session import EgressSession, RequestJournal
from gloveport.egress.scrubbed_output import ScrubbedSink
from gloveport.engine.execution import Engine
from gloveport.engine.reach import Reach
from gloveport.errors import SandboxError
from gloveport.guard import Ending, Guard
from gloveport.late_module import late_module
from gloveport.model import Limits, Program
from gloveport.model.egress import Egress
from gloveport.policy.decisions.modes import stance
from gloveport.sandbox.base import Child, Outcome
from gloveport.sandbox.console import Console
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.commands.command import Command
from gloveport.workspace.commands.registry import Commands
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.protected import config_copies, protected_paths, protected_state
from gloveport.workspace.protected.config_copies import ConfigCopy
from gloveport.workspace.protected.descent import Mark
from gloveport.workspace_service.command_environments import CommandEnvironments
from gloveport.workspace_service.command_types import Attachment, PreparedCommand, Take
from gloveport.workspace_service.missing_programs import explain_missing
from gloveport.workspace_service.prefetch import SandboxPrefetch
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.refused_requests import note_requests
from gloveport.workspace_service.sandbox_ports import SandboxPorts

if TYPE_CHECKING:
    from gloveport.egress.proxy import handler
else:
    handler = late_module("gloveport.egress.proxy.handler")

SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
_TRIES: Final = 4
"""How often a sandbox is begun anew because what is to be kept was moved just then."""

_SHORT_SECONDS: Final = 0.002
VALUE_BYTES: Final = 256
_NOT_FOUND: Final = 127
"""Exit code of a shell that finds no program."""

_SAID_BYTES: Final = 16 << 10


class WorkspaceSandboxes(Struct, eq=False, kw_only=True):
    """One workspace, and what its tools share.

    Attributes:
        target: Where programs see it.
        prefetch: Where its commands' sandboxes come from, but of those that name an environment.
        environments: What commands may have besides the workspace.
        workers: Where programs run that only read.
        limits: Of each command.
        reach: What there was to reach when its sandboxes were planned.
        state: Directory of ours for what belongs to it: caches, and the journal of writes.
        owners_path: Where the owner finds programs.
        ports: Of its commands, which the owner may open to a browser.
    """

    engine: Engine
    tree: Tree
    target: str
    prefetch: SandboxPrefetch
    environments: CommandEnvironments
    workers: ReadonlyWorkers
    commands: Commands
    limits: Limits
    reach: Reach
    state: Path
    owners_path: str = ""
    ports: SandboxPorts = field(default_factory=SandboxPorts)
    _known: protected_paths.ProtectedPaths = protected_paths.NOTHING
    _running: int = 0
    """How many commands may write to it."""
    _own_writes: dict[Mark, Mark] = field(default_factory=dict)
    """Of what was written for commands the marks, and those from before: for whom it was protected, it still is."""
    _looking: anyio.Lock = field(default_factory=lambda: anyio.Lock(fast_acquire=True))
    _looking_seconds: float = math.inf

    def __post_init__(self) -> None:
        self._known = protected_state.load(self.state)

    async def execute(self, request: PreparedCommand, guard: Guard, command: Command) -> Outcome:
        """Run a command to its end; ``command`` is told when it begins, and hears what it says.

        Raises:
            Denied: It is not allowed.
            WorkspaceError: SANDBOX_UNAVAILABLE.
            AuditError: It can't be written down.
        """
        policy = guard.grant.workspace
        command.has_all_time = request.seconds >= self.limits.wall_seconds
        command.can_ask_for_network = policy is not None and stance(policy, "network") == "ask"
        program = self._program_of(request, (*SHELL, request.action.command))

        async def run(child: Confined) -> Outcome:
            self.ports.add(command.id, command.line, child.connectors)
            try:
                return await self._run(child, program, guard, command)
            finally:
                self.ports.remove(command.id)  # what is left of its sandbox goes away a little later

        async with guard.admit(request.action) as ending:
            try:
                outcome = await self._run_admitted(
                    request,
                    guard,
                    ending,
                    command.warnings,
                    run,
                    note_requests(command, self.reach.egress, self.engine.clean),
                )
                self.explain(command, outcome)
                return outcome
            finally:  # also where it was ended by whoever began it
                ending.fields |= {f"{name}_bytes": output.retained.total for name, output in command.outputs.items()}

    async def execute_attached(
        self, request: PreparedCommand, argv: Sequence[str], guard: Guard, attachment: Attachment
    ) -> Outcome:
        """Run a program to its end as a person's own, who has its input and output at hand.

        Raises:
            Denied, WorkspaceError, AuditError: As ``execute``.
        """
        program = self._program_of(request, argv).model_copy(update={"foreground": True})

        async def run(child: Confined) -> Outcome:
            outcome = await child.run(
                program,
                value_bytes=VALUE_BYTES,
                stdout=None,
                stderr=None,
                clock=guard.clock,
                on_console=attachment.begin,
            )
            await attachment.finish()
            return outcome

        async with guard.admit(request.action) as ending:
            return await self._run_admitted(request, guard, ending, attachment.warnings, run, RequestJournal())

    def _program_of(self, request: PreparedCommand, argv: Sequence[str]) -> Program:
        return Program(
            name="command",
            argv=tuple(argv),
            directory=self.inside(request.action.workdir),
            variables={**request.environment.variables, **request.variables},
            terminal=request.terminal,
        )

    async def _run_admitted(
        self,
        request: PreparedCommand,
        guard: Guard,
        ending: Ending,
        warnings: list[str],
        run: Callable[[Confined], Awaitable[Outcome]],
        journal: RequestJournal,
    ) -> Outcome:
        limits = self.limits.model_copy(update={"wall_seconds": request.seconds})
        try:
            async with self.notice_changes(warnings) as before:
                async with (
                    self.open_sandbox(limits, before, request.environment.take) as child,
                    self.open_doors(child, guard, journal),
                ):
                    outcome = await run(child)
                    warnings += await self.save_configs(child, config_copies.copies_in(child.kept, self.target))
                ending.fields |= {
                    "exit_code": outcome.exit_code,
                    "killed_by": outcome.killed_by,
                    "wall_ms": round(outcome.wall_seconds * 1000),
                }
        finally:
            ending.fields["appeared"] = [*warnings]
        return outcome

    async def _run(self, child: Confined, program: Program, guard: Guard, command: Command) -> Outcome:
        sinks = {name: ScrubbedSink(output, self.engine.gateway.vault) for name, output in command.outputs.items()}

        def begin(console: Console) -> None:
            command.begin(console)
            self.prefetch.note_begun()

        outcome = await child.run(
            program,
            value_bytes=VALUE_BYTES,
            stdout=sinks["stdout"],
            stderr=sinks["stderr"],
            clock=guard.clock,
            on_console=begin,
        )
        for sink in sinks.values():
            sink.finish()
        return outcome

    def explain(self, command: Command, outcome: Outcome) -> None:
        """Note what would show a command the program that it did not find."""
        if outcome.exit_code == _NOT_FOUND:
            said = "\n".join(
                output.retained.read(0, _SAID_BYTES)[1].decode(errors="replace") for output in command.outputs.values()
            )
            command.missing = explain_missing(said, self.tree.root, self.owners_path)

    @contextlib.asynccontextmanager
    async def notice_changes(self, warnings: list[str]) -> AsyncIterator[protected_paths.ProtectedPaths]:
        """What is to be kept from a program that may write; on leaving, ``warnings`` tell what has changed of it."""
        before = await self.look()
        self._running += 1
        try:
            yield before
        finally:
            with anyio.CancelScope(shield=True):
                try:
                    after = await self.look()
                    warnings += protected_paths.differences(self.with_own_writes(before), self.with_own_writes(after))
                finally:
                    self._running -= 1

    def with_own_writes(self, found: protected_paths.ProtectedPaths) -> protected_paths.ProtectedPaths:
        """The same, as if nothing had been written for commands."""
        return found.with_marks(self._own_writes) if self._own_writes else found

    async def save_configs(self, child: Child, copies: Sequence[ConfigCopy]) -> list[str]:
        """Write what is permitted of what was written to these copies; what became of it, for people."""
        changed = config_copies.read_changed(child.directories.private, copies)
        if not changed:
            return []
        with anyio.CancelScope(shield=True):
            async with self._looking:
                saved = await to_thread.run_sync(config_copies.save, self.tree, self._known, changed)
        for mark, before in saved.marks.items():
            self._own_writes[mark] = self._own_writes.get(before, before)
        return saved.words

    @property
    def egress(self) -> Egress:
        """What there is to reach: of what there was when its sandboxes were planned what is still as it was."""
        before, now = self.reach.egress, self.engine.reach.egress
        kept = {name: api for name, api in before.apis.items() if now.apis.get(name) == api}
        return now.model_copy(update={"apis": kept, "yolo": before.yolo and now.yolo})

    def inside(self, directory: str) -> str:
        """A directory of the workspace as a program names it."""
        return self.target if directory == "." else f"{self.target}/{directory}"

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
            if tries_left == 1:  # what still runs may move what it has made at any time, and nothing else that is kept
                found = found.without_made()
        raise AssertionError  # the last try returns or raises

    @contextlib.asynccontextmanager
    async def open_doors(self, child: Child, guard: Guard, journal: RequestJournal) -> AsyncIterator[None]:
        """Answer what the command asks on its doors: HTTP and TCP as granted, and no tools."""
        outlet = EgressSession(
            gateway=self.engine.gateway,
            guard=guard,
            names=self.reach.names,  # of the addresses that its sandboxes have
            placeholders=child.placeholders,
            redactions=self.engine.reach.redactions,
            journal=journal,
        )
        async with door.open_door(child.doors, lambda connection: handler.answer(outlet, connection)):
            yield

    async def look(self) -> protected_paths.ProtectedPaths:
        """What is to be kept now. In a thread where that took long the last time: to change threads takes long too."""
        async with self._looking:  # who looks later knows more
            if self._looking_seconds > _SHORT_SECONDS:
                found = await to_thread.run_sync(self._find_protected)
            else:
                found = self._find_protected()
            known, self._known = self._known, found
            if not protected_state.is_same(known, found):
                await to_thread.run_sync(protected_state.save, self.state, found)
        return found

    def _find_protected(self) -> protected_paths.ProtectedPaths:
        started = time.monotonic()
        found = protected_paths.find_protected(self.tree, self._known, self._running)
        self._looking_seconds = time.monotonic() - started
        return found
