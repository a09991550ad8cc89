"""Hands signals that ask for an orderly end (Ctrl-C, a closed terminal, a service manager) to the event loop."""

import contextlib
import signal
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

from gloveport.server.process.watchdog import hear_signals

Handler: TypeAlias = Callable[[signal.Signals], None]

_handlers: ContextVar[list[Handler] | None] = ContextVar("handlers", default=None)
"""The handlers of the open contexts, the innermost last."""


@contextlib.contextmanager
def on_end_signal(act: Callable[[], None]) -> Iterator[list[signal.Signals]]:
    """Call ``act`` for each signal that asks this process to end, and yield those received, in order. Of nested
    contexts only the innermost gets them.
    """
    signals: list[signal.Signals] = []

    def take(number: signal.Signals) -> None:
        signals.append(number)
        act()

    outer = _handlers.get()
    if outer is not None:
        outer.append(take)
        try:
            yield signals
        finally:
            outer.remove(take)
        return
    handlers: list[Handler] = [take]
    token = _handlers.set(handlers)

    def take_innermost(number: signal.Signals) -> None:
        handlers[-1](number)

    try:
        with hear_signals(take_innermost):
            yield signals
    finally:
        _handlers.reset(token)
