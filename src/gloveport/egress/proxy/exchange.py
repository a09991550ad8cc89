"""Handles one request of a program: decides, audits, strips, injects, sends, and scrubs the answer."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from functools import cached_property

from anyio.lowlevel import checkpoint
from msgspec import Struct, field
from msgspec.structs import replace

from gloveport.egress.credentials.inject import MOST_BODY_BYTES
from gloveport.egress.http.client import Response
from gloveport.egress.http.content_encoding import ACCEPTED, Decoder, make_decoder
from gloveport.egress.http.heads import Headers, Malformed, Outbound, RequestHead, hyphenate, join_values
from gloveport.egress.http.server import ServerConnection
from gloveport.egress.outbound_session import OWNERS_HINT, EgressSession
from gloveport.egress.proxy.program_asker import ProgramAsker
from gloveport.egress.proxy.request import (
    LONGEST_IN_JSON,
    ParsedRequest,
    Site,
    overrides_in_json,
    parse_request,
    refuse_malformed,
)
from gloveport.egress.proxy.response import ResponseRelay
from gloveport.egress.proxy.scrubbing import redact_body, redact_head
from gloveport.egress.proxy.websocket import WebSocketRelay
from gloveport.egress.transport.route import Route
from gloveport.egress.transport.stream import SocketStream
from gloveport.errors import ConfigError, Denied, UpstreamError
from gloveport.fairness import Pace, compute
from gloveport.guard import Ending, Guard
from gloveport.model import Deny
from gloveport.model.egress import Api, Fetch
from gloveport.policy.decisions.decide import decide
from gloveport.policy.hosts.authorities import find
from gloveport.secrets.scrub import Finder

_FORBIDDEN, _BAD_GATEWAY, _UNAUTHORIZED = 403, 502, 401
_STATUS = {"bad_request": 400, "body_too_large": 413, "too_many_requests": 429, "upstream_timeout": 504} | {
    "address_refused": 403  # not a 5xx: clients retry those, npm for a minute
}
_NO_API = Api(hosts=("nowhere.invalid",))  # stands for a host that no API names, under yolo
_SHOWN_CHARS = 300
_OF_ANOTHER_BODY = ((b"x-amz-content-sha256", b"unknown"),)
_SMALL_BYTES = 64 * 1024
_SIGNED_CHUNKS = b"aws-chunked"
"""No compression: lines between the pieces of an object for S3, which knows no method overrides."""

_log = logging.getLogger(__name__)


async def serve_request(
    session: EgressSession, wire: SocketStream, connection: ServerConnection, head: RequestHead, site: Site | None
) -> None:
    """Answer one request with the server's answer or a refusal. A WebSocket takes over ``wire``, the stream under the
    connection. ``site`` is where the connection leads; None at the proxy door.

    Raises:
        OSError, Malformed: The program's connection broke, or its data is no HTTP.
        AuditError: The audit log can't be written.
    """
    try:
        request = parse_request(head, site)
    except Denied as denial:
        url = "" if site is None else f"{site.scheme}://{site.host}:{site.port}"
        session.deny(denial, method=head.method[:_SHOWN_CHARS], url=url)
        await _refuse(session, connection, denial)
        return
    handler = _RequestHandler(session=session, wire=wire, connection=connection, request=request)
    code: str | None = "broke_off"
    reason = None
    try:
        session.require_budget()
        began = time.monotonic()
        handler.reject_secret_in_url()
        await session.load.pace.rest(began)
        async with _guard_of(session, wire).admit(handler.action) as ending:
            await handler.exchange(ending)
        code = None
    except (Denied, UpstreamError) as error:
        code, reason = error.code, session.explain(error)
        await _refuse(session, connection, error)
    finally:
        session.journal.add(method=request.method, url=handler.url, status=handler.status, code=code, reason=reason)


def _guard_of(session: EgressSession, wire: SocketStream) -> Guard:
    guard = session.guard
    return guard if guard.asker is None else replace(guard, asker=ProgramAsker(asker=guard.asker, wire=wire))


async def _refuse(session: EgressSession, connection: ServerConnection, error: Denied | UpstreamError) -> None:
    """Answer with the error; after a partial answer, break the connection so that nobody takes it for a whole one."""
    if connection.answered:
        raise OSError(f"{error.code} after the answer had begun")
    status = _STATUS.get(error.code) or (_FORBIDDEN if isinstance(error, Denied) else _BAD_GATEWAY)
    await connection.refuse(status, error.code, session.message(error), session.hint(error))


class _RequestHandler(Struct, kw_only=True, dict=True):
    """One request that is being handled."""

    session: EgressSession
    wire: SocketStream
    connection: ServerConnection
    request: ParsedRequest
    status: int | None = None
    _sent_bytes: int = 0
    _finder: Finder | None = None
    _holds_secret: bool = False
    _began: float = field(default_factory=time.monotonic)
    _name: str = ""
    _api: Api = _NO_API

    def __post_init__(self) -> None:
        self._name, self._api = find(self.session.guard.grant.egress, *self.request.site) or ("", _NO_API)

    @cached_property
    def _route(self) -> Route:
        return Route.to(self._name, self._api, *self.request.site)

    @property
    def url(self) -> str:
        """The URL without the query."""
        url = f"{self._route.scheme}://{self._route.authority}{self.request.path}"
        return (self.session.clean(url) if self._holds_secret else url)[:_SHOWN_CHARS]

    @property
    def action(self) -> Fetch:
        """The action to be decided."""
        scheme, host, port = self.request.site
        return Fetch(method=self.request.method, scheme=scheme, host=host, port=port, path=self.request.path)

    def reject_secret_in_url(self) -> None:
        """Refuse a URL with a secret in it: no program is to know a secret, and both we and servers log URLs.

        Only a URL that would be sent is refused for that, and counted: else a program could test thousands of guesses
        in URLs that are refused anyway, of hosts that do not exist.

        Raises:
            Denied: The URL holds a secret.
        """
        url = self.request.site.host + self.request.target
        self._holds_secret = self.session.clean(url) != url
        if not self._holds_secret or not self._would_be_sent():
            return
        self.session.journal.guesses += 1
        denial = Denied(
            "secret_in_url", "The URL holds a credential of the owner's.", hint="Leave credentials to the proxy."
        )
        self.session.guard.deny("fetch", denial, self.action.model_dump(exclude={"kind"}))
        raise denial

    def _would_be_sent(self) -> bool:
        is_denied = isinstance(decide(self.session.guard.grant, self.action), Deny)
        if is_denied or (self._api.auth and self.request.site.scheme != "https"):
            return False
        try:
            self._require_plain()
        except Denied:
            return False
        return True

    async def exchange(self, ending: Ending) -> None:
        """Send the request and pass on the answer.

        Raises:
            Denied, UpstreamError: There is no answer, or only a part of one.
        """
        self._require_plain()
        is_held = self._needs_whole and not self._is_short
        async with self.session.load.whole_bodies if is_held else contextlib.nullcontext():
            await self._send(ending)

    async def _send(self, ending: Ending) -> None:
        gateway, name, api, route = self.session.gateway, self._name, self._api, self._route
        if not api.auth and gateway.vault.needles:
            self._finder = self.session.own_text.finder()
        body, length = await self._read_body()
        began = time.monotonic()
        out = gateway.injector.strip(api, self._make_head())
        await self.session.load.pace.rest(began)
        if body is not None and not isinstance(body, bytes):
            out = gateway.injector.declare_unseen(api, out)
        whole = body if isinstance(body, bytes) else None
        try:
            injected = await gateway.injector.apply(name, api, route, out, whole, self.session.placeholders)
        except ConfigError as error:
            ending.fields.update(api=name, secret=str(error.args[0]))
            _log.warning("no request to %s: %s", route.host, error)
            reason = f"The credential of the API {name!r} can't be had."
            raise UpstreamError("secret_unavailable", reason, hint=OWNERS_HINT) from error
        if injected.body is not None:
            body, length = injected.body, len(injected.body)
        ending.fields.update(api=name, injected=list(injected.places))
        relay = ResponseRelay(vault=gateway.vault, own_text=None if api.auth else self.session.own_text)
        if self.request.websocket:
            opened = gateway.upstreams.open_websocket(route, injected.out)
        else:
            opened = gateway.upstreams.exchange(route, injected.out, body, length=length)
        try:
            async with opened as answer:
                await self._pass_on(answer, relay)
        finally:
            ending.fields.update(
                http_status=self.status,
                sent_bytes=self._sent_bytes,
                received_bytes=relay.received_bytes,
                scrubbed=[*sorted(relay.found)],
                ms=round((time.monotonic() - self._began) * 1000),
            )
        if self.status == _UNAUTHORIZED and name:
            gateway.injector.forget(name, api)

    async def _pass_on(self, answer: Response, relay: ResponseRelay) -> None:
        self.status = answer.status
        if answer.upgraded is None:
            async with self.session.load.windows if relay.needs_window(answer) else contextlib.nullcontext():
                await relay.pass_on(self.connection, answer, self.request.method)
            return
        await self.connection.switch(relay.upgrade_head(answer))
        sockets = WebSocketRelay(vault=relay.vault, redactions=self.session.redactions, own_text=relay.own_text)
        try:
            await sockets.run(self.wire, answer.upgraded, answer.ahead)
        finally:
            self._sent_bytes, relay.received_bytes = sockets.sent_bytes, sockets.received_bytes
            relay.found |= sockets.found

    def _require_plain(self) -> None:
        """Refuse a request that could circumvent a rule or the scrubber.

        Raises:
            Denied: It has a method override, a second path, or a Range header.
        """
        if self._api.rules and (place := self.request.override()):
            raise _refuse_override(place)
        if any(rule.paths for rule in self._api.rules) and (place := self.request.second_path()):
            raise _refuse_override(place)
        if self._api.auth and any(name == b"range" for name, _ in self.request.headers):
            raise Denied(
                "range_refused",
                "Parts of an answer can't be had from an API that gets credentials.",
                hint="Ask for the whole, without a Range header.",
            )

    def _make_head(self) -> Outbound:
        """Make the head, before credentials are injected."""
        egress = self.session.guard.grant.egress
        headers = self.request.headers
        if self._finder is not None:
            self._finder.feed(b"\n".join([b":".join(header) for header in headers]) + b"\n")
        if egress.user_agent:
            headers = _replace_header(headers, b"user-agent", egress.user_agent.encode())
        if self.request.websocket:  # compressed frames could not be scrubbed
            headers = tuple(header for header in headers if header[0] != b"sec-websocket-extensions")
        elif self._api.auth:  # the length of a key compressed together with guesses tells which is right (BREACH)
            headers = _replace_header(headers, b"accept-encoding", b"identity")
        elif self.session.gateway.vault.needles:
            accepts_encoding = any(name == b"accept-encoding" and value != b"identity" for name, value in headers)
            headers = _replace_header(headers, b"accept-encoding", ACCEPTED if accepts_encoding else b"identity")
        out = Outbound(method=self.request.method, target=self.request.target, headers=headers)
        return redact_head(self.session.redactions, out)

    async def _read_body(self) -> tuple[bytes | AsyncIterator[bytes] | None, int | None]:
        """Read the body, whole or as a stream; return it and its length, if that is known."""
        request, redactions = self.request, self.session.redactions
        if not request.has_body:
            return None, None
        stream, length = self._count_body(), request.length
        if redactions:
            stream = redact_body(redactions, stream, join_values(request.headers, b"content-encoding"))
            length = None
        if self._api.rules and request.has_json:
            if not request.is_like_ascii:
                raise _refuse_override("the JSON")
            stream = _reject_override_in_json(stream, make_decoder(self._codings))
        if not self._is_short and not self._needs_whole:  # short ones are read whole, for servers without chunks
            return stream, length
        data = await _read_whole(stream)
        if self._api.rules and request.has_form and await compute(len(data), request.overrides_in, data):
            raise _refuse_override("the form")
        return data, len(data)

    @property
    def _codings(self) -> bytes:
        """The content codings of the body, in any spelling of their header, that redaction has not undone."""
        undone = {b"content-encoding"} if self.session.redactions else set()
        headers = tuple((hyphenate(name), value) for name, value in self.request.headers if name not in undone)
        codings = join_values(headers, b"content-encoding").lower().split(b",")
        return b",".join(coding for coding in codings if coding.strip() != _SIGNED_CHUNKS)

    @property
    def _is_short(self) -> bool:
        """Whether the whole body takes little memory. An encoded one that has to be decoded may take much."""
        request = self.request
        coded = any(name == b"content-encoding" for name, _ in request.headers)
        return request.length is not None and request.length <= _SMALL_BYTES and not (self.session.redactions and coded)

    @property
    def _needs_whole(self) -> bool:
        """Whether the whole body has to be inspected."""
        request = self.request
        if not request.has_body:
            return False
        # The program's headers do not describe the redacted body.
        headers = _OF_ANOTHER_BODY if self.session.redactions else request.headers
        return self.session.gateway.injector.needs_body(self._api, headers) or (
            bool(self._api.rules) and request.has_form
        )

    async def _count_body(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.connection.content():
                self._sent_bytes += len(piece)
                if self._finder is not None:
                    began = time.monotonic()
                    self._finder.feed(piece)
                    await self.session.load.pace.rest(began)
                yield piece
        except Malformed as error:  # the program's fault; unconverted, it would be reported as the server's
            raise refuse_malformed(str(error)) from None


def _refuse_override(place: str) -> Denied:
    return Denied(
        "method_override_refused",
        f"In {place} it asks for another method or path, or may do so among too many names to be looked at: what the "
        "owner allows is judged by its own.",
        hint="Use the method and the path themselves.",
    )


async def _reject_override_in_json(pieces: AsyncIterator[bytes], decoder: Decoder) -> AsyncIterator[bytes]:
    """Pass on a JSON text, but not the piece in which a method override ends: a server gets no whole text then.

    Raises:
        Denied: It overrides the method.
        UpstreamError: Its encoding is broken.
    """
    tail = b""
    pace = Pace()
    async for piece in pieces:
        began = time.monotonic()
        for plain in decoder.feed(piece):
            text = tail + plain
            if overrides_in_json(text):
                raise _refuse_override("the JSON")
            tail = text[-LONGEST_IN_JSON:]
            await pace.rest(began)
            await checkpoint()
            began = time.monotonic()
        yield piece
    decoder.finish()


def _replace_header(headers: Headers, name: bytes, value: bytes) -> Headers:
    return (*(header for header in headers if header[0] != name), (name, value))


async def _read_whole(stream: AsyncIterator[bytes]) -> bytes:
    data = bytearray()
    async for piece in stream:
        data += piece
        if len(data) > MOST_BODY_BYTES:
            raise Denied(
                "body_too_large",
                f"For this API a request's body must be looked at whole; at most {MOST_BODY_BYTES} bytes are.",
                hint="Send less at a time.",
            )
    return bytes(data)
