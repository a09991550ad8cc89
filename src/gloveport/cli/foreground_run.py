"""Runs the program of ``gloveport exec`` with the caller's terminal."""

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gloveport.cli.config_loading import load_with_origins
from gloveport.cli.exit_codes import of_unwritten
from gloveport.cli.file_limit import raise_file_limit
from gloveport.cli.garbage import collect_from_now_on
from gloveport.cli.usage import UsageError

if TYPE_CHECKING:
    from gloveport.approvals.desk import RunAsker
    from gloveport.approvals.question import Verdict
    from gloveport.bootstrap.foreground import Foreground
    from gloveport.bootstrap.foreground_plan import ForegroundPlan
    from gloveport.bootstrap.host_setup import Host
    from gloveport.cli.terminal.destination import Destination
    from gloveport.cli.terminal.relay import Relay
    from gloveport.config import Config
    from gloveport.sandbox.base import Outcome
    from gloveport.secrets.vault import Vault
    from gloveport.workspace_service.foreground import ForegroundProgram

_TIMEOUT, _KILLED = 124, 137


class ExecOptions(NamedTuple):
    """The options of a command line.

    Attributes:
        workspace: The directory that the program may write; None for the working directory.
        apis: The APIs that it may use; empty for all.
        environment: The environment with its packages and programs; None for none.
    """

    command: tuple[str, ...]
    workspace: str | None = None
    apis: tuple[str, ...] = ()
    environment: str | None = None
    no_network: bool = False
    config: Path | None = None


def run_in_foreground(options: ExecOptions) -> int:
    """Run the program; return the exit code. This process forks, and only the child, the engine, returns from here.

    Raises:
        UsageError: The options exclude each other.
        GloveportError: The configuration is wrong, or the program can't be run here.
    """
    from gloveport.cli.terminal.front import fork_engine

    if options.apis and options.no_network:
        raise UsageError("give --api or --no-network, not both")
    raise_file_limit()
    terminal = 0 if os.isatty(0) and os.isatty(1) else None
    # Fork before threads start, and while the process is small.
    parent, front = os.getpid(), fork_engine(terminal)
    # The reaper starts while the rest is imported.
    from gloveport.sandbox.reaper.reaper_process import start_reaper

    reaper = start_reaper()
    from concurrent.futures import ThreadPoolExecutor

    loaded = load_with_origins(options.config)
    config = loaded.config
    with ThreadPoolExecutor(1) as beside:
        from gloveport.config import path_outside
        from gloveport.runtimes import python

        configured = config.runtimes.python
        # It is asked before it is known which of these is the workspace.
        path = path_outside(os.environ, filter(None, [config.workspace.root, Path(options.workspace or ".")]))
        has_packages = options.environment is not None or config.workspace.environment is not None
        interpreter = beside.submit(
            python.find, None if configured is None else str(configured), path=path, with_data=has_packages
        )
        from gloveport.bootstrap.foreground_plan import plan_foreground
        from gloveport.bootstrap.host_setup import open_lone_host, with_packages

        with open_lone_host(config, reaper, parent, lambda: with_packages(interpreter.result(), os.environ)) as host:
            planned = plan_foreground(
                host,
                config,
                options.workspace,
                options.command[0],
                os.environ,
                loaded.believed,
                options.environment,
            )
            from gloveport.event_loop import run

            return run(_execute, host, planned, front, options, terminal)


