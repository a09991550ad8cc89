"""The composition root: from a configuration to an engine that runs programs. Everything is wired here, once."""

import contextlib
import functools
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread

from gloveport.approvals.desk import Desk
from gloveport.approvals.store import Store
from gloveport.audit.log import AuditLog
from gloveport.config import Config, audit_directory, state_directory
from gloveport.egress.authority import Authority
from gloveport.egress.credentials import references_of
from gloveport.egress.inject import Injector
from gloveport.egress.lookups import Lookups
from gloveport.egress.oauth import Tokens
from gloveport.egress.outlet import Gateway
from gloveport.egress.upstream import Upstreams
from gloveport.engine.execution import Engine
from gloveport.engine.reach import Reach
from gloveport.engine.runs import running
from gloveport.errors import AuditError, ConfigError, GloveportError, SandboxError
from gloveport.hub.calls import LookUp
from gloveport.hub.hub import Hub
from gloveport.hub.pins import Pins
from gloveport.limits.admission import Admission
from gloveport.model import LANGUAGES, Grant, Language, Program
from gloveport.policy.tools import toolbox_of
from gloveport.runtimes import RUNTIMES, Runtime, python
from gloveport.sampling.provider import Provider
from gloveport.sandbox import cgroup, delegation, host, probe
from gloveport.sandbox.base import Network, Plan, System, make_plan
from gloveport.sandbox.booter import Booter
from gloveport.sandbox.forkserver import ForkServer
from gloveport.sandbox.output import Archive
from gloveport.sandbox.pool import Maker, Pool, Stock
from gloveport.sandbox.probe import Check
from gloveport.sandbox.spawn import Bubblewrap, UidRange
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

_GREETINGS: Mapping[Language, str] = {
    "python": "print('hello')",
    "typescript": "const word: string = 'hello'; console.log(word)",
    "javascript": "console.log('hello')",
    "shell": "echo hello",
}

Connected: TypeAlias = Callable[
    [Config, Mapping[str, str], Vault, AuditLog], contextlib.AbstractAsyncContextManager[Hub]
]

_KINDS = ("", "import asyncio", "import pandas")
"""Programs of each kind that a runtime tells apart."""


@contextlib.asynccontextmanager
async def unconnected(config: Config, environ: Mapping[str, str], _vault: Vault, audit: AuditLog) -> AsyncIterator[Hub]:
    """The hub to no servers.

    Raises:
        ConfigError: There are some.
    """
    if any(server.active for server in config.servers.values()):
        raise ConfigError("the configuration has servers, and nothing here connects to them")
    yield Hub({}, Pins(state_directory(environ) / "servers"), audit.append)


@contextlib.asynccontextmanager
async def assemble(
    config: Config, environ: Mapping[str, str], connected: Connected = unconnected
) -> AsyncIterator[Engine]:
    """An engine on this host, as configured.

    Args:
        config: What the operator has configured.
        environ: Our environment.
        connected: Gives the hub to the configuration's servers: ``upstreams.connected`` where there are any.

    Raises:
        ConfigError: The configuration names something that is not there.
        SandboxError: This host lacks a layer that the configuration demands.
        AuditError: The audit log can't be written.
    """
    with contextlib.ExitStack() as stack:
        tree = _cgroups(config, stack)
        runtimes, missing = _runtimes(config)
        archive = Archive()
        stack.callback(archive.close)
        audit = AuditLog.open(audit_directory(config, environ), max_file_bytes=config.audit.max_file_bytes)
        stack.enter_context(audit)
        system = _system(config, tree)
        backend = _bubblewrap(config, tree)
        authority = Authority()
        reach = _reach(config, authority)
        pool = Pool(cold=backend, stocks=stocks(config, backend, system, runtimes, reach.network))
        vault, state = Vault(Sources(environ)), state_directory(environ)
        store = Store(state / "approvals")
        store.create()
        desk = Desk(store, config.approvals.timeout_seconds, frozenset(config.approvals.channels))
        async with (
            Upstreams() as upstreams,
            connected(config, environ, vault, audit) as hub,
            pool.open(),
            running() as runs,
        ):
            injector = Injector(vault, Tokens(vault, upstreams.post))
            yield Engine(
                policy=config.policy,
                reach=reach,
                gateway=Gateway(authority=authority, upstreams=upstreams, injector=injector, vault=vault),
                hub=hub,
                look_up=_look_up(Lookups()),
                runs=runs,
                desk=desk,
                provider=Provider(settings=config.sampling) if config.sampling.provider else None,
                sandbox=pool,
                system=system,
                runtimes=runtimes,
                missing=missing,
                spool=_spool(),
                audit=audit,
                admission=Admission(**dict(config.admission)),
                archive=archive,
            )


