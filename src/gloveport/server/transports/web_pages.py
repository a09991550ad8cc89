"""ASGI middleware that refuses what a web page sends, also a page of this server's own origin.

The origin of a port stays that of pages which another server has shown there before: one that is still open, or its
service worker, could call each tool. Browsers tell of every request where it comes from, and let no page change that.
"""

from typing import Final

from msgspec import Struct
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_SENT_BY_BROWSERS: Final = b"sec-fetch-site"
"""Not ``sec-fetch-mode``: Node's ``fetch`` sends that too."""


class WebPageRefusal(Struct, frozen=True, kw_only=True):
    """Passes on what no browser has sent, and GET, by which a person opens the link to an artifact."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "http" and scope["method"] != "GET" and _SENT_BY_BROWSERS in dict(scope["headers"]):
            await PlainTextResponse("from a page of the web nothing is taken\n", 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
