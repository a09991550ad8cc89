"""Checks what the server can do at this moment, for the tool ``health``."""

import math
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Literal

import anyio
from msgspec import Struct, field

from gloveport.audit.log import AuditLog
from gloveport.errors import AuditError
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import Value
from gloveport.sandbox.detection.probe import Check


class Health(Value):
    """What the server can do at this moment, found by trying."""

    status: Literal["ok", "busy", "failing"]
    """``busy``: a new run would be refused or has to wait. ``failing``: a layer or the audit log is missing."""

    running: int
    waiting: int
    concurrent_runs: int
    queue_length: int
    checks: tuple[Check, ...]


class SharedInspection(Struct, kw_only=True):
    """Inspects the host for all who ask: one at a time, since it takes no place in the queue of runs, and one for all
    who asked before it began.

    Attributes:
        inspect: Tries every isolation layer of this host.
    """

    inspect: Callable[[], Awaitable[list[Check]]]
    _turn: anyio.Lock = field(default_factory=anyio.Lock)
    _began: float = -math.inf
    _checks: list[Check] = field(default_factory=list)

    async def checks(self) -> list[Check]:
        """The outcome of an inspection that begins from now on."""
        request_time = time.monotonic()
        async with self._turn:
            if self._began <= request_time:
                began = time.monotonic()
                self._checks = await self.inspect()
                self._began = began
            return self._checks


def health_of(admission: AdmissionQueue, checks: Sequence[Check]) -> Health:
    """Judge the health by these checks."""
    full = admission.running >= admission.concurrent_runs
    missing = any(check.state == "missing" for check in checks)
    return Health(
        status="failing" if missing else "busy" if full else "ok",
        running=admission.running,
        waiting=admission.waiting,
        concurrent_runs=admission.concurrent_runs,
        queue_length=admission.queue_length,
        checks=tuple(checks),
    )


def audit_check(audit: AuditLog, caller: str) -> Check:
    """Check whether a record can be written now: only an attempt shows a full disk."""
    try:
        audit.append("health.asked", {"caller": caller})
    except AuditError as error:
        return Check(name="audit", state="missing", detail=error.args[0], repair=error.hint)
    return Check(name="audit", state="enforced", detail="a record was written")


def health_text(health: Health) -> str:
    """Render the health as text."""
    lines = [f"{health.status}: {health.running} of {health.concurrent_runs} running, {health.waiting} waiting"]
    for check in health.checks:
        repair = f" hint: {check.repair}" if check.repair else ""
        lines.append(f"{check.state} {check.name}: {check.detail}{repair}")
    return "\n".join(lines)
