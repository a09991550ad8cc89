"""Inspects for ``gloveport doctor`` whether the configured secrets, servers and proxy can be used."""

import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from operator import itemgetter
from typing import TypeAlias

from gloveport.config import Config, environ_outside
from gloveport.egress.sandbox_network import leads_out
from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.connection.server_command import environment, program
from gloveport.model.egress import Secret, secrets_of
from gloveport.sandbox.detection.probe import Check, make_check
from gloveport.secrets.sources import Sources
from gloveport.secrets.strength import is_guessable

_Resolve: TypeAlias = Callable[[Secret], Awaitable[str]]


async def inspect_secrets(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Whether the secrets of active APIs, servers and models can be fetched now. Their values are not kept."""
    sources = Sources(environ_outside(config, environ))
    secrets_by_name: dict[str, set[tuple[Secret, _Resolve]]] = {}
    for name, api in config.api.items():
        if api.active:
            secrets_by_name[f"api.{name}"] = {(ref, sources.resolve) for auth in api.auth for ref in secrets_of(auth)}
    for name, server in config.servers.items():
        if server.active:
            variables = {(ref, sources.resolve_text) for ref in server.secret_env.values()}
            secrets_by_name[f"servers.{name}"] = variables | {
                (ref, sources.resolve) for auth in server.auth for ref in secrets_of(auth)
            }
    if config.proxy.secret:
        secrets_by_name["proxy"] = {(config.proxy.secret, sources.resolve)}
    if config.sampling.enabled and config.sampling.secret:
        secrets_by_name["sampling"] = {(config.sampling.secret, sources.resolve)}
    return [await _check_secrets(name, secrets) for name, secrets in secrets_by_name.items() if secrets]


async def _check_secrets(name: str, secrets: Collection[tuple[Secret, _Resolve]]) -> Check:
    faults, guessable = [], []
    for ref, resolve in sorted(secrets, key=itemgetter(0)):
        try:
            if is_guessable(await resolve(ref)):
                guessable.append(ref)
        except ConfigError as error:
            faults.append(error)
    if guessable and not faults:
        detail = f"its secrets can be had, and by trying they can be guessed: {', '.join(guessable)}"
        return make_check(name, "weaker", detail, "put a random one of 16 characters or more there")
    if not faults:
        return make_check(name, "enforced", "its secrets can be had")
    detail = "; ".join(str(fault.args[0]) for fault in faults)
    return make_check(name, "weaker", detail, faults[0].hint)


def inspect_servers(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Whether the commands of the active servers exist. None is started."""
    checks = []
    for name, server in config.servers.items():
        if server.active and server.command:
            try:
                program(name, server, environment(server, environ_outside(config, environ), {}))
            except UpstreamError as error:
                detail, repair = str(error.args[0]), error.hint
                checks.append(make_check(f"servers.{name}", "weaker", detail, repair))
    return checks


def inspect_proxy(config: Config, environ: Mapping[str, str]) -> list[Check]:
    """Whether a variable names a proxy that is not configured. A password in it is not shown."""
    named = next((name for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy") if environ.get(name)), None)
    asks_itself = bool(config.sampling.provider) or any(one.active and one.url for one in config.servers.values())
    if named is None or config.proxy.url is not None or not (asks_itself or leads_out(config.way_out)):
        return []
    found = re.fullmatch(r"http://(?:[^@/]*@)?([A-Za-z0-9.-]+:[0-9]+)/?", environ[named])
    place = "HOST:PORT" if found is None else found[1]
    detail = f"{named} is set, and not looked at: requests go out directly"
    repair = f'where this host has to use that proxy, write url = "http://{place}" in [proxy]'
    return [make_check("proxy", "weaker", detail, repair)]
