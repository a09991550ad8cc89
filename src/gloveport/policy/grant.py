"""From policy and request to a grant. Whatever a caller asks for, the grant never exceeds the operator's policy."""

from gloveport.errors import Denied
from gloveport.model import Grant, Limits, Narrowing, Policy, Request
from gloveport.model.egress import Egress
from gloveport.policy.wording import FINAL, listed, shown


def grant_for(policy: Policy, egress: Egress, request: Request) -> Grant:
    """Intersect what the operator allows with what the caller asks for.

    The languages are the policy's: which of them the program is in is for ``decide`` to judge.

    Raises:
        Denied: The request names an API that there is not, or that is not active.
    """
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        limits=_narrowed(policy, request.limits),
        egress=_reach(egress, request.apis),
    )


def _reach(egress: Egress, asked: tuple[str, ...] | None) -> Egress:
    """Active APIs only; a request that names APIs reaches those alone, so nothing by ``yolo``.

    Where nothing is taken away it is the very same value, whose index (``policy.hosts``) exists already.
    """
    active = {name: api for name, api in egress.apis.items() if api.active}
    if asked is None:
        return egress if len(active) == len(egress.apis) else egress.model_copy(update={"apis": active})
    for name in asked:
        if name not in active:
            known = f"There are: {listed(sorted(active))}." if active else "There are none."
            raise Denied("unknown_api", f"There is no API {shown(name)}.", hint=f"{known} {FINAL}")
    return egress.model_copy(update={"apis": {name: active[name] for name in asked}, "yolo": False})


def _narrowed(policy: Policy, asked: Narrowing) -> Limits:
    """Lower the policy's ceilings to what was asked; a limit that nobody named keeps its ceiling or default."""
    ceiling = policy.limits
    wanted = {"wall_seconds": policy.default_wall_seconds}
    # Over the fields of Narrowing, so that one added there is honoured here; one that Limits lacks fails at once.
    wanted |= {name: value for name, value in asked if value is not None}
    return ceiling.model_copy(update={name: min(value, getattr(ceiling, name)) for name, value in wanted.items()})
