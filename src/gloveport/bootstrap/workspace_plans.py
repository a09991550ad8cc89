"""Plans the sandboxes of a workspace: what its commands see of the host, and the caches that they share."""

import importlib.util
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gloveport import patch_text
from gloveport.bootstrap.operator_reach import whole_grant
from gloveport.bootstrap.owner_registries import find_owner_registries
from gloveport.config import Config, find_toolchains
from gloveport.errors import ConfigError, SandboxError
from gloveport.late_module import late_module
from gloveport.model import SCRATCH, Mount, Program, Symlink
from gloveport.real_paths import real
from gloveport.runtimes import data
from gloveport.sandbox.detection.host import find_headers
from gloveport.sandbox.launch.spawn import Bubblewrap, EarlyProcess
from gloveport.sandbox.plan import MOST_CONNECTORS, Network, Plan, System, make_plan
from gloveport.untrusted_text import printable
from gloveport.user_directories import make_private_directory, name_workspace, refuse_others, workspaces_directory

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from gloveport.engine import run_environment
    from gloveport.engine.run_environment import RunEnvironment
    from gloveport.sandbox.pool import makers
    from gloveport.sandbox.pool.makers import ForkServer
else:
    makers = late_module("gloveport.sandbox.pool.makers")
    run_environment = late_module("gloveport.engine.run_environment")

ELSEWHERE: Final = "/workspace"
"""Where programs see a workspace if its own path is taken in sandboxes."""

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
_PATCH_TEXT: Final = Mount(source=str(real(Path(patch_text.__file__).parent)), target=f"{data.PLACE}/patch_text")
"""The files of the command ``apply_patch``."""

_UNTRACED: Final = {"LSAN_OPTIONS": "detect_leaks=0"}
"""A program with AddressSanitizer looks for leaks at its end by tracing itself, and fails where it may not."""

_CARGO_LINK: Final = Symlink(path="/.cargo", target="/etc/cargo")
"""cargo reads ``.cargo`` of every directory above the one that it is in, the nearest first."""

_OS_RELEASE: Final = "/usr/lib/os-release"
_OS_RELEASE_LINK: Final = Symlink(path="/etc/os-release", target=_OS_RELEASE)

# Git's lowest precedence: settings of the repository override it. The workspace may have any owner.
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


class WorkspacePlans(Struct, frozen=True, kw_only=True):
    """Plans the sandboxes of one workspace.

    Attributes:
        state: Our state directory for it.
        cache: The caches that its commands share; None if they have none.
        home: The persistent home directory; None if there is none.
    """

    system: System
    network: Network
    config: Config
    root: Path
    state: Path
    cache: Path | None
    home: Path | None
    environ: Mapping[str, str]

    def plan(self, environment: "RunEnvironment | None" = None) -> Plan:
        """The plan of its sandboxes, with an environment's packages and programs.

        Programs see the directory under its own path, if that is free in a sandbox.

        Raises:
            SandboxError: No such sandbox can be planned.
        """
        plan = _plan(self, environment)
        return plan if self.home is None else _with_home(plan, self.home)

    def start_server(
        self, backend: Bubblewrap, tasks: "TaskGroup", plan: Plan, early_process: EarlyProcess | None = None
    ) -> "ForkServer":
        """Start the fork server of a plan; it runs in ``tasks``. ``early_process``: see ``ForkServer``."""
        program, forks = Program(name="command"), self.config.pool.forks
        server = makers.ForkServer(
            backend=backend, plan=plan, program=program, forks=forks, early_process=early_process
        )
        tasks.start_soon(server.maintain)
        return server


def prepare_plans(
    system: System, way_out: Network, config: Config, root: Path, environ: Mapping[str, str], lone: str | None = None
) -> WorkspacePlans:
    """Make the plans, and the directories in the state directory that they need. ``lone`` names the home directory of
    the one program that they are for, empty if it has none; None if they are for commands.

    Raises:
        ConfigError: It can't be made, or others could have written it.
    """
    settings = config.workspace
    state = _directory(workspaces_directory(environ) / name_workspace(root))
    refuse_others(state)
    has_ports = settings.ports and lone is None  # a person's own program has none
    return WorkspacePlans(
        system=system,
        network=way_out.model_copy(update={"connectors": _connectors() if has_ports else ()}),
        config=config,
        root=root,
        state=state,
        cache=_directory(state / "cache") if settings.caches else None,
        home=_directory(_directory(state / "homes") / lone) if lone else None,
        environ=environ,
    )


