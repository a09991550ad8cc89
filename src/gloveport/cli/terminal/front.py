"""The front process of ``gloveport exec``: the shell's job, between the shell and the engine.

The engine enforces the sandbox's limits, so it must run on while the program is stopped by Ctrl-Z: else a program could
escape the limits by stopping itself. And the front restores the terminal's settings even if the engine is killed.

    engine → front   STARTED    from now on the program uses the terminal
                     STOPPED    the program is stopped; the front has to stop too; answered by the same byte
                     ENDED      the caller gets the terminal back; answered by the same byte
    front → engine   STARTED    the program has the terminal, for the first time or again
                     a byte     the number of each received signal

Each notices the end of the other: the front by SIGCHLD, the engine by the end of the socket.
"""

import contextlib
import os
import select
import signal
import socket
import termios
import time
import tty
from types import FrameType
from typing import Any, Final, TypeAlias

STARTED, STOPPED, ENDED = b"r", b"s", b"e"

Settings: TypeAlias = list[Any]
"""A terminal's settings, by ``termios.tcgetattr``."""

_PASSED: Final = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGWINCH)
_HANDLED_SIGNALS: Final = (*_PASSED, signal.SIGCONT, signal.SIGCHLD)
_ENDING: Final = frozenset({signal.SIGTERM, signal.SIGHUP})
_PATIENCE_SECONDS: Final = 10.0
"""How long the engine may take to end after a signal, before it is killed."""

_ROOM_SECONDS: Final = 2.0
"""How long a terminal may take to accept what restores its state, before it loses the program's unread output."""

_MOMENT_SECONDS: Final = 0.01
_BYTES: Final = 4096
STRING_END: Final = b"\x1b\\"
"""Ends a control string, and cancels any other sequence that is not complete."""

_LEAVE: Final = (
    # The end of a control string; frames that are held back, the alternate screen, the mouse, pasting, the cursor.
    STRING_END + b"\x1b[?2026l\x1b[<99u\x1b[=0u\x1b[?1049l"
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1006l\x1b[?2004l\x1b[?25h"
    # What keys send, character sets, a link, colours.
    b"\x1b[<99u\x1b[=0u\x1b[>4m\x0f\x1b(B\x1b]8;;\x1b\\\x1b[m\r\n"
)
"""Resets a terminal if the engine has died without restoring it."""


def fork_engine(terminal: int | None) -> socket.socket:
    """Fork. The child returns with its socket to the front. This process becomes the front, and exits like the child.
    ``terminal`` is the descriptor of the program's terminal, if it gets one.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    numbers, wake = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    numbers.setblocking(False)
    wake.setblocking(False)
    # Before the fork, for both: signals of the terminal go to both processes, and only the front acts on them. They are
    # handled, not ignored: started programs would inherit that.
    for number in _HANDLED_SIGNALS:
        if number == signal.SIGHUP and signal.getsignal(number) == signal.SIG_IGN:
            continue  # nohup: the end of the terminal is not to end us
        signal.signal(number, _note)
    signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
    engine = os.fork()
    if engine == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for end in (ours, numbers, wake):
            end.close()
        return theirs
    theirs.close()
    front = _Front(engine, ours, numbers, terminal)
    raise SystemExit(front.stand())


def restore(terminal: int, settings: Settings, how: int = termios.TCSADRAIN) -> None:
    """Restore a terminal's settings, even if it is another job's by now."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
    with contextlib.suppress(termios.error):
        termios.tcsetattr(terminal, how, settings)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})


def write_last(terminal: int, data: bytes) -> None:
    """Write to a terminal which may have no room: it may be slow, or stopped, and full of the program's output.

    Raises:
        OSError: The terminal is gone, or accepts nothing.
    """
    deadline, rest, poll = time.monotonic() + _ROOM_SECONDS, data, select.poll()
    poll.register(terminal, select.POLLOUT)
    while rest and poll.poll(1000 * max(0.0, deadline - time.monotonic())):
        rest = rest[os.write(terminal, rest[:1]) :]  # more bytes than there is room for would block
    if rest:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTTOU})
        with contextlib.suppress(termios.error):
            termios.tcflush(terminal, termios.TCOFLUSH)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTTOU})
        if poll.poll(0):
            os.write(terminal, STRING_END + data)


