"""Runs the operator's hooks on files that a patch or changes have written."""

import contextlib
import os
from collections.abc import Sequence
from typing import Final

from gloveport.errors import ConfigError
from gloveport.model import Program
from gloveport.model.json_value import JsonValue
from gloveport.policy.wildcards import matches
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_WRITES
from gloveport.workspace.files.line_reader import LineRange, read_lines
from gloveport.workspace.files.spelling import raw
from gloveport.workspace.patch.writer import WriteResult
from gloveport.workspace_service.protected_sandboxes import VALUE_BYTES
from gloveport.workspace_service.sandboxes import SHELL
from gloveport.workspace_service.service import Fields, WorkspaceService

_MOST_CHARACTERS: Final = 2000
_MOST_BYTES: Final = 64 << 10


async def run_hooks(service: WorkspaceService, outcome: WriteResult, share: str) -> Fields:
    """Run the hooks on the files that the caller with this ``share`` has written; returns the answer to the write."""
    answer = dict(outcome.answer)
    warnings = list(answer["warnings"]) if isinstance(answer["warnings"], list) else []
    ran = False
    for hook in service.settings.hooks if outcome.number else ():  # hooks do not run on an undo
        if paths := [path for path in outcome.written if _is_named(hook.files, path)]:
            ran = True
            warnings += await _run(service, hook.command, paths, hook.seconds)
    if not ran:
        return answer
    answer["warnings"] = warnings
    return await FILE_WRITES.run(share, _update_revisions, service, answer, outcome.number)


async def _run(service: WorkspaceService, command: str, paths: Sequence[str], seconds: float) -> list[str]:
    """Run a hook in the shell, with the paths as arguments; returns its complaint, empty if all is well.

    Raises:
        AuditError: It can't be written down.
    """
    sandboxes, audit = service.sandboxes, service.sandboxes.engine.audit
    begin_seq = audit.append("hook.begun", {"command": command, "paths": [*paths]}).seq
    names = [os.fsdecode(raw(path)) for path in paths]
    program = Program(name="hook", argv=(*SHELL, f'{command} "$@"', "hook", *names), directory=sandboxes.target)
    stdout, stderr = _BoundedOutput(_MOST_BYTES), _BoundedOutput(_MOST_BYTES)
    limits = sandboxes.limits.model_copy(update={"wall_seconds": seconds})
    ended: dict[str, JsonValue] = {"of": begin_seq, "status": "failed"}
    try:
        async with sandboxes.notice_changes([]) as found, sandboxes.open_sandbox(limits, found) as child:
            outcome = await child.run(program, value_bytes=VALUE_BYTES, stdout=stdout, stderr=stderr)
            ended = {"of": begin_seq, "exit_code": outcome.exit_code, "killed_by": outcome.killed_by}
    except (ConfigError, WorkspaceError) as error:
        return [f"{command}: {error.args[0]}"]
    finally:
        audit.append("hook.ended", ended)
    if outcome.exit_code == 0:
        return []
    output = (stdout.data + stderr.data).decode(errors="replace")[-_MOST_CHARACTERS:].strip()
    is_late = outcome.killed_by == "wall_seconds"
    state = "has not ended in time" if is_late else f"has failed ({outcome.exit_code})"
    return [f"{command} {state}: {output}" if output else f"{command} {state}"]


def _update_revisions(service: WorkspaceService, answer: dict[str, JsonValue], number: int) -> Fields:
    """The answer with the files' present revisions, which undo takes back to those before the write."""
    revisions = {}
    files = answer["affected_files"]
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict) and file.get("revision"):
            try:
                read = read_lines(service.tree, str(file["path"]), LineRange(end_line=1))
            except WorkspaceError:
                continue
            file |= {"revision": read["revision"], "total_lines": read["total_lines"]}
            revisions[read["path"]] = read["revision"]
    with contextlib.suppress(OSError):  # no space: undo says that there is nothing to take back
        service.writer.adopt(number, revisions)
    return answer


def _is_named(patterns: Sequence[str], path: str) -> bool:
    return any(matches(pattern, path) or matches(pattern, path.rpartition("/")[2]) for pattern in patterns)


class _BoundedOutput:
    """A ``sandbox.base.Sink`` that ends the program when it has written too much."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.data = bytearray()
        self._full = False

    def write(self, data: bytes) -> None:
        self._full |= len(self.data) + len(data) > self._most
        self.data += data[: self._most - len(self.data)]

    def full(self) -> bool:
        return self._full
