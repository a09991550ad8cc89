"""Builds the parts of an engine: stocks of waiting sandboxes, the gateway, the audit log, the approvals desk."""

import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gloveport.audit.log import AuditLog
from gloveport.audit.retention import RetentionBounds
from gloveport.bootstrap.operator_reach import whole_grant
from gloveport.config import Config, audit_directory, environ_outside, state_directory
from gloveport.egress.outbound_session import Gateway
from gloveport.errors import SandboxError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.late_module import late_module
from gloveport.model import LANGUAGES, Language, Program
from gloveport.model.hub import DOOR
from gloveport.model.packages import PackageRules
from gloveport.runtimes import Runtime, python
from gloveport.runtimes.session_program import prepare_session
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Network, Plan, System, let_last, make_plan
from gloveport.sandbox.pool.makers import ForkServer, Prestarter, SessionStarter
from gloveport.sandbox.pool.stock import Maker, Stock
from gloveport.secrets.log_scrubbing import scrubbed_logs
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault
from gloveport.task_group import open_task_group

if TYPE_CHECKING:
    from gloveport.approvals import desk as approvals_desk
    from gloveport.approvals import store as approvals_store
    from gloveport.approvals.desk import Desk
else:
    approvals_desk = late_module("gloveport.approvals.desk")
    approvals_store = late_module("gloveport.approvals.store")

_KINDS = ("", "import asyncio", "import pandas")
"""A program of each kind that a runtime distinguishes."""


def stocks(
    config: Config,
    backend: Bubblewrap,
    system: System,
    runtimes: Mapping[Language, Runtime],
    network: Network,
) -> tuple[Stock, ...]:
    """The stocks of waiting sandboxes: one for each kind of sandbox that the policy's languages need."""
    grant = whole_grant(config).model_copy(update={"skills": DOOR in network.doors})
    settings = config.pool
    plans: list[Plan] = []
    run_stocks: list[Stock] = []
    for language in LANGUAGES:
        for source in _KINDS if language in runtimes and language in grant.languages else ():
            program = runtimes[language].prepare(source, grant)
            if not (settings.forked if program.forked else settings.booted):
                continue
            try:
                plan = make_plan(program, grant, system, network)
            except SandboxError:  # a run reports why
                continue
            if plan not in plans:
                plans.append(plan)
                stock = _make_stock(config, backend, plan, program)
                stock.begins_with_use = program.preload == python.WITH_DATA
                run_stocks.append(stock)
    return (*_session_stocks(config, run_stocks, system, runtimes, network), *run_stocks)  # plain ones fit them too


def _session_stocks(
    config: Config,
    sources: Sequence[Stock],
    system: System,
    runtimes: Mapping[Language, Runtime],
    network: Network,
) -> Iterator[Stock]:
    """The stocks for sessions that begin in Python: one of each kind, made from the sandboxes of ``sources``."""
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
        except SandboxError:  # a run reports why
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
    """The stock for programs like this one, in an environment; None if there is none."""
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


@contextlib.asynccontextmanager
async def open_gateway(config: Config, environ: Mapping[str, str]) -> AsyncIterator[Gateway]:
    """The outbound gateway that all runs share. Until it closes, logs contain none of the secrets that it knows."""
    vault = Vault(Sources(environ_outside(config, environ)))
    with scrubbed_logs(vault.clean):
        async with open_task_group() as connections:
            yield Gateway(vault, connections, ForwardProxy(settings=config.proxy, vault=vault))


def open_audit(config: Config, environ: Mapping[str, str], vault: Vault) -> AuditLog:
    """The audit log, without the secrets that ``vault`` knows. Raises AuditError if it can't be written."""
    settings = config.audit
    bounds = RetentionBounds(
        record_bytes=settings.max_record_bytes, log_bytes=settings.max_bytes, refusals=settings.refusals_per_run
    )
    directory = audit_directory(config, environ)
    return AuditLog.open(directory, max_file_bytes=settings.max_file_bytes, bounds=bounds, clean=vault.clean_fields)


def open_desk(config: Config, environ: Mapping[str, str]) -> "Desk":
    """The desk that asks a person. Raises ConfigError if the file of questions and answers can't be used."""
    settings, store = config.approvals, approvals_store.Store(state_directory(environ) / "approvals")
    store.create()
    return approvals_desk.Desk(store, settings.timeout_seconds, frozenset(settings.channels))


def rules_of(config: Config) -> PackageRules:
    """Which packages programs may request."""
    return PackageRules(allow=config.packages.allow, ask=config.packages.ask, deny=config.packages.deny)
