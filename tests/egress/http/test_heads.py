"""N3, N7: heads and bodies of HTTP/1.1, fuzzed, with h11 as the judge: what is accepted is read as h11 reads it."""

import time

import h11
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.egress.http.bodies import BodyReader, encode_chunk
from gloveport.egress.http.heads import (
    HEAD_BYTES,
    Framing,
    Malformed,
    find_end,
    may_be_request,
    options_of,
    read_request,
    read_response,
    write_head,
    write_request,
)

LINES = 256
NAMES = [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection"]
UNFRAMED = [b"Host", b"Connection", b"X-A", b"x_b", b"X A", b"", b"X\x00", b"\xc3"]
NAMES += UNFRAMED
VALUES = [b"", b"1", b"alpha.test", b"chunked", b"close", b" a  b\t", b"a\x00", b"\xff\xfe", b"a\r b", b"a\n b"]
VALUES += [b"+1", b"1, 1"]
SEPARATORS = [b": ", b":", b" : ", b":\t", b"", b"\r\n "]
ENDS = [b"\r\n"] * 6 + [b"\n", b"\r", b"\r\r\n"]
FIELD = st.tuples(*map(st.sampled_from, (NAMES, SEPARATORS, VALUES, ENDS))).map(b"".join)
REQUEST_LINES = [b"GET / HTTP/1.1", b"POST /a?b HTTP/1.0", b"GET /", b"G T / HTTP/1.1", b"get * HTTP/1.1"]
REQUEST_LINES += [b"GET /\xff HTTP/1.1"]
STATUS_LINES = [b"HTTP/1.1 200 OK", b"HTTP/1.0 404 Not\xff Found", b"HTTP/1.1 204", b"HTTP/1.1 99 No", b"HTTP/2 200"]


def head_of(lines: list[bytes]):
    """A head that may be right or wrong in many ways."""
    first = st.tuples(st.sampled_from(lines), st.sampled_from(ENDS)).map(b"".join)
    return st.tuples(first, st.lists(FIELD, max_size=6).map(b"".join)).map(lambda parts: b"".join(parts) + b"\r\n")


def whole(data: bytes) -> bytes:
    """The head that it begins with, if it is one."""
    end = find_end(bytearray(data), LINES)
    if not end:
        raise Malformed("it is not whole")
    return data[:end]


@given(head_of(REQUEST_LINES))
@example(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
def test_a_request_is_read_as_h11_reads_it_or_refused(data):
    try:
        ours = read_request(whole(data))
    except Malformed:
        return
    if ours.version == b"1.1" and [name for name, _ in ours.headers].count(b"host") != 1:
        return  # which h11 refuses, and egress.request does
    judge = h11.Connection(h11.SERVER)
    judge.receive_data(data)
    theirs = judge.next_event()
    assert isinstance(theirs, h11.Request)
    assert (ours.method.encode(), ours.target.encode(), ours.version) == (
        theirs.method,
        theirs.target,
        theirs.http_version,
    )
    assert ours.headers == tuple((bytes(name), bytes(value)) for name, value in theirs.headers)


@given(head_of(STATUS_LINES))
@example(b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n")
def test_an_answer_is_read_as_h11_reads_it_or_refused(data):
    try:
        ours = read_response(whole(data))
    except Malformed:
        return
    judge = h11.Connection(h11.CLIENT)
    judge.send(h11.Request(method="GET", target="/", headers=[("host", "a")]))
    judge.send(h11.EndOfMessage())
    judge.receive_data(data)
    theirs = judge.next_event()
    assert isinstance(theirs, h11.Response)
    assert (ours.status, ours.reason, ours.version) == (theirs.status_code, theirs.reason, theirs.http_version)
    assert ours.headers == tuple((bytes(name), bytes(value)) for name, value in theirs.headers)


@given(st.binary(max_size=200), st.integers(0, 199))
def test_it_makes_no_difference_how_a_head_comes(noise, cut):
    data = b"GET / HTTP/1.1\r\nHost: a\r\nX: " + noise + b"\r\n\r\n"

    def read(pieces):
        buffer, seen = bytearray(), 0
        try:
            for piece in pieces:
                buffer += piece
                if end := find_end(buffer, LINES, seen):
                    return read_request(bytes(buffer[:end]))
                if not may_be_request(buffer):
                    return None
                seen = len(buffer)
        except Malformed:
            return None
        return None

    assert read([data[:cut], data[cut:]]) == read([data])
    assert read([bytes([byte]) for byte in data]) == read([data])


def test_who_sends_a_byte_at_a_time_does_not_have_it_all_looked_at_each_time():
    """E4: what has come is looked at once, or a byte would cost two milliseconds."""
    buffer, began = bytearray(b"GET / HTTP/1.1\r\nX: "), time.process_time()
    for _ in range(30_000):
        buffer += b"a"
        assert not find_end(buffer, LINES, len(buffer) - 1)
    assert time.process_time() - began < 5


@given(st.lists(st.tuples(st.sampled_from(UNFRAMED), st.sampled_from(VALUES)), max_size=5))
def test_what_is_written_is_read_as_it_was_meant(headers):
    """No header injection: neither by a name nor by a value."""
    try:
        data = write_request("GET", "/", tuple(headers))
    except ValueError:
        return
    found = read_request(data)
    assert found.headers == tuple((name.lower(), value.strip(b" \t")) for name, value in headers)


@for_each("line", [("GET", "/ x"), ("G T", "/"), ("GET", "/\r\nX: y"), ("GET", ""), ("GET", "/\u2028")])
def test_a_request_line_that_would_be_read_otherwise_is_not_written(line):
    with pytest.raises(ValueError, match="HTTP does not allow"):
        write_request(*line, ())


def test_a_status_line_with_a_line_end_is_not_written():
    with pytest.raises(ValueError, match="HTTP does not allow"):
        write_head(b"HTTP/1.1 200 OK\r\nX: y", ())


@for_each(
    "data, status",
    [
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300 + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES, 431),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", 501),
        (b"\x16\x03\x01", 400),
        (b"\r\nGET / HTTP/1.1\r\n", 400),
    ],
)
def test_a_head_that_is_refused_says_how(data, status):
    with pytest.raises(Malformed) as caught:
        read_request(whole(data))
    assert caught.value.status == status


def test_what_can_not_become_a_request_is_known_by_its_first_line():
    assert may_be_request(bytearray(b"GET / HT"))
    assert may_be_request(bytearray(b"GET / HTTP/1.1\r\nHo"))
    assert not may_be_request(bytearray(b"GET /\r\n"))


def test_options_of_a_connection_are_compared_without_case():
    assert options_of(((b"connection", b"Close, X-A"), (b"connection", b"te"))) == {b"close", b"x-a", b"te"}


def taken(framing: Framing, data: bytes, cuts: list[int]) -> tuple[bytes, bool, tuple, bytes]:
    """A body that comes in pieces: what it is, whether it has ended, its trailers, and what came after it."""
    incoming, buffer, body = BodyReader(framing=framing), bytearray(), bytearray()
    places = sorted({cut % (len(data) + 1) for cut in cuts})
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        buffer += data[start:end]
        while piece := incoming.take(buffer):
            body += piece
    return bytes(body), incoming.ended, incoming.trailers, bytes(buffer)


CHUNKED = Framing(None, chunked=True)


PIECES, CUTS = st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.lists(st.integers(0, 999), max_size=8)


@given(PIECES, CUTS, st.booleans())
def test_a_body_in_chunks_is_the_same_however_it_comes(pieces, cuts, trailers):
    data = b"".join(map(encode_chunk, pieces)) + (b"0\r\nX-T: 1\r\n\r\n" if trailers else b"0\r\n\r\n") + b"next"
    expected = ((b"x-t", b"1"),) if trailers else ()
    assert taken(CHUNKED, data, cuts) == (b"".join(pieces), True, expected, b"next")


@given(st.binary(max_size=80), st.lists(st.integers(0, 99), max_size=5))
@example(b"5;x=y\r\nhello\r\n0\r\n\r\n", [])
@example(b"5\r\nhello0\r\n\r\n", [])
def test_a_body_in_chunks_is_read_as_h11_reads_it_or_refused(data, cuts):
    try:
        body, ended, _, _ = taken(CHUNKED, data, cuts)
    except Malformed:
        return
    judge = h11.Connection(h11.SERVER)
    judge.receive_data(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    judge.next_event()
    read = b""
    while isinstance(event := judge.next_event(), h11.Data):
        read += bytes(event.data)
    assert (read, isinstance(event, h11.EndOfMessage)) == (body, ended)


NO_CHUNKS = [b"x\r\n", b"\r\n", b"-1\r\n", b"0x5\r\nhello", b"5\nhello", b"1" * 16 + b"\r\n", b"5\r\nhelloX\r\n"]


@for_each("data", NO_CHUNKS)
def test_a_chunk_that_is_none_is_refused(data):
    with pytest.raises(Malformed):
        taken(CHUNKED, data, [])


def test_trailers_without_end_and_sizes_without_end_are_refused():
    for data in (b"0\r\n" + b"X: y\r\n" * 5000, b"5;" + b"x" * 5000):
        with pytest.raises(Malformed):
            taken(CHUNKED, data, [])


def test_a_body_with_a_length_ends_there_and_one_without_where_its_connection_ends():
    assert taken(Framing(5, chunked=False), b"hello world", [2]) == (b"hello", True, (), b" world")
    assert taken(Framing(0, chunked=False), b"next", []) == (b"", True, (), b"next")
    endless = BodyReader(framing=Framing(None, chunked=False))
    assert endless.take(bytearray(b"abc")) == b"abc"
    assert not endless.ended
    assert endless.finish()
    assert not BodyReader(framing=Framing(5, chunked=False)).finish()
