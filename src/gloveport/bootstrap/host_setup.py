"""Detects this host, as configured: sandbox backend, cgroups, interpreters."""

import contextlib
import os
import pwd
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from gloveport.config import Config, path_outside, state_directory
from gloveport.errors import ConfigError, SandboxError
from gloveport.late_module import late_module
from gloveport.model import Language, Mount
from gloveport.real_paths import real
from gloveport.runtimes import RUNTIMES, Runtime, data, python
from gloveport.sandbox.cgroups import cgroup, delegation
from gloveport.sandbox.cgroups.host_share import limit_share
from gloveport.sandbox.detection import host, restrictions
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.launch.spawn import Bubblewrap, UidRange
from gloveport.sandbox.plan import System
from gloveport.sandbox.reaper.reaper_process import ReaperProcess

if TYPE_CHECKING:
    from gloveport.environments import environment_store, installed_tree
else:
    environment_store = late_module("gloveport.environments.environment_store")
    installed_tree = late_module("gloveport.environments.installed_tree")


class Interpreters(Struct, frozen=True, kw_only=True):
    """The interpreters of a host.

    Attributes:
        init: The interpreter of every sandbox's init process, and of programs in Python.
        runtimes: The languages that can be run.
        missing: Why the others can't.
    """

    init: python.Python
    runtimes: Mapping[Language, Runtime]
    missing: Mapping[Language, str]


class Host(Interpreters, frozen=True, kw_only=True):
    """What this host runs programs with."""

    backend: Bubblewrap
    system: System


def find_interpreters(config: Config, environ: Mapping[str, str]) -> Interpreters:
    """Ask the interpreters for their versions and paths; may be called in a thread. ``environ`` says where the state
    directory is.

    Raises:
        ConfigError: None runs the init process of sandboxes.
    """
    init = with_packages(init_of(config, environ), environ)
    runtimes, missing = runtimes_of(config, init)
    return Interpreters(init=init, runtimes=runtimes, missing=missing)


@contextlib.contextmanager
def open_host(
    config: Config,
    environ: Mapping[str, str],
    started: ReaperProcess | None = None,
    meanwhile: Callable[[], object] = bool,
) -> Iterator[Host]:
    """Detect the host, as configured; on leaving, all that this has started is dead. ``started`` is the reaper, if it
    was started before. ``meanwhile`` is called while it starts and the interpreters are asked: it imports something.

    Raises:
        ConfigError: The configuration names something that is not there.
        SandboxError: This host lacks a layer that the configuration demands.
    """
    with open_launcher(config, started) as (launcher, tree):
        yield make_host(config, launcher, tree, find_beside(meanwhile, config, environ))


@contextlib.contextmanager
def open_lone_host(
    config: Config, started: ReaperProcess, front: int, find_init: Callable[[], python.Python]
) -> Iterator[Host]:
    """As ``open_host``, for a person's own programs only. ``front`` is our parent, the first process of the same
    command; ``find_init`` waits for the interpreter of init processes.

    Raises:
        ConfigError, SandboxError: As ``open_host``.
    """
    with open_launcher(config, started, front) as (launcher, tree):
        yield make_host(config, launcher, tree, Interpreters(init=find_init(), runtimes={}, missing={}))


@contextlib.contextmanager
def open_launcher(
    config: Config, started: ReaperProcess | None = None, front: int | None = None
) -> Iterator[tuple[Launcher, cgroup.CgroupTree | None]]:
    """The launcher of sandboxes, and the place of their cgroups. The reaper begins to start, if it was not ``started``.

    ``front``: see ``delegation.detect``.

    Raises:
        SandboxError: There are no cgroups, and the configuration demands them.
    """
    with Launcher.open(started) as launcher:
        tree = cgroups(config, launcher, front)
        launcher.prepare()
        yield launcher, tree


def find_beside(meanwhile: Callable[[], object], config: Config, environ: Mapping[str, str]) -> Interpreters:
    """Ask the interpreters in a thread, and call ``meanwhile`` in this one. Arguments and errors as ``open_host``."""
    with ThreadPoolExecutor(1) as executor:
        interpreters = executor.submit(find_interpreters, config, environ)
        meanwhile()
    return interpreters.result()


def make_host(config: Config, launcher: Launcher, tree: cgroup.CgroupTree | None, found: Interpreters) -> Host:
    """Make the host from the results of ``open_launcher`` and ``find_beside``. Errors as ``open_host``."""
    backend = bubblewrap(config, launcher, tree)
    return Host(backend=backend, system=system_of(found.init, tree), **asdict(found))


