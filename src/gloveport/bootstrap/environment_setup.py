"""The environments of a configuration on this host."""

from collections.abc import Mapping
from dataclasses import replace

from uv import find_uv_bin

from gloveport.bootstrap.build import Host
from gloveport.config import Config, state_directory
from gloveport.egress.outbound_session import Gateway
from gloveport.engine.environment_builder import BuildSettings, EnvironmentBuilder
from gloveport.engine.run_environments import Environments
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.environments.indexes import find_indexes
from gloveport.environments.seal import TreeBounds
from gloveport.model.packages import PackageRules
from gloveport.runtimes.python import Python


def open_environments(config: Config, host: Host, environ: Mapping[str, str], gateway: Gateway) -> Environments:
    """What programs can import besides what their languages have, and what builds it."""
    environments = environments_of(config, host.init, environ)
    settings = config.packages
    try:
        uv = find_uv_bin()
    except FileNotFoundError:
        return replace(environments, missing="uv is not there, which comes with Gloveport")
    builder = EnvironmentBuilder(
        store=environments.store,
        settings=BuildSettings(
            indexes=find_indexes(settings.indexes, environ),
            cooldown_days=settings.cooldown_days,
            bounds=TreeBounds(bytes=int(settings.environment_bytes), files=settings.environment_files),
            uv=uv,
        ),
        gateway=gateway,
        backend=host.backend,
        system=host.system,
        python=host.init,
        egress=config.way_out,
    )
    return replace(environments, builder=builder)


def environments_of(config: Config, init: Python, environ: Mapping[str, str]) -> Environments:
    """The same without what builds them."""
    settings = config.packages
    indexes = find_indexes(settings.indexes, environ)
    return Environments(
        named=config.environments,
        rules=PackageRules(allow=settings.allow, ask=settings.ask, deny=settings.deny),
        store=EnvironmentStore(state_directory(environ) / "environments"),
        interpreter=init.extension,
        version=init.version,
        cooldown_days=settings.cooldown_days,
        indexes=indexes.urls,
        warnings=indexes.warnings,
    )
