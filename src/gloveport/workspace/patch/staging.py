"""Stages files in memory as they would be after a change, and collects the report about them: nothing is written here.

Each name is read once, by descriptor, and later operations see the result of earlier ones.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Final

from msgspec import Struct, field

from gloveport.model.json_value import JsonValue
from gloveport.patch_text.matching import EFFORT
from gloveport.patch_text.text import Grade, Range, count_lines, count_ranges, revision
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.descriptors import read_all
from gloveport.workspace.files.tree import LIST_FILES, Tree, WriteLocation
from gloveport.workspace.patch.file_swap import MAX_BYTES, MAX_EXTENDED_BYTES, PERMISSIONS, Attributes
from gloveport.workspace.tool_types import next_action

MAX_TOTAL_BYTES: Final = 64 << 20
"""The most bytes of all old and new contents of one change."""

MAX_FILES: Final = 200
"""The most files of one change: each holds a descriptor open until the change is written."""

_LETTERS: Final = {
    "add": "A",
    "create": "A",
    "update": "M",
    "write": "M",
    "edit": "M",
    "delete": "D",
    "unchanged": "=",
    "move": "R",
    "copy": "C",
}


class OriginalFile(Struct, frozen=True):
    """A file as it was read: its content, its revision, its status when it was opened, and its attributes."""

    content: bytes
    revision: str
    status: os.stat_result
    attributes: Attributes


class StagedFile(Struct):
    """One name, with its present file and its new content.

    Attributes:
        place: Its location, held open.
        before: The present file; None if there is none.
        content: The new content; None if there shall be no file.
        revision: Revision of the new content.
        attributes: Attributes of the new file; None: those of the present one, or the defaults.
    """

    place: WriteLocation
    before: OriginalFile | None
    content: bytes | None
    revision: str | None
    attributes: Attributes | None = None

    @property
    def path(self) -> str:
        """Its path."""
        return self.place.path

    @property
    def kept_attributes(self) -> Attributes | None:
        """The attributes that go with the content; None for a new file."""
        return self.attributes or (self.before.attributes if self.before else None)

    @property
    def changes(self) -> bool:
        """Whether anything changes."""
        return self.revision != (self.before.revision if self.before else None)


class ChangeReport(Struct):
    """The report of what a change did, or would do, in the fields that clients know. Grows with each operation."""

    files: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    """By path. The last report about a file counts."""
    summary: list[str] = field(default_factory=list)
    additions: int = 0
    removals: int = 0
    warnings: list[str] = field(default_factory=list)

    def tell(
        self,
        operation: str,
        target: StagedFile,
        changed: Sequence[Range] = (),
        *,
        counts: tuple[int, int] | None = None,
        source: str | None = None,
        grade: Grade | None = None,
    ) -> None:
        """Report an operation on a file: its new content, its source, and how many lines are added and removed."""
        path = target.path
        facts = self._describe(operation, path, target.content, changed)
        if target.revision is not None:
            facts["revision"] = target.revision
        if source is not None:
            facts["old_path"] = source
        if grade is not None:
            facts["match_quality"] = grade
        if operation == "move" and source is not None and source != path:
            self._describe("delete", source, None, ())
        self.summary.append(f"{_LETTERS[operation]} {path if source is None else f'{source} -> {path}'}")
        added, removed = counts or count_ranges(changed)
        self.additions += added
        self.removals += removed

    def _describe(
        self, operation: str, path: str, content: bytes | None, changed: Sequence[Range]
    ) -> dict[str, JsonValue]:
        ranges: list[JsonValue] = [{**each} for each in changed]
        lines = count_lines(content or b"")
        self.files[path] = {"path": path, "operation": operation, "total_lines": lines, "changed_ranges": ranges}
        return self.files[path]

    def answer(self, *, dry_run: bool, already_applied: bool) -> dict[str, JsonValue]:
        """The answer's fields on the wire."""
        return {
            "dry_run": dry_run,
            "clean": True,
            "already_applied": already_applied,
            "revision_algorithm": "sha256",
            "summary": "\n".join(self.summary),
            "affected_files": [*self.files.values()],
            "additions": self.additions,
            "removals": self.removals,
            "warnings": [*self.warnings],
        }


