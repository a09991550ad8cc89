"""Supervises one run: feeds its program, moves its output into sinks, reads its report, enforces its limits. All in one
task with one selector: a task for each stream would cost more than a short program itself.
"""

import contextlib
import errno
import functools
import math
import selectors
import socket
import time
from collections.abc import Callable, Mapping
from io import FileIO

import anyio
import anyio.lowlevel
from msgspec import Struct, field

from gloveport.errors import GuestError
from gloveport.event_loop import Ready, Selector
from gloveport.fairness import Pace
from gloveport.model.json_value import JsonValue
from gloveport.sandbox.base import Sink
from gloveport.sandbox.run import frames
from gloveport.sandbox.run.limit_watch import LimitWatch

LOOK_SECONDS = 0.05
_GRACE_SECONDS = 2.0
_CHUNK_BYTES = 1 << 15  # scrubbing it takes 15 ms if secrets seem to begin everywhere
_SMALL_BYTES, _SMALL_READS, _GATHER_SECONDS = 4096, 200, 0.005
_PIPE_BYTES = 1 << 20  # as much as a pipe holds: processes of a session that write without end are not waited for
_TURNS = 8
_BURST_SECONDS = 0.5
"""Processor time that each run's output may take in a burst: enough for some hundreds of megabytes."""
_SHARE = 0.03
"""The share of a processor that its output may take in the long run. 16 floods leave half a processor to all others."""
_WAKING_SECONDS = 0.0001
"""Roughly what the event loop takes to wake us."""
_LAST = b'"last":true}\n'  # the end of an interpreter's last report: no output of the program follows
_NOTHING: dict[str, JsonValue] = {"value": None, "value_type": None, "value_truncated": False, "error": None}


