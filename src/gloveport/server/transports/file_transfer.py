"""Transfers files over HTTP beside MCP: links to artifacts of programs, and tickets for input files.

    GET /artifacts/TOKEN   a file, as the link in an answer of ``read_artifact`` names it, for some minutes
    PUT /uploads           the bytes of a file; answers ``{"ticket": "upload:…", "bytes", "expires_in_seconds"}``

A token has 256 random bits and needs no other credential: such a request has no session. A ticket is good once. No web
page learns a token or ticket, and a page that guesses is refused by its Host or Origin header.
"""

import re
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import quote

import anyio.lowlevel
from mcp.server import MCPServer
from msgspec import Struct, field
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse

from gloveport.artifacts.artifact_store import ArtifactStore, Found
from gloveport.fairness import choose_forgotten

LINK_SECONDS: Final = 300
_TICKET_SECONDS: Final = 600
_TOKEN_BYTES: Final = 32
_MOST_LINKS: Final = 256
_MOST_TICKETS: Final = 16
_UPLOAD_SHARES: Final = 4  # so many of the largest files are kept at once
_CHUNK_BYTES: Final = 1 << 18
_TICKET: Final = re.compile(r"upload:[\w-]{43}")
_OWN_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?", re.IGNORECASE)
_INERT: Final = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""Headers that keep browsers from rendering, running or caching a program's file."""


class _Link(Struct, frozen=True):
    uri: str
    owner: str
    expires: float


class _UploadedFile(Struct, frozen=True):
    data: bytes
    expires: float


class FileTransfer(Struct, eq=False, kw_only=True):
    """The links and tickets of one server.

    Attributes:
        most_bytes: Most bytes of an uploaded file.
    """

    store: ArtifactStore
    most_bytes: int
    _links: dict[str, _Link] = field(default_factory=dict)
    _uploads: dict[str, _UploadedFile] = field(default_factory=dict)

    def add_routes(self, server: MCPServer[Any]) -> None:
        """Add the routes to a server."""
        server.custom_route("/artifacts/{token}", ["GET"])(self._send)
        server.custom_route("/uploads", ["PUT"])(self._receive)

    def link(self, found: Found, request: Request) -> str:
        """Make a URL for a file, good for ``LINK_SECONDS``, at the address that this request came to."""
        now = time.monotonic()
        self._links = {token: link for token, link in self._links.items() if link.expires > now}
        while len(self._links) >= _MOST_LINKS:
            del self._links[choose_forgotten([(token, link.owner, 1) for token, link in self._links.items()])]
        token = secrets.token_urlsafe(_TOKEN_BYTES)
        self._links[token] = _Link(found.artifact.uri, found.bundle.owner, now + LINK_SECONDS)
        host, port = request.scope["server"]
        return f"http://{host}:{port}/artifacts/{token}"

    def take(self, text: str) -> bytes | None:
        """Return the bytes of the file for a ticket, and use the ticket up; None if the text is no ticket.

        Raises:
            ValueError: The ticket is used up, expired or unknown.
        """
        if not _TICKET.fullmatch(text):
            return None
        self._forget_old()
        upload = self._uploads.pop(text, None)
        if upload is None:
            raise ValueError("that ticket was used, or is too old: upload the file again")
        return upload.data

    async def _send(self, request: Request) -> Response:
        link = self._links.get(request.path_params["token"])
        is_good = link is not None and link.expires > time.monotonic()
        found = self.store.find(link.uri, link.owner) if link is not None and is_good else None
        if found is None or not _is_ours(request):
            return PlainTextResponse("no such link, or no longer: read_artifact gives another\n", 404, _INERT)
        name = quote(found.artifact.path.rpartition("/")[2], safe="")
        return StreamingResponse(
            _read(found),
            media_type="application/octet-stream",
            headers={
                **_INERT,
                "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
                "Content-Length": str(found.artifact.bytes),
            },
        )

    async def _receive(self, request: Request) -> Response:
        if not _is_ours(request):
            return PlainTextResponse("requests of web pages are refused\n", 403)
        data = bytearray()
        async for piece in request.stream():
            data += piece
            if len(data) > self.most_bytes:
                most = f"{self.most_bytes} bytes (policy.limits.input_bytes)"
                return PlainTextResponse(f"the file is too large: at most {most}\n", 413)
        self._forget_old()
        stored_bytes = sum(len(upload.data) for upload in self._uploads.values())
        if len(self._uploads) >= _MOST_TICKETS or stored_bytes + len(data) > _UPLOAD_SHARES * self.most_bytes:
            refusal = "too many files wait to be used: use one, or wait\n"
            return PlainTextResponse(refusal, 503, {"Retry-After": str(_TICKET_SECONDS // 10)})
        ticket = f"upload:{secrets.token_urlsafe(_TOKEN_BYTES)}"
        self._uploads[ticket] = _UploadedFile(bytes(data), time.monotonic() + _TICKET_SECONDS)
        return JSONResponse(
            {"ticket": ticket, "bytes": len(data), "expires_in_seconds": _TICKET_SECONDS},
            headers={"Cache-Control": "no-store"},
        )

    def _forget_old(self) -> None:
        now = time.monotonic()
        self._uploads = {ticket: upload for ticket, upload in self._uploads.items() if upload.expires > now}


def _is_ours(request: Request) -> bool:
    """Whether no web page has sent this: neither by its Origin, nor under a Host that resolves here (DNS rebinding)."""
    host = request.headers.get("host", "")
    return request.headers.get("origin") in {None, f"http://{host}"} and _OWN_HOST.fullmatch(host) is not None


async def _read(found: Found) -> AsyncIterator[bytes]:
    """Read a file in pieces, until its end or until it is removed."""
    offset = 0
    while True:
        try:
            data = found.read(offset, _CHUNK_BYTES)
        except ValueError:  # closed
            return
        if not data:
            return
        offset += len(data)
        yield data
        await anyio.lowlevel.checkpoint()
