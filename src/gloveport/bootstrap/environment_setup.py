"""Sets up the package environments of a configuration on this host."""

import contextlib
from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace
from uv import find_uv_bin

from gloveport.bootstrap.build import rules_of
from gloveport.bootstrap.host_setup import store_of
from gloveport.config import Config, environ_outside
from gloveport.egress.outbound_session import Gateway
from gloveport.engine.advisories import PUBLIC_ADVISORIES, AdvisoryService
from gloveport.engine.build_host import BuildHost
from gloveport.engine.ecosystems import NpmPackages, PythonPackages
from gloveport.engine.environment_provider import Environments
from gloveport.engine.npm_builder import NpmBuilder
from gloveport.engine.python_builder import PythonBuilder
from gloveport.engine.uv_sandboxes import UvSandboxes
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.environments.indexes import find_indexes
from gloveport.environments.registries import find_registries
from gloveport.environments.seal import TreeBounds
from gloveport.errors import ConfigError
from gloveport.policy.npm_requests import NPM
from gloveport.real_paths import real
from gloveport.runtimes import typescript
from gloveport.runtimes.python import Python
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import System
from gloveport.user_directories import refuse_others


def open_environments(
    config: Config, init: Python, environ: Mapping[str, str], *, backend: Bubblewrap, system: System, gateway: Gateway
) -> Environments:
    """The environments that programs can import from, with their builders. ``environ`` tells the indexes of this user's
    tools; builds run in sandboxes of ``backend``.
    """
    environ = environ_outside(config, environ)
    settings, store = config.packages, store_of(environ)
    build = BuildHost(
        store=store,
        bounds=TreeBounds(bytes=int(settings.environment_bytes), files=settings.environment_files),
        cooldown_days=settings.cooldown_days,
        gateway=gateway,
        backend=backend,
        system=system,
        egress=config.way_out,
    )
    python, npm = _python_of(config, init, environ), _npm_of(config, environ)
    indexes = find_indexes(settings.indexes, environ)
    with contextlib.suppress(FileNotFoundError):
        uv = UvSandboxes(host=build, indexes=indexes, uv=str(real(Path(find_uv_bin()))), python=init)
        python.builder = PythonBuilder(uv=uv)
    with contextlib.suppress(ConfigError):
        deno = typescript.find(str(config.runtimes.deno) if config.runtimes.deno else None, "typescript")
        npm.builder = NpmBuilder(host=build, registries=npm.registries, deno=deno)
    environments = _make(config, store, python, npm, indexes.warnings)
    url = (settings.advisories or PUBLIC_ADVISORIES).rstrip("/")
    own = tuple(f"{NPM}{scope}/" for scope in npm.registries.scopes)
    advisories = AdvisoryService(host=build, url=url, unasked=own)
    return replace(environments, advisories=advisories, asks_first=settings.advisories is not None)


def environments_of(config: Config, init: Python, environ: Mapping[str, str]) -> Environments:
    """The same without builders."""
    return _make(config, store_of(environ), _python_of(config, init, environ), _npm_of(config, environ), ())


def _make(
    config: Config, store: EnvironmentStore, python: PythonPackages, npm: NpmPackages, warnings: tuple[str, ...]
) -> Environments:
    refuse_others(store.root)
    return Environments(
        named=config.environments,
        rules=rules_of(config),
        store=store,
        ecosystems=(python, npm),
        warnings=(*warnings, *npm.registries.warnings),
    )


def _python_of(config: Config, init: Python, environ: Mapping[str, str]) -> PythonPackages:
    return PythonPackages(
        platform=init.extension,
        version=init.version,
        indexes=find_indexes(config.packages.indexes, environ).urls,
        cooldown_days=config.packages.cooldown_days,
    )


def _npm_of(config: Config, environ: Mapping[str, str]) -> NpmPackages:
    settings = config.packages
    registries = find_registries(settings.npm_registry, settings.npm_scopes, environ)
    return NpmPackages(registries=registries, cooldown_days=settings.cooldown_days)
