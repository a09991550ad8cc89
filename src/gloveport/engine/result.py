"""Builds the result of one execution for the caller, and its facts for the audit log."""

import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from gloveport.egress.outbound_session import RequestJournal
from gloveport.engine.live import Streams
from gloveport.engine.run_context import Execution
from gloveport.errors import Denied
from gloveport.hub.ledger import Ledger
from gloveport.late_libraries import pydantic_core
from gloveport.late_module import late_module
from gloveport.limits.untrusted_json import has_infinity
from gloveport.model import Failure, Grant, LimitName, Limits, Output, Request, Result, SessionState, Usage, Value
from gloveport.model.artifact import Artifacts
from gloveport.model.json_value import JsonValue
from gloveport.runtimes import Runtime
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.run.capture import plain
from gloveport.sandbox.run.verdict import judge

if TYPE_CHECKING:
    from gloveport.engine import hints
else:
    hints = late_module("gloveport.engine.hints")

Model = TypeVar("Model", bound=Value)

_LIMIT_OF_DENIAL: dict[str, LimitName] = {
    "code_too_large": "code_bytes",
    "files_too_large": "input_bytes",
    "queue_full": "queue_length",
    "queue_timeout": "queue_seconds",
}


def result_of(
    run: Execution,
    outcome: Outcome,
    *,
    streams: Streams,
    storage_failure: str,
    artifacts: Artifacts,
    session: SessionState | None,
    clean: Callable[[str], str],
    runtime: Runtime,
) -> Result:
    """The result of a run that is over. Texts that the program chose are made harmless here, except its value.
    ``storage_failure``: why output could not be stored, if that has ended the run. ``clean`` takes secrets out of a
    text: removed escape sequences may have hidden one.
    """

    def scrub_texts(model: Model) -> Model:
        texts = {name: clean(plain(text)) for name, text in model.items() if isinstance(text, str)}
        return model.model_copy(update=texts)

    request, grant, journal, ledger = run.request, run.guard.grant, run.journal, run.ledger
    verdict = judge(
        outcome, stderr=streams["stderr"].text, truncated=any(output.truncated for output in streams.values())
    )
    hint = storage_failure or verdict.hint
    is_told = any(request.code for request in journal.listed)  # a refusal carries its own hint
    if verdict.error is not None and not verdict.limits_hit and not is_told:
        hint = hints.find_hint(verdict.error, streams["stderr"].text, grant, runtime.packages)
    value = verdict.value
    if request.language == "shell" and verdict.status == "ok":
        value = _json_or_none(streams["stdout"])
    return Result(
        run_id=run.id,
        language=request.language,
        status=verdict.status,
        value=value,
        value_type=None if verdict.value_type is None else clean(plain(verdict.value_type)),
        stdout=streams["stdout"],
        stderr=streams["stderr"],
        error=None if verdict.error is None else scrub_texts(verdict.error),
        exit_code=verdict.exit_code,
        limits_hit=(*verdict.limits_hit, *_find_spent_limits(grant.limits, journal, ledger)),
        hint=hint,
        usage=Usage(
            wall_ms=round(outcome.wall_seconds * 1000),
            cpu_ms=None if outcome.cpu_seconds is None else round(outcome.cpu_seconds * 1000),
            peak_memory_bytes=outcome.peak_memory_bytes,
        ),
        requests=tuple(map(scrub_texts, journal.listed)),
        requests_total=journal.total,
        tool_calls=tuple(map(scrub_texts, ledger.listed)),
        tool_calls_total=ledger.total,
        artifacts=artifacts,
        session=session,
        environment="" if run.environment is None else run.environment.label,
        grant=grant,
    )


def refusal(run_id: str, request: Request, grant: Grant, denial: Denied) -> Result:
    """The result of a run that was refused."""
    limit = _LIMIT_OF_DENIAL.get(denial.code)
    return Result(
        run_id=run_id,
        language=request.language,
        status="denied",
        error=Failure(type=denial.code, message=denial.reason),
        limits_hit=(limit,) if limit else (),
        hint=denial.hint,
        grant=grant,
    )


def facts(result: Result, grant: str) -> dict[str, JsonValue]:
    """The audit log's facts about an ended run: sizes and outcome, nothing that the program wrote.

    ``grant``: the result's grant as JSON.
    """
    body = result.model_dump_json(exclude={"grant"})
    return {
        "status": result.status,
        "limits_hit": list(result.limits_hit),
        "exit_code": result.exit_code,
        "wall_ms": result.usage.wall_ms,
        "cpu_ms": result.usage.cpu_ms,
        "peak_memory_bytes": result.usage.peak_memory_bytes,
        "stdout_bytes": result.stdout.total_bytes,
        "stderr_bytes": result.stderr.total_bytes,
        "requests": result.requests_total,
        "tool_calls": result.tool_calls_total,
        "artifacts": len(result.artifacts.files),
        "artifact_bytes": sum(one.bytes for one in result.artifacts.files),
        "result_sha256": hashlib.sha256(f'{body[:-1]},"grant":{grant}}}'.encode()).hexdigest(),
    }


def _find_spent_limits(limits: Limits, journal: RequestJournal, ledger: Ledger) -> tuple[LimitName, ...]:
    """The limits on requests through its doors that a run has reached."""
    counted: tuple[tuple[LimitName, int, int], ...] = (
        ("requests", journal.total, limits.requests),
        ("tool_calls", ledger.total, limits.tool_calls),
        ("tool_bytes", ledger.bytes, limits.tool_bytes),
    )
    return tuple(name for name, used, most in counted if used > most)


def _json_or_none(stdout: Output) -> JsonValue:
    """A shell program's value: its output as command substitution would yield it, if that is one JSON document.

    A number beyond every float is none, as ``Infinity`` is: it was read as infinity, and null would stand in its place.
    """
    try:
        value: JsonValue = None if stdout.truncated else pydantic_core.from_json(stdout.text, allow_inf_nan=False)
    except ValueError:
        return None
    return None if has_infinity(value) else value
