"""Writes to one workspace: applies patches and changes by line or by text, and undoes the last one.

Each call waits for others, also those of other processes with the same state directory, recovers an interrupted one,
stages in memory, and commits.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from json import dumps
from pathlib import Path
from typing import Annotated, Final

from msgspec import Struct, field
from msgspec.structs import replace
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from gloveport.fairness import choose_forgotten
from gloveport.patch_text.parsing import Operation, parse_patch
from gloveport.workspace.errors import WorkspaceError, translate_patch_errors
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch import undo
from gloveport.workspace.patch.changes import Change, Replacement, check_changes
from gloveport.workspace.patch.commit import Recovery, commit, is_interrupted, last_undoable, plan_commit, recover
from gloveport.workspace.patch.journal import Journal
from gloveport.workspace.patch.operations import stage_changes, stage_patch, stage_replacement
from gloveport.workspace.patch.staging import Staging
from gloveport.workspace.patch.undo import UndoOperation
from gloveport.workspace.tool_types import demand_unicode

MAX_KEYS: Final = 64

_SHORT_EFFORT: Final = 1_000_000
"""How much hunks are searched for where others wait: some milliseconds."""


class WriteOptions(BaseModel):
    """Options of a change.

    Attributes:
        dry_run: Only check whether it is possible.
        idempotency_key: Key of the request: a request that is sent twice is carried out once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dry_run: bool = False
    idempotency_key: Annotated[str | None, Field(min_length=1, max_length=128)] = None


USUAL: Final = WriteOptions()


class WriteResult(Struct, frozen=True):
    """The result of a change.

    Attributes:
        answer: The answer's fields on the wire.
        written: Paths of files that are changed or new.
        number: Its number for undo; 0 if nothing was changed, or this was an undo.
        deleted: Paths of deleted files.
    """

    answer: dict[str, JsonValue]
    written: tuple[str, ...]
    number: int = 0
    deleted: tuple[str, ...] = ()


