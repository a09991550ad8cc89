"""Sends requests to the host, and returns its answers or raises its errors."""

from gloveport_tools.channel import RequestTooLargeError
from gloveport_tools.results import ToolError


class HostClient:
    """Sends requests to the host; raises ``error`` for an error. ``name`` is what the error calls the request."""

    def __init__(self, channel, error=ToolError):
        self.channel = channel
        self.error = error

    def ask(self, name, operation, **fields):
        """Send a request, and wait for the answer."""
        try:
            answer = self.channel.ask({"op": operation, **fields})
        except (OSError, RequestTooLargeError) as error:
            raise self.failure(name, error) from None
        return self.value_of(name, answer)

    async def aio(self, name, operation, **fields):
        """As ``ask``, without blocking others."""
        try:
            answer = await self.channel.aio({"op": operation, **fields})
        except (OSError, RequestTooLargeError) as error:
            raise self.failure(name, error) from None
        return self.value_of(name, answer)

    def value_of(self, name, answer):
        """The value of an answer. Raises its error where it has no value."""
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
