"""Scrubs secrets from streams and texts, in whatever form, and however the stream is cut into pieces.

Every byte that belongs to a form of a secret is removed. Overlapping forms become one replacement, named after the form
that begins first and, of those, is longest: to replace one and then search on would let the rest of the other pass.

The moment of release depends only on public facts: how many bytes have come, and where lines end. If the beginning of a
form were held back because it is one, an observer of the timing could guess a secret byte by byte.

An automaton finds heads, the first bytes of forms; at each head, the forms are compared. So the automaton stays small
even for long secrets.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self, TypeAlias

from ahocorasick_rs import BytesAhoCorasick, Implementation, MatchKind

from gloveport.late_pattern import late_pattern
from gloveport.model.json_value import JsonValue
from gloveport.secrets.form_tree import FOLDS, MOST_INDENT, RUN, RUN_BYTES, FormTree, Needle
from gloveport.secrets.forms import Forms, spellings

MIN_SECRET_CHARS = 8
MIN_LITERAL_CHARS = 4
MIN_HOLD_BYTES = 512
HEAD_BYTES = 8

_BETWEEN_TEXTS = "\n\x00\n"
NAME = late_pattern(r"[A-Za-z0-9._-]+")
LINE_END = late_pattern(rb"(?<!%b)(?<!%b\r)\n" % (RUN, RUN))  # no fold, so no form continues after it
_LONGEST_FOLD = max(map(len, FOLDS)) + MOST_INDENT
_FAST_HEADS = 1024  # more are slower to build into the fast automaton than they are worth


Hit: TypeAlias = tuple[int, int, Needle]


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Needles:
    """The forms of secrets to find. Made rarely, shared by any number of scrubbers; false if empty.

    Attributes:
        hold: At least the length of each form, a power of two, so that it reveals little of a secret's length.
    """

    hold: int = MIN_HOLD_BYTES
    _heads: BytesAhoCorasick | None = None
    _plain: FormTree = field(default_factory=FormTree)
    _base64: FormTree = field(default_factory=FormTree)
    _within_lines: bool = True  # no plain form holds a line feed

    @classmethod
    def of(cls, secrets: Mapping[str, str]) -> Self:
        """The needles for secrets, by their names: each form of a value becomes ``[secret NAME]``.

        White space around a value is ignored. If two names have the same value, the first counts.

        Raises:
            ValueError: A name has characters other than letters, digits, ``.``, ``_`` and ``-``, or a value has fewer
                than eight, so that it would be found by chance.
        """
        for name, value in secrets.items():
            if not NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name of a secret")
            if len(value.strip()) < MIN_SECRET_CHARS:
                raise ValueError(f"the value of {name} is shorter than {MIN_SECRET_CHARS} characters")
        return cls.of_forms({name: Forms.of(value) for name, value in secrets.items()})

    @classmethod
    def of_forms(cls, secrets: Mapping[str, Forms]) -> Self:
        """As ``of``, from forms that were made before; names and values must meet the same conditions."""
        return cls._make((Needle(name, f"[secret {name}]".encode()), forms) for name, forms in secrets.items())

    @classmethod
    def literal(cls, texts: Iterable[str], replacement: str) -> Self:
        """The needles for texts that are not secrets: each spelling becomes ``replacement``.

        Raises:
            ValueError: A text is shorter than four characters.
        """
        needle = Needle(replacement, replacement.encode())
        forms: list[bytes] = []
        for text in texts:
            if len(text) < MIN_LITERAL_CHARS:
                raise ValueError(f"a text to replace is shorter than {MIN_LITERAL_CHARS} characters")
            forms += spellings(text)
        return cls._make([(needle, Forms(tuple(forms), ()))])

    @classmethod
    def _make(cls, needles: Iterable[tuple[Needle, Forms]]) -> Self:
        plain, base64, heads = FormTree(), FormTree(), set[bytes]()
        longest, within_lines = MIN_HOLD_BYTES, True
        for needle, forms in needles:
            for form in forms.plain:
                plain.add(form, needle)
                heads.add(form[:HEAD_BYTES])
                longest = max(longest, len(form))
                within_lines &= b"\n" not in form
            for form, least in forms.cut:
                plain.add(form, needle, least)
                end = form[len(form) - least :]
                plain.add(end, Needle(needle.name, needle.mark, (form[: len(form) - least],)))
                heads.update((form[:HEAD_BYTES], end[:HEAD_BYTES]))
            for form in forms.base64:
                base64.add(form, needle)
                heads.update(_folded_heads(form))
                longest = max(longest, len(form) + _LONGEST_FOLD * (2 + len(form) // (RUN_BYTES - 1)))
        if not heads:
            return cls()
        kind = Implementation.DFA if len(heads) <= _FAST_HEADS else Implementation.ContiguousNFA
        automaton = BytesAhoCorasick(list(heads), MatchKind.Standard, kind)
        return cls(1 << (longest - 1).bit_length(), automaton, plain, base64, within_lines)

    def __bool__(self) -> bool:
        return self._heads is not None

    def search(self, data: bytes) -> list[Hit]:
        """The forms in the data, sorted by their beginning, longer ones first."""
        if self._heads is None:
            return []
        hits: list[Hit] = []
        for _, at, _ in self._heads.find_matches_as_indexes(data, overlapping=True):
            hits += [(at, end, needle) for end, needle in self._base64.folded_ends(data, at)]
            hits += [
                (needle.start(data, at) if needle.befores else at, end, needle)
                for end, needle in self._plain.ends(data, at)
            ]
        hits.sort(key=lambda hit: (hit[0], -hit[1]))
        return hits

    def line_end(self, data: bytes, at: int) -> int:
        """The last end of a line after ``at`` that no form spans; 0 if there is none."""
        stop = len(data) if self._within_lines else 0
        while (feed := data.rfind(b"\n", at, stop)) >= 0:
            if LINE_END.match(data, feed):
                return feed + 1
            stop = feed
        return 0


def _folded_heads(form: bytes) -> Iterable[bytes]:
    yield form[:HEAD_BYTES]
    for fold in FOLDS:
        yield from ((form[:at] + fold + form[at:])[:HEAD_BYTES] for at in range(1, HEAD_BYTES))


@dataclass(slots=True, repr=False)
class Scrubber:
    """Scrubs one stream. However it is cut into pieces, the output is what :func:`scrub` makes of the whole.

    It releases the bytes before the last line end that is no fold of base64, and those more than ``hold`` bytes and a
    quarter back: any form that begins there has come completely.

    Attributes:
        own: Names of secrets that the reader of the stream has written himself: those stay.
        found: Names of the secrets that were found.
    """

    _needles: Needles
    own: Collection[str] = ()
    found: set[str] = field(default_factory=set)
    _tail: bytes = b""
    _out: int = 0  # how many first bytes of the tail were released: they tell whether a fold follows
    _resume_at: int = 0  # how many first bytes of the tail were released, or belong to a form that is replaced

    def renew(self, needles: Needles, own: Collection[str] = ()) -> None:
        """Search for these from here on, also in the bytes held back: they may be the beginning of one of them."""
        self._needles, self.own = needles, own

    def feed(self, data: bytes) -> bytes:
        """Take bytes, and return those that can be released now."""
        if not self._needles:
            return data
        tail_size, hold = len(self._tail), self._needles.hold
        data = self._tail + data
        until = len(data) - hold
        if until - self._out < hold // 4:  # or each small piece of a stream would cost a search of all bytes held back
            until = 0
        until = max(until, self._needles.line_end(data, tail_size))
        if until <= self._out:
            self._tail = data
            return b""
        return self._let_out(data, until)

    def finish(self) -> bytes:
        """Return the bytes held back, at the end of the stream."""
        return self._let_out(self._tail, len(self._tail))

    def _let_out(self, data: bytes, until: int) -> bytes:
        clean: list[bytes] = []
        at = self._resume_at
        for start, end, needle in self._needles.search(data):
            if start >= until:
                break
            if start < self._out or needle.name in self.own:
                continue
            self.found.add(needle.name)
            if start >= at:
                clean += (data[at:start], needle.mark)
            at = max(at, end)
        tail_start = max(0, until - RUN_BYTES)
        self._tail, self._out, self._resume_at = data[tail_start:], until - tail_start, max(at, until) - tail_start
        return b"".join((*clean, data[at:until])) if at else data[:until]


@dataclass(slots=True, repr=False, eq=False)
class Finder:
    """Finds the secrets in one stream, as soon as the last byte of one has come.

    Attributes:
        found: Their names.
    """

    _needles: Needles
    found: set[str] = field(default_factory=set)
    _tail: bytes = b""

    def feed(self, data: bytes) -> None:
        """Search the next bytes."""
        data = self._tail + data
        self.found.update(needle.name for _, _, needle in self._needles.search(data))
        self._tail = data[-self._needles.hold :]


def names_in(needles: Needles, data: bytes) -> frozenset[str]:
    """List the names of the secrets that are in the data, in any form."""
    return frozenset(needle.name for _, _, needle in needles.search(data))


def scrub(needles: Needles, data: bytes, own: Collection[str] = ()) -> bytes:
    """Replace each form of each secret in the data; returns the same object where there is none. The secrets whose
    names are in ``own`` stay.
    """
    return Scrubber(needles, own, _tail=data).finish()


def scrub_text(needles: Needles, text: str, own: Collection[str] = ()) -> str:
    """Scrub a text, as :func:`scrub`; it may hold lone surrogates."""
    data = text.encode("utf-8", "surrogatepass")
    clean = scrub(needles, data, own)
    if clean is data:
        return text
    try:
        return clean.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:  # a replaced form in another encoding began or ended within a character
        return clean.decode("utf-8", "replace")


def scrub_value(value: JsonValue, clean: Callable[[str], str]) -> JsonValue:
    """Scrub each text in a value, names of members too; returns the same value if there is no secret in it.

    All texts are searched together first: there may be hundreds of thousands, and hardly ever a secret in one. The
    value is no deeper than the stack allows; a tuple counts as a list.
    """
    whole = _BETWEEN_TEXTS.join(_list_texts(value))
    return value if clean(whole) == whole else _scrub_member(value, clean)


def _list_texts(value: JsonValue) -> Iterator[str]:
    level: Sequence[JsonValue] = [value]
    while level:
        below: list[JsonValue] = []
        for member in level:
            if isinstance(member, str):
                yield member
            elif isinstance(member, dict):
                yield from map(str, member)
                below += member.values()
            elif isinstance(member, list | tuple):
                below += member
            elif isinstance(member, int | float):
                yield str(member)
        level = below


def _scrub_member(value: JsonValue, clean: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(str(name)): _scrub_member(member, clean) for name, member in value.items()}
        case list() | tuple():
            return [_scrub_member(member, clean) for member in value]
        case bool():
            return value
        case int() | float():  # a secret may be a number
            text = str(value)
            return value if len(text) < MIN_SECRET_CHARS or (scrubbed := clean(text)) == text else scrubbed
        case _:
            return value
