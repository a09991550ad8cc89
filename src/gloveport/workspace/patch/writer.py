"""Writing to one workspace: patches, changes by line, and taking the last of either back.

Each call waits for the others, also of other processes with the same state directory, brings an interrupted one to its
end, stages in memory, and commits.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from json import dumps
from pathlib import Path

from pydantic import JsonValue

from gloveport.errors import WorkspaceError
from gloveport.workspace.patch import edits, undo
from gloveport.workspace.patch import operations as applying
from gloveport.workspace.patch.commit import Recovery, commit, planned, recover, undoable
from gloveport.workspace.patch.edits import Change
from gloveport.workspace.patch.grammar import Operation, demand_unicode, parse
from gloveport.workspace.patch.idempotency import Slots
from gloveport.workspace.patch.journal import Journal
from gloveport.workspace.patch.staging import Staging, mismatch
from gloveport.workspace.patch.text import count, difference, revision
from gloveport.workspace.tree import Tree


@dataclass(frozen=True, slots=True)
class Order:
    """How a change is to be made.

    Attributes:
        dry_run: Only see whether it can be.
        idempotency_key: Of the request; one that is sent twice is done once.
    """

    dry_run: bool = False
    idempotency_key: str | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What was done.

    Attributes:
        answer: In the fields of the wire.
        written: Paths of files that have another content now, or are new.
        number: Under which it can be taken back; 0 where nothing was changed, or something taken back.
    """

    answer: dict[str, JsonValue]
    written: tuple[str, ...]
    number: int = 0


@dataclass(frozen=True, slots=True)
class Writer:
    """The one who writes to a workspace. Any thread may call.

    Attributes:
        tree: The workspace.
        journal: A directory outside of it, for this workspace alone; made when it is needed.
    """

    tree: Tree
    journal: Path
    _slots: Slots[Outcome] = field(default_factory=Slots)

    def apply_patch(self, patch: str, order: Order = Order()) -> Outcome:
        """Apply a patch in the V4A dialect, all or nothing.

        Raises:
            WorkspaceError: What is wrong with it, or why it does not fit.
        """
        demand_unicode(patch)
        return self._once(
            "apply_patch",
            {"patch": patch, "dry_run": order.dry_run},
            order,
            lambda staging: applying.patch(staging, parse(patch)),
        )

    @contextmanager
    def staged_now(self, operations: Sequence[Operation], most_bytes: int) -> Iterator[Callable[[], Outcome]]:
        """What applies a patch that fits; it waits for nobody. Nobody else writes until this is left.

        Raises:
            BlockingIOError: Somebody else writes at this moment.
            WorkspaceError: It does not fit; or it is about more bytes, before and after, than ``most_bytes``.
        """
        with Journal.locked(self.journal, waits=False) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            staging = Staging(self.tree, stack, most_bytes=most_bytes)
            applying.patch(staging, operations)
            yield lambda: self._committed(journal, staging, Order(), stack)

    def apply_changes(self, changes: Sequence[Change], order: Order = Order()) -> Outcome:
        """Make changes that name lines by number, all or nothing.

        Raises:
            WorkspaceError: What is wrong with them, or why they do not fit.
        """

        def stage(staging: Staging) -> None:
            edits.check(changes)
            applying.change(staging, changes)

        plain: list[JsonValue] = [change.model_dump(mode="json", exclude_none=True) for change in changes]
        demand_unicode(dumps(plain, ensure_ascii=False))
        return self._once("apply_changes", {"changes": plain, "dry_run": order.dry_run}, order, stage)

    def undo(self) -> Outcome:
        """Take the last change back that was not taken back yet, if its files are as it left them.

        Raises:
            WorkspaceError: NOT_FOUND where there is none, REVISION_MISMATCH where a file was changed since.
        """
        with Journal.locked(self.journal) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            last = undoable(journal)
            entry = undo.entry(journal.directory, last)
            if entry is None:
                raise WorkspaceError("NOT_FOUND", "there is no change that could be taken back")
            staging = Staging(self.tree, stack)
            for kept, content in entry.files:
                _restore(staging, kept, content)
            targets = staging.settled()
            record = planned(targets, (last, last - 1), tuple(reversed(entry.made)))
            staging.report.warnings += stack.enter_context(commit(self.tree, journal, targets, record))
            return _outcome(staging, Order())

    def adopt(self, number: int, revisions: Mapping[str, str]) -> None:
        """Let what hooks have made of a change's files, their revisions by path, be part of it: undo takes it back too.

        Raises:
            OSError: There is no space. Then it can't be taken back.
        """
        with Journal.locked(self.journal) as journal:
            if undoable(journal) == number:
                undo.adopt(journal.directory, number, revisions)

    def recover(self) -> Recovery:
        """Bring what was interrupted by a crash to its beginning or its end. Each change does so first.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, RUNTIME_DIR_UNWRITABLE.
        """
        with Journal.locked(self.journal) as journal:
            return recover(self.tree, journal)

    def _once(
        self, tool: str, arguments: dict[str, JsonValue], order: Order, stage: Callable[[Staging], None]
    ) -> Outcome:
        if order.idempotency_key is None:
            return self._write(order, stage)
        outcome, replayed = self._slots.once(
            tool, order.idempotency_key, arguments, lambda: self._write(order, stage), lambda _: not order.dry_run
        )
        return Outcome({**outcome.answer, "idempotent_replay": True}, ()) if replayed else outcome

    def _write(self, order: Order, stage: Callable[[Staging], None]) -> Outcome:
        with Journal.locked(self.journal) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            staging = Staging(self.tree, stack)
            stage(staging)
            return self._committed(journal, staging, order, stack)

    def _committed(self, journal: Journal, staging: Staging, order: Order, stack: ExitStack) -> Outcome:
        targets = staging.settled()
        last = undoable(journal)
        record = planned(targets, (last, last + 1))
        if record.steps and not order.dry_run:
            changing = [target for target in targets if target.changes]
            try:
                undo.keep(journal.directory, last + 1, changing, record.made)
            except OSError as error:
                staging.report.warnings.append(f"this change can't be taken back: {error.strerror}")
            staging.report.warnings += stack.enter_context(commit(self.tree, journal, targets, record))
            return replace(_outcome(staging, order), number=last + 1)
        return _outcome(staging, order)


def _restore(staging: Staging, kept: undo.Kept, content: bytes | None) -> None:
    target = staging.target(kept.path)
    now = target.content
    if (revision(now) if now is not None else None) != kept.after or target.place.path != kept.path:
        raise mismatch(kept.path, kept.after, now)
    changed = difference(now or b"", content or b"")
    staging.put(target, content, kept.attributes)
    operation = "add" if now is None else "delete" if content is None else "update"
    staging.report.tell(kept.path, operation, content, changed)
    staging.report.summarise(operation, kept.path)
    staging.report.counted(count(content or b""), count(now or b""))


def _outcome(staging: Staging, order: Order) -> Outcome:
    changed = [target for target in staging.targets.values() if target.changes]
    answer = staging.report.answer(dry_run=order.dry_run, already_applied=not changed)
    written = () if order.dry_run else tuple(each.place.path for each in changed if each.content is not None)
    return Outcome(answer, written)
