"""The tools that change files: what they would do is decided and written down first."""

import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import Field, JsonValue

from gloveport.errors import Denied
from gloveport.model.workspace import Change as PathChange
from gloveport.model.workspace import Operation, WriteFiles
from gloveport.policy.gates import write_action
from gloveport.server.caller import Caller
from gloveport.server.fast_path import Answer
from gloveport.server.workspace import texts
from gloveport.server.workspace.context import Bench
from gloveport.server.workspace.replies import reply
from gloveport.untrusted_text import printable
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.gitignore import ignored_among
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import parsing
from gloveport.workspace.patch.parsing import Change
from gloveport.workspace.patch.writer import WriteOptions, WriteResult

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Key: TypeAlias = Annotated[str | None, Field(min_length=1, max_length=128)]

_SHORT: Final = 1 << 13
_FEW, _DEEP = 8, 32
_SHORT_BYTES: Final = 1 << 18
_PATCHED: Final[Mapping[type, Operation]] = {
    parsing.Add: "create",
    parsing.Delete: "delete",
    parsing.Update: "edit",
}


@dataclass(frozen=True, kw_only=True)
class WriteTools:
    """The tools that write; ``bench`` is what they share."""

    bench: Bench

    async def apply_patch(
        self,
        ctx: Context[Any, Any],
        patch: Text,
        dry_run: bool = False,  # noqa: FBT001, FBT002
        idempotency_key: Key = None,
    ) -> wire.CallToolResult:
        """Change files by a patch, all or none: `*** Begin Patch`, then `*** Add File: p`, `*** Delete File: p`,
        `*** Update File: p` (`*** Move to: q`) with `@@` hunks of ` `, `-` and `+` lines, then `*** End Patch`.
        """
        order = WriteOptions(dry_run=dry_run, idempotency_key=idempotency_key)
        return await self._written(
            ctx,
            to_thread.run_sync(patch_action, self.bench.tree, patch),
            partial(self.bench.writer.apply_patch, patch, order),
            order,
        )

    async def apply_changes(
        self,
        ctx: Context[Any, Any],
        changes: Annotated[list[Change], Field(max_length=100)],
        dry_run: bool = False,  # noqa: FBT001, FBT002
        idempotency_key: Key = None,
    ) -> wire.CallToolResult:
        """Change files by line numbers of what read_file returned, all or none. A file that exists needs its revision.
        Content is whole lines.
        """
        order = WriteOptions(dry_run=dry_run, idempotency_key=idempotency_key)
        return await self._written(
            ctx,
            to_thread.run_sync(changes_action, self.bench.tree, changes),
            partial(self.bench.writer.apply_changes, changes, order),
            order,
        )

    async def undo_patch(self, ctx: Context[Any, Any]) -> wire.CallToolResult:
        """Take back the last apply_patch or apply_changes, if its files are still as it left them."""
        return await self._written(ctx, to_thread.run_sync(self._undoing), self.bench.writer.undo, WriteOptions())

    def patch_now(self, caller: Caller, request: str, patch: str) -> Answer | None:
        """``apply_patch`` without waiting for anybody but the disk; None where that is no way.

        It is none for what is large, does not fit or has to be asked about, while somebody else writes, and where
        hooks run on what was written. The answer need not wait until what was replaced has been cleared away.
        """
        bench = self.bench
        if len(patch) >= _SHORT or bench.config.workspace.hooks:
            return None
        with ExitStack() as stack:
            try:
                operations = parsing.parse_patch(patch)
                if not _is_little(described := _described(operations)):
                    return None
                apply = stack.enter_context(bench.writer.stage_at_once(operations, _SHORT_BYTES))
            except (BlockingIOError, WorkspaceError):
                return None
            admission = bench.admitted_now(caller, _action(bench.tree, described, patch), request)
            if admission is None:
                return None
            try:
                with admission as ending:
                    outcome = apply()
                    ending.fields["written"] = _touched(outcome)
            except (WorkspaceError, Denied) as error:
                return Answer(bench.refused(error))
            told = bench.clean(outcome.answer)
            return Answer(reply(told, texts.written(told)), stack.pop_all().close)

    async def _written(
        self,
        ctx: Context[Any, Any],
        wanted: Awaitable[WriteFiles],
        work: Callable[[], WriteResult],
        order: WriteOptions,
    ) -> wire.CallToolResult:
        """What comes of a write, which is decided and written down first."""
        try:
            action = await wanted
            if order.dry_run:
                outcome = await to_thread.run_sync(work)
            else:
                async with self.bench.admitted(ctx, action) as ending:
                    outcome = await to_thread.run_sync(work)
                    ending.fields["written"] = _touched(outcome)
        except (WorkspaceError, Denied) as error:
            return self.bench.refused(error)
        answer = self.bench.clean(await self.bench.hooked(outcome))
        return reply(answer, texts.written(answer))

    def _undoing(self) -> WriteFiles:
        """What would be taken back. It comes to no gate: it makes nothing that was not there before."""
        undoing = self.bench.writer.describe_undo()
        return WriteFiles(changes=tuple(PathChange(operation=operation, path=path) for operation, path in undoing))


