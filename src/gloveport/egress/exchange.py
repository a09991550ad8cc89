"""One request of a program and its answer: decide, strip, inject, send, scrub, write down."""

import contextlib
import logging
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from gloveport.egress import websocket
from gloveport.egress.content_encoding import ACCEPTED
from gloveport.egress.heads import Malformed, RequestHead
from gloveport.egress.inject import MOST_BODY_BYTES
from gloveport.egress.messages import Answer, Headers, Outbound, Route
from gloveport.egress.outlet import Outlet
from gloveport.egress.redact import Redaction
from gloveport.egress.reply import Reply
from gloveport.egress.request import Asked, Site, malformed, read
from gloveport.egress.server_connection import Conversation
from gloveport.egress.wire import Wire
from gloveport.errors import ConfigError, Denied, UpstreamError
from gloveport.fairness import compute
from gloveport.guard import Ending
from gloveport.model import Deny
from gloveport.model.egress import Api, Fetch
from gloveport.policy.decide import decide
from gloveport.policy.hosts import DEFAULT_PORTS, find
from gloveport.secrets.scrub import Finder

_FORBIDDEN, _BAD_GATEWAY, _UNAUTHORIZED = 403, 502, 401
_STATUS = {"bad_request": 400, "body_too_large": 413, "too_many_requests": 429, "upstream_timeout": 504} | {
    "address_refused": 403  # what clients take for a passing fault, npm asks for again for a minute
}
_NO_API = Api(hosts=("nowhere.invalid",))  # of a host that no API names: under yolo
_OWNERS = "The owner of this computer has to repair it (gloveport doctor tells why); a program can't."
_SHOWN = 300
_OF_ANOTHER_BODY = ((b"x-amz-content-sha256", b"unknown"),)
_SMALL_BYTES = 64 * 1024

_log = logging.getLogger(__name__)


async def exchange(
    outlet: Outlet, wire: Wire, conversation: Conversation, request: RequestHead, site: Site | None
) -> None:
    """Answer one request: as the far side answers it, or with why not.

    Args:
        outlet: The way out of the execution that asks.
        wire: What the conversation goes on over, which an upgrade takes over.
        conversation: Where ``request`` has come.
        request: Its head.
        site: Where the connection leads; None at the proxy door.

    Raises:
        OSError, Malformed: The program's end broke, or speaks no HTTP.
        AuditError: It can't be written down.
    """
    try:
        asked = read(request, site)
    except Denied as denial:
        url = "" if site is None else f"{site.scheme}://{site.host}:{site.port}"
        outlet.deny(denial, method=request.method[:_SHOWN], url=url)
        await _refuse(outlet, conversation, denial)
        return
    visit = _Visit(outlet=outlet, wire=wire, conversation=conversation, asked=asked)
    code: str | None = "broke_off"
    reason = None
    try:
        outlet.require_budget()
        visit.reject_secret()
        async with outlet.guard.admit(visit.action()) as ending:
            await visit.make(ending)
        code = None
    except (Denied, UpstreamError) as error:
        code, reason = error.code, outlet.said(error)
        await _refuse(outlet, conversation, error)
    finally:
        outlet.journal.add(method=asked.method, url=visit.url, status=visit.status, code=code, reason=reason)


def _status(error: Denied | UpstreamError) -> int:
    """What a program is answered when it gets no answer."""
    return _STATUS.get(error.code) or (_FORBIDDEN if isinstance(error, Denied) else _BAD_GATEWAY)


async def _refuse(outlet: Outlet, conversation: Conversation, error: Denied | UpstreamError) -> None:
    """Say why there is no answer; after a part of one, end it so that nobody takes it for all of it."""
    if conversation.answered:
        raise OSError(f"{error.code} after the answer had begun")
    await conversation.refuse(_status(error), error.code, outlet.message(error), outlet.hint(error))


