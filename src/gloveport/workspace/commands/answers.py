"""Builds answers about one command: its state, its new output, how much is left out, and where to read the rest."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, JsonValue

from gloveport.errors import GloveportError
from gloveport.model import Stream
from gloveport.sandbox.run.capture import plain
from gloveport.workspace.commands.command import STREAMS, Command, CommandOutput
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.line_reader import whole_characters
from gloveport.workspace.tool_types import Bytes, next_action

Verbosity: TypeAlias = Literal["summary", "preview", "full"]
Answer: TypeAlias = dict[str, JsonValue]

MOST_LINES: Final = 2000
_SESSION_FIELDS: Final = {"id", "expires_at", "state", "why", "generation"}
MOST_PAGE_BYTES: Final = 512 << 10
_TAIL_CHARACTERS: Final = 80
_OUT_OF_TIME: Final = ("timeout_ms is over", "give it more time, or do less at once")
_OUT_OF_ALL_TIME: Final = (
    "the operator's limit wall_seconds is over",
    "no command gets more time, whatever timeout_ms says: do less at once, or ask the operator",
)
_NOT_GRANTED: Final = (
    "no API of the operator's configuration grants that host to this command: use what is installed, or tell the owner "
    'which host it needs; hosts = ["@pypi"] in [workspace] grants a registry: @npm, @github, @debian, @crates …'
)
_NO_NAME: Final = "DNS_RESOLUTION_FAILED"
_CLOSED: Final = (
    "the gate network is closed: ask for the permission network, with a command that names the host; it opens the "
    "hosts of granted APIs alone"
)
_CLOSED_TO_SESSION: Final = (
    "the gate network is closed, and nobody can permit it in a session: make the call without session, with a command "
    "that names the host, and ask for the permission network"
)
_LEFT_BEHIND: Final = "processes that it left behind were ended with it: {}"
_KEEP_THEM: Final = (
    'with session="new" they go on until the session ends; a command that is to run alone needs no &: call it with '
    "yield_time_ms=0"
)
_WRITE_ELSEWHERE: Final = (
    "only the workspace, the home directory and /tmp can be written, and of the workspace not what runs later outside "
    "of the sandbox (.git/config, .git/hooks, .env and the like); the owner lets a name be written by exempt in "
    "[workspace]"
)
_RESERVES_MORE: Final = (
    "without a cgroup that counts memory each process has as many addresses as memory_bytes in [workspace.limits], and "
    "this reserves more: the operator gives Gloveport cgroups (gloveport doctor says how), or raises memory_bytes, "
    "which then bounds less (docs/workspace.md)"
)
_LISTEN_ON_LOOPBACK: Final = (
    "network interfaces can't be listed here, and there is none but 127.0.0.1: let the server listen there alone "
    "(`next dev -H 127.0.0.1`, `webpack serve --host 127.0.0.1`, vite without --host); else: node --import "
    "'data:text/javascript,import os from \"os\"; os.networkInterfaces = () => ({})' FILE"
)
_REFUSED: Final = {
    # Messages for a protected path, the first for a rename onto one, and for read-only mounts.
    "WRITE_REFUSED": (("device or resource busy", "read-only file system"), _WRITE_ELSEWHERE),
    "TRACING_REFUSED": (
        ("ptrace: operation not permitted", "ptrace_traceme", "could not trace the inferior"),
        "programs may not trace others, not even their own; the operator lets them with ptrace = true in [policy]",
    ),
    "SANDBOX_REFUSED": (
        ("no usable sandbox", "no permissions to create new namespace", "unshare failed", "clone_newuser"),
        "no sandbox can be made in this one: switch that of the program off (--no-sandbox for browsers)",
    ),
    "ADDRESSES_LIMITED": (  # AddressSanitizer and ThreadSanitizer, Java, Node: each process is limited by itself
        (
            *("perhaps you're using ulimit -v", "sanitizer_allocator_primary64.h"),
            *("insufficient memory for the java runtime", "allocate wasm memory", "webassembly.memory(): could not"),
        ),
        _RESERVES_MORE,
    ),
    "INTERFACES_REFUSED": (  # of Node, libuv's name for its question; of `ip`
        ("uv_interface_addresses", "cannot open netlink socket"),
        _LISTEN_ON_LOOPBACK,
    ),
    "CONTAINERS_REFUSED": (
        ("docker daemon", "/var/run/docker.sock", "docker.sock: connect"),
        "no container can be started here, and none of the host's is reached: start the service itself, as a process",
    ),
}
"""Messages of programs about refusals, and what to do about them."""

# libcurl, the C library, Go, Java, Node, Rust; Gradle, for there is a store of certificates where there is a network.
_NAME_NOT_FOUND: Final = (
    *("could not resolve host", "temporary failure in name resolution", "name or service not known"),
    *("no such host", "no suitable address found", "unknown host", "unknownhostexception"),
    *("getaddrinfo eai_again", "getaddrinfo enotfound", "failed to lookup address information"),
    "lib/security/cacerts (no such file or directory)",
)


class AnswerBounds(BaseModel):
    """How much of a command's output a caller wants: so much of each stream, a preview, or one line."""

    model_config = ConfigDict(extra="forbid")

    max_output_bytes: Bytes = 65_536
    verbosity: Verbosity | None = None
    preview_bytes: Bytes = 4096


