"""Runs the commands of a workspace, each in a sandbox of its own."""

from typing import Final

from msgspec import field

from gloveport.egress.scrubbed_output import ScrubbedSink
from gloveport.engine.execution import Engine
from gloveport.guard import Guard
from gloveport.model import Grant, Program
from gloveport.policy.decisions.modes import stance
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.console import Console
from gloveport.sandbox.run.confined import Confined
from gloveport.workspace.commands.answers import says_name_not_found
from gloveport.workspace.commands.command import Command
from gloveport.workspace.commands.registry import Commands
from gloveport.workspace_service.command_environments import CommandEnvironments
from gloveport.workspace_service.command_types import PreparedCommand
from gloveport.workspace_service.missing_programs import explain_missing
from gloveport.workspace_service.protected_sandboxes import VALUE_BYTES, ProtectedSandboxes
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.refused_requests import explain_unresolved, note_requests
from gloveport.workspace_service.sandbox_ports import SandboxPorts

SHELL: Final = ("/bin/bash", "--noprofile", "--norc", "-c")
_NOT_FOUND: Final = 127
"""Exit code of a shell that finds no program."""

_SAID_BYTES: Final = 16 << 10


class WorkspaceSandboxes(ProtectedSandboxes, eq=False, kw_only=True):
    """One workspace's sandboxes for commands.

    Attributes:
        environments: The packages that commands may have.
        workers: Run programs that only read.
        owners_path: The owner's ``PATH``.
        ports: The commands' ports, which the owner may open in a browser.
    """

    engine: Engine
    environments: CommandEnvironments
    workers: ReadonlyWorkers
    commands: Commands
    owners_path: str = ""
    ports: SandboxPorts = field(default_factory=SandboxPorts)

    async def execute(self, request: PreparedCommand, guard: Guard, command: Command) -> Outcome:
        """Run a command to its end; ``command`` is told when it begins, and gets its output.

        Raises:
            Denied: It is not allowed.
            WorkspaceError: SANDBOX_UNAVAILABLE.
            AuditError: It can't be written down.
        """
        command.has_all_time = request.seconds >= self.limits.wall_seconds
        program = self.program_of(request, (*SHELL, request.action.command))

        async def run(child: Confined) -> Outcome:
            self.ports.add(command.id, command.line, child.connectors)
            try:
                return await self._run(child, program, guard, command)
            finally:
                self.ports.remove(command.id)  # the rest of its sandbox goes away a little later

        async with guard.admit(request.action) as ending:
            try:
                outcome = await self.run_admitted(
                    request,
                    guard,
                    ending,
                    command.warnings,
                    run,
                    note_requests(command, self.reach.egress, self.engine.clean),
                )
                self.explain(command, outcome, guard.grant)
                return outcome
            finally:  # also where its caller has ended it
                ending.fields |= {f"{name}_bytes": output.retained.total for name, output in command.outputs.items()}

    async def _run(self, child: Confined, program: Program, guard: Guard, command: Command) -> Outcome:
        sinks = {name: ScrubbedSink(output, self.gateway.vault) for name, output in command.outputs.items()}

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

    def explain(self, command: Command, outcome: Outcome, grant: Grant) -> None:
        """Note how a command has ended, and what would have shown it the program or host that it did not find."""
        command.outcome = outcome  # at once: it stands even if its end can't be recorded
        if not outcome.exit_code:
            return
        command.can_ask_for_network = grant.workspace is not None and stance(grant.workspace, "network") == "ask"
        text = "\n".join(
            output.retained.last(0, _SAID_BYTES)[1].decode(errors="replace") for output in command.outputs.values()
        )
        if outcome.exit_code == _NOT_FOUND:
            command.missing = explain_missing(text, self.tree.root, self.owners_path)
        if says_name_not_found(text := text.lower()):
            egress = self.reach.egress
            command.unresolved = explain_unresolved(
                text, egress, egress if command.can_ask_for_network else grant.egress
            )
