"""What leaves in no request: the owner's strings, in URL, headers and body."""

import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

from anyio.lowlevel import checkpoint

from gloveport.egress.content_encoding import decoder
from gloveport.egress.messages import Outbound
from gloveport.fairness import Pace
from gloveport.secrets.scrub import Needles, Scrubber, scrub


@dataclass(frozen=True, kw_only=True)
class Redaction:
    """What is done to one request."""

    needles: Needles

    def head(self, out: Outbound) -> Outbound:
        """The head without them, and as it has to be for a body without them."""
        if not self.needles:
            return out
        headers = tuple(
            (name, scrub(self.needles, value)) for name, value in out.headers if name != b"content-encoding"
        )
        return replace(out, target=scrub(self.needles, out.target.encode()).decode(), headers=headers)

    async def body(self, stream: AsyncIterator[bytes], coding: bytes) -> AsyncIterator[bytes]:
        """A body without them, and without its content coding, under which nobody could look for them.

        Raises:
            UpstreamError: Its coding is unknown, or it is broken.
        """
        undo, scrubber, pace = decoder(coding or b"identity"), Scrubber(self.needles), Pace()
        async for piece in stream:
            for plain in undo.feed(piece):
                began = time.monotonic()
                scrubbed = scrubber.feed(plain)
                await pace.rest(began)
                if scrubbed:
                    yield scrubbed
                else:
                    await checkpoint()
        undo.finish()
        if rest := scrubber.finish():
            yield rest
