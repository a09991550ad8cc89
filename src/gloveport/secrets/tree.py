"""Forms as a tree of how they begin: those that begin alike are compared together, as far as they are alike.

To compare them one by one would let whoever repeats what hundreds of forms begin with stop the server.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

FOLDS = (b"\n", b"\r\n", b"\\n", b"\\r\\n")
FOLD = re.compile(rb"\r?\n|(?:\\r)?\\n")
RUN_BYTES = 8
RUN = rb"[A-Za-z0-9+/=_-]{%d}" % RUN_BYTES
"""What a fold stands behind: whether a line may be folded is told by what stands in it, not by what is looked for."""

_RUN = re.compile(RUN)
_STEP = 32


@dataclass(frozen=True, slots=True, repr=False)
class Needle:
    """What a form is replaced by, and the name of what it is a form of."""

    name: str
    mark: bytes


@dataclass(slots=True, repr=False, eq=False)
class Tree:
    """Some forms, or what remains of them behind what they have begun with.

    Attributes:
        label: What they go on with.
        needle: That of the form which ends behind it, if one does.
        branches: The longer ones, by their next byte.
    """

    label: bytes = b""
    needle: Needle | None = None
    branches: dict[int, "Tree"] = field(default_factory=dict)

    def add(self, form: bytes, needle: Needle) -> None:
        """Add a form, which is not empty. One that is there already keeps its needle."""
        node, at = self, 0
        while at < len(form):
            child = node.branches.get(form[at])
            if child is None:
                node.branches[form[at]] = Tree(form[at:], needle)
                return
            alike = _alike(child.label, 0, form, at)
            if alike < len(child.label):
                common = Tree(child.label[:alike], None, {child.label[alike]: child})
                child.label = child.label[alike:]
                node.branches[form[at]] = child = common
            node, at = child, at + alike
        node.needle = node.needle or needle

    def ends(self, data: bytes, at: int) -> Iterator[tuple[int, Needle]]:
        """Where those end that begin at ``at``, the shorter first."""
        node = self
        while at < len(data):
            child = node.branches.get(data[at])
            if child is None or not data.startswith(child.label, at):
                return
            node, at = child, at + len(child.label)
            if node.needle is not None:
                yield at, node.needle

    def folded_ends(self, data: bytes, at: int) -> Iterator[tuple[int, Needle]]:
        """As ``ends``, of base64, which mail and some APIs break into lines."""
        node = self
        while at < len(data):
            child = node.branches.get(data[at])
            if child is None or (at := _along(child.label, data, at)) < 0:
                return
            node = child
            if node.needle is not None:
                yield at, node.needle
            at = _behind_fold(data, at)


def _along(label: bytes, data: bytes, at: int) -> int:
    """Where the label ends, which begins at ``at`` and may be folded; -1 if it does not."""
    done = 0
    while True:
        line = _alike(label, done, data, at)
        done, at = done + line, at + line
        if done == len(label):
            return at
        behind = _behind_fold(data, at)
        if behind == at:
            return -1
        at = behind


def _behind_fold(data: bytes, at: int) -> int:
    """Where the fold ends that is here, if one is."""
    fold = FOLD.match(data, at)
    return fold.end() if fold and at >= RUN_BYTES and _RUN.match(data, at - RUN_BYTES) else at


def _alike(one: bytes, start: int, other: bytes, at: int) -> int:
    """How many bytes of both are the same, from these places on. It costs no more than there are."""
    done = start
    while (step := one[done : done + _STEP]) and other.startswith(step, at):
        done, at = done + len(step), at + len(step)
    for mine, theirs in zip(step, other[at : at + _STEP], strict=False):
        if mine != theirs:
            break
        done += 1
    return done - start
