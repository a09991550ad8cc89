"""Runs the operator's hooks on files that a patch or changes have written."""

import contextlib
from collections.abc import Sequence
from typing import Final

from anyio import to_thread
from pydantic import JsonValue

from gloveport.policy.wildcards import matches
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.line_reader import read_file
from gloveport.workspace.patch.writer import WriteResult
from gloveport.workspace_service.service import Fields, WorkspaceService

_MOST_CHARACTERS: Final = 2000


async def run_hooks(service: WorkspaceService, outcome: WriteResult) -> Fields:
    """The answer to a write, when the hooks have run on what was written."""
    answer = dict(outcome.answer)
    warnings = list(answer["warnings"]) if isinstance(answer["warnings"], list) else []
    ran = False
    for hook in service.settings.hooks if outcome.number else ():  # what was taken back is what it was
        if paths := [path for path in outcome.written if _is_named(hook.files, path)]:
            ran = True
            warnings += await _run(service, hook.command, paths, hook.seconds)
    if not ran:
        return answer
    answer["warnings"] = warnings
    return await to_thread.run_sync(_update_revisions, service, answer, outcome.number)


async def _run(service: WorkspaceService, command: str, paths: Sequence[str], seconds: float) -> list[str]:
    """What there is to say of a hook: nothing where it has ended well."""
    try:
        ran = await service.sandboxes.run_hook(command, paths, seconds)
    except WorkspaceError as error:
        return [f"{command}: {error.args[0]}"]
    if ran.exit_code == 0:
        return []
    output = (ran.stdout + ran.stderr).decode(errors="replace")[-_MOST_CHARACTERS:].strip()
    state = "has not ended in time" if ran.timed_out else f"has failed ({ran.exit_code})"
    return [f"{command} {state}: {output}" if output else f"{command} {state}"]


def _update_revisions(service: WorkspaceService, answer: dict[str, JsonValue], number: int) -> Fields:
    """With the revisions of the files as they are now, which undo takes back to what they were before."""
    revisions = {}
    files = answer["affected_files"]
    for file in files if isinstance(files, list) else []:
        if isinstance(file, dict) and file.get("revision"):
            try:
                read = read_file(service.tree, str(file["path"]), max_lines=1)
            except WorkspaceError:
                continue
            file |= {"revision": read["revision"], "total_lines": read["total_lines"]}
            revisions[read["path"]] = read["revision"]
    with contextlib.suppress(OSError):  # no space: undo says that there is nothing to take back
        service.writer.adopt(number, revisions)
    return answer


def _is_named(patterns: Sequence[str], path: str) -> bool:
    return any(matches(pattern, path) or matches(pattern, path.rpartition("/")[2]) for pattern in patterns)