class Writer(Struct, frozen=True):
    """The writer of a workspace. Any thread may call it.

    Attributes:
        journal: A directory outside of it, only for this workspace; made when needed.
    """

    tree: Tree
    journal: Path
    _keys: OrderedDict[tuple[str, str, str], tuple[str, WriteResult]] = field(default_factory=OrderedDict)
    """The latest keys by owner and tool, with a digest of the request's other arguments, and the result."""
    _keys_lock: threading.Lock = field(default_factory=threading.Lock)

    def apply_patch(self, patch: str, options: WriteOptions = USUAL, owner: str = "") -> WriteResult:
        """Apply a patch in the V4A dialect, all or nothing. ``owner``: whose idempotency keys count; opaque.

        Raises:
            WorkspaceError: Why it is invalid, or does not apply.
        """
        demand_unicode(patch, "the patch")

        @translate_patch_errors()
        def stage(staging: Staging) -> None:
            stage_patch(staging, parse_patch(patch))

        arguments: dict[str, JsonValue] = {"patch": patch, "dry_run": options.dry_run}
        return self._once((owner, "apply_patch"), arguments, options, stage)

    @contextmanager
    def stage_at_once(
        self, operations: Sequence[Operation], most_bytes: int
    ) -> Iterator[tuple[Mapping[str, str], Callable[[], WriteResult]]]:
        """The location of each path of a patch that applies, and a function that applies it. It never blocks, and
        nobody else writes within the context.

        Raises:
            BlockingIOError: Somebody else is writing, or was interrupted.
            WorkspaceError: It does not apply; its hunks take long to find; it has more bytes, before and after, than
                ``most_bytes``; or it concerns another mount than the root's, or leads through a link.
        """
        with Journal.lock(self.journal, waits=False) as journal, ExitStack() as stack:
            if is_interrupted(last := journal.last()):  # the interrupted commit may concern another mount
                raise BlockingIOError
            tree = self.tree.within_one_mount().through_no_link()
            staging = Staging(tree, stack, most_bytes=most_bytes, effort=_SHORT_EFFORT)
            stage_patch(staging, operations)
            yield staging.places, lambda: self._commit(journal, last_undoable(last), staging, USUAL, stack)

    def apply_changes(self, changes: Sequence[Change], options: WriteOptions = USUAL, owner: str = "") -> WriteResult:
        """Apply changes that name lines by number, all or none. ``owner``: as for ``apply_patch``.

        Raises:
            WorkspaceError: Why they are invalid, or do not apply.
        """

        def stage(staging: Staging) -> None:
            check_changes(changes)
            stage_changes(staging, changes)

        plain: list[JsonValue] = [change.model_dump(mode="json", exclude_none=True) for change in changes]
        demand_unicode(dumps(plain, ensure_ascii=False), "a change")
        return self._once((owner, "apply_changes"), {"changes": plain, "dry_run": options.dry_run}, options, stage)

    def edit_file(self, replacement: Replacement, options: WriteOptions = USUAL, owner: str = "") -> WriteResult:
        """Replace a text in a file. ``owner``: as for ``apply_patch``.

        Raises:
            WorkspaceError: Why it is invalid, or does not apply.
        """
        if not replacement.old_string:  # other clients' tools of this name create a file then
            raise WorkspaceError(
                "INVALID_ARGUMENT",
                "old_string is empty",
                hint="a new file is made by apply_changes with the action create, or by apply_patch with Add File",
            )
        plain: dict[str, JsonValue] = {name: getattr(replacement, name) for name in Replacement.model_fields}
        demand_unicode(dumps(plain, ensure_ascii=False), "a text")
        arguments = {**plain, "dry_run": options.dry_run}
        caller = owner, "edit_file"
        return self._once(caller, arguments, options, lambda staging: stage_replacement(staging, replacement))

    def undo(self) -> WriteResult:
        """Undo the last change that is not undone yet, if its files are as it left them.

        Raises:
            WorkspaceError: NOT_FOUND if there is none, REVISION_MISMATCH if a file was changed since.
        """
        with Journal.lock(self.journal) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            last = undo.find_latest(self.tree, journal)
            entry = undo.load_entry(journal.directory, last)
            if entry is None:
                raise WorkspaceError("NOT_FOUND", "there is no change that could be taken back")
            staging = Staging(self.tree, stack)
            for saved_file, content in entry.files:
                undo.restore_file(staging, saved_file, content)
            targets = staging.finish()
            record = plan_commit(targets, (last, last - 1), tuple(reversed(entry.new_directories)))
            staging.report.warnings += stack.enter_context(commit(self.tree, journal, targets, record))
            undo.forget_entry(journal.directory, last)
            return _outcome(staging, USUAL)

    def describe_undo(self) -> list[tuple[UndoOperation, str]]:
        """What ``undo`` would now do to which path, if these files are as the change left them; [] if there is no
        change.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, RUNTIME_DIR_UNWRITABLE.
        """
        with Journal.lock(self.journal) as journal:
            recover(self.tree, journal)
            entry = undo.load_entry(journal.directory, undo.find_latest(self.tree, journal))
        return [(undo.undo_operation(saved_file), saved_file.path) for saved_file, _ in entry.files] if entry else []

    def adopt(self, number: int, revisions: Mapping[str, str]) -> None:
        """Make the hooks' edits of a change's files, by their new revisions, part of it: undo reverts them too.

        Raises:
            OSError: There is no space. The change then can't be undone.
        """
        with Journal.lock(self.journal) as journal:
            if last_undoable(journal.last()) == number:
                undo.adopt_revisions(journal.directory, number, revisions)

    def recover(self) -> Recovery:
        """Roll back or complete a change that a crash has interrupted. Each change does so first. Call it when a server
        starts: here a journal that is outdated after a power cut catches up.

        Raises:
            WorkspaceError: PATCH_ROLLBACK_FAILED, RUNTIME_DIR_UNWRITABLE.
        """
        with Journal.lock(self.journal) as journal:
            recovery = recover(self.tree, journal)
            undo.catch_up(self.tree, journal)
            return recovery

    def _once(
        self,
        caller: tuple[str, str],
        arguments: dict[str, JsonValue],
        options: WriteOptions,
        stage: Callable[[Staging], None],
    ) -> WriteResult:
        """Write a change once. Requests with the same key wait for each other, and get the answer of the first that
        succeeds. ``caller``: the owner and the tool.
        """
        key = options.idempotency_key
        if key is None:
            return self._write(options, stage)
        mark = sha256(dumps(arguments, sort_keys=True).encode()).hexdigest()
        with self._keys_lock:  # one lock for all keys: writes take turns anyway
            if (*caller, key) not in self._keys:
                result = self._write(options, stage)
                if not options.dry_run:
                    self._keys[*caller, key] = mark, result
                    if len(self._keys) > MAX_KEYS:
                        del self._keys[choose_forgotten([(used, used[0], 1) for used in self._keys])]
                return result
            self._keys.move_to_end((*caller, key))
            first_mark, result = self._keys[*caller, key]
        if first_mark != mark:
            raise WorkspaceError(
                "IDEMPOTENCY_KEY_REUSED",
                f"the key {key} was used by {caller[1]} with other arguments",
                hint="repeat the first request as it was, or choose another key",
                details={"tool": caller[1], "idempotency_key": key},
            )
        return WriteResult({**result.answer, "idempotent_replay": True}, ())

    def _write(self, options: WriteOptions, stage: Callable[[Staging], None]) -> WriteResult:
        with Journal.lock(self.journal) as journal, ExitStack() as stack:
            recover(self.tree, journal)
            staging = Staging(self.tree, stack)
            stage(staging)
            return self._commit(journal, last_undoable(journal.last()), staging, options, stack)

    def _commit(
        self, journal: Journal, last: int, staging: Staging, options: WriteOptions, stack: ExitStack
    ) -> WriteResult:
        targets = staging.finish()
        record = plan_commit(targets, (last, last + 1))
        if record.steps and not options.dry_run:
            changing = [target for target in targets if target.changes]
            try:
                undo.save_entry(journal.directory, last + 1, changing, record.made)
            except OSError as error:
                staging.report.warnings.append(f"this change can't be taken back: {error.strerror}")
            try:
                staging.report.warnings += stack.enter_context(commit(staging.tree, journal, targets, record))
            except BaseException:
                undo.forget_entry(journal.directory, last + 1)
                raise
            return replace(_outcome(staging, options), number=last + 1)
        return _outcome(staging, options)


def _outcome(staging: Staging, options: WriteOptions) -> WriteResult:
    changed = [target for target in staging.targets.values() if target.changes]
    answer = staging.report.answer(dry_run=options.dry_run, already_applied=not changed)
    done = () if options.dry_run else changed
    return WriteResult(
        answer,
        written=tuple(each.place.path for each in done if each.content is not None),
        deleted=tuple(each.place.path for each in done if each.content is None),
    )
