"""Tools that change files: each change is decided and audited first."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Annotated, Any, Final

from mcp.server.mcpserver import Context
from msgspec import Struct
from pydantic import Field, JsonValue

from gloveport.engine.caller import Caller
from gloveport.errors import Denied
from gloveport.model.workspace import PathChange, WriteFiles
from gloveport.patch_text import parsing
from gloveport.patch_text.patch_error import PatchError
from gloveport.server.fast_path import FastAnswer
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import Words, clean_refusal, reply
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.argument_check import takes
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import FILE_WRITES
from gloveport.workspace.files.gitignore import find_ignored_at_once
from gloveport.workspace.patch.changes import MAX_CHANGES, Change, Replacement
from gloveport.workspace.patch.writer import WriteOptions, WriteResult
from gloveport.workspace.tool_types import Text
from gloveport.workspace_service.hooks import run_hooks
from gloveport.workspace_service.service import WorkspaceService
from gloveport.workspace_service.write_actions import (
    changes_action,
    demand_unprotected,
    make_write_action,
    patch_action,
    path_changes,
    replacement_action,
    undo_action,
)

_SHORT: Final = 1 << 13
_FEW, _DEEP = 8, 32
_SHORT_BYTES: Final = 1 << 18


class PatchArguments(WriteOptions):
    """What ``apply_patch`` takes."""

    patch: Text


class ChangesArguments(WriteOptions):
    """What ``apply_changes`` takes."""

    changes: Annotated[list[Change], Field(max_length=MAX_CHANGES)]


class EditArguments(WriteOptions, Replacement):
    """What ``edit_file`` takes."""


class WriteTools(Struct, frozen=True, kw_only=True):
    """The tools that write files."""

    service: WorkspaceService

    @takes(EditArguments)
    async def edit_file(self, ctx: Context[Any, Any], arguments: EditArguments) -> RunReply:
        """Replace a text in a file, exactly as it stands there, once; with `replace_all`, which needs the revision,
        wherever it stands.
        """
        caller = self._caller(ctx)
        action = FILE_WRITES.run(caller.share, replacement_action, self.service.tree, arguments)
        work = partial(self.service.writer.edit_file, arguments, arguments, caller.share)
        return await self._write(caller, ctx.request_id, action, work, arguments)

    @takes(PatchArguments)
    async def apply_patch(self, ctx: Context[Any, Any], arguments: PatchArguments) -> RunReply:
        """Change files by a patch, all or none: `*** Begin Patch`, then `*** Add File: p`, `*** Delete File: p`,
        `*** Update File: p` (`*** Move to: q`) with `@@` hunks of ` `, `-` and `+` lines, then `*** End Patch`.
        """
        return await self.patch(self._caller(ctx), ctx.request_id, arguments)

    @takes(ChangesArguments)
    async def apply_changes(self, ctx: Context[Any, Any], arguments: ChangesArguments) -> RunReply:
        """Change files by line numbers of what read_file returned, all or none. A file that exists needs its revision.
        Content is whole lines.
        """
        caller = self._caller(ctx)
        action = FILE_WRITES.run(caller.share, changes_action, self.service.tree, arguments.changes)
        work = partial(self.service.writer.apply_changes, arguments.changes, arguments, caller.share)
        return await self._write(caller, ctx.request_id, action, work, arguments)

    async def undo_patch(self, ctx: Context[Any, Any]) -> RunReply:
        """Take back the last change by one of these tools, if its files are still as it left them."""
        caller, undo = self._caller(ctx), self.service.writer.undo
        action = FILE_WRITES.run(caller.share, undo_action, self.service.writer)
        return await self._write(caller, ctx.request_id, action, undo, WriteOptions(), texts.undo_result)

    async def patch(self, caller: Caller, request: str, arguments: PatchArguments) -> RunReply:
        """Do what ``apply_patch`` does, with parsed arguments."""
        action = FILE_WRITES.run(caller.share, patch_action, self.service.tree, arguments.patch)
        work = partial(self.service.writer.apply_patch, arguments.patch, arguments, caller.share)
        return await self._write(caller, request, action, work, arguments)

    def patch_now(self, caller: Caller, request: str, patch: str) -> FastAnswer | None:
        """Apply a patch without waiting for anything but the disk; None where that is not possible.

        It is not for a large patch, one that does not fit or needs a permission, while somebody else writes, and if
        hooks run after writes. The answer does not wait for the clean-up of the replaced files.
        """
        service = self.service
        if len(patch) >= _SHORT or service.settings.hooks:
            return None
        with ExitStack() as stack:
            try:
                operations = parsing.parse_patch(patch)
                if not _is_little(changes := path_changes(operations)):
                    return None
                places, apply = stack.enter_context(service.writer.stage_at_once(operations, _SHORT_BYTES))
                placed = [PathChange(operation=change.operation, path=places[change.path]) for change in changes]
                action = make_write_action(service.tree, placed, patch, find_ignored_at_once)
            except (BlockingIOError, PatchError, WorkspaceError):
                return None
            admission = service.admit_now(caller, action, request)
            if admission is None:
                return None
            try:
                with admission as ending:
                    outcome = apply()
                    ending.fields["written"] = _written_paths(outcome)
            except (WorkspaceError, Denied) as error:
                return FastAnswer(clean_refusal(service, error))
            fields = service.clean(outcome.answer)
            return FastAnswer(reply(fields, texts.write_result(fields)), stack.pop_all().close)

    def _caller(self, ctx: Context[Any, Any]) -> Caller:
        return caller_of(ctx, self.service.transport)

    async def _write(
        self,
        caller: Caller,
        request: str,
        pending_action: Awaitable[WriteFiles],
        work: Callable[[], WriteResult],
        options: WriteOptions,
        words: Words = texts.write_result,
    ) -> RunReply:
        """Do a write; it is decided and audited first."""
        service = self.service
        try:
            action = await pending_action
            if options.dry_run:
                outcome = await FILE_WRITES.run(caller.share, work)
            else:
                outcome = await self._apply(caller, request, action, work)
        except (WorkspaceError, Denied) as error:
            return clean_refusal(service, error)
        fields = service.clean(await run_hooks(service, outcome, caller.share))
        return reply(fields, words(fields))

    async def _apply(
        self, caller: Caller, request: str, action: WriteFiles, work: Callable[[], WriteResult]
    ) -> WriteResult:
        service = self.service
        try:
            async with service.admit(caller, action, request) as ending:
                outcome = await FILE_WRITES.run(caller.share, work)
                ending.fields["written"] = _written_paths(outcome)
                return outcome
        except WorkspaceError as error:
            if error.code == "PERMISSION_REQUIRED":  # a permission is no help if a path is protected
                await FILE_WRITES.run(caller.share, demand_unprotected, service.tree, action)
            raise


def _is_little(changes: Sequence[PathChange]) -> bool:
    """Whether all paths, and the rules for the directories above them, can be checked in no time."""
    return len(changes) <= _FEW and all(change.path.count("/") < _DEEP for change in changes)


def _written_paths(outcome: WriteResult) -> list[JsonValue]:
    return [*outcome.written, *outcome.deleted]
