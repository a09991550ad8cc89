"""Makes the replies of a workspace's tools: fields for programs, a short text for the model.

All but ``wrong_arguments`` make them without the SDK's types, which would take a tenth of a short call's time.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

import mcp_types as wire
from msgspec.structs import replace

from gloveport.errors import AuditError, ConfigError, Denied, UnrecordedEndError, find_exhaustion
from gloveport.model.json_value import JsonValue
from gloveport.server.rendering.replies import to_wire
from gloveport.server.rendering.run_reply import RunReply
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace_service.service import Fields, WorkspaceService

Words: TypeAlias = Callable[[Fields], str]
"""Renders an answer's fields as text."""

_log = logging.getLogger(__name__)

_FACTS: Final = {
    "current_revision": "Revision now",
    "recovery_backups": "What was there lies in",
    "nearby_text": "The nearest lines",
}


def reply(fields: Fields, text: str) -> RunReply:
    """Make the answer to a call that was carried out."""
    return RunReply(text, structured={"ok": True, **fields})


def refusal(error: WorkspaceError | Denied, more: Mapping[str, JsonValue] | None = None) -> RunReply:
    """Make the answer to a call that was refused. ``more``: fields besides the error."""
    problem = error if isinstance(error, WorkspaceError) else _permission(error)
    if (exhausted := find_exhaustion(error)) is not None:
        problem = WorkspaceError("SANDBOX_UNAVAILABLE", exhausted[0], hint=exhausted[1], retryable=True)
    details = {**problem.details, **({"retry_hint": problem.hint} if problem.hint else {})}
    facts: JsonValue = {
        "code": problem.code,
        "message": str(problem.args[0]),
        "category": problem.category,
        "retryable": problem.retryable,
        "details": details,
    }
    again = "yes" if problem.retryable else "no; the same call will fail again"
    lines = [*_heading(problem), f"Category: {problem.category}. Retryable: {again}."]
    if problem.hint:
        lines.append(f"Hint: {problem.hint}")
    lines += _facts(problem)
    return RunReply("\n".join(lines), is_error=True, structured={"ok": False, "error": facts, **(more or {})})


def clean_refusal(service: WorkspaceService, error: WorkspaceError | Denied) -> RunReply:
    """As ``refusal``, without our secrets: the error's details may quote a file."""
    answer = refusal(error)
    text, structured = service.sandboxes.engine.clean(answer.text), service.clean(answer.structured or {})
    return replace(answer, text=text, structured=dict(structured))


def wrong_arguments(what: str, faults: Sequence[str], hint: str) -> wire.CallToolResult:
    """Make the answer to a call with wrong arguments."""
    return to_wire(refusal(WorkspaceError("INVALID_ARGUMENT", "\n".join((what, *faults)), hint=hint)))


def unforeseen(tool: str, fault: Exception) -> RunReply:
    """Make the answer to a call that met our own fault. Only the log has details: they may name other callers' data."""
    if isinstance(fault, AuditError | ConfigError):  # as for programs: its text is for the owner, and no caller's
        again = not isinstance(fault, UnrecordedEndError)
        error = WorkspaceError("RUNTIME_DIR_UNWRITABLE", str(fault.args[0]), hint=fault.hint, retryable=again)
    elif isinstance(fault, WorkspaceError):
        return refusal(fault)
    else:
        _log.error("%s has failed", tool, exc_info=fault)
        hint = "its log says which: tell the owner"
        error = WorkspaceError("INTERNAL_ERROR", f"{tool} has met a fault of the server", hint=hint)
    error.__cause__ = fault
    return refusal(error)


def _heading(error: WorkspaceError) -> Iterator[str]:
    """Write what was wrong; for each gate its name for ``request_permissions``, what came to it, why, another way."""
    reasons = error.details.get("reasons")
    if not isinstance(reasons, list) or not reasons:
        yield f"{error.code}: {error.args[0]}"
        return
    each = [one for one in reasons if isinstance(one, Mapping)]
    yield f"{error.code}: {', '.join(dict.fromkeys(str(one['permission']) for one in each))}"
    for one in each:
        yield f"- {one['permission']} for `{one['piece']}`: {one['why']} {one['instead']}"


def _facts(error: WorkspaceError) -> Iterator[str]:
    """Write the facts that the next call needs: most models see only the text."""
    for name, words in _FACTS.items():
        if error.details.get(name):
            yield f"{words}: {error.details[name]}"
    candidates = error.details.get("candidates")
    if found := [one for one in candidates if isinstance(one, Mapping)] if isinstance(candidates, list) else []:
        yield f"Near lines {', '.join(str(one['line']) for one in found)}:"
        yield from dict.fromkeys(line for one in found for line in str(one["text"]).split("\n"))  # they are numbered


def _permission(denial: Denied) -> WorkspaceError:
    return WorkspaceError(
        "PERMISSION_REQUIRED", denial.reason, hint=denial.hint, retryable=False, details={"reason": denial.code}
    )
