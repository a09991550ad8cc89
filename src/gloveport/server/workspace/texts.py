"""Answers of a workspace's tools in words for a model: what it needs next first, and nothing twice."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from gloveport.server.workspace.replies import Told

_MOST_CHARACTERS: Final = 2_000_000


def read_file(told: Told) -> str:
    """A file's lines below one line that says which they are."""
    first, last, total = told["start_line"], told["end_line"], told["total_lines"]
    which = f"lines {first}-{last} of {total}" if last >= first else f"no line {first}, it has {total}"
    head = f"[{told['path']}: {which if told['total_bytes'] else 'empty'}, revision {told['revision']}]"
    return _joined(head, *_next(told), told["content"])


def list_dir(told: Told) -> str:
    """A path a line."""
    lines = [f"{entry['path']} [{entry['type']}]{_target(entry)}" for entry in told["entries"]]
    return _joined(*(lines or ["(empty)"]), *_cut(told))


def list_files(told: Told) -> str:
    """A path a line."""
    return _joined(*([entry["path"] for entry in told["files"]] or ["(no files)"]), *_cut(told))


def search_text(told: Told) -> str:
    """``path:line:column: preview``, with the lines around it where they were asked for."""
    lines = []
    for match in told["matches"]:
        lines += [f"  {line}" for line in match.get("before", ())]
        lines.append(f"{match['path']}:{match['line']}:{match['column']}: {match['preview']}")
        lines += [f"  {line}" for line in match.get("after", ())]
    return _joined(*(lines or ["(no matches)"]), *_cut(told))


def written(told: Told) -> str:
    """What a patch or changes came to."""
    done = "validated" if told["dry_run"] else "already applied" if told["already_applied"] else "applied"
    files = told["affected_files"]
    lines = [f"{_counted(len(files), 'file')} {done} (+{told['additions']} -{told['removals']}).", told["summary"]]
    for file in files:
        ranges = ", ".join(f"{one['start_line']}-{one['end_line']}" for one in file["changed_ranges"])
        quality = f", matched by {file['match_quality']}" if file.get("match_quality", "exact") != "exact" else ""
        if "revision" in file:
            at = f", changed lines {ranges}" if ranges else ""
            lines.append(f"{file['path']}: revision {file['revision']}, {file['total_lines']} lines{at}{quality}")
    return _joined(*lines, *_warnings(told))


def command(told: Told) -> str:
    """How a command stands, what it said, and how to go on."""
    code = "" if told["exit_code"] is None else f" | exit code {told['exit_code']}"
    elapsed = f" | {told['elapsed_ms']} ms" if "elapsed_ms" in told else ""
    signal = f" | {told['signal']}" if told.get("signal") else ""
    lines = [f"Status: {told['status']}{code}{signal}{elapsed}"]
    if "summary" in told:
        lines.append(told["summary"])
        lines.append(told.get("preview", ""))
        lines.append(f"[read_output(output_ref={told['output_ref']!r}) has all of it]")
    for stream, mark in (("stdout", ""), ("stderr", "stderr:")):
        text, is_cut = told.get(stream, ""), told.get(f"{stream}_truncated")
        if text or is_cut:
            # Before the text, not after it: of a long answer some clients show the beginning alone.
            call = f"read_output(output_ref={told['output_refs'][stream]!r})" if is_cut else ""
            lines += [mark, f"[{call} has what came before this]" if call else "", text.rstrip("\n")]
    lines += [f"{one['code']}: {one['evidence']}; {one['suggested_fix']}" for one in told.get("diagnostics", ())]
    goes_on = () if told["truncated"] and told["status"] != "running" else _next(told)
    return _joined(*lines, *_warnings(told), *goes_on)


def read_output(told: Told) -> str:
    """A page of output."""
    head = f"[{told['stream']}: bytes from {told['offset']} of {told['total_stream_bytes']}]"
    return _joined(head, told["content"], *_next(told))


