"""Makes an engine that runs programs, from a configuration."""

import contextlib
import functools
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gloveport.artifacts.artifact_store import ArtifactBounds, ArtifactStore
from gloveport.audit.log import AuditLog
from gloveport.bootstrap.build import open_audit, open_desk, open_gateway, rules_of, stock_of, stocks
from gloveport.bootstrap.host_setup import Host, keep_packages, open_host
from gloveport.bootstrap.huge_pages import huge_pages
from gloveport.bootstrap.operator_reach import reach_of
from gloveport.config import Config, state_directory
from gloveport.egress.outbound_session import Gateway
from gloveport.egress.sandbox_network import leads_out
from gloveport.egress.transport.resolver import Resolver
from gloveport.engine.execution import Engine
from gloveport.engine.runs import running
from gloveport.engine.session import SessionLimits
from gloveport.engine.sessions import open_sessions
from gloveport.errors import ConfigError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.late_libraries import tempfile
from gloveport.late_module import late_module
from gloveport.limits.admission import AdmissionQueue
from gloveport.sandbox.base import Sandbox
from gloveport.sandbox.pool.pool import Pool
from gloveport.sandbox.run.capture import Archive

if TYPE_CHECKING:
    from gloveport.bootstrap import environment_setup, skill_places
    from gloveport.engine.environment_provider import Environments
    from gloveport.hub import hub as upstream_hub
    from gloveport.hub import pins
    from gloveport.hub.calls import LookUp
    from gloveport.hub.hub import Hub
    from gloveport.sampling import provider as model_provider
    from gloveport.sampling.provider import Provider
else:
    environment_setup = late_module("gloveport.bootstrap.environment_setup")
    skill_places = late_module("gloveport.bootstrap.skill_places")
    pins = late_module("gloveport.hub.pins")
    upstream_hub = late_module("gloveport.hub.hub")
    model_provider = late_module("gloveport.sampling.provider")

Connected: TypeAlias = Callable[
    [Config, Mapping[str, str], ForwardProxy, AuditLog], contextlib.AbstractAsyncContextManager["Hub"]
]


def modules_of(config: Config) -> list[str]:
    """The lazily imported modules that runs will need under this configuration."""
    names: list[str] = []
    if leads_out(config.way_out):
        names += ["gloveport.egress.credentials.inject", "gloveport.egress.http.connection_pool"]
    if names or config.workspace.root is not None:  # commands make requests even without any API
        names += ["gloveport.egress.proxy.handler"]
    if any(server.active for server in config.servers.values()):
        names += ["gloveport.bootstrap.upstreams", "gloveport.hub.calls", "gloveport.hub.discovery"]
    if config.sampling.enabled:
        names += ["gloveport.hub.calls", "gloveport.hub.discovery", "gloveport.sampling.sampler"]
    return names


@contextlib.asynccontextmanager
async def open_no_hub(
    config: Config, environ: Mapping[str, str], _proxy: ForwardProxy, audit: AuditLog
) -> AsyncIterator["Hub"]:
    """A hub without servers. Raises ConfigError if servers are configured."""
    if any(server.active for server in config.servers.values()):
        raise ConfigError("the configuration has servers, and nothing here connects to them")
    yield upstream_hub.Hub({}, pins.Pins(state_directory(environ) / "servers"), audit.append, str)


@contextlib.asynccontextmanager
async def assemble(
    config: Config, environ: Mapping[str, str], connected: Connected = open_no_hub
) -> AsyncIterator[Engine]:
    """Make an engine on this host, as configured. ``connected`` opens the hub to the configured servers:
    ``upstreams.connect_servers`` if there are any.

    Raises:
        ConfigError: The configuration names something that is not there.
        SandboxError: This host lacks a layer that the configuration demands.
        AuditError: The audit log can't be written.
    """
    with open_host(config, environ) as host:
        async with assemble_on(host, config, environ, connected) as engine:
            yield engine


