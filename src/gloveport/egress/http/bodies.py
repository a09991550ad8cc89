"""Reads bodies of HTTP/1.1 messages from received data, and writes chunks. Pure."""

import re
from dataclasses import dataclass, field

from gloveport.egress.http.heads import Framing, Headers, Malformed, read_trailers
from gloveport.egress.transport.stream import CHUNK_BYTES

_LINE_BYTES, _TRAILER_BYTES = 1024, 1 << 14
_CHUNKS_AT_ONCE = 256
_CHUNK = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e]*)?\r\n")
_END_OF_TRAILERS = b"\r\n\r\n"


@dataclass(kw_only=True, slots=True)
class BodyReader:
    """Reads one body as it comes.

    Attributes:
        framing: Where the body ends; without length and chunks, with the connection.
        ended: Whether the whole body was taken.
        trailers: The trailer fields after the last chunk.
    """

    framing: Framing
    ended: bool = False
    trailers: Headers = ()
    _remaining_bytes: int = field(init=False)
    """Bytes still to come of the body, or of the current chunk with its line end."""

    def __post_init__(self) -> None:
        self._remaining_bytes = self.framing.length or 0
        self.ended = self.framing.length == 0

    def take(self, buffer: bytearray) -> bytes:
        """Take received data of the body, at most some 64 KiB; empty if more has to come first.

        Raises:
            Malformed: The framing is wrong.
        """
        if self.ended:
            return b""
        if self.framing.chunked:
            return self._take_chunks(buffer)
        if self.framing.length is None:
            return _cut(buffer, CHUNK_BYTES)
        piece = _cut(buffer, min(self._remaining_bytes, CHUNK_BYTES))
        self._remaining_bytes -= len(piece)
        self.ended = not self._remaining_bytes
        return piece

    def finish(self) -> bool:
        """Note the end of the connection; return whether the body may end there."""
        self.ended = self.ended or self.framing == (None, False)
        return self.ended

    def _take_chunks(self, buffer: bytearray) -> bytes:
        """Take all received chunks as one piece: each may have a single byte."""
        pieces: list[bytes] = []
        size = 0
        while len(pieces) < _CHUNKS_AT_ONCE and size < CHUNK_BYTES and not self.ended:
            if not self._remaining_bytes and not self._begin_chunk(buffer):
                break
            if self._remaining_bytes > 2:
                piece = _cut(buffer, min(self._remaining_bytes - 2, CHUNK_BYTES))
                if not piece:
                    break
                self._remaining_bytes -= len(piece)
                size += len(piece)
                pieces.append(piece)
            if self._remaining_bytes == 2 and not self._end_chunk(buffer):
                break
        return b"".join(pieces)

    def _begin_chunk(self, buffer: bytearray) -> bool:
        """Read a chunk's size, or after the last chunk the trailers; return whether a chunk follows."""
        line = _CHUNK.match(buffer)
        if line is None:
            if b"\n" in buffer or len(buffer) > _LINE_BYTES:
                raise Malformed("a chunk of its body has no size")
            return False
        size = int(line[1], 16)
        if size:
            self._remaining_bytes = size + 2
            del buffer[: line.end()]
            return True
        return self._take_trailers(buffer, line.end())

    def _take_trailers(self, buffer: bytearray, start: int) -> bool:
        end = buffer.find(_END_OF_TRAILERS, start - 2)
        if end < 0:
            if len(buffer) > _TRAILER_BYTES:
                raise Malformed("the headers after its body are too large")
            return False
        end += len(_END_OF_TRAILERS)
        self.trailers = read_trailers(bytes(buffer[start:end]))
        del buffer[:end]
        self.ended = True
        return True

    def _end_chunk(self, buffer: bytearray) -> bool:
        if len(buffer) < 2:
            return False
        if buffer[:2] != b"\r\n":
            raise Malformed("a chunk of its body is longer than it said")
        del buffer[:2]
        self._remaining_bytes = 0
        return True


def encode_chunk(data: bytes) -> bytes:
    """Encode a piece of a body as a chunk. It must not be empty: that would be the last chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


def _cut(buffer: bytearray, size: int) -> bytes:
    piece = bytes(buffer[:size])
    del buffer[:size]
    return piece
