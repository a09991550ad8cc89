"""ASGI middleware that refuses a message of very many values before anything is made of it."""

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gloveport.fairness import compute
from gloveport.limits.untrusted_json import has_many_values
from gloveport.server.transports import jsonrpc_errors

_TOO_LARGE: Final = 413


class MessageLimit:
    """Looks at the bodies of requests. How large they may be is another's to say, who is asked next.

    Attributes:
        most_bytes: So many are looked at; of what is longer it is enough to know that.
    """

    def __init__(self, app: ASGIApp, most_bytes: int) -> None:
        self._app = app
        self.most_bytes = most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        came = [await receive()]
        size = len(came[0].get("body", b""))
        while came[-1].get("more_body") and size <= self.most_bytes:
            came.append(await receive())
            size += len(came[-1].get("body", b""))
        body = b"".join(message.get("body", b"") for message in came)
        if await compute(size, has_many_values, body, jsonrpc_errors.MOST_VALUES):
            await _refuse(send)
            return
        again = iter(came)

        async def receive_again() -> Message:
            message = next(again, None)
            return await receive() if message is None else message

        await self._app(scope, receive_again, send)


async def _refuse(send: Send) -> None:
    body = jsonrpc_errors.too_many()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": _TOO_LARGE, "headers": headers})
    await send({"type": "http.response.body", "body": body})
