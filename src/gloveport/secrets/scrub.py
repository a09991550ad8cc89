"""Takes secrets out of what is on its way, whatever form they have, and however the stream is cut into pieces.

Every byte that belongs to a form of a secret goes. Forms that overlap become one replacement, named after the one that
begins first and, of those, is longest: replacing one and then looking on would let the rest of the other pass.

An automaton finds heads, the first bytes of forms; where one is, the forms that begin so are compared. So it stays
small with long secrets, and tells in the same pass what must be held back: a head that could become a form with what
comes next. Nothing else is held back, and never more than the longest form.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Self, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from gloveport.secrets.forms import base64_cores, echoes, spellings

MIN_SECRET_CHARS = 8
MIN_LITERAL_CHARS = 4
HEAD_BYTES = 8

NAME = re.compile(r"[A-Za-z0-9._-]+")
FOLDS = (b"\n", b"\r\n", b"\\n", b"\\r\\n")
FOLD = re.compile(rb"(?:[\r\n]|\\[rn]){1,2}")
_OPEN = (b"", b"\\")  # what may yet become a fold
_STEP = 32


@dataclass(frozen=True, slots=True, repr=False)
class Plain:
    """A form that is the same wherever it stands."""

    form: bytes
    name: str
    mark: bytes

    def heads(self) -> Iterable[bytes]:
        """What it may begin with."""
        return (self.form[:HEAD_BYTES],)

    def end(self, data: bytes, at: int) -> int:
        """Where it ends if it begins at ``at``: behind the data if they end before it does, -1 if it is not there."""
        stop = at + len(self.form)
        if stop <= len(data):
            return stop if data.startswith(self.form, at) else -1
        return len(data) + 1 if self.form.startswith(data[at:]) else -1


@dataclass(frozen=True, slots=True, repr=False)
class Folded:
    """Base64, which mail and some APIs break into lines, of eight characters at least."""

    form: bytes
    name: str
    mark: bytes

    def heads(self) -> Iterable[bytes]:
        """What it may begin with."""
        yield self.form[:HEAD_BYTES]
        for fold in FOLDS:
            yield from ((self.form[:at] + fold + self.form[at:])[:HEAD_BYTES] for at in range(1, HEAD_BYTES))

    def end(self, data: bytes, at: int) -> int:
        """As for a plain one."""
        done = 0
        while True:
            line = self._alike(data, at, done)
            done, at = done + line, at + line
            if done == len(self.form):
                return at
            if data[at : at + 2] in _OPEN:
                return len(data) + 1
            fold = FOLD.match(data, at)
            if not fold or not line:
                return -1
            at = fold.end()

    def _alike(self, data: bytes, at: int, done: int) -> int:
        """How many bytes of the data are those of the form, from here on. It costs no more than there are."""
        start = at
        while (step := self.form[done : done + _STEP]) and data.startswith(step, at):
            done, at = done + len(step), at + len(step)
        for one, other in zip(step, data[at : at + _STEP], strict=False):
            if one != other:
                break
            at += 1
        return at - start


Needle: TypeAlias = Plain | Folded


@dataclass(frozen=True, slots=True, repr=False)
class Group:
    """The forms that begin with one head.

    Attributes:
        common: What they all begin with, which is more than the head when they differ in escapes alone.
    """

    common: bytes
    needles: tuple[Needle, ...]

    @classmethod
    def of(cls, head: bytes, needles: Iterable[Needle]) -> Self:
        """The group of these needles."""
        needles = tuple(needles)
        forms = [needle.form if isinstance(needle, Plain) else head for needle in needles]
        first, last = min(forms), max(forms)
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(first, last, strict=False))
        return cls(bytes(byte for byte, _ in alike), needles)


Hit: TypeAlias = tuple[int, int, Needle]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Needles:
    """What is to be found. Made rarely, used by any number of scrubbers at once; empty, it is false."""

    _heads: BytesAhoCorasick | None = None
    _groups: tuple[Group, ...] = ()
    _begun: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> Self:
        """The needles for secrets, by their names: each form of a value becomes ``[secret NAME]``.

        White space around a value is no part of it. Of two names with one value the first counts.

        Raises:
            ValueError: A name has other characters than letters, digits, ``.``, ``_`` and ``-``, or a value less than
                eight, which would be found by chance.
        """
        needles: dict[bytes, Needle] = {}
        for name, padded in secrets.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a secret")
            value, mark = padded.strip(), f"[secret {name}]".encode()
            if len(value) < MIN_SECRET_CHARS:
                raise ValueError(f"the value of {name} is shorter than {MIN_SECRET_CHARS} characters")
            for core in base64_cores(value):
                needles.setdefault(core, Folded(core, name, mark))
            for form in echoes(value):
                needles.setdefault(form, Plain(form, name, mark))
        return cls._made(needle for form, needle in needles.items() if len(form) >= MIN_SECRET_CHARS)

    @classmethod
    def literal(cls, texts: Iterable[str], replacement: str) -> Self:
        """The needles for texts that are no secrets: each spelling of them becomes ``replacement``.

        Raises:
            ValueError: A text is shorter than four characters.
        """
        mark = replacement.encode()
        needles: dict[bytes, Needle] = {}
        for text in texts:
            if len(text) < MIN_LITERAL_CHARS:
                raise ValueError(f"a text to replace is shorter than {MIN_LITERAL_CHARS} characters")
            for form in spellings(text):
                needles.setdefault(form, Plain(form, replacement, mark))
        return cls._made(needles.values())

    @classmethod
    def _made(cls, needles: Iterable[Needle]) -> Self:
        by_head: defaultdict[bytes, list[Needle]] = defaultdict(list)
        for needle in needles:
            for head in needle.heads():
                by_head[head].append(needle)
        if not by_head:
            return cls()
        return cls(
            BytesAhoCorasick(list(by_head), MatchKind.Standard, Implementation.DFA),
            tuple(Group.of(head, needles) for head, needles in by_head.items()),
            frozenset(head[:size] for head in by_head for size in range(1, len(head))),
        )

    def __bool__(self) -> bool:
        return self._heads is not None

    def search(self, data: bytes) -> tuple[list[Hit], int]:
        """The forms in the data, by where they begin, the longer first; and from where on more could begin."""
        if self._heads is None:
            return [], len(data)
        undecided = self._begun_at(data)
        hits: list[Hit] = []
        for head, at, _ in self._heads.find_matches_as_indexes(data, overlapping=True):
            group = self._groups[head]
            if not data.startswith(group.common, at) and at + len(group.common) <= len(data):
                continue
            for needle in group.needles:
                end = needle.end(data, at)
                if end > len(data):
                    undecided = min(undecided, at)
                elif end > 0:
                    hits.append((at, end, needle))
        hits.sort(key=lambda hit: (hit[0], -hit[1]))
        return hits, undecided

    def _begun_at(self, data: bytes) -> int:
        for at in range(max(0, len(data) - HEAD_BYTES + 1), len(data)):
            if data[at:] in self._begun:
                return at
        return len(data)


@dataclass(slots=True, repr=False)
class Scrubber:
    """Scrubs one stream. Whatever its pieces, what comes out is together what :func:`scrub` makes of the whole.

    Attributes:
        found: Names of the secrets that were met.
    """

    _needles: Needles
    found: set[str] = field(default_factory=set)
    _tail: bytes = b""
    _gone: int = 0  # of the tail's first bytes: they belong to a form that was replaced already

    def renew(self, needles: Needles) -> None:
        """Look for these from here on, also in what is held back: it may be the beginning of one of them."""
        self._needles = needles

    def feed(self, data: bytes) -> bytes:
        """What can be let out now that these bytes have come."""
        if not self._needles:
            return data
        if self._tail:
            data = self._tail + data
        hits, undecided = self._needles.search(data)
        return self._let_out(data, hits, undecided)

    def finish(self) -> bytes:
        """What was held back, when nothing more comes."""
        if not self._tail:
            return b""
        hits, _ = self._needles.search(self._tail)
        return self._let_out(self._tail, hits, len(self._tail))

    def _let_out(self, data: bytes, hits: list[Hit], until: int) -> bytes:
        clean: list[bytes] = []
        at = self._gone
        for start, end, needle in hits:
            if start >= until:
                break
            self.found.add(needle.name)
            if start >= at:
                clean += (data[at:start], needle.mark)
            at = max(at, end)
        self._tail, self._gone = data[until:], max(0, at - until)
        if not clean and at == 0:
            return data[:until]
        return b"".join((*clean, data[at:until]))


def scrub(needles: Needles, data: bytes) -> bytes:
    """The data without any form of any of the secrets; the same object where there is none."""
    return Scrubber(needles, _tail=data).finish()


def scrub_text(needles: Needles, text: str) -> str:
    """As :func:`scrub`, for text, which may hold lone surrogates."""
    data = text.encode("utf-8", "surrogatepass")
    clean = scrub(needles, data)
    if clean is data:
        return text
    try:
        return clean.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a form in another encoding began or ended within a character
        return clean.decode("utf-8", "replace")
