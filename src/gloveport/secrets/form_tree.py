"""Forms as a tree of how they begin: those that begin alike are compared together, as far as they are alike.

To compare them one by one would let whoever repeats what hundreds of forms begin with stop the server.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from gloveport.late_pattern import late_pattern

MOST_INDENT = 16
"""Blanks that a line of base64 may be indented by, as in YAML."""

FOLDS = (b"\n", b"\r\n", b"\\n", b"\\r\\n")
FOLD = late_pattern(rb"(?:\r?\n|(?:\\r)?\\n)[ \t]{0,%d}" % MOST_INDENT)
RUN_BYTES = 8
RUN = rb"[A-Za-z0-9+/=_-]{%d}" % RUN_BYTES
"""What a fold stands behind: whether a line may be folded is told by what stands in it, not by what is looked for."""

_RUN = late_pattern(RUN)
_STEP = 32
_MOST_BEFORES = 8
"""Compared one after the other. More forms end alike only where they differ in how few characters are escaped."""


@dataclass(frozen=True, slots=True, repr=False)
class Needle:
    """What a form is replaced by, and the name of what it is a form of.

    Attributes:
        befores: What stands before it in whole forms, where it is the end of some.
    """

    name: str
    mark: bytes
    befores: tuple[bytes, ...] = ()

    def start(self, data: bytes, at: int) -> int:
        """Where what is there of the whole form begins, if its end begins at ``at``."""
        return min((at - _alike_before(before, data, at) for before in self.befores), default=at)


_NEVER: Final[tuple[int, Needle | None]] = (sys.maxsize, None)


@dataclass(slots=True, repr=False, eq=False)
class FormTree:
    """Some forms, or what remains of them behind what they have begun with.

    Attributes:
        label: What they go on with.
        needle: That of the form which ends behind it, if one does.
        branches: The longer ones, by their next byte.
        least: Bytes from the beginning on, of the form of which the fewest count as the whole; and its needle.
    """

    label: bytes = b""
    needle: Needle | None = None
    branches: dict[int, "FormTree"] = field(default_factory=dict)
    least: tuple[int, Needle | None] = _NEVER

    def add(self, form: bytes, needle: Needle, least: int = sys.maxsize) -> None:
        """Add a form, which is not empty. One that is there already keeps its needle.

        Args:
            form: Its bytes.
            needle: What it is replaced by.
            least: So many of its first bytes count as the whole.
        """
        cut = (least, needle) if least < len(form) else _NEVER
        node, at = self, 0
        while at < len(form):
            child = node.branches.get(form[at])
            if child is None:
                node.branches[form[at]] = FormTree(form[at:], needle, least=cut)
                return
            alike = _alike(child.label, 0, form, at)
            if alike < len(child.label):
                common = FormTree(child.label[:alike], None, {child.label[alike]: child}, child.least)
                child.label = child.label[alike:]
                node.branches[form[at]] = child = common
            if cut[0] < child.least[0]:
                child.least = cut
            node, at = child, at + alike
        if node.needle is None:
            node.needle = needle
        elif needle.befores:
            befores = dict.fromkeys((*node.needle.befores, *needle.befores))
            node.needle = replace(node.needle, befores=(*befores,)[:_MOST_BEFORES])

    def ends(self, data: bytes, at: int) -> Iterator[tuple[int, Needle]]:
        """Where those end that begin at ``at``, the shorter first, and one that is cut off but long enough to count."""
        node, start, last = self, at, -1
        cut: tuple[int, Needle | None] = (-1, None)
        while at < len(data):
            child = node.branches.get(data[at])
            if child is None:
                break
            if not data.startswith(child.label, at):
                if len(data) - start >= child.least[0]:
                    at += _alike(child.label, 0, data, at)
                    if at - start >= child.least[0]:
                        cut = at, child.least[1]
                break
            node, at = child, at + len(child.label)
            if at - start >= node.least[0]:
                cut = at, node.least[1]
            if node.needle is not None:
                last = at
                yield at, node.needle
        if cut[1] is not None and cut[0] > last:
            yield cut[0], cut[1]

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


def _alike_before(before: bytes, data: bytes, at: int) -> int:
    """How many bytes of it stand in the data before ``at``, its last ones."""
    low, most = 0, min(len(before), at)
    if data.endswith(before, 0, at):
        return len(before)
    while low < most:  # bisected: where so many are not alike, no more are
        middle = (low + most + 1) // 2
        if data.endswith(before[-middle:], 0, at):
            low = middle
        else:
            most = middle - 1
    return low


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