class Supervisor(Struct, eq=False, kw_only=True):
    """Supervises one run.

    Attributes:
        channel: Socket of the report.
        report_bytes: The most bytes of it that are read.
        over: Readable when the program has ended.
        ends_with_report: Whether a report also ends the run.
        events: Selector of ready descriptors. ``channel``, ``over`` and the streams are registered already.
        ended_by_report: Whether a report has ended the run.
        look_seconds: How often the limits are checked.
        answer: The message with the report.
        direct: Socket on which a session's interpreter may answer directly.
        awaits: Tells whether a message there is the answer.
        has_direct: Whether the answer came there.
        ignored: Number of a call that was answered there: a second answer to it is dropped.
        leaves: When supervision is left at the latest, by the monotonic clock.
        is_left: Whether another supervisor has taken over.
    """

    watch: LimitWatch
    channel: socket.socket
    report_bytes: int
    over: FileIO | socket.socket
    ends_with_report: bool
    events: Selector
    ended_by_report: bool = False
    look_seconds: float = LOOK_SECONDS
    answer: dict[str, JsonValue] | None = None
    direct: socket.socket | None = None
    awaits: Callable[[Mapping[str, JsonValue]], bool] = lambda _: False
    has_direct: bool = False
    ignored: int = 0
    leaves: float = math.inf
    is_left: bool = False
    _report: JsonValue = None
    _takes_notes: bool = False
    _notes: bytearray = field(default_factory=bytearray)
    """Direct reports of an interpreter, parsed once at the end."""

    _sinks: list[tuple[FileIO, Sink]] = field(default_factory=list)
    _sources: dict[int, Callable[[], bool]] = field(default_factory=dict)
    """Descriptor → action when it is ready, which returns whether the descriptor is finished."""

    _small_reads: int = 0
    """Since the last look."""

    _credit: float = _BURST_SECONDS
    """Processor time that may be spent on the program's output, at the last count: a token bucket."""

    _counted: float = field(default_factory=time.monotonic)
    _ends: float = math.inf
    _next_look: float = 0.0
    _incoming: frames.FrameReader | None = None

    def __post_init__(self) -> None:
        self._next_look = self._counted + self.look_seconds
        self._add(self.channel, self._take_report)
        self._add(self.over, self._end)
        if self.over.fileno() not in self.events.get_map():  # an earlier supervisor has seen it, and was left
            self._ends = self._counted
        if self.direct is not None:
            self._add(self.direct, functools.partial(self._take_direct, self.direct))

    def collect(self, stream: FileIO, sink: Sink) -> None:
        """Move the bytes of a stream into its sink."""
        self._sinks.append((stream, sink))
        self._add(stream, functools.partial(self._drain, stream, sink))

    def feed(self, stdin: FileIO, text: str) -> None:
        """Write a program to the interpreter that waits for it, and close."""
        rest = memoryview(text.encode())

        def write() -> bool:
            nonlocal rest
            with contextlib.suppress(BrokenPipeError):
                while rest:
                    written = stdin.write(rest)
                    if written is None:
                        return False
                    rest = rest[written:]
            stdin.close()
            return True

        if not write():
            self.events.register(stdin.fileno(), selectors.EVENT_WRITE)
            self._add(stdin, write)

    def note(self, notes: FileIO) -> None:
        """Read reports from a pipe, one per line. The last one counts; a report marked as last ends the run."""
        self._takes_notes = True
        self.events.register(notes.fileno(), selectors.EVENT_READ)
        self._add(notes, functools.partial(self._note, notes))

    @property
    def report(self) -> JsonValue:
        """The report; None if there was none."""
        if not self._takes_notes:
            return self._report
        noted = self._last_note()
        if self.ended_by_report:
            return noted
        if not isinstance(self._report, dict):
            return None
        # Its parent told how an interpreter ended. A killed interpreter's own report does not count.
        return {**(_NOTHING if noted is None or self._report.get("signal") else noted), **self._report}

    async def run(self) -> None:
        """Return when the program is over and all its output has been read, or only the report counts any more.

        By then all writers are dead or killed, which ends the streams, except those of a session. But a stream may stay
        open: a descriptor that was sent over a socket and never received outlives its sender.

        It may be cancelled, and called again to continue.
        """
        turns, pace = 0, Pace()
        while self._sources and not self._is_done() and time.monotonic() < self._ends:
            ready = self.events.select(0)
            if not ready:
                await self._wait()
                ready = self.events.select(0)
            began = time.monotonic()
            if began >= self._next_look and not self.is_left:  # even if something is always ready
                self._next_look = time.monotonic() + self.look_seconds
                self._small_reads = 0
                self.watch.look()
            self._act(ready)
            # A flood must not stop other tasks, and a flood of tiny writes must not cost the server more than the
            # program: it accumulates in the pipe. An endless writer blocks on its pipe, as on a slow terminal.
            turns += 1
            if self._is_done():
                break
            if self._is_flood():
                await anyio.sleep(LOOK_SECONDS)
            elif self._small_reads > _SMALL_READS:
                await anyio.sleep(_GATHER_SECONDS)
            elif not await pace.rest(began) and turns % _TURNS == 0:
                await anyio.lowlevel.checkpoint()
        self.watch.end()
        for stream, sink in self._sinks:
            room = _PIPE_BYTES
            while room > 0 and (data := _read(stream)) and not sink.full():
                room -= len(data)
                began = time.monotonic()
                sink.write(data)
                await pace.rest(began)

    def leave(self) -> None:
        """Have ``run`` return while the program continues: another supervisor takes over."""
        self.is_left = True
        self.events.wake()

    def _is_done(self) -> bool:
        return self.ended_by_report or self.is_left

    def _add(self, file: FileIO | socket.socket, act: Callable[[], bool]) -> None:
        self._sources[file.fileno()] = act

    def _act(self, ready: Ready) -> None:
        """Act on the ready descriptors."""
        began = time.thread_time()
        for key, _ in ready:
            if self._sources[key.fd]() and not self.ended_by_report:
                self.events.unregister(key.fd)
                del self._sources[key.fd]
        self._credit -= time.thread_time() - began

    def _is_flood(self) -> bool:
        """Whether its output has cost more than it may by now. After the program's end the rest is always read."""
        now = time.monotonic()
        self._credit = min(_BURST_SECONDS, self._credit + _SHARE * (now - self._counted))
        self._counted = now
        return self._credit < 0 and self._ends == math.inf

    async def _wait(self) -> None:
        """Wait until something is ready, or the limits are due for a check."""
        now = time.monotonic()
        self._next_look = min(self._next_look, now + max(0.0, self.watch.seconds_left))
        await self.events.wait(max(0, min(self._ends, self._next_look, self.leaves) - now))
        self._credit -= _WAKING_SECONDS
        if self.leaves <= time.monotonic():
            self.is_left = True

    def _drain(self, stream: FileIO, sink: Sink) -> bool:
        data = _read(stream)
        if data:
            sink.write(data)
            if sink.full():
                self.watch.kill("stored_output_bytes")
            self._small_reads += len(data) < _SMALL_BYTES
        return data == b""

    def _take_report(self) -> bool:
        """Read the guest's report, if it is well-formed and no larger than the guest was told."""
        self._small_reads += 1
        incoming = self._incoming = self._incoming or self._expect_frame()
        try:
            whole = incoming.take()
        except GuestError:
            self.channel.shutdown(socket.SHUT_RD)  # further writes fail at once, not at the time limit
            return True
        if whole and incoming.message is not None:
            if self.ignored and incoming.message.get("call") == self.ignored:
                self._incoming = None  # the answer may follow at once
                return False
            self.answer = incoming.message
            self._report, self.ended_by_report = incoming.message.get("report"), self.ends_with_report
        return whole

    def _expect_frame(self) -> frames.FrameReader:
        return frames.FrameReader(channel=self.channel, max_bytes=self.report_bytes, leaves_rest=self.ignored > 0)

    def _take_direct(self, direct: socket.socket) -> bool:
        """Read an interpreter's direct message. Unexpected ones are dropped: a killed interpreter may have sent
        them.
        """
        self._small_reads += 1
        try:
            if not (data := direct.recv(frames.DIRECT_BYTES)):
                return True
            message = frames.parse(data)
        except (BlockingIOError, GuestError):
            return False
        except OSError:
            return True
        if self.awaits(message):
            self.answer, self.ended_by_report, self.has_direct = message, True, True
        return self.ended_by_report

    def _note(self, notes: FileIO) -> bool:
        data = notes.read(_CHUNK_BYTES)
        if not data:
            return data == b""
        self._small_reads += len(data) < _SMALL_BYTES
        self._notes += data
        if len(self._notes) > self.report_bytes:
            notes.close()  # further writes fail, as above
            return True
        self.ended_by_report = self._notes.endswith(_LAST)
        return False

    def _last_note(self) -> dict[str, JsonValue] | None:
        """The last whole line of an interpreter's reports, if it is one."""
        lines = self._notes.rsplit(b"\n", 2)
        try:
            noted = frames.parse(bytes(lines[-2])) if len(lines) > 1 else None
        except GuestError:
            return None
        return {name: value for name, value in noted.items() if name != "last"} if noted else None

    def _end(self) -> bool:
        """The program is over: kill its leftover processes, and give its streams a while to end."""
        self.watch.end()
        self._ends = time.monotonic() + _GRACE_SECONDS
        return True


def watch_files(*files: FileIO | socket.socket) -> Selector:
    """A selector of these files, for ``Supervisor.events``. The caller closes it."""
    events = Selector()
    for file in files:
        events.register(file.fileno(), selectors.EVENT_READ)
    return events


def _read(stream: FileIO) -> bytes | None:
    """Read available bytes; None if there are none yet, empty at the end. A closed terminal fails with EIO."""
    try:
        return stream.read(_CHUNK_BYTES)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise
