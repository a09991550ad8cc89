"""Renders answers of a workspace's tools as text for a model: what it needs next first, and nothing twice."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gloveport.model import SessionState
from gloveport.model.reading import read_value
from gloveport.server.rendering.session_text import session_lines
from gloveport.workspace_service.service import Fields

_MOST_CHARACTERS: Final = 2_000_000
_DOCUMENTS: Final = {
    "pdf": "text of pages {page_range} of {pages}",
    "notebook": "text of cells {page_range} of {pages}; raw=true reads what edits change",
}


def read_file(fields: Fields) -> str:
    """Render a file's lines below a heading; several files one after the other."""
    if "files" in fields:
        return _join(*map(read_file, fields["files"]), *_next(fields))
    if "error" in fields:
        error = fields["error"]
        hint = f" ({error['retry_hint']})" if "retry_hint" in error else ""
        return f"[{fields['path']}: {error['code']}: {error['message']}{hint}]"
    first, last, total = fields["start_line"], fields["end_line"], fields["total_lines"]
    none = f"no line {first}" if first > total else f"no lines from {first} to {last}"
    which = f"lines {first}-{last} of {total}" if last >= first else f"{none}, it has {total}"
    if fields["truncated_by"] == "bytes" and not fields["content"].endswith("\n"):
        which += f", only the beginning of line {last}"
    what = f"revision {fields['revision']}" if "revision" in fields else _DOCUMENTS[fields["document"]].format(**fields)
    head = f"[{fields['path']}: {which if fields['total_bytes'] else 'empty'}, {what}]"
    return _join(head, *_next(fields), fields["content"])


def list_dir(fields: Fields) -> str:
    """A path a line."""
    lines = [f"{entry['path']} [{entry['type']}]{_target(entry)}" for entry in fields["entries"]]
    return _join(*(lines or ["(empty)"]), *_cut(fields), *_warnings(fields))


def list_files(fields: Fields) -> str:
    """A path a line."""
    paths = [entry["path"] for entry in fields["files"]]
    return _join(*(paths or ["(no files)"]), *_cut(fields), *_warnings(fields))


def search_text(fields: Fields) -> str:
    """``path:line:column: preview``, with the lines around it, numbered, where they were asked for; or files. Of these
    lines, those before the first match of a file stand behind a separator, as in answers of grep.
    """
    lines = [f"{file['path']}: {_count(file['lines'], 'line')}" for file in fields.get("files", ())]
    path = ""
    for match in fields["matches"]:
        before, number = match.get("before", ()), match["line"]
        if path and before and path != match["path"]:
            lines.append("--")
        path = match["path"]
        lines += [f"  {number - len(before) + at}: {line}" for at, line in enumerate(before)]
        first, *further = match["preview"].split("\n")
        lines.append(f"{match['path']}:{number}:{match['column']}: {first}")
        lines += [f"  {number + at}: {line}" for at, line in enumerate((*further, *match.get("after", ())), 1)]
    more = [f"[there is more: offset={fields['next_offset']} goes on]"] if "next_offset" in fields else _cut(fields)
    return _join(*(lines or ["(no matches)"]), *more, *_warnings(fields))


def undo_result(fields: Fields) -> str:
    """Render the outcome of an undo."""
    return write_result(fields, "as before")


def write_result(fields: Fields, applied: str = "applied") -> str:
    """Render the outcome of a patch or changes."""
    done = "validated" if fields["dry_run"] else "already applied" if fields["already_applied"] else applied
    files = fields["affected_files"]
    lines = [f"{_count(len(files), 'file')} {done} (+{fields['additions']} -{fields['removals']}).", fields["summary"]]
    for file in files:
        ranges = ", ".join(f"{one['start_line']}-{one['end_line']}" for one in file["changed_ranges"])
        quality = f", matched by {file['match_quality']}" if file.get("match_quality", "exact") != "exact" else ""
        if "revision" in file:
            at = f", changed lines {ranges}" if ranges else ""
            places = f", {file['replacements']} replacements" if file.get("replacements", 1) > 1 else ""
            facts = f"revision {file['revision']}, {file['total_lines']} lines{at}{quality}{places}"
            lines.append(f"{file['path']}: {facts}")
    return _join(*lines, *_warnings(fields))


def command(fields: Fields) -> str:
    """Render the state of a command, its output, and how to go on."""
    code = "" if fields["exit_code"] is None else f" | exit code {fields['exit_code']}"
    elapsed = f" | {fields['elapsed_ms']} ms" if "elapsed_ms" in fields else ""
    signal = f" | {fields['signal']}" if fields.get("signal") else ""
    lines = [f"Status: {fields['status']}{code}{signal}{elapsed}"]
    if "session" in fields:
        lines += session_lines(read_value(SessionState, fields["session"]))
    if "summary" in fields:
        lines.append(fields["summary"])
        lines.append(fields.get("preview", ""))
        lines.append(f"[read_output(output_ref={fields['output_ref']!r}) has all of it]")
    for stream, mark in (("stdout", ""), ("stderr", "stderr:")):
        text, is_cut = fields.get(stream, ""), fields.get(f"{stream}_truncated")
        if text or is_cut:
            # Before the text, not after it: of a long answer some clients show the beginning alone.
            call = f"read_output(output_ref={fields['output_refs'][stream]!r})" if is_cut else ""
            lines += [mark, f"[{call} has what came before this]" if call else "", text.rstrip("\n")]
    lines += [f"{one['code']}: {one['evidence']}; {one['suggested_fix']}" for one in fields.get("diagnostics", ())]
    goes_on = () if fields["truncated"] and fields["status"] != "running" else _next(fields)
    return _join(*lines, *_warnings(fields), *goes_on)


