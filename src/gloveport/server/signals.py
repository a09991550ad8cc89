"""Orderly ends: what Ctrl-C, a closed terminal or a service manager asks for, done by the event loop."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Handler: TypeAlias = Callable[[signal.Signals], None]

_outer: ContextVar[Handler | None] = ContextVar("handler", default=None)
"""What handles these signals when the present context is left."""


@contextlib.contextmanager
def on_end_signal(act: Callable[[], None]) -> Iterator[list[signal.Signals]]:
    """Call ``act``, once for each signal that asks this process to end. The innermost of several contexts has them.

    Yields:
        The signals that came, in order.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def take(number: signal.Signals) -> None:
        came.append(number)
        act()

    outer = _outer.get()
    token = _outer.set(take)
    for number in _ENDING:
        loop.add_signal_handler(number, take, number)
    try:
        yield came
    finally:
        _outer.reset(token)
        for number in _ENDING:
            if outer is None:
                loop.remove_signal_handler(number)
            else:
                loop.add_signal_handler(number, outer, number)
