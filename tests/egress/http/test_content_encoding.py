"""Content codings: taken off whatever the cut, and never more memory than a few pieces."""

import gzip
import itertools
import tracemalloc
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.egress.http.content_encoding import ACCEPTED, make_decoder
from gloveport.errors import UpstreamError


def raw_deflate(data):
    return zlib.compress(data, wbits=-15)


ENCODERS = {
    b"gzip": gzip.compress,
    b"x-gzip": lambda data: gzip.compress(data, 1),
    b"deflate": zlib.compress,
    b"br": lambda data: brotli.compress(data, quality=4),
    b"zstd": zstandard.compress,
    b"identity": bytes,
}
KINDS = {name.decode(): (name, encode) for name, encode in ENCODERS.items() if name != b"identity"} | {
    "bare deflate": (b"deflate", raw_deflate),
}
PARTS = st.lists(st.binary(max_size=40) | st.sampled_from([b"a" * 70000, b"abc" * 9000]), max_size=4)
TEXT = b"".join(b"%d green bottles, " % number for number in range(9000))


def decoded(coding, pieces):
    undo = make_decoder(coding)
    out = [piece for data in pieces for piece in undo.feed(data)]
    undo.finish()
    assert all(0 < len(piece) <= 1 << 17 for piece in out)
    return b"".join(out)


def cut(data, places):
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(
    st.lists(st.sampled_from(sorted(ENCODERS)), max_size=3),
    PARTS.map(b"".join),
    st.lists(st.integers(0, 1 << 20), max_size=8),
)
def test_n6_every_coding_comes_off_whatever_the_cut(names, body, places):
    """N6: up to three of them, in the order in which they were put on."""
    encoded = body
    for name in names:
        encoded = ENCODERS[name](encoded)
    undo = make_decoder(b", ".join(names))
    out = b"".join(piece for data in cut(encoded, places) for piece in undo.feed(data))
    undo.finish()
    assert out == body


@for_each("kind", KINDS)
def test_n6_byte_by_byte(kind):
    coding, encode = KINDS[kind]
    body = TEXT[:3000]
    assert decoded(coding, [bytes([byte]) for byte in encode(body)]) == body


@for_each("kind", KINDS)
def test_n7_what_was_flushed_comes_out_at_once(kind):
    """N7: an event in a compressed stream does not wait for the next."""
    if kind == "br":
        press = brotli.Compressor()
        compress, flush = press.process, press.flush
    elif kind == "zstd":
        stream = zstandard.ZstdCompressor().compressobj()
        compress, flush = stream.compress, lambda: stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    else:
        wbits = {"deflate": 15, "bare deflate": -15}.get(kind, 31)
        press = zlib.compressobj(wbits=wbits)
        compress, flush = press.compress, lambda: press.flush(zlib.Z_SYNC_FLUSH)
    undo = make_decoder(KINDS[kind][0])
    for number in range(50):
        event = b"data: %d\n\n" % number + b"x" * (number * 100)
        assert b"".join(undo.feed(compress(event) + flush())) == event
    with pytest.raises(UpstreamError, match="breaks off"):
        undo.finish()


@for_each(
    "coding", [b"GZIP", b" gzip ", b"x-Gzip", b"gzip,", b", ,gzip\t", b"identity, gzip", b"Identity,GZip,identity"]
)
def test_names_are_read_as_http_writes_lists(coding):
    assert decoded(coding, [gzip.compress(TEXT)]) == TEXT


@pytest.mark.parametrize("coding", [b"", b"identity", b" , identity"])
def test_without_a_coding_everything_passes_as_it_is(coding):
    undo = make_decoder(coding)
    piece = b"x" * 100
    assert next(undo.feed(piece)) is piece
    undo.finish()


@for_each(
    "coding",
    [
        b"compress",
        b"gzip2",
        b"gzip;q=1",
        b"gzip gzip",
        b"aws-chunked",
        b"dcb",
        b"\xff\x00",
        b"*",
        b"br, gzip, zstd, br",
        b"gzip," * 400,
    ],
)
def test_n6_a_coding_that_nobody_can_take_off_is_refused(coding):
    """N6: as are more than three, which only an attack has."""
    with pytest.raises(UpstreamError) as caught:
        make_decoder(coding)
    assert caught.value.code == "unknown_encoding"
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 500


def test_what_is_said_to_be_accepted_is():
    for name in ACCEPTED.split(b", "):
        assert decoded(name, [ENCODERS[name](TEXT)]) == TEXT


@for_each("kind", KINDS)
def test_n6_a_body_that_breaks_off_is_an_error_wherever_it_does(kind):
    """N6: T3."""
    coding, encode = KINDS[kind]
    encoded = encode(b"hello, hello, hello, hello " * 3)
    for end in range(1, len(encoded)):
        with pytest.raises(UpstreamError) as caught:
            decoded(coding, [encoded[:end]])
        assert caught.value.code == "broken_encoding"


