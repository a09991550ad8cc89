"""Renders the APIs that programs may call: enough to write a request, in few tokens."""

from collections.abc import Iterator

from gloveport.model.egress import Api, Auth, Egress, Placeholder, Postgres, Redis, Rule


def apis_text(egress: Egress, name: str | None) -> str:
    """Describe the active APIs, a few lines each; or the one of this name, with its types; empty if there is none."""
    if name is not None:
        api = egress.apis.get(name)
        return "\n".join((*_lines(name, api), *api.types.splitlines())) if api and api.active else ""
    lines = [line for api_name, api in sorted(egress.apis.items()) if api.active for line in _lines(api_name, api)]
    if egress.yolo:
        lines.append("Every public host may be reached as well, without credentials.")
    return "\n".join(lines) or "None: programs have no network."


def _lines(name: str, api: Api) -> Iterator[str]:
    yield f"{name}: {api.description}" if api.description else name
    yield f"  hosts: {', '.join(api.hosts)}"
    if api.rules:
        yield f"  rules: {'; '.join(map(_rule, api.rules))}; else deny"
    for auth in dict.fromkeys(map(_auth, api.auth)):
        yield f"  auth: {auth}"
    if api.reference:
        yield f"  reference: {api.reference}"
    if api.types:
        yield "  types: of programs that name it in `apis`"


def _rule(rule: Rule) -> str:
    return " ".join((rule.action, ",".join(rule.methods) or "any method", ",".join(rule.paths))).rstrip()


def _auth(auth: Auth) -> str:
    if isinstance(auth, Placeholder):
        return f"put the value of environment variable {auth.name} into {' or '.join(auth.places)}"
    if isinstance(auth, Postgres):
        to = f" to database {' or '.join(auth.databases)}" if auth.databases else ""
        return f"logged in on the way; connect{to} without user and password"
    if isinstance(auth, Redis):
        return "logged in on the way; connect without user and password"
    return "added on the way; send none"
