"""From policy and request to a grant. Whatever a caller asks for, the grant never exceeds the operator's policy."""

from gloveport.model import Grant, Limits, Narrowing, Policy, Request


def grant_for(policy: Policy, request: Request) -> Grant:
    """Intersect the operator's policy with what the caller asks for.

    The languages are the policy's: which of them the program is in is for ``decide`` to judge.
    """
    return Grant(
        languages=policy.languages,
        mounts=policy.mounts,
        unix_sockets=policy.unix_sockets,
        limits=_narrowed(policy, request.limits),
    )


def _narrowed(policy: Policy, asked: Narrowing) -> Limits:
    """Lower the policy's ceilings to what was asked; a limit that nobody named keeps its ceiling or default."""
    ceiling = policy.limits
    wanted = {"wall_seconds": policy.default_wall_seconds}
    # Over the fields of Narrowing, so that one added there is honoured here; one that Limits lacks fails at once.
    wanted |= {name: value for name, value in asked if value is not None}
    return ceiling.model_copy(update={name: min(value, getattr(ceiling, name)) for name, value in wanted.items()})