def patch_action(tree: Tree, patch: str) -> WriteFiles:
    """What a patch would do. One that can't be read does nothing: why is told when it is to be applied."""
    return _action(tree, _patched(patch), patch)


def changes_action(tree: Tree, changes: Sequence[Change]) -> WriteFiles:
    """What changes by line number would do."""
    plain = [change.model_dump(mode="json", exclude_none=True) for change in changes]
    return _action(tree, _changed(changes), json.dumps(plain, ensure_ascii=False, sort_keys=True))


def written_out(changes: Sequence[Change]) -> str:
    """Changes for a person: what each does, and the lines that it puts in, behind a plus."""
    return "\n".join(line for change in changes for line in _lines(change))


def _lines(change: Change) -> Iterator[str]:
    to = f" -> {printable(change.destination)}" if change.destination else ""
    yield f"{change.action} {printable(change.path)}{to}"
    yield from _added(change.content)
    for edit in change.edits or ():
        place = f"{edit.start_line}-{edit.end_line or edit.start_line}" if edit.start_line else f"{edit.line}"
        yield f"{edit.op} {place}"
        yield from _added(edit.content)


def _added(content: str | None) -> list[str]:
    return [f"+{line}" for line in content.split("\n")] if content else []


def _action(tree: Tree, changes: Sequence[PathChange], content: str) -> WriteFiles:
    """What is decided about: by where its files lie, however they were written down. ``content`` says all of it."""
    placed = [PathChange(operation=change.operation, path=_lies_at(tree, change.path)) for change in changes]
    data = content.encode("utf-8", "surrogatepass")
    action = write_action(placed, ignored_among(tree, [change.path for change in placed]))
    return action.model_copy(update={"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()})


def _lies_at(tree: Tree, path: str) -> str:
    """Where a file lies that would be written; where it can't be, what was asked for, as far as that is a path."""
    with suppress(WorkspaceError), tree.place(path) as place:
        return place.path
    with suppress(WorkspaceError):
        return tree.checked(path)
    return path


def _is_little(changes: Sequence[PathChange]) -> bool:
    """Whether to look at all of its paths, and at what is said about each directory above them, takes no time."""
    return len(changes) <= _FEW and all(change.path.count("/") < _DEEP for change in changes)


def _touched(outcome: WriteResult) -> list[JsonValue]:
    """Paths of the files that a write has changed or made, or that are gone."""
    return [*outcome.written, *outcome.deleted]


def _patched(patch: str) -> list[PathChange]:
    try:
        return _described(parsing.parse_patch(patch))
    except WorkspaceError:
        return []


def _described(operations: Sequence[parsing.Operation]) -> list[PathChange]:
    moved = [
        PathChange(operation="move", path=one.destination)
        for one in operations
        if isinstance(one, parsing.Update) and one.destination
    ]
    return [PathChange(operation=_PATCHED[type(one)], path=one.path) for one in operations] + moved


def _changed(changes: Sequence[Change]) -> list[PathChange]:
    """What changes do with which path. A copy only reads the first of its two."""
    left = [PathChange(operation=one.action, path=one.path) for one in changes if one.action != "copy"]
    made = [PathChange(operation=one.action, path=one.destination) for one in changes if one.destination]
    return left + made
