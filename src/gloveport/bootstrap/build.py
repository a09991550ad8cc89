"""Builds the parts of an engine on this host: sandbox backend, runtimes, pool, audit log."""

import contextlib
import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import asdict

from gloveport.audit.retention import RetentionBounds
from gloveport.config import Config, state_directory
from gloveport.egress.outbound_session import Gateway
from gloveport.egress.sandbox_network import leads_out
from gloveport.engine.reach import Reach
from gloveport.errors import ConfigError, SandboxError
from gloveport.late_module import late_module
from gloveport.model import LANGUAGES, Grant, Language, Mount, Program
from gloveport.model.hub import DOOR
from gloveport.model.packages import PackageRules
from gloveport.policy.decisions.tools import toolbox_of
from gloveport.runtimes import RUNTIMES, Runtime, data, python
from gloveport.runtimes.session_program import prepare_session
from gloveport.sandbox.cgroups import cgroup, delegation
from gloveport.sandbox.cgroups.host_share import limit_share
from gloveport.sandbox.detection import host
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.launch.spawn import Bubblewrap, UidRange
from gloveport.sandbox.plan import Network, Plan, System, let_last, make_plan
from gloveport.sandbox.pool.makers import ForkServer, Prestarter, SessionStarter
from gloveport.sandbox.pool.pool import Maker, Stock

if TYPE_CHECKING:
    from gloveport.environments import environment_store, installed_tree
else:
    environment_store = late_module("gloveport.environments.environment_store")
    installed_tree = late_module("gloveport.environments.installed_tree")

_KINDS = ("", "import asyncio", "import pandas")
"""Programs of each kind that a runtime tells apart."""


class Host(Struct, frozen=True, kw_only=True):
    """What programs are run with on this host.

    Attributes:
        init: Runs the init process of every sandbox, and the programs in Python.
        runtimes: The languages that can be run.
        missing: Why the others can't.
    """

    backend: Bubblewrap
    init: python.Python
    system: System
    runtimes: Mapping[Language, Runtime]
    missing: Mapping[Language, str]


class Interpreters(Struct, frozen=True, kw_only=True):
    """Those of a host: see ``Host``."""

    init: python.Python
    runtimes: Mapping[Language, Runtime]
    missing: Mapping[Language, str]


def find_interpreters(config: Config, environ: Mapping[str, str]) -> Interpreters:
    """Ask them what they are; may be called in a thread. ``environ`` says where the state directory is.

    Raises:
        ConfigError: None runs the init process of sandboxes.
    """
    init = with_packages(init_of(config), environ)
    runtimes, missing = runtimes_of(config, init)
    return Interpreters(init=init, runtimes=runtimes, missing=missing)


@contextlib.contextmanager
def open_host(config: Config, environ: Mapping[str, str], interpreters: Interpreters | None = None) -> Iterator[Host]:
    """Find it, as configured; on leaving, nothing is left of what it has started.

    Args:
        config: What the operator has configured.
        environ: Says where the state directory is.
        interpreters: Those of ``find_interpreters``, where they were asked before.

    Raises:
        ConfigError: The configuration names something that is not there.
        SandboxError: This host lacks a layer that the configuration demands.
    """
    with Launcher.open() as launcher:
        tree = cgroups(config, launcher)
        found = interpreters or find_interpreters(config, environ)
        system = system_of(found.init, tree)
        backend = bubblewrap(config, launcher, tree)
        yield Host(backend=backend, system=system, **asdict(found))


def stocks(
    config: Config,
    backend: Bubblewrap,
    system: System,
    runtimes: Mapping[Language, Runtime],
    network: Network,
) -> tuple[Stock, ...]:
    """What waits for a program: a stock for each kind of sandbox that the languages of the policy need."""
    grant = whole_grant(config).model_copy(update={"skills": DOOR in network.doors})
    settings = config.pool
    plans: list[Plan] = []
    made: list[Stock] = []
    for language in LANGUAGES:
        for source in _KINDS if language in runtimes and language in grant.languages else ():
            program = runtimes[language].prepare(source, grant)
            if not (settings.forked if program.forked else settings.booted):
                continue
            try:
                plan = make_plan(program, grant, system, network)
            except SandboxError:  # a run hears why
                continue
            if plan not in plans:
                plans.append(plan)
                stock = _make_stock(config, backend, plan, program)
                stock.begins_with_use = program.preload == python.WITH_DATA
                made.append(stock)
    return (*_session_stocks(config, made, system, runtimes, network), *made)  # which would fit those plans too


def _session_stocks(
    config: Config,
    sources: Sequence[Stock],
    system: System,
    runtimes: Mapping[Language, Runtime],
    network: Network,
) -> Iterator[Stock]:
    """What waits for sessions that begin in Python: one of each kind, made of the sandboxes of ``sources``."""
    grant = whole_grant(config).model_copy(update={"skills": DOOR in network.doors})
    settings = config.pool
    if not (settings.forked and config.sessions.total and config.sessions.per_caller and "python" in grant.languages):
        return
    programs = [
        prepare_session(runtimes, ("python", source), grant, "", counts_memory=system.counts_memory)
        for source in _KINDS
    ]
    for program in {program.preload: program for program in programs}.values():
        try:
            plan = let_last(make_plan(program, grant, system, network), config.sessions.life_seconds)
        except SandboxError:  # a run hears why
            continue
        for source in sources:
            if source.maker.fits(plan):
                maker = SessionStarter(source=source, plan=plan, program=program)
                yield Stock(
                    maker=maker,
                    size=1,
                    idle_seconds=settings.idle_seconds,
                    begins_with_use=source.begins_with_use,
                )
                break