def cgroups(config: Config, launcher: Launcher, front: int | None = None) -> cgroup.CgroupTree | None:
    """The place of the sandboxes' cgroups; None if there is none. ``launcher`` removes it.

    ``front``: see ``delegation.detect``.

    Raises:
        SandboxError: There is none, and the configuration demands one.
    """
    try:
        tree = delegation.detect(claim=launcher.claim, front=front)
    except SandboxError:
        if config.sandbox.cgroups == "require":
            raise
        return None
    limit_share(tree, memory_share=config.sandbox.memory_share, read_bytes=config.sandbox.disk_bytes)
    return tree


def bubblewrap(config: Config, launcher: Launcher, tree: cgroup.CgroupTree | None) -> Bubblewrap:
    """The backend that builds sandboxes. Errors as ``open_host``."""
    settings = config.sandbox
    if os.geteuid() == 0:
        restrictions.require_capabilities(settings.first_uid)
        _refuse_uids_of_accounts(range(settings.first_uid, settings.first_uid + settings.uid_count))
    return Bubblewrap(
        launcher=launcher,
        program=host.find_bubblewrap(_path_text(settings.bubblewrap)),
        uids=UidRange(first=settings.first_uid, count=settings.uid_count) if os.geteuid() == 0 else None,
        tree=tree,
        landlock_abi=settings.landlock_abi,
    )


def _refuse_uids_of_accounts(uids: range) -> None:
    """Refuse uids of accounts: all processes of a sandbox's uid are killed before the sandbox gets it."""
    for account in pwd.getpwall():
        if account.pw_uid in uids:
            raise ConfigError(
                f"the uid {account.pw_uid} of the account {account.pw_name!r} is among those of sandboxes",
                hint="choose sandbox.first_uid and sandbox.uid_count so that no account of this host has one of them",
            )


def system_of(init: python.Python, tree: cgroup.CgroupTree | None) -> System:
    """What every sandbox takes from this host. ``init`` is the interpreter of init processes."""
    packages = init.data
    return host.read_system(init.executable, init.binds, packages.mounts, packages.env, counts_memory=tree is not None)


def init_of(config: Config, environ: Mapping[str, str]) -> python.Python:
    """The interpreter that runs the init process of every sandbox, and the programs in Python.

    Raises:
        ConfigError: There is none.
    """
    path = path_outside(environ, filter(None, [config.workspace.root]))
    return python.find(_path_text(config.runtimes.python), path=path)


def with_packages(init: python.Python, environ: Mapping[str, str]) -> python.Python:
    """The interpreter with the tree of the packages for data work, which the first start on a host puts together."""
    found = init.data
    if not found.sources:
        return init
    try:
        tree = installed_tree.assemble_installed(store_of(environ), found.digest, found.sources)
    except OSError as error:
        found = data.without_tree(error)
    else:
        found = found.model_copy(update={"mounts": (Mount(source=str(real(tree)), target=data.PLACE),)})
    return init.model_copy(update={"data": found})


@contextlib.contextmanager
def keep_packages(init: python.Python) -> Iterator[None]:
    """Mark that tree as in use within the context: ``gloveport env gc`` spares it.

    Raises:
        ConfigError: It can't be marked.
    """
    with contextlib.ExitStack() as stack:
        for tree in (Path(mount.source) for mount in init.data.mounts if mount.target == data.PLACE):
            try:
                stack.enter_context(environment_store.EnvironmentStore(tree.parents[1]).keep_installed(tree.name))
            except OSError as error:
                raise ConfigError(
                    f"{error.filename} can't be written: {error.strerror}",
                    hint=f"make {tree.parents[1]} writable for this user, or move it away: it is made anew",
                ) from error
        yield


def store_of(environ: Mapping[str, str]) -> "environment_store.EnvironmentStore":
    """The store of environments."""
    return environment_store.EnvironmentStore(state_directory(environ) / "environments")


def runtimes_of(config: Config, init: python.Python) -> tuple[dict[Language, Runtime], dict[Language, str]]:
    """The runtimes of this host, and why the other languages can't be run."""
    paths = {
        "typescript": config.runtimes.deno,
        "javascript": config.runtimes.deno,
        "shell": config.runtimes.bash,
    }
    found: dict[Language, Runtime] = {}
    missing: dict[Language, str] = {}
    for language, find in RUNTIMES.items():
        try:
            found[language] = find(_path_text(paths[language]))
        except ConfigError as error:
            missing[language] = str(error)
    # A session has all languages, and begins in a sandbox for Python.
    deno = found.get("typescript")
    can_run = config.policy.languages & {"typescript", "javascript"}
    beside = deno.binds if deno is not None and can_run else ()
    return {"python": init.model_copy(update={"beside": beside}), **found}, missing


def _path_text(path: Path | None) -> str | None:
    return None if path is None else str(path)
