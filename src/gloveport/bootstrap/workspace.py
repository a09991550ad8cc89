"""A workspace on this host, as configured: its tree, its sandboxes, its caches."""

import contextlib
import hashlib
import logging
import math
import shutil
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import anyio
from anyio import to_thread
from pydantic import ValidationError

from gloveport.bootstrap.build import whole_grant
from gloveport.config import Config, refuse_as_workspace, state_directory
from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.engine.reach import Reach
from gloveport.errors import ConfigError, SandboxError
from gloveport.model import SCRATCH, Mount, Program, Symlink
from gloveport.sandbox.plan import Kept, Plan, System, make_plan
from gloveport.sandbox.pool.makers import ForkServer
from gloveport.task_group import open_task_group
from gloveport.workspace.commands import registry
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.commit import Recovery
from gloveport.workspace.patch.writer import Writer
from gloveport.workspace_service.command_sessions import open_command_sessions
from gloveport.workspace_service.permissions import Permissions
from gloveport.workspace_service.prefetch import SandboxPrefetch
from gloveport.workspace_service.program_sandboxes import ProgramSandboxes
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes
from gloveport.workspace_service.service import WorkspaceService

_log = logging.getLogger(__name__)

_ELSEWHERE: Final = "/workspace"
_CACHE: Final = "/cache"
_CACHES: Final = {
    "CARGO_HOME": "cargo",
    "GOCACHE": "go/build",
    "GOMODCACHE": "go/mod",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_cache": "npm",
}
_PILLOW: Final = frozenset({"PIL", "pillow.libs"})
_OS_RELEASE: Final = "/usr/lib/os-release"

# The least of all that git reads, so whatever the repository says counts. The workspace belongs to whom it belongs.
_GITCONFIG: Final = """\
[user]
	name = agent
	email = agent@localhost
[init]
	defaultBranch = main
[safe]
	directory = *
[gc]
	autoDetach = false
"""


def with_workspace(config: Config, told: Mapping[str, object]) -> Config:
    """The configuration with what the command line says of the workspace: ``root`` and ``toolsets``, where it does.

    Raises:
        ConfigError: There is no such directory, it can't be a workspace, or there is no such toolset.
    """
    root, toolsets = told["root"], [name.strip() for name in str(told["toolsets"]).split(",") if name.strip()]
    said: dict[str, object] = {}
    if root is not None:
        said["root"] = _real(str(root))
    if told["toolsets"]:
        said["toolsets"] = tuple(toolsets)
    try:
        settings = type(config.workspace).model_validate({**dict(config.workspace), **said})
    except ValidationError as error:
        raise ConfigError(f"--toolsets: {error.errors()[0]['msg']}", hint="they are: code, workspace") from error
    return config.model_copy(update={"workspace": settings})