async def _execute(
    host: "Host", planned: "ForegroundPlan", front: socket.socket, options: ExecOptions, terminal: int | None
) -> int:
    """Run the program; tell the exit code."""
    from gloveport.bootstrap.foreground import open_foreground
    from gloveport.bootstrap.foreground_plan import program_settings
    from gloveport.cli.progress_bar import show_progress
    from gloveport.cli.terminal.relay import Relay, terminal_size
    from gloveport.task_group import open_task_group

    config, argv = planned.config, options.command
    outcome: Outcome | None = None
    async with open_task_group() as tasks:
        relay = Relay(tasks=tasks, front=front, terminal=terminal)
        tasks.start_soon(relay.follow_front)
        building = contextlib.ExitStack()
        try:
            tell = building.enter_context(show_progress(config.workspace.environment or ""))
            async with open_foreground(host, planned, tell) as foreground:
                building.close()  # from here on the program uses the terminal
                from gloveport.policy.decisions.inherited_variables import inherit_variables
                from gloveport.workspace_service.foreground import ForegroundProgram

                collect_from_now_on()
                settings = program_settings(config, argv[0])
                program = ForegroundProgram(
                    run_id=f"exec-{os.urandom(8).hex()}",
                    argv=(foreground.program, *argv[1:]),
                    workdir=planned.workdir,
                    variables={**inherit_variables(config.workspace, os.environ), **settings.variables},
                    apis=() if options.no_network else options.apis or settings.apis,
                    terminal=None if terminal is None else terminal_size(terminal),
                    environment=foreground.environment,
                )
                relay.outputs = _destinations(config, foreground.sandboxes.gateway.vault, terminal)
                outcome = await _run(foreground, program, relay)
        finally:
            building.close()
            await relay.release()
    return _exit_code(relay, outcome)


def _destinations(config: "Config", vault: "Vault", terminal: int | None) -> "tuple[Destination, ...]":
    """Make destinations for our standard output and, if the program has no terminal, our standard error."""
    from gloveport.cli.terminal.destination import Destination
    from gloveport.cli.terminal.output_filter import OutputFilter

    may_copy = config.exec.clipboard
    return tuple(
        Destination(
            descriptor=number, filter=OutputFilter(may_copy=may_copy) if os.isatty(number) else None, vault=vault
        )
        for number in ((1,) if terminal is not None else (1, 2))
    )


class _PersonAsker:
    """Asks a person where a rule says so, and prints how to answer.

    The queue is imported and opened with the first question, for most programs come to none.
    """

    def __init__(self, foreground: "Foreground", relay: "Relay") -> None:
        self._foreground = foreground
        self._relay = relay
        self._shown_ids: set[str] = set()
        self._asker: RunAsker | None = None

    async def ask(self, text: str, *, run: str, **about: str) -> "Verdict":
        """See ``guard.Asker``."""
        from gloveport.errors import ConfigError, Denied

        if self._asker is None:
            try:
                desk = self._foreground.open_desk()
            except ConfigError as error:
                self._relay.say(f"gloveport: nobody can be asked: {error}")
                raise Denied("approvals_unavailable", "The owner can't be asked: their queue can't be used.") from error
            self._asker = desk.asker(lambda: self._tell(run))
        return await self._asker.ask(text, run=run, **about)

    def _tell(self, run: str) -> None:
        for question in self._foreground.open_desk().pending(run):
            if question.id not in self._shown_ids:
                self._shown_ids.add(question.id)
                self._relay.say(f"gloveport: {question.text} To say yes: gloveport approvals approve {question.id}")


async def _run(foreground: "Foreground", program: "ForegroundProgram", relay: "Relay") -> "Outcome":
    from gloveport.errors import SandboxError
    from gloveport.workspace.errors import WorkspaceError
    from gloveport.workspace_service.foreground import run_foreground

    asker = _PersonAsker(foreground, relay)
    try:
        return await run_foreground(foreground.sandboxes, program, relay, foreground.audit, asker)
    except WorkspaceError as error:
        raise SandboxError(str(error.args[0]), hint=error.hint) from error


def _exit_code(relay: "Relay", outcome: "Outcome | None") -> int:
    """Print what the person should know; return the exit code."""
    for warning in relay.warnings:
        sys.stderr.write(f"gloveport: {warning}\n")
    if outcome is None:
        return 128 + relay.signals[0]
    if outcome.killed_by is not None:
        sys.stderr.write(f"gloveport: killed ({outcome.killed_by})\n")
        return _TIMEOUT if outcome.killed_by == "wall_seconds" else _KILLED
    if relay.unwritten is not None:
        return of_unwritten(relay.unwritten)
    return _KILLED if outcome.exit_code is None else outcome.exit_code
