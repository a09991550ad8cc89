"""A result as text, for a model or a person to read: what is there, and nothing about what is not."""

import json

from gloveport.model import Failure, Result
from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.artifact_text import artifact_lines
from gloveport.server.rendering.session_text import session_lines


def answer(result: Result) -> str:
    """The whole result as text: status first, then value, output and failure, then what can be done."""
    parts = [_status(result), *_cut(result)]
    if value := value_text(result):
        parts.append(f"value:\n{value}" if "\n" in value else f"value: {value}")
    for name, output in (("stdout", result.stdout), ("stderr", result.stderr)):
        if output.text:
            parts.append(f"{name}:\n{output.text.rstrip()}")
    if result.error is not None and result.error.type != "exit":  # whose code the first line has
        parts.append(f"error:\n{failure_text(result.error)}")
    parts += refusals(result)
    parts += artifact_lines(result.artifacts)
    if result.session is not None:
        parts += session_lines(result.session)
    if result.hint:
        parts.append(f"hint: {result.hint}")
    return "\n".join(parts)


def _cut(result: Result) -> list[str]:
    """A line for each stream that is cut, before all output: of a long answer some clients show the beginning alone."""
    return [
        f"{name} is cut: read_output(output_ref={output.handle!r}) has all {output.total_bytes} bytes"
        for name, output in (("stdout", result.stdout), ("stderr", result.stderr))
        if output.handle is not None
    ]


def refusals(result: Result) -> list[str]:
    """A line for each listed request that was refused or failed: of the others the program has an answer.

    What is said of one kind is said once.
    """
    lines: list[str] = []
    said: set[str] = set()
    for request in result.requests:
        if request.code:
            reason = f": {plain(request.reason)}" if request.reason and request.code not in said else ""
            said.add(request.code)
            what = " ".join(filter(None, (request.method, plain(request.url))))
            lines.append(f"no answer ({request.code}) to {what or 'a request'}{reason}")
    if lines and result.requests_total > len(result.requests):
        lines.append(f"of {result.requests_total} requests the first {len(result.requests)} are listed")
    return lines


def value_text(result: Result) -> str:
    """The value as JSON, or as the text that stands for it; empty when there is none that the output does not show."""
    if result.value is None or result.language == "shell":  # a shell program's value is its output, parsed
        return ""
    if result.value_type is not None and isinstance(result.value, str):
        return plain(result.value)
    return plain(json.dumps(result.value, ensure_ascii=False))


def failure_text(error: Failure) -> str:
    """A failure as the language's interpreter would print it."""
    named = error.message and error.type not in {"exit", "signal"}  # which the message says itself
    head = f"{error.type}: {error.message}" if named else error.message or error.type
    if error.traceback.strip():  # which ends in the same words
        head = ""
    return plain("\n".join(part.rstrip() for part in (error.traceback, head) if part.strip()))


def _status(result: Result) -> str:
    """One line: ``killed (memory_bytes), exit code 137, 31 ms, 2 requests, run-…``."""
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
