"""Renders a result as text for a model or a person. Nothing is said about parts that the result does not have."""

import json

from gloveport.model import Failure, Result
from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.artifact_text import artifact_lines
from gloveport.server.rendering.session_text import session_lines


def answer(result: Result) -> str:
    """Render the whole result: status first, then value, output and failure, then hints."""
    parts = [_status(result), *_cut(result)]
    if value := value_text(result):
        parts.append(f"value:\n{value}" if "\n" in value else f"value: {value}")
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        if output.text:
            parts.append(f"{name}:\n{output.text.rstrip()}")
    if result.error is not None and result.error.type != "exit":  # the first line has the exit code
        parts.append(f"error:\n{failure_text(result.error)}")
    parts += refusals(result)
    parts += artifact_lines(result.artifacts)
    if result.session is not None:
        parts += session_lines(result.session)
    if result.hint:
        parts.append(f"hint: {result.hint}")
    return "\n".join(parts)


def _cut(result: Result) -> list[str]:
    """Write a line for each cut stream, to go before the output: some clients show only an answer's beginning."""
    return [
        f"{name} is cut: read_output(output_ref={output.handle!r}) has all {output.total_bytes} bytes"
        for name, output in (("stdout", result.stdout), ("stderr", result.stderr))
        if output.handle is not None
    ]


def refusals(result: Result) -> list[str]:
    """Write a line for each listed request that was refused or failed; the program knows about the others itself.

    The hint for one kind is written once.
    """
    lines: list[str] = []
    explained: set[str] = set()
    for request in result.requests:
        if request.code:
            reason = f": {plain(request.reason)}" if request.reason and request.code not in explained else ""
            explained.add(request.code)
            what = " ".join(filter(None, (request.method, plain(request.url))))
            lines.append(f"no answer ({request.code}) to {what or 'a request'}{reason}")
    if lines and result.requests_total > len(result.requests):
        lines.append(f"of {result.requests_total} requests the first {len(result.requests)} are listed")
    return lines


def value_text(result: Result) -> str:
    """Render the value as JSON, or the text in its place; empty if there is none, or the output shows it already."""
    if result.value is None or result.language == "shell":  # a shell program's value is its output, parsed
        return ""
    if result.value_type is not None and isinstance(result.value, str):
        return plain(result.value)
    return plain(json.dumps(result.value, ensure_ascii=False))


def failure_text(error: Failure) -> str:
    """Render a failure as the language's interpreter would print it."""
    named = error.message and error.type not in {"exit", "signal"}  # the messages of these two name the type
    head = f"{error.type}: {error.message}" if named else error.message or error.type
    if error.traceback.strip():  # the traceback ends with the same line
        head = ""
    return plain("\n".join(part.rstrip() for part in (error.traceback, head) if part.strip()))


def _status(result: Result) -> str:
    """Write the first line: ``killed (memory_bytes), exit code 137, 31 ms, 2 requests, run-…``."""
    line: str = result.status
    if result.limits_hit:
        line += f" ({', '.join(result.limits_hit)})"
    if result.exit_code:
        line += f", exit code {result.exit_code}"
    if result.usage.wall_ms or result.status in {"ok", "error", "timeout", "killed"}:
        line += f", {result.usage.wall_ms} ms"
    for count, what in ((result.requests_total, "request"), (result.tool_calls_total, "tool call")):
        if count:
            line += f", {count} {what}{'' if count == 1 else 's'}"
    return f"{line}, {result.run_id}"