def read_output(fields: Fields) -> str:
    """A page of output."""
    head = f"[{fields['stream']}: bytes from {fields['offset']} of {fields['total_stream_bytes']}]"
    return _join(head, fields["content"], *_next(fields))


def git_status(fields: Fields) -> str:
    """As ``git status --short --branch`` has it."""
    if not fields["is_repo"]:
        return "Not a git repository."
    upstream = f"...{fields['upstream']} (+{fields['ahead']} -{fields['behind']})" if fields["upstream"] else ""
    lines = [f"## {fields['branch'] or 'detached HEAD'}{upstream}"]
    for entry in fields["entries"]:
        before = f" <- {entry['original_path']}" if entry["original_path"] else ""
        lines.append(f"{entry['index_status']}{entry['worktree_status']} {entry['path']}{before}")
    return _join(*lines, *(["Working tree clean."] if fields["clean"] else []), *_cut(fields))


def git_diff(fields: Fields) -> str:
    """The patch."""
    return _join(fields["diff"] or "No differences.", *_cut(fields), *_warnings(fields))


def git_log(fields: Fields) -> str:
    """A commit a line."""
    if not fields["is_repo"]:
        return "Not a git repository."
    lines = [
        f"{one['short_hash']} {one['author_date'][:10]} {one['author_name']}: {one['subject']}"
        for one in fields["commits"]
    ]
    return _join(*(lines or ["(no commits)"]), *_next(fields))


def git_show(fields: Fields) -> str:
    """The object, as git shows it."""
    return _join(fields["content"] if fields["is_repo"] else "Not a git repository.", *_cut(fields))


def git_blame(fields: Fields) -> str:
    """A line of the file a line, with its commit and author."""
    if not fields["is_repo"]:
        return "Not a git repository."
    lines = [f"{one['commit'][:8]} {one['author'][:20]:20} {one['line']:5} {one['content']}" for one in fields["lines"]]
    return _join(*lines, *_next(fields))


def view_image(fields: Fields) -> str:
    """Describe the picture."""
    size = f", {fields['width']}x{fields['height']}" if fields["width"] else ""
    original = fields["original"]
    before = f"{original['width']}x{original['height']}, {original['bytes']} bytes"
    smaller = f", made smaller from {before}" if fields["resized"] else ""
    return f"{fields['path']} ({fields['mime_type']}{size}, {fields['bytes']} bytes{smaller})"


def server_info(fields: Fields) -> str:
    """Describe the server and the workspace."""
    lines = [
        f"{fields['title']} {fields['version']}, workspace {fields['workspace']}, mode {fields['permission_mode']}"
    ]
    stances: dict[str, list[str]] = {}
    for gate, stance in fields["permissions"].items():
        stances.setdefault(stance, []).append(gate)
    lines += [f"{stance}: {', '.join(gates)}" for stance, gates in stances.items()]
    lines += [f"permitted ({one['scope']}): {one['permission']} for {one['subject']}" for one in fields["grants"]]
    if files := fields["project_context"]["root_instruction_files"]:
        lines.append(f"Instruction files: {', '.join(files)}")
    return _join(*lines, *_warnings(fields))


def environment(fields: Fields) -> str:
    """Describe the environment of commands."""
    network = "granted hosts" if fields["network_allowed"] else "none"
    lines = [
        f"Commands run in a sandbox; the workspace is {fields['workspace']}.",
        f"Mode {fields['permission_mode']}; network: {network}; Landlock ABI {fields['landlock_abi']}.",
        f"HOME {fields['home']}, caches {fields['cache_dir'] or 'not kept'}.",
    ]
    running = (
        f"Runs since {one['elapsed_ms'] / 1000:.0f} s: {one['command_id']}: {one['cmd']}" for one in fields["commands"]
    )
    return _join(*lines, *running, *_warnings(fields))


def permission(fields: Fields) -> str:
    """Render the outcome of a request for a permission."""
    return f"{fields['status']}: {fields['message']}"


def _join(*lines: str) -> str:
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n[cut here]"


def _cut(fields: Fields) -> Iterable[str]:
    if fields["truncated"]:
        yield "[there is more: narrow it down, or raise the limit]"


def _warnings(fields: Fields) -> Iterable[str]:
    return (f"Warning: {warning}" for warning in fields.get("warnings", ()))


def _next(fields: Fields) -> Iterable[str]:
    action: Mapping[str, Any] | None = fields.get("next_action")
    if action:
        arguments = ", ".join(f"{name}={value!r}" for name, value in action["arguments"].items())
        yield f"[continue with {action['tool']}({arguments})]"


def _target(entry: Mapping[str, Any]) -> str:
    return f" -> {entry['symlink_target']}" if "symlink_target" in entry else ""


def _count(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