@contextlib.asynccontextmanager
async def assemble_on(
    host: Host,
    config: Config,
    environ: Mapping[str, str],
    connected: Connected,
    opened: Gateway | None = None,
    cold: Sandbox | None = None,
) -> AsyncIterator[Engine]:
    """As ``assemble``, on a host that was detected before.

    ``opened`` is a gateway that is already open; ``cold`` builds sandboxes that do not wait in a stock, by default with
    the host's backend.
    """
    async with contextlib.nullcontext(opened) if opened is not None else open_gateway(config, environ) as gateway:
        with contextlib.ExitStack() as stack:
            stack.enter_context(keep_packages(host.init))
            archive = Archive()
            stack.callback(archive.close)
            artifacts = ArtifactStore(_artifact_bounds(config), _spool())
            stack.callback(artifacts.close)
            audit = open_audit(config, environ, gateway.vault)
            stack.enter_context(audit)
            desk = open_desk(config, environ)
            open_skills = functools.cache(lambda: skill_places.open_library(config, environ))
            calls_skills = "skills" in config.workspace.toolsets
            reach = reach_of(config, gateway, skills=calls_skills and not open_skills().is_empty)
            waiting = stocks(config, host.backend, host.system, host.runtimes, reach.network)
            pool = Pool(cold=cold or host.backend, stocks=waiting)

            def make_environments() -> "Environments":
                return environment_setup.open_environments(
                    config, host.init, environ, backend=host.backend, system=host.system, gateway=gateway
                )

            async with (
                huge_pages(),
                connected(config, environ, gateway.proxy, audit) as hub,
                pool.open(),
                running() as runs,
                open_sessions(SessionLimits(**dict(config.sessions.items()))) as sessions,
            ):
                engine = Engine(
                    policy=config.policy,
                    reach=reach,
                    gateway=gateway,
                    hub=hub,
                    look_up=_look_up(Resolver()),
                    runs=runs,
                    sessions=sessions,
                    desk=desk,
                    provider=_provider(config, gateway.proxy),
                    sandbox=pool,
                    backend=host.backend,
                    system=host.system,
                    runtimes=host.runtimes,
                    missing=host.missing,
                    packages=rules_of(config),
                    open_environments=make_environments,
                    make_stock=functools.partial(stock_of, config, host.backend),
                    spool=_spool(),
                    audit=audit,
                    admission=AdmissionQueue(**dict(config.admission.items())),
                    archive=archive,
                    artifacts=artifacts,
                    open_skills=open_skills,
                    calls_skills=calls_skills,
                )
                engine.restock = functools.partial(_restock, engine, config)
                if config.environments or engine.packages.enabled:
                    engine.adopt_environments(make_environments())
                yield engine


def adopt(engine: Engine, config: Config) -> None:
    """Adopt the outbound rules, the proxy and the package rules of ``config`` for all runs that begin from now on."""
    engine.gateway.proxy.settings = config.proxy
    engine.reach = reach_of(config, engine.gateway, skills=engine.reach.skills)
    engine.adopt_packages(rules_of(config))
    engine.restock = functools.partial(_restock, engine, config)
    engine.restock()


def _restock(engine: Engine, config: Config) -> None:
    planned = config.model_copy(update={"policy": engine.policy})  # the policy stays the same
    engine.sandbox.restock(stocks(planned, engine.backend, engine.system, engine.runtimes, engine.reach.network))


def _artifact_bounds(config: Config) -> ArtifactBounds:
    settings = config.artifacts
    return ArtifactBounds(
        seconds=settings.kept_seconds, caller_bytes=settings.caller_bytes, total_bytes=settings.total_bytes
    )


def _provider(config: Config, proxy: ForwardProxy) -> "Provider | None":
    settings = config.sampling
    if not settings.provider:
        return None
    return model_provider.Provider(settings=settings, proxy=proxy, clean=proxy.vault.clean)


def _look_up(lookups: Resolver) -> "LookUp":
    """Resolves hosts for the hub, which decides about URLs among arguments."""

    async def look_up(host: str) -> tuple[str, ...]:
        try:
            return tuple(str(address) for address in await lookups.find(host, 0))
        except OSError:
            return ()

    return look_up


def _spool() -> Path:
    """Directory for the nameless files of large output, on a disk if possible: /tmp is often memory."""
    preferred = Path("/var/tmp")  # noqa: S108 - the files have no name
    return preferred if preferred.is_dir() else Path(tempfile.gettempdir())
