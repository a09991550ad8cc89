"""ASGI middleware that refuses what a web page sends, also a page of this server's own origin.

The origin of a port stays that of pages which another server has shown there before: one that is still open, or its
service worker, could call each tool. Browsers tell of every request where it comes from, and let no page change that.
"""

from typing import Final

from msgspec import Struct
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

_SITE: Final = b"sec-fetch-site"
"""Where a page is from. Not ``sec-fetch-mode``: Node's ``fetch`` sends that too."""

_NO_PAGE: Final = b"none"
"""What is sent for the address bar, and by clients that use a browser's network stack, such as Electron's."""


class WebPageRefusal(Struct, frozen=True, kw_only=True):
    """Passes on what no page has sent, and GET, by which a person opens the link to an artifact."""

    app: ASGIApp

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        is_read = scope["type"] != "http" or scope["method"] == "GET"
        if not is_read and dict(scope["headers"]).get(_SITE, _NO_PAGE) != _NO_PAGE:
            await PlainTextResponse("requests of web pages are refused\n", 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)