def with_view(config: Config, system: System, environ: Mapping[str, str], believed: Sequence[Path] = ()) -> Config:
    """The configuration under which programs of ``execute_code`` see the workspace, where they may.

    Args:
        config: As ``with_workspace`` gives it.
        system: What sandboxes show of this host.
        environ: As ``open_workspace`` has it.
        believed: As ``open_workspace`` has it.

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
        shown = config.model_copy(update={"policy": config.policy.model_copy(update={"mounts": mounts})})
        make_plan(Program(name="view"), whole_grant(shown), system)
        return shown

    try:
        return show(str(root))
    except SandboxError:
        return show(_ELSEWHERE)


def _real(root: str) -> Path:
    if not root:  # to a Path it is the working directory, and was more likely an unset variable of a shell
        raise ConfigError('--workspace "": names no directory', hint='for the working directory write "."')
    try:
        return Path(root).resolve(strict=True)
    except OSError as error:
        raise ConfigError(f"--workspace {root}: {error.strerror}", hint="name a directory that exists") from error


@contextlib.asynccontextmanager
async def open_workspace(
    engine: Engine,
    config: Config,
    environ: Mapping[str, str],
    transport: Transport,
    believed: Sequence[Path] = (),
) -> AsyncIterator[WorkspaceService | None]:
    """What the tools of the configured workspace share; None where there is none, or its tools are not offered.

    Args:
        engine: What runs the commands.
        config: What is said of the workspace, and what it may not hold.
        environ: Where ``GLOVEPORT_STATE`` and ``PATH`` are looked up.
        transport: How clients are served.
        believed: The files that the configuration was read from, which it may not hold either.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: This host can't build its sandboxes.
    """
    root, toolsets = config.workspace.root, config.workspace.toolsets
    view = _writable_view(config)
    if root is None or (view is None and "workspace" not in toolsets):
        yield None
        return
    refuse_as_workspace(root, config, environ, believed)
    # Over stdio a client is there as long as the server is, however long it says nothing.
    grace = config.workspace.orphan_seconds if transport == "http" else math.inf
    async with (
        _open_sandboxes(engine, config, root, environ, grace) as sandboxes,
        open_command_sessions(sandboxes) as sessions,
    ):
        if view is not None:
            programs = ProgramSandboxes(
                sandboxes=sandboxes, others=engine.sandbox, forks=config.pool.forks, tasks=sandboxes.prefetch.tasks
            )
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
            search_engine="rg" if shutil.which("rg", path="/usr/bin:/bin") else "python",
        )


def _writable_view(config: Config) -> Mount | None:
    """The mount of ``with_view``, where programs may write to it."""
    if config.workspace.programs != "write":
        return None
    return next((mount for mount in config.policy.mounts if mount.source == str(config.workspace.root)), None)


def _report_recovery(engine: Engine, root: Path, recovery: Recovery) -> None:
    """Write down, and tell the owner, what was found of a change that was interrupted, and what came of it.

    Raises:
        AuditError: It can't be written down.
    """
    if recovery.outcome == "nothing":
        return
    engine.audit.append("workspace.recovered", {"root": str(root), "state": recovery.outcome, "left": [*recovery.left]})
    came = "the new files stay" if recovery.outcome == "new" else "the old files are back"
    _log.warning("a change of %s was interrupted: %s", root, came)
    if recovery.left:
        _log.warning("left as somebody has made it since: %s", ", ".join(map(repr, recovery.left)))


@contextlib.asynccontextmanager
async def _open_sandboxes(
    engine: Engine, config: Config, root: Path, environ: Mapping[str, str], grace: float
) -> AsyncIterator[WorkspaceSandboxes]:
    """The workspace in this directory. Commands go on for ``grace`` seconds when nothing is heard of their clients.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: This host can't build its sandboxes.
    """
    settings = config.workspace
    state = state_directory(environ) / "workspaces" / hashlib.sha256(str(root).encode()).hexdigest()[:16]
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Tree.open_tree(root, frozenset(settings.exempt)) as tree:
        reach = engine.reach
        plan = _plan(engine, reach, config, root, _cache(state) if settings.caches else None)
        server = ForkServer(backend=engine.backend, plan=plan, program=Program(name="command"), forks=config.pool.forks)
        target = plan.writable[0].target
        everything: tuple[Kept, ...] = tuple((mount.target, "read-only") for mount in plan.writable)
        async with open_task_group() as tasks, registry.open_commands(grace, engine.spool) as commands:
            tasks.start_soon(server.maintain)
            try:
                await server.check()
                yield WorkspaceSandboxes(
                    engine=engine,
                    tree=tree,
                    target=target,
                    prefetch=SandboxPrefetch(server=server, tasks=tasks, target=target),
                    workers=ReadonlyWorkers(make=server.make, kept=everything, tasks=tasks, target=target),
                    commands=commands,
                    limits=settings.limits,
                    reach=reach,
                    state=state,
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await commands.end()


def _plan(engine: Engine, reach: Reach, config: Config, root: Path, cache: Path | None) -> Plan:
    """The plan of its sandboxes. Programs see the directory under its own path, where that is free in a sandbox."""
    # A project brings its own packages, and no command has ours on its path; one of our tools finds Pillow there.
    pillow = tuple(one for one in engine.system.packages if Path(one.target).name in _PILLOW)
    system = engine.system.model_copy(update={"packages": pillow, "env": {}})
    toolchains = {str(path): _target(number, path) for number, path in enumerate(config.workspace.toolchains)}
    headers = {path: path for path in _headers()}
    program = Program(
        name="command",
        binds=tuple(Mount(source=source, target=target) for source, target in (headers | toolchains).items()),
        symlinks=(Symlink(path="/etc/os-release", target=_OS_RELEASE),) if Path(_OS_RELEASE).exists() else (),
        files={"gitconfig": _GITCONFIG},
        path=tuple(f"{to}/bin" if Path(path, "bin").is_dir() else to for path, to in toolchains.items()),
        env={} if cache is None else {name: f"{_CACHE}/{place}" for name, place in _CACHES.items()},
    )
    caches = () if cache is None else (Mount(source=str(cache), target=_CACHE),)

    def plan(target: str) -> Plan:
        shares = (Mount(source=str(root), target=target), *caches)
        mounts = tuple(mount for mount in config.policy.mounts if mount.source != str(root))
        changes = {"mounts": mounts, "writable": shares, "limits": config.workspace.limits}
        grant = whole_grant(config).model_copy(update=changes)
        return make_plan(program, grant, system, reach.way_out)

    try:
        return plan(str(root))
    except SandboxError:  # it lies where sandboxes have something of their own
        return plan(_ELSEWHERE)


def _target(number: int, toolchain: Path) -> str:
    """Where commands see a toolchain: where it lies, but for what would lie in their scratch directory."""
    if toolchain.is_relative_to(SCRATCH):
        return f"/opt/toolchains/{number}/{toolchain.name}"
    return str(toolchain)


def _headers() -> list[str]:
    """What compilers of the system need besides what every sandbox shows."""
    return [path for path in ("/usr/include",) if Path(path).is_dir()]


def _cache(state: Path) -> Path:
    cache = state / "cache"
    cache.mkdir(mode=0o700, exist_ok=True)
    return cache
