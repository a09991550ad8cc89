"""The way back: an answer, without a secret in head or body, passed on as it comes."""

import contextlib
import time
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field

from anyio.lowlevel import checkpoint

from gloveport.egress.content_encoding import LIGHT, Decoder, decoder
from gloveport.egress.heads import WITHOUT_BODY
from gloveport.egress.messages import Answer, Headers
from gloveport.egress.own_text import OwnText
from gloveport.egress.server_connection import Conversation, Head
from gloveport.errors import UpstreamError
from gloveport.fairness import Pace
from gloveport.secrets.scrub import Scrubber, scrub
from gloveport.secrets.vault import Vault

_PARTIAL = 206
_SMALL_BYTES = 64 * 1024
# Another way to the same server, which leads past us.
_DROPPED = frozenset({b"alt-svc"})


@dataclass(kw_only=True)
class Reply:
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

    async def pass_on(self, conversation: Conversation, answer: Answer, method: str) -> None:
        """Pass on an answer to ``method``, and its body piece by piece.

        Raises:
            UpstreamError: It can't be looked at, or breaks off.
            OSError: The program's end broke.
        """
        if self.credentialed and (
            answer.status == _PARTIAL or any(name == b"content-range" for name, _ in answer.headers)
        ):
            raise UpstreamError(
                "partial_answer", "A part of an answer came, in which a credential could be cut in two.", hint=_WHOLE
            )
        if method == "HEAD" or answer.status in WITHOUT_BODY:
            await conversation.begin(self._head(answer), answer.length if method == "HEAD" else None)
            await conversation.end(())
            return
        undo, length = self._decoder(answer.headers), answer.length
        head = self._head(answer, decoded=undo is not None)
        if length is not None and length <= _SMALL_BYTES and undo is None:
            content = b"".join([piece async for piece in answer.body])
            self.received_bytes = len(content)
            await conversation.answer(head, self._scrub(content))
            return
        await conversation.begin(head, None if self._looks else length)
        async for piece in self._body(answer, undo):
            await conversation.write(piece)
        await conversation.end(self._scrubbed(answer.trailers))

    def needs_window(self, answer: Answer) -> bool:
        """Whether megabytes of what has come already are held while it is decoded."""
        coding = b",".join(value for name, value in answer.headers if name == b"content-encoding")
        return self._looks and any(name.strip().lower() not in LIGHT for name in coding.split(b","))

    def switched(self, answer: Answer) -> Head:
        """The head of an answer that makes the connection a WebSocket.

        Raises:
            UpstreamError: It wants something of which nothing was said.
        """
        if any(name == b"sec-websocket-extensions" for name, _ in answer.headers):
            raise UpstreamError("bad_response", "The server wants an extension that nobody has offered.")
        upgrade = ((b"connection", b"upgrade"), (b"upgrade", b"websocket"))
        return Head(status=answer.status, headers=(*self._scrubbed(answer.headers), *upgrade))

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

    def _head(self, answer: Answer, *, decoded: bool = False) -> Head:
        dropped = _DROPPED | {b"content-encoding"} if decoded else _DROPPED
        kept = [header for header in answer.headers if header[0] not in dropped]
        *headers, (_, reason) = self._scrubbed((*kept, (b"", answer.reason)))
        return Head(status=answer.status, reason=reason, headers=tuple(headers))

    def _scrubbed(self, headers: Headers) -> Headers:
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
        scrubber = Scrubber(self.vault.needles, own)
        scrubbed = scrubber.feed(data) + scrubber.finish()
        self.found |= scrubber.found
        return scrubbed

    def _decoder(self, headers: Headers) -> Decoder | None:
        """What undoes the content's coding, where that has to be undone to look at it.

        Raises:
            UpstreamError: Nothing does, and it has to be.
        """
        coding = b",".join(value for name, value in headers if name == b"content-encoding")
        if not coding or not self._looks:
            return None
        try:
            return decoder(self._scrub(coding))  # what is unknown is quoted, and cut
        except UpstreamError:
            if self.credentialed:
                raise
            return None  # what comes from where no credential goes is looked at as it is

    async def _body(self, answer: Answer, undo: Decoder | None) -> AsyncIterator[bytes]:
        scrubber, pace = Scrubber(self.vault.needles), Pace()
        with contextlib.ExitStack() as stack:
            stack.callback(lambda: self.found.update(scrubber.found))
            async for piece in answer.body:
                self.received_bytes += len(piece)
                scrubber.renew(self.vault.needles, self._own)
                for plain in (piece,) if undo is None else undo.feed(piece):
                    began = time.monotonic()
                    scrubbed = scrubber.feed(plain)
                    await pace.rest(began)
                    if scrubbed:
                        yield scrubbed
                    elif undo is not None:
                        await checkpoint()
            if undo is not None:
                undo.finish()
            if rest := scrubber.finish():
                yield rest


_WHOLE = "Ask for the whole."
