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

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import edits, grammar, undo
from gloveport.workspace.patch import operations as applying
from gloveport.workspace.patch.commit import Recovery, commit, is_interrupted, planned, recover, undoable
from gloveport.workspace.patch.edits import Change
from gloveport.workspace.patch.idempotency import Slots
from gloveport.workspace.patch.journal import Journal
from gloveport.workspace.patch.restoring import Operation, caught_up, latest, operation, restore
from gloveport.workspace.patch.staging import Staging


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
        deleted: Paths of files that are gone now.
    """

    answer: dict[str, JsonValue]
    written: tuple[str, ...]
    number: int = 0
    deleted: tuple[str, ...] = ()


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
        grammar.demand_unicode(patch)
        return self._once(
            "apply_patch",
            {"patch": patch, "dry_run": order.dry_run},
            order,
            lambda staging: applying.patch(staging, grammar.parse(patch)),
        )

    @contextmanager
    def staged_now(self, operations: Sequence[grammar.Operation], most_bytes: int) -> Iterator[Callable[[], Outcome]]:
        """What applies a patch that fits; it waits for nobody. Nobody else writes until this is left.

        Raises:
            BlockingIOError: Somebody else writes at this moment, or was interrupted.
            WorkspaceError: It does not fit; it is about more bytes, before and after, than ``most_bytes``; or about
                what lies in another mount than the root.
        """
        with Journal.locked(self.journal, waits=False) as journal, ExitStack() as stack:
            if is_interrupted(journal):  # that may have been in another mount
                raise BlockingIOError
            staging = Staging(self.tree.within_one_mount(), stack, most_bytes=most_bytes)
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
        grammar.demand_unicode(dumps(plain, ensure_ascii=False))
        return self._once("apply_changes", {"changes": plain, "dry_run": order.dry_run}, order, stage)

    def undo(self) -> Outcome:
        """Take the last change back that was not taken back yet, if its files are as it left them.

        Raises:
            WorkspaceError: NOT_FOUND where there is none, REVISION_MISMATCH where a file was changed since.
        """
        with Journal.locked(self.journal) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            last = latest(self.tree, journal)
            entry = undo.entry(journal.directory, last)
            if entry is None:
                raise WorkspaceError("NOT_FOUND", "there is no change that could be taken back")
            staging = Staging(self.tree, stack)
            for kept, content in entry.files:
                restore(staging, kept, content)
            targets = staging.settled()
            record = planned(targets, (last, last - 1), tuple(reversed(entry.made)))
            staging.report.warnings += stack.enter_context(commit(self.tree, journal, targets, record))
            undo.forget(journal.directory, last)
            return _outcome(staging, Order())

    def undoing(self) -> list[tuple[Operation, str]]:
        """What ``undo`` would do now to which path, if these files are as the change left them; [] where there is none.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, RUNTIME_DIR_UNWRITABLE.
        """
        with Journal.locked(self.journal) as journal:
            recover(self.tree, journal)
            entry = undo.entry(journal.directory, latest(self.tree, journal))
        return [(operation(kept), kept.path) for kept, _ in entry.files] if entry else []

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

        To be called when a server starts: it is here that a journal which a power cut has left behind catches up.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, RUNTIME_DIR_UNWRITABLE.
        """
        with Journal.locked(self.journal) as journal:
            recovery = recover(self.tree, journal)
            caught_up(self.tree, journal)
            return recovery

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
            try:
                staging.report.warnings += stack.enter_context(commit(staging.tree, journal, targets, record))
            except BaseException:
                undo.forget(journal.directory, last + 1)
                raise
            return replace(_outcome(staging, order), number=last + 1)
        return _outcome(staging, order)


def _outcome(staging: Staging, order: Order) -> Outcome:
    changed = [target for target in staging.targets.values() if target.changes]
    answer = staging.report.answer(dry_run=order.dry_run, already_applied=not changed)
    done = () if order.dry_run else changed
    return Outcome(
        answer,
        written=tuple(each.place.path for each in done if each.content is not None),
        deleted=tuple(each.place.path for each in done if each.content is None),
    )
