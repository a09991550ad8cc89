"""Files as they would be after a change, in memory: nothing is written here.

Each name is read once, by descriptor, and what later operations see of it is what earlier ones made of it.
"""

import os
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.patch.attributes import PERMISSIONS, Attributes
from gloveport.workspace.patch.report import Report
from gloveport.workspace.patch.steps import MAX_BYTES
from gloveport.workspace.patch.target import Original, Target
from gloveport.workspace.patch.text import count, revision

MAX_TOTAL_BYTES: Final = 64 << 20
"""Of all old and new contents of one change."""

MAX_FILES: Final = 200
"""Each holds a descriptor open until the change is written."""


@dataclass(slots=True)
class Staging:
    """The files of one change.

    Attributes:
        tree: Where they lie.
        stack: Closes their places.
        targets: By path.
        report: What is told of them.
        most_bytes: Of all of them, before and after.
    """

    tree: Tree
    stack: ExitStack
    targets: dict[str, Target] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    most_bytes: int = MAX_TOTAL_BYTES
    _asked: dict[str, Target] = field(default_factory=dict, init=False)
    """By the name that was given, which may lead through a link."""

    _bytes: int = field(default=0, init=False)

    def target(self, path: str) -> Target:
        """The file of a name, found and read when it is asked for first.

        Raises:
            WorkspaceError: As ``Tree.place`` and ``Tree.file``; PATCH_FAILED for what is too large or too much.
        """
        if path not in self._asked:
            self._asked[path] = self._found(path)
        return self._asked[path]

    def _found(self, path: str) -> Target:
        with ExitStack() as held:
            place = held.enter_context(self.tree.place(path))
            if place.path in self.targets:
                return self.targets[place.path]
            if len(self.targets) >= MAX_FILES:
                raise WorkspaceError("PATCH_FAILED", f"more than {MAX_FILES} files at once", hint="split the change")
            before = self._read(place.path) if place.status else None
            if before and place.status and before.status.st_ino != place.status.st_ino:
                raise conflict(place.path)
            target = Target(place, before, before.content if before else None)
            self.targets[place.path] = target
            self.stack.push(held.pop_all())
            return target

    def existing(self, path: str) -> tuple[Target, bytes]:
        """A file that is there, and its content.

        Raises:
            WorkspaceError: NOT_FOUND; or as ``target``.
        """
        target = self.target(path)
        if target.content is None:
            raise WorkspaceError("NOT_FOUND", f"{path} does not exist", details={"path": target.place.path})
        return target, target.content

    def put(self, target: Target, content: bytes | None, attributes: Attributes | None = None) -> None:
        """Let a name have a content, or none.

        Raises:
            WorkspaceError: PATCH_FAILED for what is too large.
        """
        if content is not None:
            self._weigh(target.place.path, len(content))
        target.content, target.attributes = content, attributes

    def settled(self) -> list[Target]:
        """All files, and warnings about what replacing some of them entails."""
        for target in self.targets.values():
            if not target.changes or target.content is None:
                continue
            path = target.place.path
            if target.before and target.before.status.st_nlink > 1:
                # Written in place, a kill would leave half a file, and readers would see one.
                self.report.warnings.append(
                    f"{path} has other names (hard links), which keep the old content: it is replaced, not overwritten"
                )
            if target.kept and target.kept.mode & ~PERMISSIONS:
                self.report.warnings.append(f"{path}: set-user-id, set-group-id and sticky bits are not kept")
        return list(self.targets.values())

    def _read(self, path: str) -> Original:
        try:
            with self.tree.file(path) as opened:
                self._weigh(path, opened.status.st_size)
                content = _content(opened.descriptor, path)
                return Original(content, opened.status, Attributes.of(opened.descriptor, opened.status))
        except WorkspaceError as error:
            if error.code in {"NOT_FOUND", "SYMLINK_ESCAPE", "PATH_OUTSIDE_WORKSPACE"}:
                raise conflict(path) from error  # it was there a moment ago
            raise

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
    """Somebody else changes a file at this moment."""
    return WorkspaceError(
        "PATCH_CONFLICT",
        f"{path} was changed by somebody else at this moment; nothing was written",
        hint="read it again, and repeat the change if it still makes sense",
        details={"path": path},
    )


def demand_revision(target: Target, content: bytes, given: str | None, where: str) -> None:
    """See that a change was made for the file as it is.

    Raises:
        WorkspaceError: REVISION_REQUIRED, REVISION_MISMATCH.
    """
    path, current = target.place.path, revision(content)
    if given is None:
        raise WorkspaceError(
            "REVISION_REQUIRED",
            f"{where} needs the revision of {path}",
            hint="read_file tells it",
            details={"path": path, "current_revision": current, **_look_again(path)},
        )
    if given != current:
        raise mismatch(path, given, content)


def mismatch(path: str, expected: str | None, content: bytes | None) -> WorkspaceError:
    """A file is not what a change was made for."""
    details: dict[str, JsonValue] = {"path": path, "expected_revision": expected}
    if content is None:
        return WorkspaceError(
            "REVISION_MISMATCH", f"{path} does not exist, and had a revision", details={**details, "exists": False}
        )
    return WorkspaceError(
        "REVISION_MISMATCH",
        f"{path} is not what it was",
        hint="read it again, and make the change for what it is now",
        details={
            **details,
            "current_revision": revision(content),
            "total_lines": count(content),
            **_look_again(path),
        },
    )


def _look_again(path: str) -> dict[str, JsonValue]:
    return {"revision_algorithm": "sha256", "next_action": {"tool": "read_file", "arguments": {"path": path}}}


def _content(descriptor: int, path: str) -> bytes:
    """All of a file, which may grow while it is read."""
    pieces, size = [], 0
    while piece := os.read(descriptor, 1 << 18):
        size += len(piece)
        if size > MAX_BYTES:
            raise conflict(path)
        pieces.append(piece)
    return b"".join(pieces)
