"""Turns a request for a command into an action, starts the command, and feeds it."""

import functools
import os
import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Final, TypeAlias

from anyio import to_thread
from msgspec.structs import replace
from pydantic import Field, JsonValue

from gloveport.engine.build_progress import OnProgress, no_progress
from gloveport.engine.caller import Caller
from gloveport.engine.session import Session
from gloveport.fairness import SMALL_BYTES, compute
from gloveport.model import Ask, Deny
from gloveport.model.workspace import RunCommand
from gloveport.policy.decisions.command_gates import CommandRequest, command_action
from gloveport.policy.decisions.gate_decisions import decide_command, open_needs, permission_details
from gloveport.sandbox.base import Outcome
from gloveport.workspace.commands.answers import AnswerBounds
from gloveport.workspace.commands.command import Command
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.spelling import is_utf8, raw, spell_path
from gloveport.workspace_service.approval_text import measure
from gloveport.workspace_service.command_sessions import NEW
from gloveport.workspace_service.command_types import PreparedCommand
from gloveport.workspace_service.service import WorkspaceService

Wait: TypeAlias = Annotated[int, Field(ge=0, le=30_000)]
Size: TypeAlias = Annotated[int | None, Field(ge=1, le=1000)]

Work: TypeAlias = Callable[[Command], Awaitable[Outcome]]
"""Runs a command to its end."""

_WITHOUT_INPUT: Final = (
    "make it a call of exec_command, which the owner can permit: of a running one nobody knows the state"
)
_PLAIN_SHELL: Final = re.compile(r"\s*(?:exec\s+)?(?:(?:/usr)?/bin/)?(?:ba|da|k|z)?sh(?:\s+-[il]+)*\s*")
_TERMINAL: Final = (24, 80)
_TERMINAL_KIND: Final = "xterm-256color"


class CommandArguments(AnswerBounds):
    """The arguments of ``exec_command``. Unknown ones are refused: no approver has been shown them."""

    cmd: Annotated[str, Field(min_length=1, max_length=1 << 20)]
    workdir: str = "."
    cwd: str | None = None
    timeout_ms: Annotated[int, Field(ge=1, le=3_600_000)] = 300_000
    yield_time_ms: Wait = 10_000
    stdin: str = ""
    keep_stdin: bool = False
    tty: bool = False
    rows: Size = None
    columns: Size = None
    env: Annotated[dict[str, str] | None, Field(max_length=200)] = None
    session: Annotated[str | None, Field(max_length=64)] = None
    environment: Annotated[str | None, Field(max_length=64)] = None


def terminal_size(rows: int | None, columns: int | None) -> tuple[int, int]:
    """Rows and columns; the defaults where they were not given."""
    return rows or _TERMINAL[0], columns or _TERMINAL[1]


async def make_command_action(
    service: WorkspaceService, share: str, arguments: CommandArguments
) -> tuple[RunCommand, float]:
    """The requested command as an action, and its time limit. ``share``: whose directories may be deleted at will.

    Raises:
        WorkspaceError: INVALID_ARGUMENT, or as ``Tree.open_directory``.
    """
    _check_arguments(arguments)
    workdir = arguments.cwd or arguments.workdir
    if workdir != ".":
        workdir = await to_thread.run_sync(_place_of, service, workdir)
        if arguments.session is not None and not is_utf8(raw(workdir)):
            raise WorkspaceError("INVALID_ARGUMENT", "a session takes no directory whose name is not UTF-8")
    request = _make_request(service, arguments, workdir)
    action = await compute(len(arguments.cmd) + len(arguments.stdin), command_action, service.settings, request)
    if any(need.lost for need in action.needs):
        action = await to_thread.run_sync(_without_own, service, share, action)
    return _with_input(action.model_copy(update={"workdir": workdir}), arguments), request.seconds


def make_plain_action(service: WorkspaceService, arguments: CommandArguments) -> tuple[RunCommand, float] | None:
    """The same without waiting, for a short command at the root that comes to no gate; else None."""
    if (
        arguments.cwd not in {None, "."}
        or arguments.workdir != "."
        or len(arguments.cmd) + len(arguments.stdin) > SMALL_BYTES
    ):
        return None
    try:
        _check_arguments(arguments)
    except WorkspaceError:
        return None
    request = _make_request(service, arguments, ".")
    action = command_action(service.settings, request)
    return None if open_needs(service.settings, action.needs) else (_with_input(action, arguments), request.seconds)


def _check_arguments(arguments: CommandArguments) -> None:
    if arguments.cwd is not None and arguments.workdir not in {".", arguments.cwd}:
        raise WorkspaceError("INVALID_ARGUMENT", "workdir and cwd are the same, and were given differently")
    if arguments.session is not None and (arguments.tty or arguments.stdin or arguments.keep_stdin):
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            "a command in a session has no terminal, and nothing to read",
            hint="leave out tty, stdin and keep_stdin, or session; what it is to read may be a file",
        )
    if arguments.session not in {None, NEW} and arguments.env:
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            "the variables of a session are set when it begins",
            hint="leave out env, and export them in the command",
        )
    env = arguments.env or {}
    if any("\0" in word for word in (arguments.cmd, *env, *env.values())) or any("=" in name for name in env):
        raise WorkspaceError("INVALID_ARGUMENT", "a command and its variables hold no NUL, a variable's name no =")


