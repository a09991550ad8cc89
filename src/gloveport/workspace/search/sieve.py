"""Which files of an engine's answer are left out after all: hidden ones, and those that a .gitignore says.

ripgrep leaves out most of them by itself, and saves the time to search them. But a glob that includes a file makes it
forget both reasons, and before version 14 it forgets rules of directories above the one in which it starts.
"""

from dataclasses import dataclass, field

from gloveport.workspace.files.gitignore import Ignore, is_ignored, read_ignore
from gloveport.workspace.files.tree import Tree, spell_path


@dataclass(frozen=True, slots=True)
class _Directory:
    left_out: bool
    rules: tuple[Ignore, ...]
    """Its own, and those of the directories above it, the nearest first."""


@dataclass(slots=True)
class Sieve:
    """What passes below one directory, which itself may be hidden or ignored: who names it wants to see it.

    Attributes:
        tree: The workspace.
        start: Path of the directory.
    """

    tree: Tree
    start: str
    _known: dict[bytes, _Directory] = field(default_factory=dict)

    def passes(self, path: bytes) -> bool:
        """Whether a file comes back."""
        parts = path.split(b"/")
        inside = 0 if self.start == "." else self.start.count("/") + 1
        directory = self._known.get(b"/".join(parts[:-1]))
        if directory is None:
            directory = self._look(b"", _Directory(left_out=False, rules=()), parts[0], is_below=False)
            for number in range(1, len(parts)):
                directory = self._look(
                    b"/".join(parts[:number]), directory, parts[number - 1], is_below=number > inside
                )
        return not (directory.left_out or parts[-1].startswith(b".") or is_ignored(directory.rules, path, "file"))

    def _look(self, path: bytes, above: _Directory, name: bytes, *, is_below: bool) -> _Directory:
        if path not in self._known:
            left_out = is_below and (
                above.left_out or name.startswith(b".") or is_ignored(above.rules, path, "directory")
            )
            own = None if left_out else read_ignore(self.tree, spell_path(path) or ".")
            self._known[path] = _Directory(left_out, above.rules if own is None else (own, *above.rules))
        return self._known[path]
