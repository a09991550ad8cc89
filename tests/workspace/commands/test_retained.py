"""What is kept of one stream: its head and its tail, under their offsets."""

import random
import resource
import tempfile
from pathlib import Path

import pytest
from tests.cases import for_each

from gloveport.workspace.commands.retained import HEAD_BYTES, TAIL_BYTES, Retained
from gloveport.workspace.files.line_reader import whole_characters

SPOOL = Path(tempfile.gettempdir())
ALL = HEAD_BYTES + TAIL_BYTES


def filled(total, *, most=100_000):
    """A stream of so many bytes, which came in pieces, and the bytes."""
    data, retained, rng = random.Random(1).randbytes(total), Retained(directory=SPOOL), random.Random(total)
    done = 0
    while done < total:
        size = rng.randint(1, most)
        retained.write(data[done : done + size])
        done += size
    return retained, data


@for_each("total", [0, 1, HEAD_BYTES, HEAD_BYTES + 1, ALL, ALL + 1, 3 * ALL + 12345])
def test_every_byte_is_told_under_its_offset_or_not_at_all(total):
    """W4, CT-L6"""
    retained, data = filled(total)
    assert (retained.total, retained.kept_bytes) == (total, min(total, ALL))
    assert retained.dropped == max(0, total - ALL)
    rng = random.Random(2)
    for offset in [
        0,
        1,
        HEAD_BYTES - 1,
        HEAD_BYTES,
        HEAD_BYTES + 1,
        total - 1,
        total,
        total + 9,
        *range(0, total, 9999),
    ]:
        if offset < 0:
            continue
        limit = rng.choice([1, 10, 70_000, 1 << 20])
        start, got = retained.read(offset, limit)
        assert data[start : start + len(got)] == got
        in_gap = retained.dropped and HEAD_BYTES <= offset < retained.tail_start
        assert start == (retained.tail_start if in_gap else min(offset, total))
        assert got or start == total


@pytest.mark.parametrize("total", [0, 5, HEAD_BYTES + 5, 2 * ALL])
def test_pages_put_together_are_the_whole_but_for_the_gap(total):
    """W4: read_output."""
    retained, data = filled(total)
    read, offset = b"", 0
    while offset < total:
        start, page = retained.read(offset, 4096)
        read, offset = read + page, start + len(page)
    wanted = data if total <= ALL else data[:HEAD_BYTES] + data[-TAIL_BYTES:]
    assert read == wanted


def test_a_flood_takes_no_more_memory_than_its_head_and_its_tail():
    """R1"""
    retained = Retained(directory=SPOOL)
    for _ in range(200):
        retained.write(bytes(1 << 20))
    assert retained.total == 200 << 20
    assert retained.kept_bytes == ALL


def test_a_disk_that_takes_nothing_is_told_of_and_what_it_takes_later_is_kept(caplog):
    data, retained = random.Random(1).randbytes(ALL), Retained(directory=SPOOL)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))  # the kernel refuses what is beyond, like a full disk
    try:
        for _ in range(2):
            retained.write(data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert retained.read(0, ALL) == (0, data[:HEAD_BYTES])
    assert retained.failure == f"output can't be stored in {SPOOL}: File too large, tell the owner"
    assert len(caplog.records) == 1
    retained.write(data[:1000])
    assert retained.read(retained.tail_start, ALL) == (2 * ALL, data[:1000])


def test_the_last_bytes_since_an_offset_are_the_newest_ones():
    """W4: an answer is cut at its beginning."""
    retained, data = filled(1000, most=7)
    assert retained.last(0, 100) == (900, data[900:])
    assert retained.last(950, 100) == (950, data[950:])
    assert retained.last(1000, 100) == (1000, b"")


@for_each("text", ["", "a", "ä", "aä", "€", "a€", "😀", "ab😀"])
def test_a_character_that_is_cut_waits_for_its_rest(text):
    """W4"""
    data = text.encode()
    for end in range(len(data) + 1):
        cut = data[:end]
        whole = cut[: whole_characters(cut)]
        assert text.startswith(whole.decode())
        assert len(cut) - len(whole) < 4
    assert whole_characters(data) == len(data)


@pytest.mark.parametrize("data", [b"\xff", b"\x80\x80\x80\x80\x80", b"a\xff\xff\xff"])
def test_what_is_no_text_waits_for_nothing(data):
    """W4"""
    assert whole_characters(data + b"x") == len(data) + 1
    assert len(data) - whole_characters(data) <= 1
