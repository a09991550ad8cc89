"""Opens the configured workspace: its tree, its sandboxes, its caches."""

import contextlib
import logging
import math
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path

from anyio import to_thread

from gloveport.bootstrap.operator_reach import whole_grant
from gloveport.bootstrap.workspace_plans import ELSEWHERE, prepare_plans
from gloveport.bootstrap.workspace_sandboxes import open_sandboxes
from gloveport.config import Config, refuse_as_workspace
from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.errors import ConfigError, SandboxError
from gloveport.executables import find_executable
from gloveport.model import Mount, Program
from gloveport.sandbox.plan import System, make_plan
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.commit import Recovery
from gloveport.workspace.patch.out_directory import OutDirectory
from gloveport.workspace.patch.writer import Writer
from gloveport.workspace_service.command_sessions import open_command_sessions
from gloveport.workspace_service.own_directories import OwnDirectories
from gloveport.workspace_service.permissions import Permissions
from gloveport.workspace_service.program_sandboxes import ProgramSandboxes
from gloveport.workspace_service.service import WorkspaceService

_log = logging.getLogger(__name__)


def with_view(config: Config, system: System, environ: Mapping[str, str], believed: Sequence[Path] = ()) -> Config:
    """The configuration, as ``workspace_options.with_workspace`` gives it, with the workspace as a mount for programs
    of ``execute_code``, if they may see it.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: It can be shown nowhere.
    """
    settings, root = config.workspace, config.workspace.root
    if root is None or settings.programs == "none" or "code" not in settings.toolsets:
        return config
    refuse_as_workspace(root, config, environ, believed)

    def show(target: str) -> Config:
        mounts = (*config.policy.mounts, Mount(source=str(root), target=target, as_owner=True))
        view_config = config.model_copy(update={"policy": config.policy.model_copy(update={"mounts": mounts})})
        make_plan(Program(name="view"), whole_grant(view_config), system)
        return view_config

    try:
        return show(str(root))
    except SandboxError:
        return show(ELSEWHERE)


@contextlib.contextmanager
def _open_out(engine: Engine, config: Config) -> Iterator[None]:
    """Let files that programs leave be put into the workspace, if that is configured and they see it.

    Raises:
        ConfigError: They don't see it.
        SandboxError: Paths can't be kept inside of it.
    """
    settings = config.workspace
    if settings.out is None or settings.root is None or "code" not in settings.toolsets:
        yield
        return
    view = find_view(config)
    if view is None:
        raise ConfigError(
            "workspace.out: programs don't see the workspace, so they put nothing into it",
            hint='set workspace.programs to "read" or "write", or leave out away',
        )
    with Tree.open_tree(settings.root, frozenset(settings.exempt)) as tree:
        out = OutDirectory(tree=tree, view=view, path=settings.out, most_bytes=int(settings.out_bytes))
        engine.out_directory = out
        try:
            yield
        finally:
            engine.out_directory = None
            out.close()


@contextlib.asynccontextmanager
async def open_workspace(
    engine: Engine,
    config: Config,
    environ: Mapping[str, str],
    transport: Transport,
    believed: Sequence[Path] = (),
) -> AsyncIterator[WorkspaceService | None]:
    """The service behind the tools of the configured workspace; None if there is none, or its tools are not offered. It
    must contain none of the files ``believed``, from which the configuration was read.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: This host can't build its sandboxes.
    """
    root, view, toolsets = config.workspace.root, writable_view(config), config.workspace.toolsets
    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(_open_out(engine, config))
        if root is None or (view is None and "workspace" not in toolsets):
            yield None
            return
        refuse_as_workspace(root, config, environ, believed)
        # Over stdio the client exists as long as the server, however long it is silent.
        grace = config.workspace.orphan_seconds if transport == "http" else math.inf
        plans = prepare_plans(engine.system, engine.reach.way_out, config, root, environ)
        sandboxes = await stack.enter_async_context(open_sandboxes(engine, plans, grace))
        sessions = await stack.enter_async_context(open_command_sessions(sandboxes))
        if view is not None:
            programs = ProgramSandboxes(sandboxes=sandboxes, others=engine.sandbox)
            programs.restock(())
            engine.let_write(view, programs)
        if "workspace" not in toolsets:
            yield None
            return
        writer = Writer(sandboxes.tree, sandboxes.state / "journal")
        _report_recovery(engine, root, await to_thread.run_sync(writer.recover))
        yield WorkspaceService(
            sandboxes=sandboxes,
            sessions=sessions,
            config=config,
            transport=transport,
            writer=writer,
            permissions=Permissions(desk=engine.desk, audit=engine.audit),
            own=OwnDirectories(tree=sandboxes.tree),
            search_engine="rg" if find_executable("rg", "/usr/bin:/bin") else "python",
        )


def writable_view(config: Config) -> Mount | None:
    """The mount of ``with_view``, where programs may write to it."""
    return find_view(config) if config.workspace.programs == "write" else None


def find_view(config: Config) -> Mount | None:
    """The mount of ``with_view``."""
    return next((mount for mount in config.policy.mounts if mount.source == str(config.workspace.root)), None)


def _report_recovery(engine: Engine, root: Path, recovery: Recovery) -> None:
    """Record and report to the owner the recovery of an interrupted change.

    Raises:
        AuditError: It can't be written down.
    """
    if recovery.outcome == "nothing":
        return
    engine.audit.append(
        "workspace.recovered", {"root": str(root), "state": recovery.outcome, "left": [*recovery.untouched_files]}
    )
    outcome = "the new files stay" if recovery.outcome == "new" else "the old files are back"
    _log.warning("a change of %s was interrupted: %s", root, outcome)
    if recovery.untouched_files:
        _log.warning("left as somebody has made it since: %s", ", ".join(map(repr, recovery.untouched_files)))
