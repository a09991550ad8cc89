"""Decodes and scrubs bodies as they stream, without blocking the event loop."""

import time
from collections.abc import AsyncIterator

from anyio.lowlevel import checkpoint

from gloveport.egress.http.content_encoding import Decoder, make_decoder
from gloveport.egress.http.heads import Outbound
from gloveport.fairness import Pace
from gloveport.secrets.scrub import Needles, Scrubber, scrub


async def scrub_stream(pieces: AsyncIterator[bytes], undo: Decoder | None, scrubber: Scrubber) -> AsyncIterator[bytes]:
    """Scrub a body piece by piece. ``undo`` decodes its content encoding; None to inspect the body as it is.

    Raises:
        UpstreamError: The encoding is broken.
    """
    pace = Pace()
    async for piece in pieces:
        began = time.monotonic()
        for plain in (piece,) if undo is None else undo.feed(piece):
            scrubbed = scrubber.feed(plain)
            await pace.rest(began)
            if scrubbed:
                yield scrubbed
            elif undo is not None:
                await checkpoint()
            began = time.monotonic()
    if undo is not None:
        undo.finish()
    if rest := scrubber.finish():
        yield rest


def redact_head(needles: Needles, out: Outbound) -> Outbound:
    """Redact the head of a request, and drop the headers that would not fit the redacted body."""
    if not needles:
        return out
    headers = tuple(
        (scrub(needles, name), scrub(needles, value)) for name, value in out.headers if name != b"content-encoding"
    )
    return out._replace(target=scrub(needles, out.target.encode()).decode(), headers=headers)


async def redact_body(needles: Needles, pieces: AsyncIterator[bytes], encoding: bytes) -> AsyncIterator[bytes]:
    """Redact the body of a request, after decoding it: in an encoded body no string could be found.

    Raises:
        UpstreamError: The encoding is unknown or broken.
    """
    async for piece in scrub_stream(pieces, make_decoder(encoding or b"identity"), Scrubber(needles)):
        yield piece
