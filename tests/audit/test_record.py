"""The line: what goes in comes out, whatever it is, and its hash can be checked by a stranger."""

import hashlib
import json
import re
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.audit.log import AuditLog
from gloveport.audit.record import GENESIS, MAX_LINE_BYTES, draft, link, parse, seal, stamp
from gloveport.errors import AuditError

CHARACTERS = st.characters(codec=None, exclude_categories=())  # lone surrogates too
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(CHARACTERS)
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(CHARACTERS), inner), max_leaves=8)
NAMES = st.text(CHARACTERS).filter(lambda name: name not in {"seq", "time", "kind", "prev", "hash"})


@given(st.dictionaries(NAMES, JSON, max_size=6))
def test_a1_every_json_value_is_written_and_read_back_unchanged(fields):
    """A1: also lone surrogates, control characters, and names that need escaping."""
    record = seal(draft("some.kind", fields), seq=3, prev=GENESIS)
    assert record.line.isascii()
    assert record.line.isprintable()
    again = parse(record.line.encode())
    assert again == record
    assert link(record.line.encode()) is not None


@given(st.data(), st.dictionaries(NAMES, SCALARS, max_size=3))
def test_a1_no_byte_of_a_line_can_change_unnoticed(data, fields):
    line = seal(draft("a", fields), seq=1, prev=GENESIS).line.encode()
    at = data.draw(st.integers(0, len(line) - 1))
    other = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at]))
    changed = line[:at] + bytes([other]) + line[at + 1 :]
    assert link(changed) is None
    assert parse(changed) is None


@given(
    st.datetimes(timezones=st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=45)), timezone.min])),
)
def test_a_time_is_written_in_utc_with_microseconds_and_read_back_unchanged(time: datetime):
    """Also a whole second, whose microseconds Python leaves out, and an offset that is not UTC's."""
    try:
        text = stamp(time)
    except OverflowError:  # at the ends of the calendar UTC is in another one
        return
    assert re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}Z", text)
    assert datetime.fromisoformat(text) == time


@for_each("value", [float("nan"), float("inf"), -float("inf"), b"bytes", {1, 2}, object()])
def test_what_is_no_json_is_refused(value):
    with pytest.raises(AuditError, match="no JSON value"):
        draft("a", {"deep": [{"er": value}]})


def test_a_value_that_contains_itself_is_refused():
    endless: list[object] = []
    endless.append(endless)
    with pytest.raises(AuditError, match="no JSON value"):
        draft("a", {"endless": endless})


@for_each("kind", ["", ".", "a.", ".a", "a..b", "A", "a b", 'a"', "a\n", "ä", "a-b"])
def test_a_kind_that_is_no_dotted_name_is_refused(kind):
    with pytest.raises(AuditError, match="kind"):
        draft(kind, {})


@for_each("name", ["seq", "time", "kind", "prev", "hash"])
def test_a_field_can_not_take_the_place_of_the_frame(name):
    with pytest.raises(AuditError, match=name):
        draft("a", {"b": 1, name: 2})


def test_the_largest_fields_of_an_oversized_record_are_replaced_by_their_digests():
    """A1: nothing is lost in silence, and a hostile program can't make its own record impossible."""
    record = seal(draft("a", {"small": "kept", "big": "x" * MAX_LINE_BYTES, "half": "y" * 40_000}), seq=1, prev=GENESIS)
    assert len(record.line) < MAX_LINE_BYTES
    assert record.fields["small"] == "kept"
    assert record.fields["half"] == "y" * 40_000
    omitted = record.fields["big"]["omitted"]
    assert omitted["bytes"] == MAX_LINE_BYTES + 2  # the quotes are part of the value as written
    assert re.fullmatch("[0-9a-f]{64}", omitted["sha256"])
    assert parse(record.line.encode()) == record


@given(st.integers(-200, 200))
def test_a_record_about_as_large_as_a_line_may_be_is_written_within_the_bound(around):
    record = seal(draft("a", {"text": "x" * (MAX_LINE_BYTES - 330 + around)}), seq=10**17, prev=GENESIS)
    assert len(record.line) + 1 <= MAX_LINE_BYTES
    assert parse(record.line.encode()) == record


def test_a_value_that_nests_too_deeply_to_be_read_again_is_replaced():
    deep: object = 1
    for _level in range(100_000):
        deep = [deep]
    shallow: object = 1
    for _level in range(99):
        shallow = [shallow]
    wide = [[] for _each in range(500)]
    record = seal(draft("a", {"deep": deep, "shallow": shallow, "wide": wide}), seq=1, prev=GENESIS)
    assert record.fields == {"deep": {"omitted": {"levels": "more than 100"}}, "shallow": shallow, "wide": wide}
    assert parse(record.line.encode()) == record
    with pytest.raises(AuditError, match="no JSON value"):
        draft("a", {"deep": deep, "other": float("nan")})
    while isinstance(deep, list):  # taken apart by hand: the interpreter would recurse
        deep = deep.pop()


def test_more_fields_than_fit_are_refused():
    with pytest.raises(AuditError, match="more fields than fit"):
        draft("a", {f"field{number}": number for number in range(10_000)})


def test_the_verifier_printed_in_the_documentation_agrees(directory: Path):
    """A1: a stranger with sha256sum comes to the same result, and finds what was changed."""
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    script = re.search(r"^```sh\n(prev=.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert script is not None
    with AuditLog.open(directory, max_file_bytes=700) as log:
        for number in range(6):
            log.append("a.b", {"number": number, "text": '\\n ,"hash":"x" \ud800 \' $(id) é', "inner": {"hash": "y"}})
    assert len(list(directory.glob("*.jsonl"))) > 1

    def outcome() -> int:
        return subprocess.run(["sh", "-c", script[1]], cwd=directory, capture_output=True, check=False).returncode

    assert outcome() == 0
    last = max(directory.glob("*.jsonl"))
    good = last.read_bytes()
    last.write_bytes(good.replace(b'"number":5', b'"number":6'))
    assert outcome() == 1
    last.write_bytes(good[: good.rindex(b"\n", 0, -1) + 1] if good.count(b"\n") > 1 else b"")
    assert outcome() == 1


def test_the_documented_line_has_the_members_of_a_real_one():
    record = seal(draft("run.denied", {"caller": "local", "run": "…"}), seq=7, prev=GENESIS)
    text = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    shown = re.search(r"^```json\n(.*?)\n```", text, re.DOTALL | re.MULTILINE)
    assert shown is not None
    assert list(json.loads(shown[1])) == list(json.loads(record.line))


@pytest.mark.parametrize(
    "extra", ['"kind":"\\u001b]0;x\\u0007",', '"time":5,', '"caller":"a","caller":"b",', '"x":{"y":1,"y":2},']
)
def test_a_line_in_which_a_name_stands_twice_is_no_record_whatever_its_hash(extra: str):
    """P14: the hash covers both, and only one of them would be checked or shown."""
    body = f'{{"seq":1,"time":"2026-01-01T00:00:00.000000Z","kind":"a",{extra}"prev":"{"0" * 64}"'
    digest = hashlib.sha256(f"{body}}}".encode()).hexdigest()
    assert parse(f'{body},"hash":"{digest}"}}'.encode()) is None
