"""Plans the sandboxes of a workspace: what its commands see of the host, and the caches that they share."""

import contextlib
import functools
import hashlib
import importlib.util
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from gloveport import patch_text
from gloveport.bootstrap.build import whole_grant
from gloveport.bootstrap.owner_registries import find_owner_registries
from gloveport.config import Config, find_toolchains, state_directory
from gloveport.engine.execution import Engine
from gloveport.engine.run_context import RunContext
from gloveport.engine.run_environments import ENVIRONMENT_PYTHON, RunEnvironment
from gloveport.errors import ConfigError, Denied, SandboxError
from gloveport.guard import Guard
from gloveport.model import SCRATCH, Grant, Mount, Program, Symlink
from gloveport.runtimes import data
from gloveport.sandbox.detection.host import find_headers
from gloveport.sandbox.plan import MOST_CONNECTORS, Kept, Network, Plan, make_plan
from gloveport.sandbox.pool.makers import ForkServer
from gloveport.task_group import open_task_group
from gloveport.workspace.commands import registry
from gloveport.workspace.files.tree import Tree
from gloveport.workspace_service.command_environments import CommandEnvironments
from gloveport.workspace_service.command_types import CommandEnvironment
from gloveport.workspace_service.fork_servers import ForkServers
from gloveport.workspace_service.prefetch import SandboxPrefetch
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers
from gloveport.workspace_service.sandboxes import WorkspaceSandboxes

ELSEWHERE: Final = "/workspace"
"""Where programs see a workspace whose own path is taken in a sandbox."""

_CACHE: Final = "/cache"
_HOME: Final = "/agent"
_CACHES: Final = {
    "CARGO_HOME": "cargo",
    "GOCACHE": "go/build",
    "GOMODCACHE": "go/mod",
    "GRADLE_USER_HOME": "gradle",
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_cache": "npm",
}
_MAVEN: Final = "MAVEN_OPTS"
_PILLOW: Final = frozenset({"PIL", "pillow.libs"})
_PATCH_TEXT: Final = Mount(source=str(Path(patch_text.__file__).parent.resolve()), target=f"{data.PLACE}/patch_text")
"""What the command ``apply_patch`` is made of."""

_UNTRACED: Final = {"LSAN_OPTIONS": "detect_leaks=0"}
"""A program with AddressSanitizer looks for leaks at its end by tracing itself, and fails where it may not."""

_CARGO_LINK: Final = Symlink(path="/.cargo", target="/etc/cargo")
"""cargo reads ``.cargo`` of every directory above the one that it is in, the nearest first."""

_OS_RELEASE: Final = "/usr/lib/os-release"
_OS_RELEASE_LINK: Final = Symlink(path="/etc/os-release", target=_OS_RELEASE)

# The least of all that git reads, so whatever the repository says counts. The workspace belongs to whom it belongs.
_GITCONFIG: Final = """\
[user]
	name = "{name}"
	email = "{address}"
[init]
	defaultBranch = main
[safe]
	directory = *
[gc]
	autoDetach = false
"""


class LoneProgram(Struct, frozen=True, kw_only=True):
    """The one program that sandboxes are for.

    Attributes:
        home: Name of its home directory, which stays; empty where it has none.
    """

    home: str = ""