def _make_request(service: WorkspaceService, arguments: CommandArguments, workdir: str) -> CommandRequest:
    return CommandRequest(
        command=arguments.cmd,
        root=service.sandboxes.target,
        workdir=raw(workdir).decode(errors="replace"),  # as the shell has it, whose paths are below it
        is_workdir_known=workdir != "." or arguments.session in {None, NEW},
        seconds=min(arguments.timeout_ms / 1000, service.settings.limits.wall_seconds),
        tty=arguments.tty,
        env=arguments.env or {},
        stdin=arguments.stdin,
        environment=arguments.environment or "",
    )


def _with_input(action: RunCommand, arguments: CommandArguments) -> RunCommand:
    size, digest = measure(arguments.stdin)
    stdin = {"stdin_bytes": size, "stdin_sha256": digest, "keeps_stdin": arguments.tty or arguments.keep_stdin}
    return action.model_copy(update={**stdin, "session": arguments.session or ""})


async def start_command(
    service: WorkspaceService,
    caller: Caller,
    arguments: CommandArguments,
    on_progress: OnProgress = no_progress,
    plain_action: tuple[RunCommand, float] | None = None,
) -> Command:
    """Start a command of the caller, if it is allowed. ``on_progress`` hears of its environment's build, if there is
    one; ``plain_action`` is the result of ``make_plain_action`` for it.

    Raises:
        WorkspaceError: As ``make_command_action``, ``CommandEnvironments``, ``Commands.begin`` and ``CommandSessions``;
            PERMISSION_REQUIRED.
        AuditError: It can't be written down.
    """
    action, seconds = plain_action or await make_command_action(service, caller.share, arguments)
    run_id = f"command-{os.urandom(8).hex()}"
    guard = await service.make_guard(caller, action, run_id)
    variables = dict(service.inherited_variables)
    if arguments.tty:  # it is ours, whichever the server may have
        variables["TERM"] = _TERMINAL_KIND
    variables |= arguments.env or {}
    terminal = terminal_size(arguments.rows, arguments.columns) if arguments.tty else None
    environment = await service.sandboxes.environments.open_named(arguments.environment, guard, on_progress)
    request = PreparedCommand(
        action=action, variables=variables, seconds=seconds, terminal=terminal, environment=environment
    )
    begin = functools.partial(
        service.sandboxes.commands.begin, caller.share, line=arguments.cmd, is_terminal=arguments.tty
    )
    if arguments.session is None:
        command = await begin(_working(service, caller, functools.partial(service.sandboxes.execute, request, guard)))
    else:
        session = _open_session(service, caller, arguments.session, request)
        try:
            run = functools.partial(service.sessions.execute, session, request, guard)
            command = await begin(_working(service, caller, run))
        except BaseException:
            if arguments.session == NEW:  # nobody knows of it
                session.end("its first command did not begin")
            raise
    service.run_ids[command] = run_id
    return command


def _working(service: WorkspaceService, caller: Caller, run: Work) -> Work:
    """The same work; directories that are made meanwhile count as the caller's."""

    async def work(command: Command) -> Outcome:
        with service.own.working(caller.share):
            return await run(command)

    return work


def _without_own(service: WorkspaceService, share: str, action: RunCommand) -> RunCommand:
    """The action without the gates for deletions that lose only what the caller has made."""
    needs = tuple(
        need for need in action.needs if not need.lost or not service.own.has_made_all(share, map(_spell, need.lost))
    )
    return action.model_copy(update={"needs": needs})


def _spell(path: str) -> str:
    return spell_path(path.encode(errors="surrogateescape"))


def _open_session(service: WorkspaceService, caller: Caller, session_id: str, request: PreparedCommand) -> Session:
    """The session in which a command is to run, or a new one."""
    if session_id == NEW:
        return service.sessions.begin(caller.share, request)
    return service.sessions.find(session_id, caller.share, request.action.environment or None)


async def feed_command(service: WorkspaceService, caller: Caller, command: Command, text: str, until: float) -> None:
    """Send text to a command's input, once the audit log says so.

    Raises:
        WorkspaceError: As ``Command.write``; PERMISSION_REQUIRED: the text comes to a gate, as a shell reads it.
        AuditError: It can't be written down.
    """
    size, digest = measure(text)
    record: dict[str, JsonValue] = {"caller": caller.name, "run": service.run_ids[command]}
    action = await compute(len(command.line) + len(text), _input_action, service, command.line, text)
    if isinstance(decision := decide_command(service.settings, action), Ask | Deny):
        details = permission_details(service.settings, action)
        reasons = " ".join(need.why for need in open_needs(service.settings, action.needs))
        denial = {"status": "denied", "code": "permission_required", "reason": reasons, "gates": details["permissions"]}
        service.sandboxes.engine.audit.append("command.denied", {**record, **denial, "bytes": size, "sha256": digest})
        hint = _WITHOUT_INPUT if isinstance(decision, Ask) else decision.hint
        raise WorkspaceError("PERMISSION_REQUIRED", reasons, hint=hint, retryable=False, details=details)
    service.sandboxes.engine.audit.append("command.fed", {**record, "bytes": size, "sha256": digest})
    await service.sandboxes.commands.feed(command, text, until=until)


def _input_action(service: WorkspaceService, line: str, text: str) -> RunCommand:
    """A running command with this further input, and the gates that it comes to by that alone."""
    request = CommandRequest(command=line, root=service.sandboxes.target, is_workdir_known=False)
    before = {need.gate for need in command_action(service.settings, request).needs}
    further = replace(request, command=text) if _PLAIN_SHELL.fullmatch(line) else replace(request, stdin=text)
    action = command_action(service.settings, further)
    return action.model_copy(update={"needs": tuple(need for need in action.needs if need.gate not in before)})


def _place_of(service: WorkspaceService, path: str) -> str:
    with service.tree.open_directory(path) as directory:
        return directory.path
