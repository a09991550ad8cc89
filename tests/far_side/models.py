"""A language model behind both APIs, and one that is up to no good."""

import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import anyio
from tests.far_side import http1
from tests.far_side.app import App, Request, Response
from tests.far_side.listening import HOST, Place, listening

KEY = "sk-far-side-0123456789"


@dataclass
class Models:
    """What is asked at ``/v1``, and what is answered there.

    Attributes:
        place: Where it listens.
        asked: Path, headers and body of each request.
        text: What the model says.
        said: What it answers instead of that: status, headers and body.
        newer: It takes ``max_completion_tokens`` alone.
        released: What it waits for before it answers, where there is something.
    """

    place: Place | None = None
    asked: list[tuple[str, dict[str, str], dict]] = field(default_factory=list)
    text: str = "an answer"
    said: tuple[int, dict[str, str], bytes] | None = None
    newer: bool = False
    released: anyio.Event | None = None

    def url(self, scheme: str = "http") -> str:
        return f"{scheme}://{self.place.host}:{self.place.port}/v1"

    async def answer(self, request: Request) -> Response:
        body = json.loads(b"".join([piece async for piece in request.body]))
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        self.asked.append((request.target, headers, body))
        if self.released is not None:
            await self.released.wait()
        if self.said is not None:
            status, more, content = self.said
            return _response(content, status, more)
        if headers.get("x-api-key", headers.get("authorization", "").removeprefix("Bearer ")) != KEY:
            return _json({"error": {"type": "authentication_error", "message": f"no such key: {headers}"}}, 401)
        if request.target.endswith("/messages"):
            return _json(self._message(body))
        if self.newer and "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."
            return _json({"error": {"message": message, "param": "max_tokens", "code": "unsupported_parameter"}}, 400)
        return _json(self._completion(body))

    def _message(self, body: dict) -> dict:
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": self.text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 3, "output_tokens": 7},
        }

    def _completion(self, body: dict) -> dict:
        return {
            "id": "chatcmpl-1",
            "model": body["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", "content": self.text}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 7, "total_tokens": 10},
        }


@contextlib.asynccontextmanager
async def models(context: ssl.SSLContext | None = None, host: str = HOST) -> AsyncIterator[Models]:
    """Serve until the context is left."""
    far = Models()
    app = App(routes={"v1": far.answer})
    async with listening(lambda stream: http1.handle(app, stream), context, host) as place:
        far.place = place
        yield far


def _json(document: dict, status: int = 200) -> Response:
    return _response(json.dumps(document).encode(), status, {"content-type": "application/json"})


def _response(content: bytes, status: int, headers: dict[str, str]) -> Response:
    named = [(name.encode(), value.encode()) for name, value in headers.items()]
    return Response(_once(content), status, [*named, (b"content-length", b"%d" % len(content))])


async def _once(content: bytes) -> AsyncIterator[bytes]:
    yield content
