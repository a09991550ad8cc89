"""Configures logging of commands: to standard error, a line each, escaped for a terminal."""

import logging

_TALKATIVE = ("client", "httpx2", "mcp.client", "mcp.shared")
"""Loggers of the protocol library: of garbage that other servers send they tell in many lines, with what was sent."""


class _Plain(logging.Formatter):
    """One line a message: what clients and servers have sent stands in some."""

    def format(self, record: logging.LogRecord) -> str:
        from gloveport.sandbox.run.capture import plain

        return plain(super().format(record)).replace("\nhint: ", "; hint: ").replace("\n", "\\n")


def set_up() -> None:
    """For every command, before any library sets up its own."""
    logging.basicConfig(level=logging.WARNING)
    for handler in logging.getLogger().handlers:
        handler.setFormatter(_Plain("gloveport: %(levelname)s: %(message)s"))
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
