"""What the agent is told of the APIs that its programs may call: enough to write a request, in few tokens."""

from gloveport.model import Value
from gloveport.model.egress import Api, Auth, Egress, Placeholder, Rule

_METHODS = "any method"


class ApiOutline(Value):
    """One API, as the agent sees it."""

    name: str
    description: str = ""
    hosts: tuple[str, ...]
    rules: tuple[str, ...] = ()
    """What may be asked of it, the first that fits decides; none: everything."""
    auth: str = ""
    """How credentials get into a request."""
    reference: str | None = None
    types: str = ""


class Apis(Value):
    """All that programs may reach."""

    apis: tuple[ApiOutline, ...] = ()
    any_public_host: bool = False
    """Whether every public host may be reached as well, without credentials."""


def described(egress: Egress, name: str | None) -> Apis:
    """The active APIs, without their types; or the one of this name, with them."""
    active = sorted((known, api) for known, api in egress.apis.items() if api.active and name in {None, known})
    return Apis(
        apis=tuple(_outline(known, api, api.types if name else "") for known, api in active),
        any_public_host=egress.yolo,
    )


def apis_text(apis: Apis) -> str:
    """The same for a model to read: a few lines for each."""
    parts = [_text(api) for api in apis.apis]
    if apis.any_public_host:
        parts.append("Every public host may be reached as well, without credentials.")
    return "\n".join(parts) or "No API: programs have no network."


def _outline(name: str, api: Api, types: str) -> ApiOutline:
    return ApiOutline(
        name=name,
        description=api.description,
        hosts=api.hosts,
        rules=tuple(map(_rule, api.rules)),
        auth="; ".join(dict.fromkeys(map(_auth, api.auth))),
        reference=api.reference,
        types=types,
    )


def _text(api: ApiOutline) -> str:
    lines = [f"{api.name}: {api.description}".rstrip(": "), f"  hosts: {', '.join(api.hosts)}"]
    if api.rules:
        lines.append(f"  rules: {'; '.join(api.rules)}; else deny")
    if api.auth:
        lines.append(f"  auth: {api.auth}")
    if api.reference:
        lines.append(f"  reference: {api.reference}")
    if api.types:
        lines.append(api.types)
    return "\n".join(lines)


def _rule(rule: Rule) -> str:
    return " ".join((rule.action, ",".join(rule.methods) or _METHODS, ",".join(rule.paths))).rstrip()


def _auth(auth: Auth) -> str:
    if isinstance(auth, Placeholder):
        return f"put the value of the environment variable {auth.name} into {' or '.join(auth.places)}"
    return "added to each request; send none"
