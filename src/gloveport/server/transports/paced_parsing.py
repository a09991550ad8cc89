"""Parses what connections receive in slices, and large or costly data of one connection at a time, with rests between.

The HTTP parser takes 30 µs for each chunk of a body, however small: for 256 KiB that came at once, more than a second.
"""

import asyncio
import time
from collections import deque
from typing import Final, Protocol

SLICE_BYTES: Final = 2048
_TURN_SECONDS: Final = 0.004
_COSTLY_SECONDS: Final = 0.002


class ReceivedDataParser(Protocol):
    """What parses the data of one connection."""

    def parse(self, data: bytes) -> None:
        """Parse a piece of data."""

    def is_closing(self) -> bool:
        """Whether the rest is of no interest any more."""

    def pause(self) -> None:
        """Receive nothing for a while."""

    def resume(self) -> None:
        """Receive again."""


class ParsingTurns:
    """The turns of all connections of one server that have much to parse."""

    def __init__(self) -> None:
        self._waiting: deque[PacedParsing] = deque()

    def add(self, parsing: "PacedParsing") -> None:
        """Give a connection turns until all is parsed."""
        self._waiting.append(parsing)
        if len(self._waiting) == 1:
            asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        parsing, began = self._waiting[0], time.thread_time()
        try:
            parsing.parse_some(began + _TURN_SECONDS)
        finally:
            self._waiting.popleft()
            if parsing.has_more:
                self._waiting.append(parsing)
            if self._waiting:
                asyncio.get_running_loop().call_later(time.thread_time() - began, self._take_turn)


class PacedParsing:
    """The data of one connection."""

    def __init__(self, parser: ReceivedDataParser, turns: ParsingTurns) -> None:
        self._parser, self._turns = parser, turns
        self._rest = bytearray()
        self._is_costly = False

    @property
    def has_more(self) -> bool:
        """Whether something is left to be parsed."""
        return bool(self._rest)

    def take(self, data: bytes) -> None:
        """Parse data at once if that is little work; else in turns, before anything more is received."""
        if not self._rest and len(data) <= SLICE_BYTES and not self._is_costly:
            began = time.thread_time()
            self._parser.parse(data)
            self._is_costly = time.thread_time() - began > _COSTLY_SECONDS
            return
        if not self._rest:
            self._turns.add(self)
        self._rest += data
        self._parser.pause()

    def parse_some(self, deadline: float) -> None:
        """Parse one slice, and more until a moment of ``time.thread_time``; receive again when all is parsed."""
        while self._rest and not self._parser.is_closing():
            data = bytes(self._rest[:SLICE_BYTES])
            del self._rest[:SLICE_BYTES]
            self._parser.parse(data)
            if time.thread_time() >= deadline:
                break
        if self._parser.is_closing():
            self._rest.clear()
        elif not self._rest:
            self._parser.resume()
