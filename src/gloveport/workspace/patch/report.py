"""What a change did, or would do, to each file: the answer, in the fields that clients know."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from gloveport.workspace.patch.likeness import Grade
from gloveport.workspace.patch.text import Range, count, revision

_LETTERS: Final = {"add": "A", "create": "A", "update": "M", "write": "M", "edit": "M", "delete": "D", "unchanged": "="}
_PAIR_LETTERS: Final = {"move": "R", "copy": "C"}


@dataclass(slots=True)
class Report:
    """Grows with each operation. What is told of a file last is what stands."""

    files: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    summary: list[str] = field(default_factory=list)
    additions: int = 0
    removals: int = 0
    warnings: list[str] = field(default_factory=list)

    def tell(
        self,
        path: str,
        operation: str,
        content: bytes | None,
        changed: Sequence[Range] = (),
        old_path: str | None = None,
        grade: Grade | None = None,
    ) -> None:
        """Of one file: what was done, and what it holds afterwards."""
        told: dict[str, JsonValue] = {"path": path, "operation": operation}
        if content is not None:
            told["revision"] = revision(content)
        told |= {"total_lines": count(content or b""), "changed_ranges": [{**each} for each in changed]}
        if old_path is not None:
            told["old_path"] = old_path
        if grade is not None:
            told["match_quality"] = grade
        self.files[path] = told

    def summarise(self, operation: str, path: str, destination: str | None = None) -> None:
        """One line for people and models."""
        if destination is None:
            self.summary.append(f"{_LETTERS[operation]} {path}")
        else:
            self.summary.append(f"{_PAIR_LETTERS[operation]} {path} -> {destination}")

    def counted(self, added: int, removed: int) -> None:
        """Lines that come and go."""
        self.additions += added
        self.removals += removed

    def answer(self, *, dry_run: bool, already_applied: bool) -> dict[str, JsonValue]:
        """The wire's fields."""
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