@contextlib.asynccontextmanager
async def open_sandboxes(
    engine: Engine,
    config: Config,
    root: Path,
    environ: Mapping[str, str],
    grace: float,
    lone: LoneProgram | None = None,
) -> AsyncIterator[WorkspaceSandboxes]:
    """The workspace in this directory.

    Args:
        engine: What runs the commands.
        config: What is said of the workspace.
        root: The directory.
        environ: Where ``GLOVEPORT_STATE`` is looked up.
        grace: Commands go on for so many seconds when nothing is heard of their clients.
        lone: The one program that they are for, if there is one.

    Raises:
        ConfigError: It is no directory that can be one.
        SandboxError: This host can't build its sandboxes.
    """
    settings = config.workspace
    state = state_directory(environ) / "workspaces" / hashlib.sha256(str(root).encode()).hexdigest()[:16]
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Tree.open_tree(root, frozenset(settings.exempt)) as tree:
        reach = engine.reach
        has_ports = settings.ports and lone is None  # what runs alone its owner looks at as it is
        network = reach.way_out.model_copy(update={"connectors": _connectors() if has_ports else ()})
        environment = await _open_environment(engine, config)
        cache = _directory(state, "cache") if settings.caches else None
        plan_with = functools.partial(_plan, engine, network, config, root, cache, environ)
        plan = plan_with(environment)
        if lone is not None and lone.home:
            plan = _with_home(plan, _directory(_directory(state, "homes"), lone.home))
        server = ForkServer(backend=engine.backend, plan=plan, program=Program(name="command"), forks=config.pool.forks)
        target = plan.writable[0].target
        everything: tuple[Kept, ...] = tuple((mount.target, "read-only") for mount in plan.writable)
        async with open_task_group() as tasks, registry.open_commands(grace, engine.spool) as commands:
            tasks.start_soon(server.maintain)
            try:
                await server.check()
                prefetch = SandboxPrefetch(server=server, tasks=tasks, target=target, ahead=int(lone is None))
                default = CommandEnvironment(
                    name=settings.environment,
                    plan=plan,
                    take=prefetch.take,
                    variables={} if environment is None else environment.variables(plan.env["PATH"]),
                )
                servers = ForkServers(backend=engine.backend, target=target, forks=config.pool.forks, tasks=tasks)
                yield WorkspaceSandboxes(
                    engine=engine,
                    tree=replace(tree, seen_at=target),
                    target=target,
                    prefetch=prefetch,
                    environments=CommandEnvironments(
                        engine=engine, default=default, plan_with=plan_with, servers=servers
                    ),
                    workers=ReadonlyWorkers(make=server.make, kept=everything, tasks=tasks, target=target),
                    commands=commands,
                    limits=settings.limits,
                    reach=reach,
                    state=state,
                    owners_path=environ.get("PATH", ""),
                )
            finally:
                with anyio.CancelScope(shield=True):
                    await commands.end()


async def _open_environment(engine: Engine, config: Config) -> RunEnvironment | None:
    """The environment of its commands, which is built where it is not there.

    Raises:
        ConfigError: It can't be.
    """
    name = config.workspace.environment
    if name is None:
        return None
    guard = Guard(grant=Grant(), audit=engine.audit, caller="workspace", run_id=RunContext().run_id)
    try:
        return await engine.environments.open_named(name, guard)
    except Denied as error:
        raise ConfigError(f"the environment of commands: {error.reason}", hint=error.hint) from error