def _plan(plans: WorkspacePlans, environment: "RunEnvironment | None") -> Plan:
    config, root, cache, environ, network = plans.config, plans.root, plans.cache, plans.environ, plans.network
    # A project brings its own packages, and no command has ours on its path; our tools do find ours there.
    packages = (*_pillow(plans.system.packages), *_pypdf(), _PATCH_TEXT)
    system = plans.system.model_copy(update={"packages": packages, "env": {}})
    reserved_paths = [root, *(Path(mount.target) for mount in (*system.binds, *config.policy.mounts))]
    toolchains = find_toolchains(config, environ, reserved_paths)
    targets = {path: _target(number, path) for number, path in enumerate(toolchains.shown_paths)}
    names = ("python", "python3") if environment is not None else ()
    links = [Symlink(path=f"{run_environment.ENVIRONMENT_PYTHON}/{one}", target=system.python) for one in names]
    name, _, address = config.workspace.author.partition(" <")
    caching = {} if cache is None else {name: f"{_CACHE}/{place}" for name, place in _CACHES.items()}
    if cache is not None:  # Maven has no variable for its cache alone
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
        base = make_plan(program, grant, system, network)
        return base.model_copy(update={"landlock": (*base.landlock, (data.PLACE, "run"))})  # Python lists it

    try:
        return plan(str(root))
    except SandboxError:  # its path is taken in sandboxes
        return plan(ELSEWHERE)


def _target(number: int, toolchain: Path) -> str:
    """Where commands see a toolchain: under its own path, unless that lies in their scratch directory."""
    if toolchain.is_relative_to(SCRATCH):
        return f"/opt/toolchains/{number}/{toolchain.name}"
    return str(toolchain)


def _inside(path: Path, targets: Mapping[Path, str]) -> str:
    """A directory of a toolchain as commands see it."""
    source, target = next((one, target) for one, target in targets.items() if path.is_relative_to(one))
    return str(PurePosixPath(target, path.relative_to(source)))


def _connectors() -> tuple[int, ...]:
    """Address families of the sockets that reach ports of a sandbox. A browser opens six connections at a time."""
    families = (socket.AF_INET,) * (MOST_CONNECTORS // 2)
    try:
        socket.socket(socket.AF_INET6, socket.SOCK_STREAM).close()
    except OSError:  # the kernel has no IPv6
        return families
    return families + (socket.AF_INET6,) * (MOST_CONNECTORS // 2)


def _pillow(trees: Iterable[Mount]) -> Iterator[Mount]:
    """Pillow, which makes pictures smaller there, from the packages of programs."""
    for tree in trees:
        for name in sorted(_PILLOW):
            if (source := Path(tree.source, name)).exists():
                yield Mount(source=str(source), target=f"{data.PLACE}/{name}")


def _pypdf() -> Iterator[Mount]:
    """pypdf, which reads PDFs there; the server never imports it."""
    spec = importlib.util.find_spec("pypdf")
    for place in (spec and spec.submodule_search_locations) or ():
        yield Mount(source=str(real(Path(place))), target=f"{data.PLACE}/pypdf")


def _with_home(plan: Plan, home: Path) -> Plan:
    """The plan with a persistent home directory."""
    return plan.model_copy(
        update={
            "writable": (*plan.writable, Mount(source=str(home), target=_HOME)),
            "landlock": (*plan.landlock, (_HOME, "write files")),
            "env": {**plan.env, "HOME": _HOME},
        }
    )


def _directory(place: Path) -> Path:
    try:
        make_private_directory(place)
    except OSError as error:
        raise ConfigError(
            f"{printable(str(place))} can't be made: {error.strerror}",
            hint="name a directory that this user can write by GLOVEPORT_STATE",
        ) from error
    return place
