"""Asks the host and gives its answer, or raises the error that it tells."""

from gloveport_tools.channel import RequestTooLargeError
from gloveport_tools.results import ToolError


class HostClient:
    """Asks the host, and raises ``error`` where the answer is one. ``name`` is what the error calls it."""

    def __init__(self, channel, error=ToolError):
        self.channel = channel
        self.error = error

    def ask(self, name, operation, **fields):
        """Ask, and wait."""
        try:
            answer = self.channel.ask({"op": operation, **fields})
        except (OSError, RequestTooLargeError) as error:
            raise self.failure(name, error) from None
        return self.value_of(name, answer)

    async def aio(self, name, operation, **fields):
        """Ask, while others go on."""
        try:
            answer = await self.channel.aio({"op": operation, **fields})
        except (OSError, RequestTooLargeError) as error:
            raise self.failure(name, error) from None
        return self.value_of(name, answer)

    def value_of(self, name, answer):
        """The value of an answer. Raises the error where it has none."""
        if "error" not in answer:
            return answer["value"]
        error = answer["error"]
        raise self.error(name, error["code"], error["message"], error.get("hint") or "")

    def failure(self, name, error):
        """The error where no answer came."""
        if isinstance(error, RequestTooLargeError):
            return self.error(name, "too_large", str(error), "Pass less, or the parts of it in several calls.")
        hint = "It may be shutting down; try later."
        return self.error(name, "unavailable", f"the host does not answer: {error}", hint)