@dataclass(kw_only=True)
class _Visit:
    """One request on its way.

    Attributes:
        status: What was answered to it.
    """

    outlet: Outlet
    wire: Wire
    conversation: Conversation
    asked: Asked
    status: int | None = None
    _sent_bytes: int = 0
    _finder: Finder | None = None
    _holds_secret: bool = False
    _began: float = field(default_factory=time.monotonic)

    @property
    def url(self) -> str:
        """Where it goes, without the query."""
        scheme, host, port = self.asked.site
        host = f"[{host}]" if ":" in host else host
        place = host if port == DEFAULT_PORTS[scheme] else f"{host}:{port}"
        url = f"{scheme}://{place}{self.asked.path}"
        return (self.outlet.clean(url) if self._holds_secret else url)[:_SHOWN]

    def action(self) -> Fetch:
        """What has to be decided."""
        scheme, host, port = self.asked.site
        return Fetch(method=self.asked.method, scheme=scheme, host=host, port=port, path=self.asked.path)

    def reject_secret(self) -> None:
        """Refuse a URL with a secret in it. No program is to know one, and URLs are written down, here and by servers.

        Only one that would be sent: what is refused anyway is refused as if there were no secret, or any host that
        exists nowhere would tell of a thousand guesses whether one of them is right.

        Raises:
            Denied: There is one.
        """
        url = self.asked.site.host + self.asked.target
        self._holds_secret = self.outlet.clean(url) != url
        if not self._holds_secret or not self._would_be_sent():
            return
        self.outlet.journal.guesses += 1
        denial = Denied(
            "secret_in_url", "The URL holds a credential of the owner's.", hint="Leave credentials to the proxy."
        )
        self.outlet.guard.deny("fetch", denial, self.action().model_dump(exclude={"kind"}))
        raise denial

    def _would_be_sent(self) -> bool:
        grant = self.outlet.guard.grant
        _, api = self._api()
        if isinstance(decide(grant, self.action()), Deny) or (api.auth and self.asked.site.scheme != "https"):
            return False
        try:
            self._require_plain(api)
        except Denied:
            return False
        return True

    def _api(self) -> tuple[str, Api]:
        """The API that it is for, and its name."""
        return find(self.outlet.guard.grant.egress, *self.asked.site) or ("", _NO_API)

    async def make(self, ending: Ending) -> None:
        """Send it and pass on the answer.

        Raises:
            Denied, UpstreamError: There is none, or not all of one.
        """
        name, api = self._api()
        self._require_plain(api)
        if self._is_short or not self._needs_whole(api):
            await self._make(name, api, ending)
            return
        async with self.outlet.whole_bodies:
            await self._make(name, api, ending)

    async def _make(self, name: str, api: Api, ending: Ending) -> None:
        gateway, asked = self.outlet.gateway, self.asked
        if not api.auth and gateway.vault.needles:
            self._finder = self.outlet.own_text.finder()
        body, length = await self._body(api)
        out = gateway.injector.strip(api, self._head(api))
        if body is not None and not isinstance(body, bytes):
            out = gateway.injector.declare_unseen(api, out)
        route = self._route(name, api)
        whole = body if isinstance(body, bytes) else None
        try:
            injected = await gateway.injector.apply(name, api, route, out, whole, self.outlet.placeholders)
        except ConfigError as error:
            ending.fields.update(api=name, secret=str(error.args[0]))
            _log.warning("no request to %s: %s", asked.site.host, error)
            reason = f"The credential of the API {name!r} can't be had."
            raise UpstreamError("secret_unavailable", reason, hint=_OWNERS) from error
        if injected.body is not None:
            body, length = injected.body, len(injected.body)
        ending.fields.update(api=name, injected=list(injected.places))
        reply = Reply(vault=gateway.vault, own_text=None if api.auth else self.outlet.own_text)
        try:
            if asked.websocket:
                async with gateway.upstreams.open_websocket(route, injected.out) as answer:
                    await self._take(answer, reply)
            else:
                async with gateway.upstreams.exchange(route, injected.out, body, length=length) as answer:
                    await self._take(answer, reply)
        finally:
            ending.fields.update(
                http_status=self.status,
                sent_bytes=self._sent_bytes,
                received_bytes=reply.received_bytes,
                scrubbed=[*sorted(reply.found)],
                ms=round((time.monotonic() - self._began) * 1000),
            )
        if self.status == _UNAUTHORIZED and name:
            gateway.injector.forget(name, api)

    async def _take(self, answer: Answer, reply: Reply) -> None:
        self.status = answer.status
        if answer.upgraded is None:
            async with self.outlet.windows if reply.needs_window(answer) else contextlib.nullcontext():
                await reply.pass_on(self.conversation, answer, self.asked.method)
            return
        await self.conversation.switch(reply.switched(answer))
        relay = websocket.Relay(vault=reply.vault, redactions=self.outlet.redactions, own_text=reply.own_text)
        try:
            await relay.run(self.wire, answer.upgraded, answer.ahead)
        finally:
            self._sent_bytes, reply.received_bytes = relay.sent_bytes, relay.received_bytes
            reply.found |= relay.found

    def _require_plain(self, api: Api) -> None:
        """Refuse what would get around a rule, or around the scrubber.

        Raises:
            Denied: It would.
        """
        if api.rules and (place := self.asked.override()):
            raise _overriding(place)
        if api.auth and any(name == b"range" for name, _ in self.asked.headers):
            raise Denied(
                "range_refused",
                "Parts of an answer can't be had from an API that gets credentials.",
                hint="Ask for the whole, without a Range header.",
            )

    def _route(self, name: str, api: Api) -> Route:
        scheme, host, port = site = self.asked.site
        routes = self.outlet.routes
        if (name, site) not in routes:
            routes[name, site] = Route(
                api=name,
                scheme=scheme,
                host=host,
                port=port,
                networks=api.networks,
                addresses=api.addresses,
                ca_file=api.ca_file,
            )
        return routes[name, site]

    def _head(self, api: Api) -> Outbound:
        """The head, before anything of the owner's is in it."""
        egress = self.outlet.guard.grant.egress
        headers = self.asked.headers
        if self._finder is not None:
            self._finder.feed(b"\n".join([b":".join(header) for header in headers]) + b"\n")
        if egress.user_agent:
            headers = _replaced(headers, b"user-agent", egress.user_agent.encode())
        if self.asked.websocket:  # frames that are compressed can't be looked at
            headers = tuple(header for header in headers if header[0] != b"sec-websocket-extensions")
        elif api.auth or self.outlet.gateway.vault.needles:
            wanted = any(name == b"accept-encoding" and value != b"identity" for name, value in headers)
            headers = _replaced(headers, b"accept-encoding", ACCEPTED if wanted else b"identity")
        out = Outbound(method=self.asked.method, target=self.asked.target, headers=headers)
        return Redaction(needles=self.outlet.redactions).head(out)

    async def _body(self, api: Api) -> tuple[bytes | AsyncIterator[bytes] | None, int | None]:
        """The body as it is sent, and how long it is, where that is known before."""
        asked, length = self.asked, self.asked.length
        if not asked.has_body:
            return None, None
        stream = self._counted()
        coding = b",".join(value for name, value in asked.headers if name == b"content-encoding")
        if self.outlet.redactions:
            stream = Redaction(needles=self.outlet.redactions).body(stream, coding)
            length = None
        if not self._is_short and not self._needs_whole(api):  # what is short too, for servers that take no chunks
            return stream, length
        data = await _whole(stream)
        if api.rules and asked.has_form and await compute(len(data), asked.overrides_in, data):
            raise _overriding("the form")
        return data, len(data)

    @property
    def _is_short(self) -> bool:
        """Whether it takes little memory to hold the body. What grows as it is decoded may take much."""
        asked = self.asked
        coded = any(name == b"content-encoding" for name, _ in asked.headers)
        return asked.length is not None and asked.length <= _SMALL_BYTES and not (self.outlet.redactions and coded)

    def _needs_whole(self, api: Api) -> bool:
        """Whether the body has to be looked at."""
        asked = self.asked
        if not asked.has_body:
            return False
        # What is declared of a body is not so of one that is redacted.
        headers = _OF_ANOTHER_BODY if self.outlet.redactions else asked.headers
        return self.outlet.gateway.injector.needs_body(api, headers) or (bool(api.rules) and asked.has_form)

    async def _counted(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self.conversation.content():
                self._sent_bytes += len(piece)
                if self._finder is not None:
                    self._finder.feed(piece)
                yield piece
        except Malformed as error:  # else it would be told as the far side's fault
            raise malformed(str(error)) from None


def _overriding(place: str) -> Denied:
    return Denied(
        "method_override_refused",
        f"In {place} it asks for another method or path, or may do so among too many names to be looked at: what the "
        "owner allows is judged by its own.",
        hint="Use the method and the path themselves.",
    )


def _replaced(headers: Headers, name: bytes, value: bytes) -> Headers:
    return (*(header for header in headers if header[0] != name), (name, value))


async def _whole(stream: AsyncIterator[bytes]) -> bytes:
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