def told_offsets(command: Command) -> dict[Stream, int]:
    """How far its client has read. Call it when a request comes: two concurrent requests get the same output."""
    return {stream: output.told_bytes for stream, output in command.outputs.items()}


def answer(command: Command, since: Mapping[Stream, int], bounds: AnswerBounds) -> Answer:
    """The state of a command, and its output since the call's ``told_offsets``."""
    verbosity = bounds.verbosity or "full"
    report: Answer = {
        "command_id": command.id,
        "status": command.status,
        "operation_outcome": _operation_outcome(command),
        "exit_code": command.exit_code,
        "signal": command.signal_name,
        "timed_out": command.status == "timeout",
    }
    truncated: dict[Stream, str] = {}
    texts: dict[Stream, str] = {}
    if command.session is not None:
        report["session"] = {name: value for name, value in command.session.items() if name in _SESSION_FIELDS}
    for stream in STREAMS:
        fields, texts[stream], left_out = _news(command, stream, since[stream], bounds.max_output_bytes)
        if left_out:
            truncated[stream] = left_out
        keep = verbosity == "full"
        report |= {name: value for name, value in fields.items() if keep or name.endswith("_dropped_bytes")}
    report["truncated"] = bool(truncated)
    if command.warnings:
        report["warnings"] = [*command.warnings]
    if diagnostics := _diagnostics(command, texts, truncated):
        report["diagnostics"] = diagnostics
    if verbosity != "full":
        report["summary"] = _summary(command, texts)
        if verbosity == "preview":
            report["preview"], report["preview_truncated"] = _preview(texts, bounds.preview_bytes)
    return report | _where(command, [*truncated], always=verbosity != "full")


def page(command: Command, stream: Stream, offset: int, limit: int) -> Answer:
    """A page of a stream's output."""
    retained, limit = command.outputs[stream].retained, min(limit, MOST_PAGE_BYTES)
    start, data = retained.read(offset, limit)
    if start + len(data) < retained.total or not command.is_over:
        data = data[: whole_characters(data)] or data
    following = start + len(data)
    more = following < retained.total
    report: Answer = {
        "command_id": command.id,
        "operation_outcome": _operation_outcome(command),
        "output_ref": _reference(command, stream),
        "stream_output_ref": _reference(command, stream),
        "stream": stream,
        "offset": start,
        "requested_offset": offset,
        "limit": limit,
        "content": plain(data.decode(errors="replace")),
        "next_offset": following if more else None,
        "total_retained_bytes": retained.kept_bytes,
        "head_retained_bytes": retained.head_bytes,
        "evicted_gap_bytes": retained.dropped,
        "retained_start_offset": retained.tail_start if retained.dropped else 0,
        "total_stream_bytes": retained.total,
        **{f"{name}_dropped_bytes": output.retained.dropped for name, output in command.outputs.items()},
        "stream_dropped_bytes": retained.dropped,
        "omitted_bytes": start - min(offset, start),
        "truncated": more,
        "warnings": [],
    }
    if more:
        report["next_action"] = _read(command, stream, following)
    return report