def _plan(
    engine: Engine,
    network: Network,
    config: Config,
    root: Path,
    cache: Path | None,
    environ: Mapping[str, str],
    environment: RunEnvironment | None,
) -> Plan:
    """The plan of its sandboxes. Programs see the directory under its own path, where that is free in a sandbox."""
    # A project brings its own packages, and no command has ours on its path; our tools find theirs there.
    packages = (*_pillow(engine.system.packages), *_pypdf(), _PATCH_TEXT)
    system = engine.system.model_copy(update={"packages": packages, "env": {}})
    taken = [root, *(Path(mount.target) for mount in (*system.binds, *config.policy.mounts))]
    toolchains = find_toolchains(config, environ, taken)
    targets = {path: _target(number, path) for number, path in enumerate(toolchains.shown)}
    names = ("python", "python3") if environment is not None else ()
    links = [Symlink(path=f"{ENVIRONMENT_PYTHON}/{one}", target=system.python) for one in names]
    name, _, address = config.workspace.author.partition(" <")
    caching = {} if cache is None else {name: f"{_CACHE}/{place}" for name, place in _CACHES.items()}
    if cache is not None:  # Maven has no variable for that alone
        maven = f"{network.env.get(_MAVEN, '')} -Dmaven.repo.local={_CACHE}/maven".strip()
        network = network.model_copy(update={"env": {**network.env, _MAVEN: maven}})
    registries = find_owner_registries(environ, network.hosts)
    program = Program(
        name="command",
        binds=(
            *find_headers(),
            *(Mount(source=str(path), target=target) for path, target in targets.items()),
            *(environment.mounts if environment is not None else ()),
        ),
        symlinks=(
            *([_CARGO_LINK] if "cargo/config.toml" in registries.files else []),
            *([_OS_RELEASE_LINK] if Path(_OS_RELEASE).exists() else []),
            *links,
        ),
        files={
            "gitconfig": _GITCONFIG.format(name=name, address=address.removesuffix(">")) + registries.gitconfig,
            **registries.files,
        },
        path=tuple(_inside(path, targets) for path in toolchains.path),
        env={**registries.variables, **caching, **({} if config.policy.ptrace else _UNTRACED)},
    )
    caches = () if cache is None else (Mount(source=str(cache), target=_CACHE),)

    def plan(target: str) -> Plan:
        shares = (Mount(source=str(root), target=target), *caches)
        mounts = tuple(mount for mount in config.policy.mounts if mount.source != str(root))
        changes = {"mounts": mounts, "writable": shares, "limits": config.workspace.limits}
        grant = whole_grant(config).model_copy(update=changes)
        made = make_plan(program, grant, system, network)
        return made.model_copy(update={"landlock": (*made.landlock, (data.PLACE, "run"))})  # Python lists it

    try:
        return plan(str(root))
    except SandboxError:  # it lies where sandboxes have something of their own
        return plan(ELSEWHERE)


def _target(number: int, toolchain: Path) -> str:
    """Where commands see a toolchain: where it lies, but for what would lie in their scratch directory."""
    if toolchain.is_relative_to(SCRATCH):
        return f"/opt/toolchains/{number}/{toolchain.name}"
    return str(toolchain)


def _inside(path: Path, targets: Mapping[Path, str]) -> str:
    """A directory of a toolchain as commands see it."""
    shown, target = next((one, target) for one, target in targets.items() if path.is_relative_to(one))
    return str(PurePosixPath(target, path.relative_to(shown)))


def _connectors() -> tuple[int, ...]:
    """Families of the sockets that reach what listens in a sandbox. A browser has six connections at a time."""
    families = (socket.AF_INET,) * (MOST_CONNECTORS // 2)
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
    except OSError:  # a kernel without IPv6
        return families
    return families + (socket.AF_INET6,) * (MOST_CONNECTORS // 2)


def _pillow(trees: Iterable[Mount]) -> Iterator[Mount]:
    """What makes pictures smaller there, of the packages that programs have."""
    for tree in trees:
        for name in sorted(_PILLOW):
            if (source := Path(tree.source, name)).exists():
                yield Mount(source=str(source), target=f"{data.PLACE}/{name}")


def _pypdf() -> Iterator[Mount]:
    """What reads PDFs there; the server never imports it."""
    spec = importlib.util.find_spec("pypdf")
    for place in (spec and spec.submodule_search_locations) or ():
        yield Mount(source=str(Path(place).resolve()), target=f"{data.PLACE}/pypdf")


def _with_home(plan: Plan, home: Path) -> Plan:
    """The plan with a home directory that stays."""
    return plan.model_copy(
        update={
            "writable": (*plan.writable, Mount(source=str(home), target=_HOME)),
            "landlock": (*plan.landlock, (_HOME, "write files")),
            "env": {**plan.env, "HOME": _HOME},
        }
    )


def _directory(parent: Path, name: str) -> Path:
    place = parent / name
    place.mkdir(mode=0o700, exist_ok=True)
    return place