@for_each("kind", KINDS)
def test_a_body_without_a_byte_is_whole(kind):
    """So servers answer that have nothing to say and compress all the same."""
    undo = make_decoder(KINDS[kind][0] + b", br")
    assert list(undo.feed(b"")) == []
    undo.finish()


@for_each("kind", KINDS)
@for_each("extra", [b"x", b"\0", b"junk" * 100])
@for_each("apart", ["with the end", "behind the end"])
def test_n6_what_follows_the_end_is_an_error(kind, extra, apart):
    """N6: T3: nobody has looked at it."""
    coding, encode = KINDS[kind]
    encoded = encode(TEXT)
    with pytest.raises(UpstreamError) as caught:
        decoded(coding, [encoded + extra] if apart == "with the end" else [encoded, extra])
    assert caught.value.code == "broken_encoding"


@given(
    st.sampled_from([b"gzip", b"zstd"]),
    st.lists(st.binary(max_size=30), min_size=1, max_size=5),
    st.lists(st.integers(0, 999)),
)
def test_members_and_frames_one_after_the_other_are_one_body(coding, bodies, places):
    encoded = b"".join(map(ENCODERS[coding], bodies))
    undo = make_decoder(coding)
    assert b"".join(piece for data in cut(encoded, places) for piece in undo.feed(data)) == b"".join(bodies)
    undo.finish()


def test_a_frame_to_be_skipped_is():
    skipped = (0x184D2A53).to_bytes(4, "little") + (300).to_bytes(4, "little") + b"s" * 300
    body = skipped + zstandard.compress(TEXT) + skipped
    assert decoded(b"zstd", [body]) == TEXT
    assert decoded(b"zstd", [body[at : at + 7] for at in range(0, len(body), 7)]) == TEXT


@given(st.sampled_from(sorted(KINDS)), st.integers(0, 1 << 16), st.integers(1, 255), st.binary(max_size=200))
def test_n6_whatever_comes_is_decoded_or_broken_and_nothing_else(kind, place, change, noise):
    """N6: T3: no other error, and no silence where a checksum says otherwise."""
    coding, encode = KINDS[kind]
    encoded = bytearray(encode(TEXT[:500]))
    encoded[place % len(encoded)] ^= change
    for body in (bytes(encoded), noise, bytes(encoded[: place % len(encoded)]) + noise):
        try:
            decoded(coding, [body])
        except UpstreamError as error:
            assert error.code == "broken_encoding"  # noqa: PT017


def rle_bomb(blocks):
    """The worst of Zstandard: four bytes for each 128 KiB."""
    window = b"\x28\xb5\x2f\xfd" + bytes([0, 7 << 3])
    block = (1 << 1 | 128 << 10 << 3).to_bytes(3, "little") + b"A"
    return window + block * blocks + (1 | 1 << 1).to_bytes(3, "little") + b"A"


BOMBS = {
    "gzip": (b"gzip", lambda zeros: gzip.compress(zeros, 9)),
    "deflate": (b"deflate", lambda zeros: zlib.compress(zeros, 9)),
    "bare deflate": (b"deflate", raw_deflate),
    "br": (b"br", lambda zeros: brotli.compress(zeros, quality=5)),
    "zstd": (b"zstd", lambda zeros: rle_bomb(len(zeros) >> 17)),
    "gzip in gzip": (b"gzip, gzip", lambda zeros: gzip.compress(gzip.compress(zeros))),
    "br in zstd in gzip": (
        b"gzip, zstd, br",
        lambda zeros: brotli.compress(zstandard.compress(gzip.compress(zeros)), quality=5),
    ),
}


@for_each("bomb", BOMBS)
def test_n7_a_bomb_never_fills_the_memory(bomb):
    """N7: 16 MiB out of some kilobytes, piece by piece."""
    coding, encode = BOMBS[bomb]
    body = encode(bytes(16 << 20))
    undo = make_decoder(coding)
    size = longest = 0
    tracemalloc.start()
    try:
        for piece in undo.feed(body):
            size += len(piece)
            longest = max(longest, len(piece))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    undo.finish()
    assert size >= 16 << 20
    assert longest <= 1 << 17
    assert peak < len(body) + (6 << 20)


def test_n7_a_bomb_goes_off_only_as_far_as_is_asked():
    """N7: who stops reading stops the decoding."""
    undo = make_decoder(b"gzip, gzip, gzip")
    body = gzip.compress(gzip.compress(gzip.compress(bytes(16 << 20))))
    first = next(undo.feed(body))
    assert first == bytes(len(first))


def test_n6_a_window_larger_than_8_mib_is_refused():
    """N6: RFC 9659 forbids it, and the memory would be ours."""
    parameters = zstandard.ZstdCompressionParameters(window_log=24)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = stream.compress(TEXT) + stream.flush()
    with pytest.raises(UpstreamError, match="damaged"):
        decoded(b"zstd", [body])
    at_most = zstandard.ZstdCompressor(
        compression_params=zstandard.ZstdCompressionParameters(window_log=23)
    ).compressobj()
    assert decoded(b"zstd", [at_most.compress(TEXT) + at_most.flush()]) == TEXT
