"""ASGI middleware that refuses a message of very many values before anything is made of it."""

from dataclasses import dataclass
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gloveport.fairness import compute
from gloveport.limits.untrusted_json import has_many_values
from gloveport.server.transports import jsonrpc_errors

_TOO_LARGE: Final = 413


@dataclass(frozen=True, kw_only=True)
class MessageLimit:
    """Looks at the bodies of requests. How large they may be is another's to say, who is asked next.

    Attributes:
        app: Whom it is in front of.
        most_bytes: So many are looked at; of what is longer it is enough to know that.
    """

    app: ASGIApp
    most_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        came = [await receive()]
        size = len(came[0].get("body", b""))
        while came[-1].get("more_body") and size <= self.most_bytes:
            came.append(await receive())
            size += len(came[-1].get("body", b""))
        body = b"".join(message.get("body", b"") for message in came)
        if await compute(size, has_many_values, body, jsonrpc_errors.MOST_VALUES):
            answer = Response(jsonrpc_errors.too_many(), status_code=_TOO_LARGE, media_type="application/json")
            await answer(scope, receive, send)
            return
        again = iter(came)

        async def receive_again() -> Message:
            message = next(again, None)
            return await receive() if message is None else message

        await self.app(scope, receive_again, send)