class Staging(Struct):
    """The files of one change.

    Attributes:
        stack: Closes their locations.
        targets: By path.
        most_bytes: The most bytes of all files, before and after.
        effort: How much the hunks of one file may be searched for: see ``place_hunks``.
    """

    tree: Tree
    stack: ExitStack
    targets: dict[str, StagedFile] = field(default_factory=dict)
    report: ChangeReport = field(default_factory=ChangeReport)
    most_bytes: int = MAX_TOTAL_BYTES
    effort: int = EFFORT
    _by_given_name: dict[str, StagedFile] = field(default_factory=dict)
    """Files by the given name, which may lead through a link."""

    _bytes: int = field(default=0)

    def target(self, path: str) -> StagedFile:
        """The file of a name, found and read on first use.

        Raises:
            WorkspaceError: As ``Tree.locate`` and ``Tree.open_file``; PATCH_FAILED if it is too large, or all are.
        """
        if path not in self._by_given_name:
            self._by_given_name[path] = self._find(path)
        return self._by_given_name[path]

    @property
    def places(self) -> Mapping[str, str]:
        """The path of each requested file, by its requested name."""
        return {name: target.path for name, target in self._by_given_name.items()}

    def _find(self, path: str) -> StagedFile:
        with ExitStack() as file_stack:
            place = file_stack.enter_context(self.tree.locate(path))
            if place.path in self.targets:
                return self.targets[place.path]
            if len(self.targets) >= MAX_FILES:
                raise WorkspaceError("PATCH_FAILED", f"more than {MAX_FILES} files at once", hint="split the change")
            before = self._read(place.path) if place.status else None
            if before and place.status and before.status.st_ino != place.status.st_ino:
                raise conflict(place.path)
            target = StagedFile(place, before, *((before.content, before.revision) if before else (None, None)))
            self.targets[place.path] = target
            self.stack.push(file_stack.pop_all())
            return target

    def existing(self, path: str) -> tuple[StagedFile, bytes]:
        """An existing file, and its content.

        Raises:
            WorkspaceError: NOT_FOUND; or as ``target``.
        """
        target = self.target(path)
        if target.content is None:
            what = f"{path} does not exist"
            raise WorkspaceError("NOT_FOUND", what, hint=LIST_FILES, details={"path": target.path})
        return target, target.content

    def put(self, target: StagedFile, content: bytes | None, attributes: Attributes | None = None) -> None:
        """Give a name a new content, or none.

        Raises:
            WorkspaceError: PATCH_FAILED if it is too large.
        """
        if content is not None:
            self._weigh(target.path, len(content))
        target.content, target.attributes = content, attributes
        target.revision = None if content is None else revision(content)

    def finish(self) -> list[StagedFile]:
        """All files, and warnings about side effects of replacing some."""
        for target in self.targets.values():
            if not target.changes or target.content is None:
                continue
            path = target.path
            if target.before and target.before.status.st_nlink > 1:
                # Writing in place could leave half a file after a kill, and readers would see one.
                self.report.warnings.append(
                    f"{path} has other names (hard links), which keep the old content: it is replaced, not overwritten"
                )
            if target.kept_attributes and target.kept_attributes.mode & ~PERMISSIONS:
                self.report.warnings.append(f"{path}: set-user-id, set-group-id and sticky bits are not kept")
        return list(self.targets.values())

    def _read(self, path: str) -> OriginalFile:
        try:
            with self.tree.open_file(path) as opened:
                self._weigh(path, opened.status.st_size)
                content = read_all(opened.descriptor, MAX_BYTES)
                attributes = Attributes.of(opened.descriptor, opened.status)
        except WorkspaceError as error:
            if error.code in {"NOT_FOUND", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE"}:
                raise conflict(path) from error  # it existed a moment ago
            raise
        if content is None:  # it grows while we read it
            raise conflict(path)
        if attributes is None:
            what = f"{path} has more than {MAX_EXTENDED_BYTES >> 10} KiB of extended attributes"
            raise WorkspaceError("PATCH_FAILED", what, hint="change it with a command", details={"path": path})
        return OriginalFile(content, revision(content), opened.status, attributes)

    def _weigh(self, path: str, size: int) -> None:
        self._bytes += size
        if size > MAX_BYTES or self._bytes > self.most_bytes:
            what = f"{path} is larger than {MAX_BYTES >> 20} MiB" if size > MAX_BYTES else "the files are too large"
            raise WorkspaceError(
                "PATCH_FAILED",
                f"{what}; together they may have {self.most_bytes >> 20} MiB, before and after",
                hint="change it with a command",
                details={"path": path},
            )


def conflict(path: str) -> WorkspaceError:
    """The error if somebody else is changing a file at this moment."""
    return WorkspaceError(
        "PATCH_CONFLICT",
        f"{path} was changed by somebody else at this moment; nothing was written",
        hint="read it again, and repeat the change if it still makes sense",
        details={"path": path},
    )


def demand_revision(target: StagedFile, expected_revision: str | None, where: str) -> None:
    """Check that a change was made for the present revision of a file.

    Raises:
        WorkspaceError: REVISION_REQUIRED, REVISION_MISMATCH.
    """
    if expected_revision is None:
        raise WorkspaceError(
            "REVISION_REQUIRED",
            f"{where} needs the revision of {target.path}",
            hint="read_file tells it",
            details={"path": target.path, "current_revision": target.revision, **_look_again(target.path)},
        )
    if expected_revision != target.revision:
        raise mismatch(target, expected_revision)


def mismatch(target: StagedFile, expected: str | None) -> WorkspaceError:
    """The error if a file has another revision than a change was made for."""
    path = target.path
    details: dict[str, JsonValue] = {"path": path, "expected_revision": expected}
    if target.content is None:
        return WorkspaceError(
            "REVISION_MISMATCH", f"{path} does not exist, and had a revision", details={**details, "exists": False}
        )
    details |= {"current_revision": target.revision, "total_lines": count_lines(target.content), **_look_again(path)}
    hint = "read it again, and make the change for what it is now"
    return WorkspaceError("REVISION_MISMATCH", f"{path} is not what it was", hint=hint, details=details)


def _look_again(path: str) -> dict[str, JsonValue]:
    return {"revision_algorithm": "sha256", "next_action": next_action("read_file", path=path)}
