"""Sessions of commands: a shell that persists between commands, in a sandbox like that of a single command.

Such a session has the rights of a command for as long as it lives, and no others: each of its commands comes to the
gates and is recorded as if it had a sandbox of its own. It runs no command that a person would have to permit: the
meaning of its text depends on definitions of earlier commands, which no approver is shown.

Protected paths were mounted when its sandbox was made. So a session ends when its next command finds that the protected
paths have changed.
"""

import contextlib
import shlex
from collections.abc import AsyncIterator, Iterator
from typing import Final
from weakref import WeakKeyDictionary

import anyio
from msgspec import Struct, field

from gloveport.egress.scrubbed_output import ScrubbedSink
from gloveport.engine.session import Session
from gloveport.errors import Denied, SandboxError
from gloveport.guard import Guard
from gloveport.model import Grant, Program, SessionSetup
from gloveport.model.workspace import RunCommand
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.plan import let_last
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace_service.command_types import PreparedCommand
from gloveport.workspace_service.kept_sandbox import KeptSandbox
from gloveport.workspace_service.protected_sandboxes import VALUE_BYTES
from gloveport.workspace_service.refused_requests import note_requests
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

NEW: Final = "new"
"""In place of a session's id: begin a new session."""

_CODES: Final = {"too_many_sessions": "COMMAND_LIMIT_REACHED", "session_of_programs": "INVALID_ARGUMENT"}


class CommandSessions(Struct, frozen=True, kw_only=True):
    """The command sessions of one workspace; the engine's session registry holds and counts them with its own."""

    sandboxes: WorkspaceSandboxes
    _session_sandboxes: WeakKeyDictionary[Session, KeptSandbox] = field(default_factory=WeakKeyDictionary)
    _environments: WeakKeyDictionary[Session, str | None] = field(default_factory=WeakKeyDictionary)

    def begin(self, owner: str, request: PreparedCommand) -> Session:
        """Begin a session; its shell starts in the directory of this first command, with its variables and environment.

        Raises:
            WorkspaceError: COMMAND_LIMIT_REACHED; COMMAND_SPAWN_FAILED: this host has no shell.
        """
        engine, limits = self.sandboxes.engine, self.sandboxes.limits
        shell = engine.runtimes.get("shell")
        if shell is None:
            raise WorkspaceError("COMMAND_SPAWN_FAILED", f"there is no shell here: {engine.missing['shell']}")
        grant = Grant(limits=limits)
        setup = {**(shell.setup_session(grant) or {})}
        setup |= {
            "variables": {**request.environment.variables, **request.variables},
            "directory": self.sandboxes.inside(request.action.workdir),
        }
        program = Program(name="command", session=SessionSetup(first="shell", file_bytes=0, shell=setup))
        plan = request.environment.plan.model_copy(update={"limits": limits})
        plan = let_last(plan, engine.sessions.limits.life_seconds)
        sandbox = KeptSandbox(sandboxes=self.sandboxes, take=request.environment.take)
        with _as_workspace_error():
            session = engine.sessions.begin(
                owner, grant, self.sandboxes.reach, sandbox=sandbox, plan=plan, program=program, purpose="commands"
            )
        session.language = "shell"
        self._session_sandboxes[session] = sandbox
        self._environments[session] = request.environment.name
        return session

    def find(self, session_id: str, owner: str, environment: str | None) -> Session:
        """The session of this id, which may be over. ``environment``: what its command names.

        Raises:
            WorkspaceError: NOT_FOUND: there is none of this owner's; INVALID_ARGUMENT: it has another environment.
        """
        with _as_workspace_error():
            session = self.sandboxes.engine.sessions.find(session_id, owner, "commands")
        if environment is not None and environment != (own := self._environments[session]):
            raise WorkspaceError(
                "INVALID_ARGUMENT",
                f"this session has {f'the environment {own}' if own else 'no environment'}, as it had when it began",
                hint='leave out environment, or begin another: session="new"',
            )
        return session

    async def execute(self, session: Session, request: PreparedCommand, guard: Guard, command: Command) -> Outcome:
        """Run a command in a session to its end; ``command`` is told when it begins, and gets its output.

        Raises:
            Denied: It is not allowed.
            WorkspaceError: NOT_FOUND: the session is over; COMMAND_LIMIT_REACHED, SANDBOX_UNAVAILABLE.
            AuditError: It can't be written down.
        """
        if session.turn.locked():
            raise WorkspaceError(
                "COMMAND_LIMIT_REACHED",
                "another command of this session still runs",
                hint="wait for it with write_stdin, end it with kill_command, or leave a server behind with &",
            )
        engine, action = self.sandboxes.engine, request.action
        try:
            async with guard.admit(action) as ending, contextlib.AsyncExitStack() as stack:
                ending.fields["session"] = session.id
                with _as_workspace_error():
                    child = await stack.enter_async_context(session.take_turn())
                    stack.enter_context(session.use_sandbox())
                self.sandboxes.ports.add(session.id, command.line, child.connectors)
                command.begin_in_session(session.describe(), session.interrupt)
                sinks = {name: ScrubbedSink(output, engine.gateway.vault) for name, output in command.outputs.items()}
                async with self.sandboxes.open_doors(
                    child, guard, note_requests(command, self.sandboxes.reach.egress, engine.clean)
                ):
                    outcome = await session.call(
                        {"do": "run", "source": self._source_of(action)},
                        wall_seconds=request.seconds,
                        value_bytes=VALUE_BYTES,
                        stdout=sinks["stdout"],
                        stderr=sinks["stderr"],
                        clock=guard.clock,
                    )
                for sink in sinks.values():
                    sink.finish()
                command.warnings += await self._session_sandboxes[session].save_configs(child)
                self.sandboxes.explain(command, outcome, guard.grant)
                command.session = engine.session_requests.state_of(session, outcome)
                ending.fields |= {
                    "state": command.session.state,
                    "exit_code": outcome.exit_code,
                    "killed_by": outcome.killed_by,
                    "wall_ms": round(outcome.wall_seconds * 1000),
                    "appeared": [*command.warnings],
                    **{f"{name}_bytes": output.retained.total for name, output in command.outputs.items()},
                }
        except SandboxError as error:
            raise WorkspaceError("SANDBOX_UNAVAILABLE", str(error.args[0]), hint=error.hint, retryable=True) from error
        return outcome

    def _source_of(self, action: RunCommand) -> str:
        """What the session's shell runs: without a named directory, the shell stays in its current one."""
        if action.workdir == ".":
            return action.command
        return f"builtin cd -- {shlex.quote(self.sandboxes.inside(action.workdir))} || return; {action.command}"

    async def end(self) -> None:
        """End all sessions, and wait until nothing is left of them."""
        sessions = [*self._session_sandboxes]
        for session in sessions:
            session.end("the server ended it")
        for session in sessions:
            await session.wait_over()


@contextlib.asynccontextmanager
async def open_command_sessions(sandboxes: WorkspaceSandboxes) -> AsyncIterator[CommandSessions]:
    """Open the registry of command sessions. On leaving, all are ended: their sandboxes are the workspace's."""
    sessions = CommandSessions(sandboxes=sandboxes)
    try:
        yield sessions
    finally:
        with anyio.CancelScope(shield=True):
            await sessions.end()


@contextlib.contextmanager
def _as_workspace_error() -> Iterator[None]:
    """Turn refusals of the sessions into errors of workspace tools."""
    try:
        yield
    except Denied as denial:
        code = _CODES.get(denial.code, "NOT_FOUND")
        raise WorkspaceError(code, denial.reason, hint=denial.hint) from denial
