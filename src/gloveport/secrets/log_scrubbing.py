"""Scrubs secrets from log messages."""

import contextlib
import logging
from collections.abc import Callable, Iterator

_PLAIN = logging.Formatter()


class _Scrubbing(logging.Formatter):
    """Scrubs the whole line, including a traceback, that another formatter has made."""

    def __init__(self, inner: logging.Formatter, clean: Callable[[str], str]) -> None:
        super().__init__()
        self._inner = inner
        self._clean = clean

    def format(self, record: logging.LogRecord) -> str:
        return self._clean(self._inner.format(record))


@contextlib.contextmanager
def scrubbed_logs(clean: Callable[[str], str]) -> Iterator[None]:
    """Pass each log message inside the context through ``clean``."""
    handlers = [(handler, handler.formatter) for handler in logging.getLogger().handlers]
    for handler, formatter in handlers:
        handler.setFormatter(_Scrubbing(formatter or _PLAIN, clean))
    try:
        yield
    finally:
        for handler, formatter in handlers:
            handler.setFormatter(formatter)