def parse_reference(reference: str, stream: Stream | None) -> tuple[str, Stream]:
    """The id of a command, and the stream, that a reference names.

    Raises:
        WorkspaceError: INVALID_ARGUMENT.
    """
    kind, _, rest = reference.partition(":")
    command_id, _, named = rest.rpartition(":")
    if kind != "command" or not command_id or named not in STREAMS or stream not in {None, named}:
        raise WorkspaceError(
            "INVALID_ARGUMENT",
            f"{reference[:80]!a} is no reference to the output of a command, or to another stream than was asked for",
            hint="an answer gives it: command:ID:stdout or command:ID:stderr; of a run, output://ID/stdout or …/stderr",
        )
    return command_id, "stdout" if named == "stdout" else "stderr"


def _news(command: Command, stream: Stream, since: int, most_bytes: int) -> tuple[Answer, str, str]:
    """A stream's output since then: as fields, as text, and, if it is cut, how much is left out, in words."""
    output: CommandOutput = command.outputs[stream]
    retained = output.retained
    offset, data = retained.last(since, most_bytes)
    if not command.is_over:
        data = data[: whole_characters(data)]
    cut_by: str | None = "bytes" if offset > since else None
    lines = data.splitlines(keepends=True)
    if len(lines) > MOST_LINES:
        rest = b"".join(lines[-MOST_LINES:])
        offset, data, cut_by, lines = offset + len(data) - len(rest), rest, "lines", lines[-MOST_LINES:]
    output.told_bytes = max(output.told_bytes, offset + len(data))
    lost_bytes = max(0, min(offset, retained.tail_start) - max(since, retained.head_bytes)) if retained.dropped else 0
    text = plain(data.decode(errors="replace"))
    fields: Answer = {
        stream: text,
        f"{stream}_truncated": cut_by is not None,
        f"{stream}_truncated_by": cut_by,
        f"{stream}_output_lines": len(lines),
        f"{stream}_output_bytes": len(data),
        f"{stream}_dropped_bytes": retained.dropped,
        f"{stream}_omitted_bytes": max(0, offset - since - lost_bytes),
    }
    lost = f", {lost_bytes} of them for good" if lost_bytes else ""
    return fields, text, f"{offset - since} bytes are left out{lost}" if cut_by else ""


def says_name_not_found(text: str) -> bool:
    """Whether a lower-case text says that a host name could not be resolved."""
    return any(phrase in text for phrase in _NAME_NOT_FOUND)


def _operation_outcome(command: Command) -> str:
    match command.status:
        case "running":
            return "running"
        case "timeout":
            return "timeout"
        case "terminated":
            return "signal"
        case _:
            return "exited_0" if command.exit_code == 0 else "exited_nonzero"


def _where(command: Command, truncated: Sequence[Stream], *, always: bool) -> Answer:
    report: Answer = {}
    if truncated or always:
        main = truncated[0] if truncated else "stdout"
        references: JsonValue = {stream: _reference(command, stream) for stream in STREAMS}
        report |= {"output_ref": _reference(command, main), "output_stream": main, "output_refs": references}
    if truncated:
        report |= {"output_truncated": True, "truncated_output_streams": [*truncated]}
        report["next_actions"] = [_read(command, stream, 0) for stream in truncated]
    if not command.is_over:
        report["next_action"] = next_action("write_stdin", command_id=command.id, chars="", yield_time_ms=10_000)
    elif truncated:
        report["next_action"] = _read(command, truncated[0], 0)
    return report


def _read(command: Command, stream: Stream, offset: int) -> Answer:
    return next_action("read_output", output_ref=_reference(command, stream), offset=offset)


def _reference(command: Command, stream: Stream) -> str:
    return f"command:{command.id}:{stream}"


