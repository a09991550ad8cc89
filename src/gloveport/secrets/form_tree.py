"""A prefix tree of forms: forms with a common prefix are compared together, as far as the prefix goes.

If forms were compared one by one, input that repeats a prefix of hundreds of forms could stop the server. And if they
were compared byte by byte, the time of a search would tell how far a guess is right, and so a secret byte by byte.
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
"""Text before a fold: whether a line may be folded depends on the line itself, not on the forms that are sought."""

_RUN = late_pattern(RUN)
_BREAK = late_pattern(rb"[\r\n\\]")
_STEP = 64
"""How many bytes are compared at once: too many to be guessed."""

_MOST_BEFORES = 8
"""Compared one by one. More forms have a common end only where they differ in the escapes of a few characters."""


@dataclass(frozen=True, slots=True, repr=False)
class Needle:
    """The replacement of a form, and the name of its secret.

    Attributes:
        befores: For the end of a form: what precedes that end in the whole forms.
    """

    name: str
    mark: bytes
    befores: tuple[bytes, ...] = ()

    def start(self, data: bytes, at: int) -> int:
        """Where the present part of the whole form begins, if its end begins at ``at``."""
        return min((at - _alike_before(before, data, at) for before in self.befores), default=at)


_NEVER: Final[tuple[int, Needle | None]] = (sys.maxsize, None)


@dataclass(slots=True, repr=False, eq=False)
class FormTree:
    """A set of forms, or their rests after a common prefix.

    Attributes:
        label: The bytes with which all of them continue.
        needle: The needle of the form that ends after the label, if one does.
        branches: The longer forms, by their next byte.
        least: How many first bytes count as the whole, for the form that needs the fewest; and its needle.
    """

    label: bytes = b""
    needle: Needle | None = None
    branches: dict[int, "FormTree"] = field(default_factory=dict)
    least: tuple[int, Needle | None] = _NEVER

    def add(self, form: bytes, needle: Needle, least: int = sys.maxsize) -> None:
        """Add a form, which must not be empty. A form that is present already keeps its needle. So many of its first
        bytes as ``least`` says count as the whole.
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
        """Where the forms end that begin at ``at``, shorter first, and a cut one that is long enough to count."""
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
        """As ``ends``, for base64, which mail and some APIs break into lines."""
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
    """The end of a label that begins at ``at`` and may be folded; -1 if the label is not there."""
    for done in range(0, len(label), _STEP):
        step = label[done : done + _STEP]
        line, at = _unfold(data, at, len(step))
        if line != step:
            return -1
    return at


def _unfold(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """So many bytes from ``at`` on without folds, or those before what is neither; and where they end."""
    line = b""
    while found := _BREAK.search(data, at, at + size - len(line)):
        line += data[at : found.start()]
        at = _behind_fold(data, found.start())
        if at == found.start():
            return line, at
    end = at + size - len(line)
    return line + data[at:end], end


def _behind_fold(data: bytes, at: int) -> int:
    """The end of a fold at ``at``, or ``at`` if there is none."""
    fold = FOLD.match(data, at)
    return fold.end() if fold and at >= RUN_BYTES and _RUN.match(data, at - RUN_BYTES) else at


def _alike_before(before: bytes, data: bytes, at: int) -> int:
    """How many last bytes of ``before`` stand in the data before ``at``."""
    low, most = 0, min(len(before), at)
    if data.endswith(before, 0, at):
        return len(before)
    while low < most:  # bisected: if a length does not match, no longer one does
        middle = (low + most + 1) // 2
        if data.endswith(before[-middle:], 0, at):
            low = middle
        else:
            most = middle - 1
    return low


def _alike(one: bytes, start: int, other: bytes, at: int) -> int:
    """How many bytes of both are the same, from these places on, in time linear in the result.

    Within a step, the time does not depend on it.
    """
    done = start
    while (step := one[done : done + _STEP]) and other.startswith(step, at):
        done, at = done + len(step), at + len(step)
    theirs = other[at : at + len(step)]
    different = int.from_bytes(step[: len(theirs)], "little") ^ int.from_bytes(theirs, "little")
    alike = (different & -different).bit_length() - 1 >> 3 if different else len(theirs)
    return done + alike - start