class _Front:
    def __init__(self, engine: int, channel: socket.socket, numbers: socket.socket, terminal: int | None) -> None:
        self._engine = engine
        self._channel = channel
        self._numbers = numbers
        self._terminal = terminal
        self._settings: Settings = [] if terminal is None else termios.tcgetattr(terminal)
        self._is_started = False
        self._deadline: float | None = None

    def stand(self) -> int:
        """Pass on signals until the engine has ended; return its exit code."""
        sources: list[socket.socket] = [self._numbers, self._channel]
        while (code := self._find_end()) is None:
            if self._deadline is not None and time.monotonic() > self._deadline:
                os.kill(self._engine, signal.SIGKILL)
            ready, _, _ = select.select(sources, [], [], None if self._deadline is None else 0.2)
            if self._numbers in ready:
                for number in self._numbers.recv(_BYTES):
                    self._take_signal(number)
            if self._channel in ready and not self._follow_engine():
                sources.remove(self._channel)
        if self._is_started and self._terminal is not None:
            with contextlib.suppress(OSError):
                write_last(self._terminal, _LEAVE)
            self._end()
        return code

    def _find_end(self) -> int | None:
        pid, status = os.waitpid(self._engine, os.WNOHANG)
        if pid == 0:
            return None
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            os.write(2, f"gloveport: was ended by signal {-code}\n".encode())
        return code if code >= 0 else 128 - code

    def _take_signal(self, number: int) -> None:
        if number == signal.SIGCONT:
            self._go_on()
        elif number in _PASSED:
            self._send_code(number)
            if number in _ENDING and self._deadline is None:
                self._deadline = time.monotonic() + _PATIENCE_SECONDS

    def _follow_engine(self) -> bool:
        """Obey the engine's messages; return whether more may come."""
        try:
            codes = self._channel.recv(_BYTES)
        except OSError:
            codes = b""
        for word in (codes[at : at + 1] for at in range(len(codes))):
            if word == STARTED and self._terminal is not None:
                self._is_started = True
                if self._is_in_front():
                    tty.setraw(self._terminal, termios.TCSADRAIN)
                    self._send_code(STARTED[0])
                else:
                    self._stop()
            elif word == STOPPED:
                self._send_code(STOPPED[0])
                self._stop()
            elif word == ENDED:
                self._end()
                self._send_code(ENDED[0])
        return bool(codes)

    def _stop(self) -> None:
        """Stop, with all of our job but the engine, as by Ctrl-Z; continue when the shell says so."""
        if self._terminal is not None:
            restore(self._terminal, self._settings)
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.killpg(0, signal.SIGTSTP)
        # Here this process is stopped. Without a shell that could continue it, the kernel does not stop it at all.
        signal.signal(signal.SIGTSTP, _note)
        self._go_on()

    def _go_on(self) -> None:
        if self._terminal is not None and self._is_started:
            if not self._is_in_front():
                self._go_on_behind()
                return
            if not self._is_raw():  # the shell may have changed settings
                self._settings = termios.tcgetattr(self._terminal)
            tty.setraw(self._terminal, termios.TCSADRAIN)
            self._send_code(STARTED[0])
        self._send_code(signal.SIGCONT)

    def _go_on_behind(self) -> None:
        """Go on in the background: a program with a terminal waits until it is in the foreground."""
        began = time.monotonic()
        signal.signal(signal.SIGTTIN, signal.SIG_DFL)
        os.killpg(0, signal.SIGTTIN)
        if time.monotonic() - began < _MOMENT_SECONDS:  # the shell is gone, so nothing brings it to the foreground
            self._send_code(signal.SIGHUP)

    def _end(self) -> None:
        """Give the terminal back, and discard unread input, which may hold answers to the program's questions."""
        if self._is_started and self._terminal is not None:
            restore(self._terminal, self._settings, termios.TCSAFLUSH)
        self._is_started = False

    def _is_raw(self) -> bool:
        assert self._terminal is not None  # noqa: S101 - whoever asks has one
        return not termios.tcgetattr(self._terminal)[tty.LFLAG] & termios.ICANON

    def _is_in_front(self) -> bool:
        assert self._terminal is not None  # noqa: S101
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:  # the terminal controls no session; use it all the same
            return True

    def _send_code(self, number: int) -> None:
        with contextlib.suppress(OSError):
            self._channel.send(bytes([number]), socket.MSG_DONTWAIT)


def _note(_number: int, _frame: FrameType | None) -> None:
    """The front reads the number from a socket; the engine is told by the front."""
