"""Runs a person's own program in the sandbox of a workspace's commands. No gate asks whoever has typed it."""

import os
import shlex
from collections.abc import Mapping

from msgspec import Struct

from gloveport.guard import Asker, Guard
from gloveport.model import Grant
from gloveport.model.workspace import RunCommand, WorkspacePolicy
from gloveport.policy.decisions.grant import reachable
from gloveport.sandbox.base import Outcome
from gloveport.workspace_service.command_types import Attachment, PreparedCommand
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

_TERMINAL_KIND = "xterm-256color"


class ForegroundProgram(Struct, frozen=True, kw_only=True):
    """What a person has typed.

    Attributes:
        run_id: Under which all of it is written down.
        argv: The command line; its first word is looked for along the sandbox's PATH where it is no path.
        workdir: Where it begins, relative to the workspace.
        variables: Its environment besides that of the sandbox.
        apis: The only APIs that it may use; None for all that are active.
        terminal: Rows and columns; None where its streams are pipes.
    """

    run_id: str
    argv: tuple[str, ...]
    workdir: str
    variables: Mapping[str, str]
    apis: tuple[str, ...] | None
    terminal: tuple[int, int] | None


async def run_foreground(
    sandboxes: WorkspaceSandboxes, program: ForegroundProgram, attachment: Attachment, asker: Asker
) -> Outcome:
    """Run it to its end. ``asker``: who asks about requests that a rule lets nobody decide but a person.

    Raises:
        Denied: It names an API that there is not.
        WorkspaceError: SANDBOX_UNAVAILABLE.
        AuditError: It can't be written down.
    """
    variables = {"TERM": _TERMINAL_KIND, **program.variables} if program.terminal else {**program.variables}
    action = RunCommand(
        command=shlex.join(program.argv),
        workdir=program.workdir,
        tty=program.terminal is not None,
        keeps_stdin=True,
        variables=tuple(sorted(variables)),
    )
    guard = Guard(
        grant=Grant(
            workspace=WorkspacePolicy(),
            egress=reachable(sandboxes.egress, program.apis),
            limits=sandboxes.limits,
        ),
        audit=sandboxes.engine.audit,
        caller=f"cli (uid {os.getuid()})",
        run_id=program.run_id,
        asker=asker,
    )
    request = PreparedCommand(
        action=action,
        variables=variables,
        seconds=sandboxes.limits.wall_seconds,
        terminal=program.terminal,
        environment=sandboxes.environments.default,
    )
    return await sandboxes.execute_attached(request, program.argv, guard, attachment)
