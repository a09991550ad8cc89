"""Suggests configuration for hosts that a command could not reach."""

import re
from collections.abc import Callable, Iterable
from typing import Final

from gloveport.config.preset_tables import preset_hosts
from gloveport.egress.outbound_session import RequestJournal
from gloveport.model.egress import Egress, Exchange
from gloveport.policy.hosts.authorities import canonical_host, exact_places, places_of
from gloveport.sandbox.run.capture import plain
from gloveport.workspace.commands.command import Command, RefusedRequest

_MOST_TOLD: Final = 5
_NO_HOST: Final = "host_not_granted"
_REFUSED: Final = "tell the owner, whose configuration says so"


def note_requests(command: Command, egress: Egress, clean: Callable[[str], str]) -> RequestJournal:
    """A journal of a command's requests; the command's answers tell which were refused. ``egress`` is all that the
    owner grants to anybody.
    """
    journal = RequestJournal()
    command.refused = lambda: explain_refused(journal.listed, egress, clean)
    return journal


def explain_refused(exchanges: Iterable[Exchange], egress: Egress, clean: Callable[[str], str]) -> list[RefusedRequest]:
    """The first refused requests, one of each kind to each host. A command has chosen the words: they are escaped."""
    explanations: dict[tuple[str, str], RefusedRequest] = {}
    for one in exchanges:
        if one.code is None:
            continue
        host = _host_of(one.url)
        if (one.code, host) not in explanations and len(explanations) < _MOST_TOLD:
            explanations[one.code, host] = RefusedRequest(
                what=clean(plain(f"{one.method} {one.url}: {one.reason or one.code}")),
                remedy=clean(plain(remedy_for(host, egress))) if one.code == _NO_HOST else _REFUSED,
            )
    return list(explanations.values())


def explain_unresolved(output: str, egress: Egress, granted: Egress) -> tuple[RefusedRequest, ...]:
    """The hosts in the output of a command that failed to resolve a name: one for each remedy. ``egress`` is all that
    the owner grants to anybody; ``granted`` is what was granted to the command, or what a permission would grant.
    """
    if granted.yolo:
        return ()
    known = {*preset_hosts(), *(place.host for place in exact_places(egress))}
    explanations: dict[str, RefusedRequest] = {}
    for host in sorted(known):
        if re.search(rf"(?<![\w.-]){re.escape(host)}(?!\.?[\w-])", output, re.ASCII) and not places_of(granted, host):
            remedy = remedy_for(host, egress)
            explanations.setdefault(remedy, RefusedRequest(what=f"the name {host} was not found", remedy=remedy))
    return tuple(explanations.values())[:_MOST_TOLD]


def remedy_for(host: str, egress: Egress) -> str:
    """The configuration with which commands reach a host."""
    if places_of(egress, host):
        return f'the owner grants it to commands by hosts = ["{host}"] in [workspace]'
    if preset := preset_hosts().get(host):
        return f'the owner grants it by hosts = ["{preset}"] in [workspace]'
    return f'the owner grants it by [api.NAME] hosts = ["{host}"], and hosts = ["@NAME"] in [workspace]'


def _host_of(url: str) -> str:
    """The host of a URL, or of ``host:port``; any other text as it is."""
    authority = url.partition("://")[2].partition("/")[0] or url
    host = authority.rpartition(":")[0] or authority
    try:
        return canonical_host(host)
    except ValueError:
        return host[:253]
