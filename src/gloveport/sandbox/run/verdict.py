"""Judges the outcome of a run: status, limits hit, failure and hint, as the answer says them. Pure.

The observations of the kernel and the host decide. The guest's report only adds what it alone knows (the value, the
exception, an errno), and is taken as text and numbers of the right shape, or not at all.
"""

import errno
import signal
from typing import Annotated, NamedTuple

from gloveport.model import OUT, SCRATCH, Failure, LimitName, Status, Value
from gloveport.model.constraints import Constraints
from gloveport.model.json_value import JsonValue
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.sandbox.base import Outcome

_TEXT = Annotated[str, Constraints(max_length=1 << 16)]


class _ReportedError(Value):
    type: _TEXT
    message: _TEXT
    traceback: _TEXT
    errno: int | None
    is_scratch_full: bool | None = None


class _GuestReport(Value):
    value: JsonValue  # it was read as JSON
    value_type: _TEXT | None
    value_truncated: bool
    error: _ReportedError | None
    exit_code: Annotated[int, Constraints(ge=-(1 << 31), lt=1 << 31)]
    signal: Annotated[int, Constraints(ge=1, le=64)] | None = None
    shown: JsonValue = None
    """Its claims about files that it left, which ``engine/artifacts.py`` judges."""


class RunVerdict(NamedTuple):
    """The judged part of a result."""

    status: Status
    value: JsonValue
    value_type: str | None
    error: Failure | None
    exit_code: int | None
    limits_hit: tuple[LimitName, ...]
    hint: str


_BY_ERRNO: dict[int, LimitName] = {
    errno.EMFILE: "open_files",
    errno.EFBIG: "file_bytes",
    errno.ENOSPC: "scratch_bytes",
    errno.ENOMEM: "memory_bytes",
}
_BY_SIGNAL: dict[int, LimitName] = {signal.SIGXFSZ: "file_bytes", signal.SIGXCPU: "cpu_seconds"}

# Messages of libc, the shells and V8: only consulted if a run failed and nothing better is known.
_BY_TEXT: dict[str, LimitName] = {
    "Too many open files": "open_files",
    "File size limit exceeded": "file_bytes",
    "File too large": "file_bytes",
    "No space left on device": "scratch_bytes",
    "Cannot allocate memory": "memory_bytes",
    "alloc: cannot allocate": "memory_bytes",
    "Fatal JavaScript out of memory": "memory_bytes",
    "Fatal process out of memory": "memory_bytes",
    "CPU time limit exceeded": "cpu_seconds",
    "fork: Resource temporarily unavailable": "processes",
    "fork: retry: Resource temporarily unavailable": "processes",
    "can't start new thread": "processes",
}

_HINTS: dict[LimitName, str] = {
    "wall_seconds": "ask for a longer timeout_seconds, if the grant allows it, or do less in one run",
    "cpu_seconds": "do less work in one run",
    "memory_bytes": f"hold less in memory at once; files in {SCRATCH} count too",
    "processes": "run fewer processes and threads at the same time",
    "open_files": "close files and sockets that are no longer needed",
    "file_bytes": "write smaller files",
    "out_bytes": f"{OUT} is full: leave less there, or smaller files",
    "scratch_bytes": f"{SCRATCH} is full: write less, or delete what is no longer needed",
    "stored_output_bytes": "print less",
    "output_bytes": "print less: the answer shows head and tail",
}


def judge(outcome: Outcome, *, stderr: str, truncated: bool) -> RunVerdict:
    """The verdict on a run that was started. ``stderr`` is what the answer shows of it; ``truncated`` is whether the
    answer can't show all output.
    """
    report = _parse(outcome.report)
    code = outcome.exit_code
    failed = outcome.killed_by is not None or code != 0
    claimed = report.signal if report and failed else None  # a successful run's claimed signal is not believed
    ended_by = claimed or (code - 128 if code is not None and code > 128 else None)
    hit: dict[LimitName, None] = {}
    if outcome.killed_by is not None:
        hit[outcome.killed_by] = None
    if failed:
        hit |= dict.fromkeys(_evidence(report, ended_by, stderr, outcome))
        if outcome.refused_forks is None and report and report.error and report.error.errno == errno.EAGAIN:
            hit["processes"] = None
    if outcome.refused_forks:
        hit["processes"] = None
    if truncated or (report is not None and report.value_truncated):
        hit["output_bytes"] = None
    limits_hit = tuple(hit)
    status = _status(outcome.killed_by, ended_by, limits_hit, failed=failed)
    return RunVerdict(
        status=status,
        value=report.value if report and not failed else None,
        value_type=report.value_type if report and not failed else None,
        error=_failure(report, code, ended_by) if status == "error" or (failed and report and report.error) else None,
        exit_code=code,
        limits_hit=limits_hit,
        hint=_hint(limits_hit, truncated=truncated),
    )


def _hint(limits_hit: tuple[LimitName, ...], *, truncated: bool) -> str:
    if limits_hit == ("output_bytes",) and not truncated:
        return "the value was cut: print it, or return less"
    return _HINTS.get(limits_hit[0], "") if limits_hit else ""


def _parse(report: JsonValue) -> _GuestReport | None:
    try:
        return read_value(_GuestReport, report) if isinstance(report, dict) else None
    except WrongShapeError:
        return None


def _evidence(report: _GuestReport | None, ended_by: int | None, stderr: str, outcome: Outcome) -> list[LimitName]:
    """Limits that a failed run has hit, by signal, else errno, else its last words."""
    if ended_by in _BY_SIGNAL:
        return [_BY_SIGNAL[ended_by]]
    if report is not None and report.error is not None:
        error = report.error
        if error.errno == errno.ENOSPC and error.is_scratch_full is not True and outcome.is_out_full:
            return ["out_bytes"]
        if error.errno == errno.ENOSPC and error.is_scratch_full is False:
            return []  # out of terminals, or a disk of the host is full
        if error.errno in _BY_ERRNO:
            return [_BY_ERRNO[error.errno]]
        if error.type == "MemoryError":
            return ["memory_bytes"]
        stderr = f"{error.message}\n{stderr}"
    found = [limit for text, limit in _BY_TEXT.items() if text in stderr][:1]
    return ["out_bytes"] if found == ["scratch_bytes"] and outcome.is_out_full else found


def _status(
    killed_by: LimitName | None, ended_by: int | None, limits_hit: tuple[LimitName, ...], *, failed: bool
) -> Status:
    if killed_by == "wall_seconds":
        return "timeout"
    if killed_by is not None or (ended_by is not None and limits_hit):
        return "killed"
    return "error" if failed else "ok"


def _failure(report: _GuestReport | None, code: int | None, ended_by: int | None) -> Failure:
    """The failure, in the guest's words if it has any."""
    if report is not None and report.error is not None:
        error = report.error
        return Failure(type=error.type, message=error.message, traceback=error.traceback)
    if ended_by is not None:
        try:
            name = signal.Signals(ended_by).name
        except ValueError:
            name = f"signal {ended_by}"
        return Failure(type="signal", message=f"ended by {name}")
    return Failure(type="exit", message=f"exit code {code}")