def stock_of(config: Config, backend: Bubblewrap, plan: Plan, program: Program) -> Stock | None:
    """What waits for programs like this one, in an environment; None where nothing does."""
    settings = config.pool
    size = settings.forked if program.forked else settings.booted
    return _make_stock(config, backend, plan, program) if size and (program.forked or program.waiting) else None


def _make_stock(config: Config, backend: Bubblewrap, plan: Plan, program: Program) -> Stock:
    settings = config.pool
    maker: Maker = (
        ForkServer(backend=backend, plan=plan, program=program, forks=settings.forks)
        if program.forked
        else Prestarter(backend=backend, plan=plan, program=program)
    )
    size = settings.forked if program.forked else settings.booted
    return Stock(maker=maker, size=size, idle_seconds=settings.idle_seconds)


def whole_grant(config: Config) -> Grant:
    """All that the operator's policy allows anybody."""
    policy = config.policy
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        ptrace=policy.ptrace,
        limits=policy.limits,
        egress=config.way_out,
        toolbox=toolbox_of(config.servers),
        sampling=config.sampling,
    )


def reach_of(config: Config, gateway: Gateway, *, skills: bool = False) -> Reach:
    """What programs can reach; ``skills``: whether there are any."""
    certificate = gateway.authority.certificate if leads_out(config.way_out) else ""
    return Reach(config.way_out, certificate, config.servers, config.sampling, skills=skills)


def audit_bounds(config: Config) -> RetentionBounds:
    """How much is written down."""
    settings = config.audit
    return RetentionBounds(
        record_bytes=settings.max_record_bytes, log_bytes=settings.max_bytes, refusals=settings.refusals_per_run
    )


def cgroups(config: Config, launcher: Launcher) -> cgroup.CgroupTree | None:
    """Where sandboxes get their groups; None where there is no such place. ``launcher`` removes it.

    Raises:
        SandboxError: There is none, and the configuration demands one.
    """
    try:
        tree = delegation.detect(claim=launcher.claim)
    except SandboxError:
        if config.sandbox.cgroups == "require":
            raise
        return None
    limit_share(tree, memory_share=config.sandbox.memory_share, read_bytes=config.sandbox.disk_bytes)
    return tree


def bubblewrap(config: Config, launcher: Launcher, tree: cgroup.CgroupTree | None) -> Bubblewrap:
    """The backend that builds sandboxes."""
    settings = config.sandbox
    if os.geteuid() == 0:
        _refuse_uids_of_accounts(range(settings.first_uid, settings.first_uid + settings.uid_count))
    return Bubblewrap(
        launcher=launcher,
        program=host.find_bubblewrap(_path_text(settings.bubblewrap)),
        uids=UidRange(first=settings.first_uid, count=settings.uid_count) if os.geteuid() == 0 else None,
        tree=tree,
        landlock_abi=settings.landlock_abi,
    )


def _refuse_uids_of_accounts(uids: range) -> None:
    """What runs as the uid of a sandbox is ended before the sandbox gets it: it must not be a person's."""
    for account in pwd.getpwall():
        if account.pw_uid in uids:
            raise ConfigError(
                f"the uid {account.pw_uid} of the account {account.pw_name!r} is among those of sandboxes",
                hint="choose sandbox.first_uid and sandbox.uid_count so that no account of this host has one of them",
            )


def system_of(init: python.Python, tree: cgroup.CgroupTree | None) -> System:
    """What every sandbox takes from this host. ``init`` runs the init process of each."""
    packages = init.data
    return host.read_system(init.executable, init.binds, packages.mounts, packages.env, counts_memory=tree is not None)


def init_of(config: Config) -> python.Python:
    """The interpreter that runs the init process of every sandbox, and the programs in Python.

    Raises:
        ConfigError: There is none that does.
    """
    return python.find(_path_text(config.runtimes.python))


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
        found = found.model_copy(update={"mounts": (Mount(source=str(tree.resolve()), target=data.PLACE),)})
    return init.model_copy(update={"data": found})


def store_of(environ: Mapping[str, str]) -> "environment_store.EnvironmentStore":
    """Where environments are kept."""
    return environment_store.EnvironmentStore(state_directory(environ) / "environments")


def runtimes_of(config: Config, init: python.Python) -> tuple[dict[Language, Runtime], dict[Language, str]]:
    """The languages that this host can run, and why it can't run the others."""
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


def rules_of(config: Config) -> PackageRules:
    """Which packages programs may ask for by themselves."""
    return PackageRules(allow=config.packages.allow, ask=config.packages.ask, deny=config.packages.deny)
