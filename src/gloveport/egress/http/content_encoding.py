"""Decodes a body's content encodings as it streams, with bounded memory whatever the body holds.

A kilobyte may decompress to a megabyte, and through three layers to a terabyte. So each decoded piece is made when it
is asked for, and has about 64 KiB at most; windows are limited to 8 MiB, as by RFC 9659.
"""

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import brotli
import zstandard

from gloveport.errors import UpstreamError

ACCEPTED = b"gzip, deflate, br, zstd"
LIGHT = frozenset({b"", b"identity", b"gzip", b"x-gzip", b"deflate"})
"""Encodings with small windows. A layer of any other may hold 8 MiB, of Brotli 16 MiB."""

MAX_LAYERS = 3
WRITE_BYTES = 1 << 14
PIECE_BYTES = 1 << 16
WINDOW_BYTES = 8 << 20
ZSTD_SLICE_BYTES = 64  # four bytes may decode to a block of 128 KiB, and the library decodes all input at once


class _Codec(Protocol):
    def feed(self, data: bytes) -> Iterator[bytes]: ...  # the decoded pieces; exhaust them before the next ``feed``
    def is_whole(self) -> bool: ...  # whether the content may end here


class Decoder:
    """Decodes all content encodings of one body. It can't be used after an error."""

    def __init__(self, layers: Sequence[_Codec]) -> None:
        self._layers = tuple(layers)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Decode data, piece by piece. Exhaust the iterator before the next ``feed``.

        Pieces may be empty: a few bytes may cause hours of work without output, so the consumer has to yield to other
        tasks between pieces.

        Raises:
            UpstreamError: ``broken_encoding``: the data is not in the declared encoding.
        """
        try:
            yield from _decode_through(self._layers, data)
        except (zlib.error, brotli.error, zstandard.ZstdError) as error:
            raise _make_error("is damaged") from error

    def finish(self) -> None:
        """Note the end of the data.

        Raises:
            UpstreamError: ``broken_encoding``: the data is truncated.
        """
        if not all(layer.is_whole() for layer in self._layers):
            raise _make_error("breaks off")


def make_decoder(codings: bytes) -> Decoder:
    """Make a decoder for the value of a ``Content-Encoding`` header; several headers are joined by commas.

    Raises:
        UpstreamError: ``unknown_encoding``: a coding that is not accepted, or more than three.
    """
    names = [name for coding in codings.lower().split(b",") if (name := coding.strip(b" \t")) not in {b"", b"identity"}]
    if len(names) > MAX_LAYERS or not all(name in _CODECS for name in names):
        raise UpstreamError(
            "unknown_encoding",
            f"what has the content coding {codings[:80].decode('latin-1')!a} can't be looked into",
            hint=f"Use no other than {ACCEPTED.decode()}, and at most {MAX_LAYERS} at once.",
        )
    return Decoder([_CODECS[name]() for name in reversed(names)])


def _decode_through(layers: Sequence[_Codec], data: bytes) -> Iterator[bytes]:
    if not layers:
        yield data
        return
    for piece in layers[0].feed(data):
        inner = _decode_through(layers[1:], piece)
        yield next(inner, b"")
        yield from inner


def _make_error(what: str) -> UpstreamError:
    return UpstreamError("broken_encoding", f"a compressed body {what}", hint="Try once more.")


class _Gzip:
    """One or more members, RFC 1952."""

    def __init__(self) -> None:
        self._member = zlib.decompressobj(wbits=31)
        self._idle = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            if self._member.eof:
                self._member = zlib.decompressobj(wbits=31)
            self._idle = False
            yield from _inflate(self._member, data)
            data = self._member.unused_data

    def is_whole(self) -> bool:
        return self._idle or self._member.eof


class _Deflate:
    """A zlib stream, RFC 1950; or a raw deflate stream, RFC 1951, which some servers send instead."""

    def __init__(self) -> None:
        self._head = b""
        self._stream = zlib.decompressobj()
        self._knows_format = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        if not self._knows_format:
            data = self._head = self._head + data
            if len(data) < 2:
                return
            if data[0] & 0x8F != 0x08 or int.from_bytes(data[:2]) % 31:  # no header of a zlib stream
                self._stream = zlib.decompressobj(wbits=-15)
            self._knows_format = True
        yield from _inflate(self._stream, data)
        if self._stream.unused_data:
            raise _make_error("goes on behind its end")

    def is_whole(self) -> bool:
        return self._stream.eof or not (self._knows_format or self._head)


class _Brotli:
    """RFC 7932."""

    def __init__(self) -> None:
        self._stream = brotli.Decompressor()
        self._idle = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        self._idle = self._idle and not data
        while piece := self._stream.process(data, output_buffer_limit=PIECE_BYTES):
            yield piece
            data = b""

    def is_whole(self) -> bool:
        return self._idle or self._stream.is_finished()


class _Zstandard:
    """One or more frames, RFC 8878."""

    def __init__(self) -> None:
        self._frames = zstandard.ZstdDecompressor(max_window_size=WINDOW_BYTES)
        self._frame = self._frames.decompressobj(write_size=WRITE_BYTES)
        self._idle = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        pieces: list[bytes] = []
        size = 0
        for at in range(0, len(data), ZSTD_SLICE_BYTES):
            pieces.append(self._decode(data[at : at + ZSTD_SLICE_BYTES]))
            size += len(pieces[-1])
            if size >= PIECE_BYTES:
                yield from _cut(b"".join(pieces))
                pieces, size = [], 0
        if size:
            yield b"".join(pieces)

    def is_whole(self) -> bool:
        return self._idle or self._frame.eof

    def _decode(self, data: bytes) -> bytes:
        self._idle = False
        decoded = b""
        while data:
            if self._frame.eof:
                self._frame = self._frames.decompressobj(write_size=WRITE_BYTES)
            decoded += self._frame.decompress(data)
            data = self._frame.unused_data
        return decoded


_CODECS: Mapping[bytes, Callable[[], _Codec]] = {
    b"gzip": _Gzip,
    b"x-gzip": _Gzip,
    b"deflate": _Deflate,
    b"br": _Brotli,
    b"zstd": _Zstandard,
}


def _inflate(stream: "zlib._Decompress", data: bytes) -> Iterator[bytes]:
    while piece := stream.decompress(data, PIECE_BYTES):
        yield piece
        data = stream.unconsumed_tail


def _cut(data: bytes) -> Iterator[bytes]:
    return (data[at : at + PIECE_BYTES] for at in range(0, len(data), PIECE_BYTES))
