"""Passes a server's answer on to the program as it comes, without a secret in head or body."""

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
# Another way to the same server, which leads past us.
_DROPPED = frozenset({b"alt-svc"})


class ResponseRelay(Struct, kw_only=True):
    """One answer on its way back.

    Attributes:
        vault: What must not be in it. A secret that is resolved while it comes is one that may come in it.
        own_text: What the program has itself sent, which stays; None where it comes from an API that gets credentials:
            there all is scrubbed, and what can't be looked at is refused.
        received_bytes: Bytes of its body, as they came.
        found: Names of the secrets that were in it.
    """

    vault: Vault
    own_text: OwnText | None
    received_bytes: int = 0
    found: set[str] = field(default_factory=set)

    async def pass_on(self, connection: ServerConnection, answer: Response, method: str) -> None:
        """Pass on an answer to ``method``, and its body piece by piece.

        Raises:
            UpstreamError: It can't be looked at, or breaks off.
            OSError: The program's end broke.
        """
        if self.credentialed and (
            answer.status == _PARTIAL or any(name == b"content-range" for name, _ in answer.headers)
        ):
            reason = "A part of an answer came, in which a credential could be cut in two."
            raise UpstreamError("partial_answer", reason, hint="Ask for the whole.")
        if method == "HEAD" or answer.status in WITHOUT_BODY:
            await connection.begin(self._head(answer), answer.length if method == "HEAD" else None)
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
        """Whether megabytes of what has come already are held while it is decoded."""
        codings = join_values(answer.headers, b"content-encoding").lower().split(b",")
        return self._looks and any(name.strip() not in LIGHT for name in codings)

    def upgrade_head(self, answer: Response) -> AnswerHead:
        """The head of an answer that makes the connection a WebSocket.

        Raises:
            UpstreamError: It wants something of which nothing was said.
        """
        if any(name == b"sec-websocket-extensions" for name, _ in answer.headers):
            raise UpstreamError("bad_response", "The server wants an extension that nobody has offered.")
        upgrade = ((b"connection", b"upgrade"), (b"upgrade", b"websocket"))
        return AnswerHead(status=answer.status, headers=(*self._scrub_headers(answer.headers), *upgrade))

    @property
    def credentialed(self) -> bool:
        """Whether it is from an API that gets credentials."""
        return self.own_text is None

    @property
    def _own(self) -> Collection[str]:
        return () if self.own_text is None else self.own_text.names

    @property
    def _looks(self) -> bool:
        """Whether there is anything to look for, or may be before it has come to its end."""
        return self.credentialed or bool(self.vault.needles)

    def _head(self, answer: Response, *, decoded: bool = False) -> AnswerHead:
        dropped = _DROPPED | {b"content-encoding"} if decoded else _DROPPED
        kept = [header for header in answer.headers if header[0] not in dropped]
        *headers, (_, reason) = self._scrub_headers((*kept, (b"", answer.reason)))
        return AnswerHead(status=answer.status, reason=reason, headers=tuple(headers))

    def _scrub_headers(self, headers: Headers) -> Headers:
        if not self._looks:
            return headers
        # At once, and only if there is something, one by one: a secret has no line feed in it, and no header either.
        data = b"\n".join([b":".join(header) for header in headers])
        if self._scrub(data) is data:
            return headers
        return tuple((self._scrub(name), self._scrub(value)) for name, value in headers)

    def _scrub(self, data: bytes) -> bytes:
        """The same object where there is nothing to be found in it."""
        own = self._own
        if not self._looks or scrub(self.vault.needles, data, own) is data:
            return data
        scrubber = Scrubber(self.vault.needles, own, self.found)
        return scrubber.feed(data) + scrubber.finish()

    def _decoder(self, headers: Headers) -> Decoder | None:
        """What undoes the content's coding, where that has to be undone to look at it.

        Raises:
            UpstreamError: Nothing does, and it has to be.
        """
        coding = join_values(headers, b"content-encoding")
        if not coding or not self._looks:
            return None
        try:
            return make_decoder(self._scrub(coding))  # what is unknown is quoted, and cut
        except UpstreamError:
            if self.credentialed:
                raise
            return None  # what comes from where no credential goes is looked at as it is

    async def _watch(self, answer: Response, scrubber: Scrubber) -> AsyncIterator[bytes]:
        """The body as it comes; what is looked for in it is what is known by then."""
        async for piece in answer:
            self.received_bytes += len(piece)
            scrubber.renew(self.vault.needles, self._own)
            yield piece
