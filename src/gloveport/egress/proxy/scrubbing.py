"""Scrubs bodies as they stream: without content encoding, without what must not pass, and without stopping others."""

import time
from collections.abc import AsyncIterator

from anyio.lowlevel import checkpoint

from gloveport.egress.http.content_encoding import Decoder, make_decoder
from gloveport.egress.http.heads import Outbound
from gloveport.fairness import Pace
from gloveport.secrets.scrub import Needles, Scrubber, scrub


async def scrub_stream(pieces: AsyncIterator[bytes], undo: Decoder | None, scrubber: Scrubber) -> AsyncIterator[bytes]:
    """Scrub a body piece by piece.

    Args:
        pieces: As they come.
        undo: Takes its content encoding off; None where it has none, or it is looked at as it is.
        scrubber: Looks at what is left then.

    Raises:
        UpstreamError: Its encoding is broken.
    """
    pace = Pace()
    async for piece in pieces:
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


def redact_head(needles: Needles, out: Outbound) -> Outbound:
    """The head of a request without the owner's strings, and as it has to be for a body without them."""
    if not needles:
        return out
    headers = tuple((name, scrub(needles, value)) for name, value in out.headers if name != b"content-encoding")
    return out._replace(target=scrub(needles, out.target.encode()).decode(), headers=headers)


async def redact_body(needles: Needles, pieces: AsyncIterator[bytes], encoding: bytes) -> AsyncIterator[bytes]:
    """A body without them, and without its content encoding, under which nobody could look for them.

    Raises:
        UpstreamError: Its encoding is unknown, or it is broken.
    """
    async for piece in scrub_stream(pieces, make_decoder(encoding or b"identity"), Scrubber(needles)):
        yield piece
