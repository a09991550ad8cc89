"""Orderly ends: what Ctrl-C, a closed terminal or a service manager asks for, done by the event loop."""

import asyncio
import contextlib
import signal
from collections.abc import Callable, Iterator

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def on_end_signal(act: Callable[[], None]) -> Iterator[list[signal.Signals]]:
    """Call ``act``, once for each signal that asks this process to end.

    Yields:
        The signals that came, in order.
    """
    loop = asyncio.get_running_loop()
    came: list[signal.Signals] = []

    def take(number: signal.Signals) -> None:
        came.append(number)
        act()

    for number in _ENDING:
        loop.add_signal_handler(number, take, number)
    try:
        yield came
    finally:
        for number in _ENDING:
            loop.remove_signal_handler(number)
