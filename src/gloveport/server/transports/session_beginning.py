"""Answers the first requests of a session while the server still starts: the handshake, and lists of the offer."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct, field

from gloveport.server.fast_path import HANDSHAKES, ClientMessage, FastPath, LineWork, is_plain_client, line_of
from gloveport.server.server_offer import PREFIX, STATELESS, ServerOffer
from gloveport.server.startup import Startup

_MOST_LINES: Final = 8
"""Most messages of a handshake that are kept for the SDK."""


class SessionBeginning(Struct, eq=False, kw_only=True):
    """The beginning of one session.

    Attributes:
        handshake: Lines of the handshake that were answered here; the SDK has to see them too.
        greeted: Ids of the ``initialize`` requests among them.
        has_called: Whether a tool was called: then there may be artifacts.
    """

    fast_path: FastPath
    startup: Startup
    handshake: list[bytes] = field(default_factory=list)
    greeted: set[str | int] = field(default_factory=set)
    has_called: bool = False

    def answer(self, message: ClientMessage, line: bytes) -> bytes | LineWork | None:
        """Return the line that answers (empty for none), or work for it; None if this can't answer the message."""
        offer = self.startup.offer
        if offer is None:
            return None
        if message.id is None:
            return self._take_initialized(message, line)
        if message.method == "initialize":
            return self._greet(message.id, message, line)
        if message.method == "server/discover":
            return self._discover(message.id, message)
        if not self.fast_path.can_answer or message.params.keys() - {"_meta"}:
            return None
        make = self._answers(offer).get(message.method)
        return None if make is None else make(message.id)

    def _take_initialized(self, message: ClientMessage, line: bytes) -> bytes | None:
        if message.method != "notifications/initialized" or not self.greeted or len(self.handshake) >= _MOST_LINES:
            return None
        self.handshake.append(line)
        return b""

    def _greet(self, request: str | int, message: ClientMessage, line: bytes) -> bytes | None:
        version, offer = message.params.get("protocolVersion"), self.startup.offer
        if offer is None or self.greeted or not isinstance(version, str) or version not in HANDSHAKES:
            return None
        if not is_plain_client(message.params.get("clientInfo"), message.params.get("capabilities")):
            return None
        self.handshake.append(line)
        self.greeted.add(request)
        return line_of(request, offer.initialize_result(version))

    def _discover(self, request: str | int, message: ClientMessage) -> bytes | None:
        meta = message.params.get("_meta")
        if message.params.keys() != {"_meta"} or not isinstance(meta, dict) or self.startup.offer is None:
            return None
        envelope = {name.removeprefix(PREFIX): value for name, value in meta.items()}
        info, capabilities = envelope.get("clientInfo"), envelope.get("clientCapabilities")
        if envelope.get("protocolVersion") != STATELESS or not is_plain_client(info, capabilities):
            return None
        return line_of(request, self.startup.offer.discover_result())

    def _answers(self, offer: ServerOffer) -> dict[str, Callable[[str | int], bytes | LineWork]]:
        templates = offer.resource_templates
        answers: dict[str, Callable[[str | int], bytes | LineWork]] = {
            "ping": lambda request: line_of(request, {}),
            "prompts/list": lambda request: line_of(request, {"prompts": offer.prompts()}),
            "resources/templates/list": lambda request: line_of(request, {"resourceTemplates": templates()}),
            "tools/list": self._list_tools,
        }
        if not self.has_called and not (offer.has_skills and self.startup.has_skills()):
            answers["resources/list"] = lambda request: line_of(request, {"resources": []})
        return answers

    def _list_tools(self, request: str | int) -> LineWork:
        async def list_tools() -> bytes:
            offer = await self.startup.wait_offer()
            tools = [] if offer is None else offer.tools(with_schemas=self.fast_path.reads_structured)
            return line_of(request, {"tools": tools})

        return list_tools
