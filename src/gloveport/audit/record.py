"""One line of the audit log: its bytes and its hash; it knows nothing of files.

A line is one ASCII JSON object whose first members are ``seq``, ``time`` and ``kind`` and whose last are ``prev`` and
``hash``. ``hash`` is the SHA-256 of the line's own bytes without the ``hash`` member, so that neither writer nor
verifier depends on a JSON implementation: the bytes in the file are the canonical form.
"""

import functools
import hashlib
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from gloveport.ascii_json import encode_json
from gloveport.errors import AuditError
from gloveport.late_pattern import late_pattern
from gloveport.model.json_value import JsonValue, iterate_levels

GENESIS = "0" * 64
"""``prev`` of the first record."""

MAX_LINE_BYTES = 64 * 1024
"""Size of the longest line, its newline included."""

MAX_NESTING = 100
"""Levels of lists and objects in one record. Deeper values could be written, but not read by a parser with less stack
left."""

RESERVED = frozenset({"seq", "time", "kind", "prev", "hash"})

_match_kind = functools.lru_cache(256)(re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*").fullmatch)
"""Cached: there are few kinds, and each run waits for two records."""

_LINE = late_pattern(
    rb'\{"seq":([1-9][0-9]{0,17}),"time":"([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z)",'
    rb'"kind":"[a-z0-9_.]+"(?:,.*)?,"prev":"([0-9a-f]{64})","hash":"([0-9a-f]{64})"\}'
)
_CLAIM = late_pattern(rb'\{"seq":([1-9][0-9]{0,17}),')
_HASH_MEMBER = len(',"hash":""}') + 64
_FRAME = len('{"seq":,"time":"2000-01-01T00:00:00.000000Z","kind":"","prev":""}\n') + 18 + 64 + _HASH_MEMBER


class Record(NamedTuple):
    """One record.

    Attributes:
        seq: Number of the record, from 1, without gaps.
        time: When it was written, UTC, microseconds.
        kind: Dotted name of what happened.
        fields: The free members.
        prev: Hash of the record before it, ``GENESIS`` for the first.
        hash: SHA-256 of ``line`` without the ``hash`` member, 64 lower-case hex digits.
        line: The bytes in the file, as text, without the newline.
    """

    seq: int
    time: datetime
    kind: str
    fields: Mapping[str, JsonValue]
    prev: str
    hash: str
    line: str


class ChainLink(NamedTuple):
    """The place in the chain of a line whose own hash holds."""

    seq: int
    prev: str
    hash: str


class UnchainedRecord(NamedTuple):
    """A record before it enters the chain: everything but its number, time and hashes."""

    kind: str
    fields: Mapping[str, JsonValue]
    members: str


def draft(kind: str, fields: Mapping[str, JsonValue], most: int = MAX_LINE_BYTES) -> UnchainedRecord:
    """Encode the content of a record.

    A record that is too large or nests too deeply is neither lost nor refused, since a hostile program could make it
    so: its largest fields are replaced by ``{"omitted": …}`` with their size and digest until it fits.

    Raises:
        AuditError: ``kind`` is no dotted name, a field has a reserved name or is no JSON value (NaN and infinity
            are not), or there are too many fields for one record.
    """
    if not _match_kind(kind):
        raise AuditError(
            f"{kind!r} can't be the kind of an audit record", hint="use a dotted name, as in execute.ended"
        )
    if not RESERVED.isdisjoint(fields):
        name = min(RESERVED & fields.keys())
        raise AuditError(f"an audit record can't have a field named {name!r}", hint="choose another name")
    try:
        return _encode(kind, fields, min(most, MAX_LINE_BYTES) - _FRAME - len(kind))
    except (ValueError, TypeError) as error:
        raise AuditError(
            f"a field of the audit record {kind!r} is no JSON value: {error}", hint="log a digest or a text instead"
        ) from error


def seal(what: UnchainedRecord, *, seq: int, prev: str) -> Record:
    """Make a draft a record, with its number, the present time and its hashes."""
    kind, fields, members = what
    time = datetime.now(UTC)
    body = f'{{"seq":{seq},"time":"{stamp(time)}","kind":"{kind}"{members},"prev":"{prev}"'
    digest = hashlib.sha256(f"{body}}}".encode("ascii")).hexdigest()
    return Record(seq, time, kind, fields, prev, digest, f'{body},"hash":"{digest}"}}')


def stamp(time: datetime) -> str:
    """Return ISO 8601 in UTC with microseconds and ``Z``, always 27 characters: sorts by time."""
    return (time if time.tzinfo is UTC else time.astimezone(UTC)).isoformat("T", "microseconds")[:26] + "Z"


def link(line: bytes) -> ChainLink | None:
    """Read a line's place in the chain; ``None`` when it is no record or its bytes do not match its hash."""
    match = _LINE.fullmatch(line) if len(line) < MAX_LINE_BYTES else None
    if match is None:
        return None
    seq, _time, prev, digest = (part.decode("ascii") for part in match.groups())
    if hashlib.sha256(line[:-_HASH_MEMBER] + b"}").hexdigest() != digest:
        return None
    return ChainLink(seq=int(seq), prev=prev, hash=digest)


def claimed_seq(line: bytes) -> int | None:
    """Return the number that a damaged line states, if that can still be read."""
    match = _CLAIM.match(line)
    return int(match[1]) if match else None


def parse(line: bytes) -> Record | None:
    """Read a whole record; ``None`` when the line is no record or does not match its hash."""
    place = link(line)
    if place is None:
        return None
    try:
        text = line.decode("ascii")
        members = json.loads(text, object_pairs_hook=_unique)
        time, kind = datetime.fromisoformat(members.pop("time")), members.pop("kind")
    except (ValueError, RecursionError):  # UnicodeDecodeError and JSONDecodeError are ValueErrors
        return None
    fields = {name: value for name, value in members.items() if name not in RESERVED}
    return Record(seq=place.seq, time=time, kind=kind, fields=fields, prev=place.prev, hash=place.hash, line=text)


def _unique(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Refuse an object with a duplicate name: the hash covers both members, but only one would be shown."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError("a name stands twice")
    return members


def _encode(kind: str, fields: Mapping[str, JsonValue], room: int) -> UnchainedRecord:
    try:
        text = encode_json(fields)[1:-1]
    except RecursionError:
        return _shorten(kind, fields, room)
    # There are at least as many brackets as levels: the exact depth is only computed if it may be too large.
    if len(text) >= room or text.count("[") + text.count("{") > MAX_NESTING:
        return _shorten(kind, fields, room)
    return UnchainedRecord(kind=kind, fields=dict(fields), members=f",{text}" if text else "")


def _shorten(kind: str, fields: Mapping[str, JsonValue], room: int) -> UnchainedRecord:
    """Replace fields that nest too deeply, then the largest ones, until the record fits."""
    record_fields = {name: shallow(value) for name, value in fields.items()}
    texts = {name: encode_json(value) for name, value in record_fields.items()}
    spent = sum(len(encode_json(name)) + len(text) + 2 for name, text in texts.items())
    for name in sorted(texts, key=lambda name: -len(texts[name])):
        if spent < room:
            break
        digest = hashlib.sha256(texts[name].encode("ascii")).hexdigest()
        record_fields[name] = {"omitted": {"bytes": len(texts[name]), "sha256": digest}}
        shorter = encode_json(record_fields[name])
        spent += len(shorter) - len(texts[name])
        texts[name] = shorter
    if spent >= room:
        raise AuditError(f"the audit record {kind!r} has more fields than fit into {room} bytes")
    return UnchainedRecord(
        kind=kind, fields=record_fields, members="," + ",".join(f"{encode_json(n)}:{t}" for n, t in texts.items())
    )


def shallow(value: JsonValue) -> JsonValue:
    """The value itself, or the replacement of one that nests too deeply."""
    too_deep = next(islice(iterate_levels(value), MAX_NESTING, None), None)
    return value if too_deep is None else {"omitted": {"levels": f"more than {MAX_NESTING}"}}
