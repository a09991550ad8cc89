"""Runs a person's own program in the sandbox of a workspace's commands. No gate applies: a person has typed it."""

import os
import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING

from msgspec import Struct

from gloveport.audit.log import AuditLog
from gloveport.egress.outbound_session import RequestJournal
from gloveport.guard import Asker, Guard
from gloveport.late_module import late_module
from gloveport.model import Grant
from gloveport.model.workspace import RunCommand, WorkspacePolicy
from gloveport.policy.decisions.grant import reachable
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.run.confined import Confined
from gloveport.untrusted_text import printable
from gloveport.workspace.files.spelling import spell_path
from gloveport.workspace_service.command_types import Attachment, CommandEnvironment, PreparedCommand
from gloveport.workspace_service.protected_sandboxes import VALUE_BYTES, ProtectedSandboxes

if TYPE_CHECKING:
    from gloveport.workspace_service import refused_requests
else:
    refused_requests = late_module("gloveport.workspace_service.refused_requests")

_TERMINAL_KIND = "xterm-256color"


class ForegroundProgram(Struct, frozen=True, kw_only=True):
    """A program that a person has typed.

    Attributes:
        argv: The command line; its first word is a path, or a name that is looked up in the sandbox's PATH.
        workdir: Its working directory, relative to the workspace.
        variables: Its environment besides that of the sandbox.
        apis: The only APIs that it may use; None for all that are active.
        terminal: Rows and columns; None where its streams are pipes.
        environment: What it has besides the workspace.
    """

    run_id: str
    argv: tuple[str, ...]
    workdir: str
    variables: Mapping[str, str]
    apis: tuple[str, ...] | None
    terminal: tuple[int, int] | None
    environment: CommandEnvironment


async def run_foreground(
    sandboxes: ProtectedSandboxes, program: ForegroundProgram, attachment: Attachment, audit: AuditLog, asker: Asker
) -> Outcome:
    """Run it to its end. ``asker``: asks a person about requests where a rule says so.

    Raises:
        Denied: It names an API that does not exist.
        WorkspaceError: SANDBOX_UNAVAILABLE.
        AuditError: It can't be written down.
    """
    variables = {"TERM": _TERMINAL_KIND, **program.variables} if program.terminal else {**program.variables}
    action = RunCommand(
        command=shlex.join(program.argv),
        workdir=spell_path(os.fsencode(program.workdir)),
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
        audit=audit,
        caller=f"cli (uid {os.getuid()})",
        run_id=program.run_id,
        asker=asker,
    )
    request = PreparedCommand(
        action=action,
        variables=variables,
        seconds=sandboxes.limits.wall_seconds,
        terminal=program.terminal,
        environment=program.environment,
    )
    prepared = sandboxes.program_of(request, program.argv).model_copy(update={"foreground": True})

    async def run(child: Confined) -> Outcome:
        outcome = await child.run(
            prepared,
            value_bytes=VALUE_BYTES,
            stdout=None,
            stderr=None,
            clock=guard.clock,
            on_console=attachment.begin,
        )
        await attachment.finish()
        return outcome

    journal = RequestJournal()
    async with guard.admit(action) as ending:
        outcome = await sandboxes.run_admitted(request, guard, ending, attachment.warnings, run, journal)
    if any(one.code for one in journal.listed):
        clean = sandboxes.gateway.vault.clean
        refused = refused_requests.explain_refused(journal.listed, sandboxes.reach.egress, clean)
        attachment.warnings.extend(printable(f"no answer to {one.what}") for one in refused)
    return outcome
