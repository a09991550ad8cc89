"""Logs the stack where the event loop is stuck, and lets a signal end the server even then.

C code that holds the interpreter's lock, as the regular expression engine does, stops all Python of this process, in
every thread, signal handlers included. So ``faulthandler`` writes the stack, whose thread does not need the lock, and
another process ends the server (``last_resort.py``): the C part of Python's signal handling writes the number of each
signal to a socket; if nobody reads it for some seconds, that process kills the server. Its sandboxes die with it, as
they do whenever the server is killed.
"""

import asyncio
import contextlib
import faulthandler
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Final

from msgspec import Struct, field

from gloveport.file_descriptors import closing

_LAST_RESORT: Final = Path(__file__).with_name("last_resort.py")
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PET_SECONDS, _STILL_SECONDS = 0.5, 1.5
"""The timer's interval, and the time without a reset after which the stack is written."""

_PAUSE_SECONDS = 60.0
"""The least time between two stacks: a program that can block the event loop must not be able to fill the log."""

_STDERR: Final = 2
_NUMBERS: Final = 4096

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def hear_signals(act: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call ``act`` in the running event loop, the main thread's, for each signal that asks to end."""
    loop = asyncio.get_running_loop()
    near, far = socket.socketpair()
    with near, far, contextlib.ExitStack() as stack:
        near.setblocking(False)  # noqa: FBT003 - its only argument
        far.setblocking(False)  # noqa: FBT003

        def take() -> None:
            with contextlib.suppress(BlockingIOError):
                for number in near.recv(_NUMBERS):
                    if number in _ENDING:
                        act(signal.Signals(number))

        loop.add_reader(near, take)
        stack.callback(loop.remove_reader, near)
        for ending in _ENDING:
            if ending == signal.SIGHUP and signal.getsignal(ending) == signal.SIG_IGN:
                continue  # nohup: the end of the terminal is not to end us
            stack.callback(signal.signal, ending, signal.signal(ending, _pass))
        stack.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False))
        stack.callback(_end, _start(near))  # last: a signal may come as soon as somebody sees this process start
        yield


@contextlib.contextmanager
def watch_loop() -> Iterator[None]:
    """Log where the running event loop is stuck. Not for the start of the server, when nobody waits for an answer."""
    timer = _LoopTimer(loop=asyncio.get_running_loop())
    timer.pet()
    try:
        yield
    finally:
        timer.end()


class _LoopTimer(Struct, kw_only=True):
    """A timer that writes the loop's stack, unless the loop keeps resetting it."""

    loop: asyncio.AbstractEventLoop
    _last_pet: float = 0
    _next_stack: float = 0
    _timer: asyncio.TimerHandle | None = field(default=None)

    def pet(self) -> None:
        """Reset the timer."""
        now = self.loop.time()
        if self._last_pet and now - self._last_pet > _STILL_SECONDS:
            _log.warning("the event loop stood still for %.1f s: nobody was answered", now - self._last_pet)
            self._next_stack = now + _PAUSE_SECONDS
        self._last_pet = now
        if now >= self._next_stack:
            faulthandler.dump_traceback_later(_STILL_SECONDS, file=_STDERR)
        else:
            faulthandler.cancel_dump_traceback_later()
        self._timer = self.loop.call_later(_PET_SECONDS, self.pet)

    def end(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
        faulthandler.cancel_dump_traceback_later()


def _start(signals: socket.socket) -> "subprocess.Popen[bytes]":
    environ: dict[str, str] = {}
    with closing(os.pidfd_open(os.getpid())) as server:
        return subprocess.Popen(  # noqa: S603 - nothing of it comes from elsewhere
            (sys.executable, "-I", "-S", str(_LAST_RESORT), str(server)),
            stdin=signals.fileno(),
            stdout=subprocess.DEVNULL,
            pass_fds=(server,),
            cwd="/",
            env=environ,
            start_new_session=True,  # signals of the terminal are for the server alone
        )


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()


def _pass(_number: int, _frame: FrameType | None) -> None:
    """Do nothing: the signal's number is in the socket already."""
