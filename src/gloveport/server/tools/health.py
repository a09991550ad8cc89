"""Checks what the server can do at this moment, for the tool ``health``."""

from collections.abc import Sequence
from typing import Literal

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
