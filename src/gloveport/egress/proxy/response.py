"""Streams a server's answer to the program, with secrets scrubbed from head and body."""

from collections.abc import AsyncIterator, Collection

from msgspec import Struct, field

from gloveport.egress.http.client import Response
from gloveport.egress.http.content_encoding import LIGHT, Decoder, make_decoder
from gloveport.egress.http.heads import WITHOUT_BODY, Headers, join_values
from gloveport.egress.http.server import AnswerHead, ServerConnection
from gloveport.egress.outbound_session import OwnText
from gloveport.egress.proxy.scrubbing import scrub_stream
from gloveport.errors import UpstreamError
from gloveport.secrets.scrub import Scrubber, scrub
from gloveport.secrets.vault import Vault

_PARTIAL = 206
_SMALL_BYTES = 64 * 1024
# alt-svc tells clients of other ways to the server, which would bypass the proxy.
_DROPPED = frozenset({b"alt-svc"})


class ResponseRelay(Struct, kw_only=True):
    """Relays one answer.

    Attributes:
        vault: The secrets to scrub, those included that are resolved while the answer streams.
        own_text: The secrets that the program has itself sent, which stay; None for an API with credentials: there all
            secrets are scrubbed, and an answer that can't be inspected is refused.
        received_bytes: Bytes of the body as received.
        found: Names of the secrets that were scrubbed.
    """

    vault: Vault
    own_text: OwnText | None
    received_bytes: int = 0
    found: set[str] = field(default_factory=set)

    async def pass_on(self, connection: ServerConnection, answer: Response, method: str) -> None:
        """Pass on an answer to a request with this method.

        Raises:
            UpstreamError: The answer can't be inspected, or breaks off.
            OSError: The program's connection broke.
        """
        if self.credentialed and (
            answer.status == _PARTIAL or any(name == b"content-range" for name, _ in answer.headers)
        ):
            reason = "A part of an answer came, in which a credential could be cut in two."
            raise UpstreamError("partial_answer", reason, hint="Ask for the whole.")
        if method == "HEAD" or answer.status in WITHOUT_BODY:
            coded = self._looks and any(name == b"content-encoding" for name, _ in answer.headers)
            length = answer.length if method == "HEAD" and not coded else None  # that of the decoded body is unknown
            await connection.begin(self._head(answer, decoded=coded), length)
            await connection.end(())
            return
        undo, length = self._decoder(answer.headers), answer.length
        head = self._head(answer, decoded=undo is not None)
        if length is not None and length <= _SMALL_BYTES and undo is None:
            content = b"".join([piece async for piece in answer])
            self.received_bytes = len(content)
            await connection.answer(head, self._scrub(content))
            return
        await connection.begin(head, None if self._looks else length)
        scrubber = Scrubber(self.vault.needles, found=self.found)
        async for piece in scrub_stream(self._watch(answer, scrubber), undo, scrubber):
            await connection.write(piece)
        await connection.end(self._scrub_headers(answer.trailers))

    def needs_window(self, answer: Response) -> bool:
        """Whether decoding the answer takes megabytes of memory."""
        codings = join_values(answer.headers, b"content-encoding").lower().split(b",")
        return self._looks and any(name.strip() not in LIGHT for name in codings)

    def upgrade_head(self, answer: Response) -> AnswerHead:
        """Make the head of an answer that accepts an upgrade to WebSocket.

        Raises:
            UpstreamError: The server selects an extension that was not offered.
        """
        if any(name == b"sec-websocket-extensions" for name, _ in answer.headers):
            raise UpstreamError("bad_response", "The server wants an extension that nobody has offered.")
        upgrade = ((b"connection", b"upgrade"), (b"upgrade", b"websocket"))
        return AnswerHead(status=answer.status, headers=(*self._scrub_headers(answer.headers), *upgrade))

    @property
    def credentialed(self) -> bool:
        """Whether the answer is from an API with credentials."""
        return self.own_text is None

    @property
    def _own(self) -> Collection[str]:
        return () if self.own_text is None else self.own_text.names

    @property
    def _looks(self) -> bool:
        """Whether there are secrets to look for, or may be before the answer ends."""
        return self.credentialed or bool(self.vault.needles)

    def _head(self, answer: Response, *, decoded: bool = False) -> AnswerHead:
        dropped = _DROPPED | {b"content-encoding"} if decoded else _DROPPED
        rest = [header for header in answer.headers if header[0] not in dropped]
        *headers, (_, reason) = self._scrub_headers((*rest, (b"", answer.reason)))
        return AnswerHead(status=answer.status, reason=reason, headers=tuple(headers))

    def _scrub_headers(self, headers: Headers) -> Headers:
        if not self._looks:
            return headers
        # All together first, and one by one only on a match: neither secrets nor headers hold a line feed.
        data = b"\n".join([b":".join(header) for header in headers])
        if self._scrub(data) is data:
            return headers
        return tuple((self._scrub(name), self._scrub(value)) for name, value in headers)

    def _scrub(self, data: bytes) -> bytes:
        """Scrub data; return the same object if it holds no secret."""
        own = self._own
        if not self._looks or scrub(self.vault.needles, data, own) is data:
            return data
        scrubber = Scrubber(self.vault.needles, own, self.found)
        return scrubber.feed(data) + scrubber.finish()

    def _decoder(self, headers: Headers) -> Decoder | None:
        """Make the decoder for the content encoding, if the body has to be inspected; None if not.

        Raises:
            UpstreamError: The encoding is unknown, and the answer is from an API with credentials.
        """
        coding = join_values(headers, b"content-encoding")
        if not coding or not self._looks:
            return None
        try:
            return make_decoder(self._scrub(coding))  # scrubbed: the error quotes an unknown encoding
        except UpstreamError:
            if self.credentialed:
                raise
            return None  # without credentials, an answer may pass with only its encoded form inspected

    async def _watch(self, answer: Response, scrubber: Scrubber) -> AsyncIterator[bytes]:
        """Iterate over the body, and renew the scrubber's secrets before each piece."""
        async for piece in answer:
            self.received_bytes += len(piece)
            scrubber.renew(self.vault.needles, self._own)
            yield piece