def adopt(engine: Engine, config: Config) -> None:
    """Let what programs may reach be as ``config`` says, for all that begin from now on."""
    engine.reach = _reach(config, engine.gateway.authority)
    if isinstance(engine.sandbox, Pool) and isinstance(engine.sandbox.cold, Bubblewrap):
        pool, network = engine.sandbox, engine.reach.network
        pool.restock(stocks(config, engine.sandbox.cold, engine.system, engine.runtimes, network))


async def inspect(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """What this host enforces and lacks, layer by layer, each tried for real. A fault found is a check, no error."""
    checks: list[Check] = []
    with contextlib.ExitStack() as stack:
        tree = None
        try:
            tree = _cgroups(config, stack)
            checks.append(_cgroup_check(tree))
            sandbox = _bubblewrap(config, tree)
            checks.append(await anyio.to_thread.run_sync(probe.bubblewrap_version, sandbox))
            system = await anyio.to_thread.run_sync(_system, config, tree)
            network = _reach(config, Authority()).network
            plan = functools.partial(make_plan, grant=_whole_grant(config), system=system, network=network)
            checks += await probe.walls(sandbox, plan(Program(name="probe")))
            checks += await _language_checks(config, sandbox, plan)
            if config.policy.languages & {"python", "shell"}:
                checks.append(await _data_check(config, sandbox, plan))
        except (SandboxError, ConfigError) as error:
            checks.append(_missing("sandbox", error))
    directory = audit_directory(config, environ)
    try:
        AuditLog.open(directory, max_file_bytes=config.audit.max_file_bytes).close()
        checks.append(Check(name="audit", state="enforced", detail=f"hash-chained log in {directory}"))
    except AuditError as error:
        checks.append(_missing("audit", error))
    return checks


async def inspect_secrets(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Whether each active API's secrets can be had now, by fetching them. What they are is not kept."""
    sources, checks = Sources(environ), []
    for name, api in config.api.items():
        faults = []
        for ref in sorted({ref for auth in api.auth for ref in references_of(auth)}) if api.active else ():
            try:
                await sources.resolve(ref)
            except ConfigError as error:
                faults.append(error)
        if faults:
            detail, repair = "; ".join(str(fault.args[0]) for fault in faults), faults[0].hint
            checks.append(Check(name=f"api.{name}", state="weaker", detail=detail, repair=repair))
        elif api.active and api.auth:
            checks.append(Check(name=f"api.{name}", state="enforced", detail="its secrets can be had"))
    return checks


def require(checks: Sequence[Check]) -> None:
    """Refuse to serve on a host that lacks a layer. A language that can't be run is refused when it is asked for.

    Raises:
        SandboxError: Names every layer that is missing and what repairs it.
    """
    missing = [check for check in checks if check.state == "missing"]
    runnable = {check.name for check in checks if check.name in LANGUAGES} - {check.name for check in missing}
    layers = [check for check in missing if check.name not in LANGUAGES or not runnable]
    if layers:
        raise SandboxError(
            "\n".join(f"missing {check.name}: {check.detail}" for check in layers),
            hint="; ".join(dict.fromkeys(check.repair for check in layers if check.repair)),
        )


async def _language_checks(config: Config, sandbox: Bubblewrap, plan: Callable[[Program], Plan]) -> list[Check]:
    """Each language that the policy allows, tried with a program that prints a line."""
    runtimes, missing = await anyio.to_thread.run_sync(_runtimes, config)
    grant = _whole_grant(config)
    checks: dict[Language, Check] = {}

    async def check(language: Language) -> None:
        if language in missing:
            checks[language] = Check(name=language, state="missing", detail=missing[language])
            return
        program = runtimes[language].prepare(_GREETINGS[language], grant)
        try:
            failure = await probe.failure_of(sandbox, plan(program), program)
        except SandboxError as error:
            failure = str(error.args[0])
        checks[language] = Check(
            name=language, state="missing" if failure else "enforced", detail=failure or "a program ran"
        )

    async with anyio.create_task_group() as tasks:
        for language in LANGUAGES:
            if language in config.policy.languages:
                tasks.start_soon(check, language)
    return [checks[language] for language in LANGUAGES if language in checks]


def stocks(
    config: Config,
    backend: Bubblewrap,
    system: System,
    runtimes: Mapping[Language, Runtime],
    network: Network,
) -> tuple[Stock, ...]:
    """What waits for a program: a stock for each kind of sandbox that the languages of the policy need."""
    grant = _whole_grant(config)
    settings = config.pool
    plans: list[Plan] = []
    made: list[Stock] = []
    for language in LANGUAGES:
        for source in _KINDS if language in runtimes and language in grant.languages else ():
            program = runtimes[language].prepare(source, grant)
            try:
                plan = make_plan(program, grant, system, network)
            except SandboxError:  # a run hears why
                continue
            size = settings.forked if program.forked else settings.booted
            if size and plan not in plans:
                plans.append(plan)
                maker: Maker = (
                    ForkServer(backend=backend, plan=plan, program=program, forks=settings.forks)
                    if program.forked
                    else Booter(backend=backend, plan=plan, program=program)
                )
                made.append(Stock(maker=maker, size=size, idle_seconds=settings.idle_seconds))
    return tuple(made)


async def _data_check(config: Config, sandbox: Bubblewrap, plan: Callable[[Program], Plan]) -> Check:
    """What programs have of the extra ``data``, its native code tried with the first package. Never a refusal."""
    init = await anyio.to_thread.run_sync(python.find, _path(config.runtimes.python))
    data, grant = init.data, _whole_grant(config)
    state: Literal["enforced", "weaker"] = "weaker" if data.repair else "enforced"
    if data.modules:
        program = init.prepare(f"import {data.modules[0]}\nprint('hello')", grant)
        if failure := await probe.failure_of(sandbox, plan(program), program):
            return Check(name="data", state="weaker", detail=f"{data.detail}, but {failure}", repair=data.repair)
    return Check(name="data", state=state, detail=data.detail, repair=data.repair)


def _whole_grant(config: Config) -> Grant:
    """All that the operator's policy allows anybody."""
    policy = config.policy
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        limits=policy.limits,
        egress=config.way_out,
        toolbox=toolbox_of(config.servers),
        sampling=config.sampling,
    )


def _reach(config: Config, authority: Authority) -> Reach:
    return Reach(config.way_out, authority.certificate, config.servers, config.sampling)


def _look_up(lookups: Lookups) -> LookUp:
    """The addresses of a host, for the hub, which decides about URLs among arguments."""

    async def look_up(host: str) -> tuple[str, ...]:
        try:
            return tuple(str(address) for address in await lookups.find(host, 0))
        except OSError:
            return ()

    return look_up


def _spool() -> Path:
    """Directory for the nameless files of large output: on a disk where there is one; /tmp is often memory."""
    preferred = Path("/var/tmp")  # noqa: S108 - the files have no name
    return preferred if preferred.is_dir() else Path(tempfile.gettempdir())


def _cgroups(config: Config, stack: contextlib.ExitStack) -> cgroup.Tree | None:
    try:
        tree = delegation.detect()
    except SandboxError:
        if config.sandbox.cgroups == "require":
            raise
        return None
    stack.callback(tree.close)
    return tree


def _cgroup_check(tree: cgroup.Tree | None) -> Check:
    if tree is not None:
        detail = f"version {tree.version}: memory, processes and processor time of a whole sandbox"
        return Check(name="cgroups", state="enforced", detail=detail)
    try:
        delegation.detect().close()
        reason, repair = "they appeared just now", "run doctor again"
    except SandboxError as error:
        reason, repair = error.args[0], error.hint
    return Check(
        name="cgroups",
        state="weaker",
        detail=f"each process is limited by itself, a whole sandbox is not: {reason}",
        repair=repair,
    )


def _bubblewrap(config: Config, tree: cgroup.Tree | None) -> Bubblewrap:
    settings = config.sandbox
    return Bubblewrap(
        program=host.find_bubblewrap(_path(settings.bubblewrap)),
        uids=UidRange(first=settings.first_uid, count=settings.uid_count) if os.geteuid() == 0 else None,
        tree=tree,
        landlock_abi=settings.landlock_abi,
    )


def _system(config: Config, tree: cgroup.Tree | None) -> System:
    init = python.find(_path(config.runtimes.python))
    data = init.data
    return host.read_system(init.executable, init.binds, data.mounts, data.env, counts_memory=tree is not None)


def _runtimes(config: Config) -> tuple[dict[Language, Runtime], dict[Language, str]]:
    """The languages that the policy allows and this host can run, and why it can't run the others."""
    paths = {
        "python": config.runtimes.python,
        "typescript": config.runtimes.deno,
        "javascript": config.runtimes.deno,
        "shell": config.runtimes.bash,
    }
    found: dict[Language, Runtime] = {}
    missing: dict[Language, str] = {}
    for language, find in RUNTIMES.items():
        try:
            found[language] = find(_path(paths[language]))
        except ConfigError as error:
            missing[language] = str(error)
    return found, missing


def _missing(name: str, error: GloveportError) -> Check:
    return Check(name=name, state="missing", detail=error.args[0], repair=error.hint)


def _path(path: Path | None) -> str | None:
    return None if path is None else str(path)
