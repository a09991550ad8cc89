"""Configures the logging of commands: to standard error, one line a message, escaped for a terminal."""

import logging

_TALKATIVE = ("client", "httpx2", "mcp.client", "mcp.shared")
"""Loggers of the SDK: about malformed messages of other servers they log many lines, with the messages' content."""


class _Plain(logging.Formatter):
    """One escaped line a message: some messages quote clients and servers."""

    def format(self, record: logging.LogRecord) -> str:
        from gloveport.sandbox.run.capture import plain

        return plain(super().format(record)).replace("\nhint: ", "; hint: ").replace("\n", "\\n")


def set_up() -> None:
    """Configure logging for every command, before a library does."""
    logging.basicConfig(level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Plain("gloveport: %(levelname)s: %(message)s"))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
