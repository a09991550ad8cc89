"""Decides about outbound requests and connections.

An API is found by scheme, host and port together, so no rule and no credential ever applies to another place's request.
"""

from collections.abc import Sequence

from gloveport.late_pattern import late_pattern
from gloveport.model import Allow, Ask, Decision, Deny
from gloveport.model.egress import Api, Connect, Egress, Fetch, Postgres, Rule
from gloveport.policy.hosts.authorities import Authority, find, is_address, is_canonical, places_of
from gloveport.policy.hosts.url_paths import ambiguous, matches
from gloveport.policy.wording import FINAL, join_listed, quote_sent

# Methods are case-sensitive, but a server that takes "delete" for DELETE would make a rule about DELETE useless.
_METHOD = late_pattern(r"[A-Z][A-Z0-9_-]{0,31}")
_PUBLIC = frozenset({("https", 443), ("http", 80)})
_EXCEPTIONS = 120
"""How many characters of a hint may list the exceptions of one rule."""


def decide_fetch(egress: Egress, action: Fetch) -> Decision:
    """Decide a request. Redirects and upgrades are requests of their own."""
    if not is_canonical(action.host):
        return _unknown_host(egress, action.host)
    found = find(egress, action.scheme, action.host, action.port)
    if found is not None:
        return _by_rules(*found, action)
    granted = places_of(egress, action.host)
    if granted:
        return _not_there(_place(action), granted)
    if is_address(action.host):
        return Deny(
            code="address_not_granted",
            reason=f"No API names the address {action.host}, and addresses are never reached unnamed.",
            hint=f"Use the host's name. {_reachable(egress)} {FINAL}",
        )
    if egress.yolo and (action.scheme, action.port) in _PUBLIC:
        return Allow(rule="egress.yolo")
    return _unknown_host(egress, action.host)


def decide_connect(egress: Egress, action: Connect) -> Decision:
    """Decide a TCP connection: only to a place that the operator named with its scheme, whatever else is open."""
    if not is_canonical(action.host):
        return _unknown_host(egress, action.host)
    found = find(egress, action.scheme, action.host, action.port)
    if found is not None:
        return _by_databases(*found, action)
    granted = places_of(egress, action.host)
    if granted:
        return _not_there(Authority(action.scheme, action.host, action.port), granted)
    return _unknown_host(egress, action.host)


def _by_databases(name: str, api: Api, action: Connect) -> Decision:
    """Decide which databases of a server may be opened. A connection that cancels a query opens none."""
    granted = [database for auth in api.auth if isinstance(auth, Postgres) for database in auth.databases]
    if action.database is None or not granted or action.database in granted:
        return Allow(rule=f"api.{name}")
    return Deny(
        code="database_not_granted",
        reason=f"API {name!r} grants no database {quote_sent(action.database)}.",
        hint=f"Granted is: {join_listed(granted)}. {FINAL}",
    )


def _by_rules(name: str, api: Api, action: Fetch) -> Decision:
    if _METHOD.fullmatch(action.method) is None:
        return Deny(
            code="method_or_path_not_allowed",
            reason=f"{quote_sent(action.method)} is no method: methods are upper case.",
            hint="Write the method in upper case, for example PATCH.",
        )
    if any(rule.paths for rule in api.rules) and ambiguous(action.path):
        return Deny(
            code="ambiguous_path",
            reason=f"Servers may read the path {quote_sent(action.path)} in two ways; "
            f"API {name!r} has rules about paths.",
            hint="Send a path without `.` and `..` segments, `//`, `;`, backslashes, encoded separators or control "
            f"characters, and with valid escapes. {FINAL}",
        )
    for number, rule in enumerate(api.rules):
        if _speaks_of(rule, action):
            return _as_said(api, rule, f"api.{name}.rules[{number}]", action)
    if not api.rules:
        return Allow(rule=f"api.{name}")
    return _not_allowed(f"No rule of API {name!r} allows {_request(action)}.", api)


def _speaks_of(rule: Rule, action: Fetch) -> bool:
    return (not rule.methods or action.method in rule.methods) and (
        not rule.paths or any(matches(pattern, action.path) for pattern in rule.paths)
    )


def _as_said(api: Api, rule: Rule, name: str, action: Fetch) -> Decision:
    match rule.action:
        case "allow":
            return Allow(rule=name)
        case "ask":
            return Ask(rule=name, question=f"May a program send {_request(action)} to {_place(action)}?")
        case "deny":
            return _not_allowed(f"Rule {name} forbids {_request(action)}.", api)


def _not_allowed(reason: str, api: Api) -> Deny:
    allowed = join_listed(
        _describe_allowed(rule, api.rules[:n]) for n, rule in enumerate(api.rules) if rule.action != "deny"
    )
    return Deny(
        code="method_or_path_not_allowed",
        reason=reason,
        hint=f"{f'Allowed may be: {allowed}.' if allowed else 'It allows nothing.'} {FINAL}",
    )


def _describe_allowed(rule: Rule, before: Sequence[Rule]) -> str:
    """Describe the requests that a rule allows, and the exceptions that earlier rules deny."""
    denied = " and ".join(
        _describe_denied(other) for other in before if other.action == "deny" and _may_meet(rule, other)
    )
    # The allowed requests matter more than a long list of exceptions, which would not fit.
    exceptions = denied if len(denied) <= _EXCEPTIONS else "what is denied before"
    wide = f"{'|'.join(rule.methods) or 'any method'} {'|'.join(rule.paths) or 'any path'}"
    return f"{wide} except {exceptions}" if exceptions else wide


def _describe_denied(rule: Rule) -> str:
    return " ".join(filter(None, ("|".join(rule.methods), "|".join(rule.paths)))) or "everything"


def _may_meet(one: Rule, other: Rule) -> bool:
    methods = not (one.methods and other.methods) or not {*one.methods}.isdisjoint(other.methods)
    paths = not (one.paths and other.paths) or any(
        _begins_alike(path, pattern) for path in one.paths for pattern in other.paths
    )
    return methods and paths


def _begins_alike(one: str, other: str) -> bool:
    first, second = one.partition("*")[0], other.partition("*")[0]
    return first.startswith(second) or second.startswith(first)


def _not_there(authority: Authority, granted: Sequence[Authority]) -> Deny:
    """The refusal of a granted host under another scheme or port. ``yolo`` does not help: the operator has set both."""
    schemes = {place.scheme for place in granted}
    plain = authority.scheme == "http" and "http" not in schemes and "https" in schemes
    return Deny(
        code="plain_http_not_granted" if plain else "port_not_granted",
        reason=f"{authority.scheme} to {authority.host} on port {authority.port} is not granted.",
        hint=f"Granted is: {join_listed(str(place) for place in granted)}. {FINAL}",
    )


def _unknown_host(egress: Egress, host: str) -> Deny:
    return Deny(
        code="host_not_granted",
        reason=f"No API that this program may use names the host {quote_sent(host)}.",
        hint=f"{_reachable(egress)} {FINAL}",
    )


def _reachable(egress: Egress) -> str:
    apis = join_listed(f"{name} ({', '.join(api.hosts)})" for name, api in sorted(egress.apis.items()) if api.active)
    public = "Any public host name is open to https on port 443 and http on port 80." if egress.yolo else ""
    return " ".join(filter(None, (f"Reachable: {apis}." if apis else "", public))) or "Nothing can be reached."


def _request(action: Fetch) -> str:
    return f"{action.method} {quote_sent(action.path)}"


def _place(action: Fetch) -> Authority:
    return Authority(action.scheme, action.host, action.port)
