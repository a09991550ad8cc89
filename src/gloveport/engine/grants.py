"""Caches the grant of each request and the plan of its sandbox: few requests differ in them."""

from collections.abc import Callable
from typing import TypeVar

from msgspec import Struct, field

from gloveport.engine.reach import Reach
from gloveport.engine.run_context import Execution
from gloveport.engine.session import Session
from gloveport.errors import Denied
from gloveport.model import Grant, Limits, Mount, Narrowing, Policy, Program, Request
from gloveport.model.hub import Sampling
from gloveport.model.packages import PackageRules
from gloveport.policy.decisions.grant import grant_for, retain_unchanged
from gloveport.sandbox.plan import Plan, System, let_last, make_plan

Key = TypeVar("Key")
Item = TypeVar("Item")

_MOST_REMEMBERED = 64


class GrantCache(Struct, frozen=True, kw_only=True):
    """Grants and plans under one policy on one host.

    Attributes:
        session_seconds: How long a session lasts.
        packages: What programs may ask for.
        writable: The mount of the policy that programs may write to; None where it has none.
    """

    policy: Policy
    system: System
    session_seconds: float
    packages: PackageRules
    writable: Mount | None
    _grants: dict[tuple[Reach, Narrowing, tuple[str, ...] | None, tuple[str, ...] | None], Grant] = field(
        default_factory=dict
    )
    _texts: dict[int, tuple[Grant, str]] = field(default_factory=dict)
    _plans: dict[tuple[Reach, str, tuple[str, ...], Narrowing, tuple[Mount, ...] | None, str], Plan] = field(
        default_factory=dict
    )

    def write_out(self, grant: Grant) -> str:
        """The grant as JSON. Most grants were made here before."""
        entry = self._texts.get(id(grant))
        if entry is None or entry[0] is not grant:
            if len(self._texts) >= _MOST_REMEMBERED:
                self._texts.clear()
            entry = self._texts[id(grant)] = grant, grant.model_dump_json()
        return entry[1]

    def grant(self, reach: Reach, request: Request) -> Grant:
        """``grant_for`` with a cache: a grant depends only on a request's limits, APIs and tools.

        Raises:
            Denied: The policy has no such grant.
        """
        return _get_or_make(
            self._grants,
            (reach, request.limits, request.apis, request.tools),
            lambda: self._make_grant(reach, request),
        )

    def _make_grant(self, reach: Reach, request: Request) -> Grant:
        grant = grant_for(self.policy, reach.egress, request, toolbox=reach.toolbox, sampling=reach.sampling)
        grant = grant.model_copy(update={"packages": self.packages, "skills": reach.skills})
        if self.writable is None:
            return grant
        mounts = tuple(mount for mount in grant.mounts if mount != self.writable)
        return grant.model_copy(update={"mounts": mounts, "writable": (self.writable,)})

    def _mounts_left(self, grant: Grant) -> tuple[Mount, ...] | None:
        """The mounts that a skill sees, if fewer than the policy's; None if it sees all."""
        mounts = (*grant.mounts, *grant.writable)
        return None if len(mounts) == len(self.policy.mounts) else mounts

    def plan(self, run: Execution, program: Program) -> Plan:
        """``make_plan`` with a cache: within a language, a plan depends on the program's imports and a skill's
        mounts.
        """
        if run.depth:  # its limits are what its calling program has left, and no request's
            return self._make_plan(run, program)
        language = "session" if program.session else run.request.language
        address = "" if run.environment is None else run.environment.address
        return _get_or_make(
            self._plans,
            (run.reach, language, program.preload, run.request.limits, self._mounts_left(run.guard.grant), address),
            lambda: self._make_plan(run, program),
        )

    def plan_ahead(self, run: Execution, program: Program) -> Plan:
        """The same for a request of all that the policy gives."""
        return self._make_plan(run, program, self.policy.limits)

    def _make_plan(self, run: Execution, program: Program, limits: Limits | None = None) -> Plan:
        grant, system = run.guard.grant, self.system
        if limits is not None:
            grant = grant.model_copy(update={"limits": limits})
        if (environment := run.environment) is not None:  # its packages replace the data packages
            if environment.env:
                system = system.model_copy(update={"packages": (), "env": environment.env})
            program = program.model_copy(update={"binds": (*program.binds, *environment.mounts)})
        plan = make_plan(program, grant, system, run.reach.network)
        return plan if program.session is None else let_last(plan, self.session_seconds)


def session_grant(session: Session, request: Request, request_grant: Grant, now: Reach) -> Grant:
    """The grant of a call: its session's first grant, as far as the configuration still allows the same.

    Raises:
        Denied: The call asks for something else.
    """
    others = [limit for name, limit in request.limits.items() if name != "wall_seconds"]
    if any(setting is not None for setting in (*others, request.apis, request.tools, request.environment)):
        raise Denied(
            "session_fixed",
            "What a session may use and reach is decided when it begins.",
            hint='leave out memory_mib, apis, tools and environment, or begin another with session="new"',
        )
    grant, egress, limits = session.grant, session.grant.egress, session.grant.limits
    if limits.wall_seconds != request_grant.limits.wall_seconds:
        limits = limits.model_copy(update={"wall_seconds": request_grant.limits.wall_seconds})
    if now is session.reach:
        return grant if limits is grant.limits else grant.model_copy(update={"limits": limits})
    before = session.reach
    left = retain_unchanged(egress, before.egress, now.egress)
    servers = {n: one for n, one in grant.toolbox.servers.items() if now.servers.get(n) == before.servers.get(n)}
    session.narrowed = (
        *(f"the API {name}" for name, api in egress.apis.items() if left.apis.get(name) != api),
        *(f"the tools of {name}" for name in grant.toolbox.servers if name not in servers),
        *(["every other host"] if egress.yolo and not left.yolo else []),
        *(["the language model"] if grant.sampling.enabled and now.sampling != before.sampling else []),
    )
    return grant.model_copy(
        update={
            "limits": limits,
            "languages": request_grant.languages,
            "egress": left,
            "toolbox": grant.toolbox.model_copy(update={"servers": servers}),
            "sampling": grant.sampling if now.sampling == before.sampling else Sampling(),
        }
    )


def _get_or_make(cache: dict[Key, Item], key: Key, make: Callable[[], Item]) -> Item:
    """The cached value of this key, made if missing. Callers may ask for any limits, so the cache is bounded."""
    item = cache.get(key)
    if item is None:
        if len(cache) >= _MOST_REMEMBERED:
            cache.clear()
        item = cache[key] = make()
    return item