def git_status(told: Told) -> str:
    """As ``git status --short --branch`` has it."""
    if not told["is_repo"]:
        return "Not a git repository."
    upstream = f"...{told['upstream']} (+{told['ahead']} -{told['behind']})" if told["upstream"] else ""
    lines = [f"## {told['branch'] or 'detached HEAD'}{upstream}"]
    for entry in told["entries"]:
        before = f" <- {entry['original_path']}" if entry["original_path"] else ""
        lines.append(f"{entry['index_status']}{entry['worktree_status']} {entry['path']}{before}")
    return _joined(*lines, *(["Working tree clean."] if told["clean"] else []), *_cut(told))


def git_diff(told: Told) -> str:
    """The patch."""
    return _joined(told["diff"] or "No differences.", *_cut(told), *_warnings(told))


def git_log(told: Told) -> str:
    """A commit a line."""
    if not told["is_repo"]:
        return "Not a git repository."
    lines = [
        f"{one['short_hash']} {one['author_date'][:10]} {one['author_name']}: {one['subject']}"
        for one in told["commits"]
    ]
    return _joined(*(lines or ["(no commits)"]), *_next(told))


def git_show(told: Told) -> str:
    """The object, as git shows it."""
    return _joined(told["content"] if told["is_repo"] else "Not a git repository.", *_cut(told))


def git_blame(told: Told) -> str:
    """A line of the file a line, with its commit and author."""
    if not told["is_repo"]:
        return "Not a git repository."
    lines = [f"{one['commit'][:8]} {one['author'][:20]:20} {one['line']:5} {one['content']}" for one in told["lines"]]
    return _joined(*lines, *_next(told))


def view_image(told: Told) -> str:
    """What the picture is."""
    size = f", {told['width']}x{told['height']}" if told["width"] else ""
    original = told["original"]
    before = f"{original['width']}x{original['height']}, {original['bytes']} bytes"
    smaller = f", made smaller from {before}" if told["resized"] else ""
    return f"{told['path']} ({told['mime_type']}{size}, {told['bytes']} bytes{smaller})"


def server_info(told: Told) -> str:
    """Who answers here, and where."""
    lines = [f"{told['title']} {told['version']}, workspace {told['workspace']}, mode {told['permission_mode']}"]
    stances: dict[str, list[str]] = {}
    for gate, stance in told["permissions"].items():
        stances.setdefault(stance, []).append(gate)
    lines += [f"{stance}: {', '.join(gates)}" for stance, gates in stances.items()]
    lines += [f"permitted ({one['scope']}): {one['permission']} for {one['subject']}" for one in told["grants"]]
    if files := told["project_context"]["root_instruction_files"]:
        lines.append(f"Instruction files: {', '.join(files)}")
    return _joined(*lines, *_warnings(told))


def environment(told: Told) -> str:
    """What commands find."""
    network = "granted hosts" if told["network_allowed"] else "none"
    lines = [
        f"Commands run in a sandbox; the workspace is {told['workspace']}.",
        f"Mode {told['permission_mode']}; network: {network}; Landlock ABI {told['landlock_abi']}.",
        f"HOME {told['home']}, caches {told['cache_dir'] or 'not kept'}.",
    ]
    return _joined(*lines, *_warnings(told))


def permission(told: Told) -> str:
    """What became of a request for a permission."""
    return f"{told['status']}: {told['message']}"


def _joined(*lines: str) -> str:
    text = "\n".join(line for line in lines if line)
    return text if len(text) <= _MOST_CHARACTERS else f"{text[:_MOST_CHARACTERS]}\n[cut here]"


def _cut(told: Told) -> Iterable[str]:
    if told["truncated"]:
        yield "[there is more: narrow it down, or raise the limit]"


def _warnings(told: Told) -> Iterable[str]:
    return (f"Warning: {warning}" for warning in told.get("warnings", ()))


def _next(told: Told) -> Iterable[str]:
    """The call that goes on where this ended."""
    action: Mapping[str, Any] | None = told.get("next_action")
    if action:
        arguments = ", ".join(f"{name}={value!r}" for name, value in action["arguments"].items())
        yield f"[continue with {action['tool']}({arguments})]"


def _target(entry: Mapping[str, Any]) -> str:
    return f" -> {entry['symlink_target']}" if "symlink_target" in entry else ""


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