def _summary(command: Command, texts: Mapping[Stream, str]) -> str:
    lines = sum(len(text.splitlines()) for text in texts.values())
    state = command.status if command.exit_code is None else f"exit {command.exit_code}"
    last = (texts["stdout"] or texts["stderr"]).strip().rpartition("\n")[2][-_TAIL_CHARACTERS:]
    tail = f" | tail: {last!r}" if last else ""
    return f"{state} | {command.elapsed:.1f}s | {lines} line{'' if lines == 1 else 's'}{tail}"


def _preview(texts: Mapping[Stream, str], most: int) -> tuple[str, bool]:
    written = [(stream, text) for stream, text in texts.items() if text]
    share, pieces, cut = max(1, most // max(1, len(written))), [], False
    for stream, text in written:
        half, excerpt = share // 2, text
        if len(text) > share:
            cut = True
            excerpt = f"{text[:half]}\n[… {len(text) - share} characters …]\n{text[-(share - half) :]}"
        pieces.append(f"--- {stream} ---\n{excerpt}")
    return "\n".join(pieces), cut


def _diagnostics(command: Command, texts: Mapping[Stream, str], truncated: Mapping[Stream, str]) -> list[JsonValue]:
    """Notable facts for the reader; from the output only an unresolved name and a refused write."""
    found: list[JsonValue] = []

    def point(code: str, severity: str, evidence: str, fix: str) -> None:
        found.append({"code": code, "severity": severity, "evidence": evidence[:240], "suggested_fix": fix})

    if command.failure is not None:
        point("SERVER_FAULT", "error", *_describe_fault(command.failure))
    limit = command.outcome.killed_by if command.outcome else None
    if command.status == "timeout":
        evidence, fix = _OUT_OF_ALL_TIME if command.has_all_time else _OUT_OF_TIME
        point("COMMAND_TIMED_OUT", "error", evidence, fix)
    elif limit is not None:
        point("LIMIT_REACHED", "error", f"it was ended at the limit {limit}", "let it use less")
    if command.outcome and command.outcome.left_behind:
        point("PROCESSES_ENDED", "warning", _LEFT_BEHIND.format(command.outcome.left_behind), _KEEP_THEM)
    if truncated:
        what = "; ".join(f"{stream}: {left_out}" for stream, left_out in truncated.items())
        failures = dict.fromkeys(output.retained.failure for output in command.outputs.values())
        fix = "; ".join(filter(None, ("read_output tells what is kept", *failures)))
        point("OUTPUT_TRUNCATED", "warning", what, fix)
    if command.exit_code == 127:
        fix = command.missing or "see what is installed, or ask the operator for it"
        point("EXECUTABLE_NOT_FOUND", "error", "exit code 127", fix)
    for refused in command.refused():
        point("REQUEST_REFUSED", "warning" if command.exit_code == 0 else "error", refused.what, refused.remedy)
    for code, evidence, fix in _find_refusals(command, texts):
        point(code, "warning" if command.exit_code == 0 else "error", evidence, fix)
    return found


def _describe_fault(failure: Exception) -> tuple[str, str]:
    """What became of a command that the server could not see to its end, and what to do."""
    if isinstance(failure, GloveportError):
        return str(failure.args[0]), failure.hint
    return "the server has met a fault of its own", "see what it has done before you repeat it, and tell the owner"


def _find_refusals(command: Command, texts: Mapping[Stream, str]) -> Iterator[tuple[str, str, str]]:
    """Refusals that its output reports: a code, the evidence, and what to do."""
    words = " ".join(texts.values()).lower()
    errors = texts["stderr"].lower() if command.exit_code == 0 else words  # its output may quote other programs
    for code, (phrases, fix) in _REFUSED.items():
        if phrase := next((phrase for phrase in phrases if phrase in errors), None):
            yield code, f"it said: {phrase}", fix
    if command.exit_code not in {None, 0} and says_name_not_found(words):
        for unresolved in command.unresolved:
            yield _NO_NAME, unresolved.what, unresolved.remedy
        if not command.unresolved:
            closed = _CLOSED if command.session is None else _CLOSED_TO_SESSION
            yield _NO_NAME, "a name was not found", closed if command.can_ask_for_network else _NOT_GRANTED
