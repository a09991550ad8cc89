"""The tools that change files: what they would do is decided and written down first."""

import math
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Final, TypeAlias

import mcp_types as wire
from anyio import to_thread
from mcp.server.mcpserver import Context
from pydantic import Field

from gloveport.errors import Denied, WorkspaceError
from gloveport.model.workspace import Change as PathChange
from gloveport.model.workspace import WriteFiles
from gloveport.policy.gates import write_action
from gloveport.server.caller import Caller
from gloveport.server.shortcut import Answer
from gloveport.server.workspace import texts
from gloveport.server.workspace.bench import Bench
from gloveport.server.workspace.replies import reply
from gloveport.workspace.ignoring import ignored_among
from gloveport.workspace.patch import grammar
from gloveport.workspace.patch.edits import Change
from gloveport.workspace.patch.writer import Order, Outcome

Text: TypeAlias = Annotated[str, Field(min_length=1)]
Key: TypeAlias = Annotated[str | None, Field(min_length=1, max_length=128)]

_SHORT: Final = 1 << 13
_SHORT_BYTES: Final = 1 << 18
_PATCHED: Final = {grammar.Add: "create", grammar.Delete: "delete", grammar.Update: "edit"}


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
        order = Order(dry_run=dry_run, idempotency_key=idempotency_key)
        return await self._written(
            ctx, partial(patched, patch), partial(self.bench.writer.apply_patch, patch, order), order, len(patch)
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
        order = Order(dry_run=dry_run, idempotency_key=idempotency_key)
        return await self._written(
            ctx,
            lambda: changed(changes),
            partial(self.bench.writer.apply_changes, changes, order),
            order,
        )

    async def undo_patch(self, ctx: Context[Any, Any]) -> wire.CallToolResult:
        """Take back the last apply_patch or apply_changes, if its files are still as it left them."""
        return await self._written(ctx, list, self.bench.writer.undo, Order())

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
                operations = grammar.parse(patch)
                apply = stack.enter_context(bench.writer.staged_now(operations, _SHORT_BYTES))
            except (BlockingIOError, WorkspaceError):
                return None
            admission = bench.admitted_now(caller, self._action(_described(operations)), request)
            if admission is None:
                return None
            try:
                with admission as ending:
                    outcome = apply()
                    ending.fields["written"] = [*outcome.written]
            except (WorkspaceError, Denied) as error:
                return Answer(bench.refused(error))
            told = bench.clean(outcome.answer)
            return Answer(reply(told, texts.written(told)), stack.pop_all().close)

    async def _written(
        self,
        ctx: Context[Any, Any],
        changes: Callable[[], list[PathChange]],
        work: Callable[[], Outcome],
        order: Order,
        size: float = math.inf,
    ) -> wire.CallToolResult:
        """What comes of a write, which is decided and written down first. ``size``: what there is to read for that."""
        try:
            short = size < _SHORT  # to change threads takes longer
            action = self._action(changes()) if short else await to_thread.run_sync(lambda: self._action(changes()))
            if order.dry_run:
                outcome = await to_thread.run_sync(work)
            else:
                async with self.bench.admitted(ctx, action) as ending:
                    outcome = await to_thread.run_sync(work)
                    ending.fields["written"] = [*outcome.written]
        except (WorkspaceError, Denied) as error:
            return self.bench.refused(error)
        answer = self.bench.clean(await self.bench.hooked(outcome))
        return reply(answer, texts.written(answer))

    def _action(self, changes: list[PathChange]) -> WriteFiles:
        return write_action(changes, ignored_among(self.bench.tree, [change.path for change in changes]))


def patched(patch: str) -> list[PathChange]:
    """What a patch does with which path. One that can't be read is told when it is to be applied."""
    try:
        return _described(grammar.parse(patch))
    except WorkspaceError:
        return []


def _described(operations: Sequence[grammar.Operation]) -> list[PathChange]:
    moved = [
        PathChange(operation="move", path=one.destination)
        for one in operations
        if isinstance(one, grammar.Update) and one.destination
    ]
    return [
        PathChange.model_validate({"operation": _PATCHED[type(one)], "path": one.path}) for one in operations
    ] + moved


def changed(changes: Sequence[Change]) -> list[PathChange]:
    """What changes do with which path. A copy only reads the first of its two."""
    left = [PathChange(operation=one.action, path=one.path) for one in changes if one.action != "copy"]
    made = [PathChange(operation=one.action, path=one.destination) for one in changes if one.destination]
    return left + made
