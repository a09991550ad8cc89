"""Logs a person in to a server: OAuth 2.1, authorization code with PKCE, by the SDK's own provider.

The server names the authorization server, so neither is trusted: no request leaves in clear text, answers are bounded,
and shown only as a short printable line. A server that names another authorization server than at the last login, or
than the owner has registered with, is refused. None of this runs in our server's process, but in the command line's.
"""

import ssl
import time
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider, OAuthFlowError
from mcp.client.auth.oauth2 import OAuthContext
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata, OAuthToken
from msgspec import Struct
from pydantic import AnyUrl

from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.http_transport import ForwardedTransport
from gloveport.hub.credentials.login_storage import Login
from gloveport.hub.credentials.loopback import Callback
from gloveport.hub.credentials.stored_login import is_issuer
from gloveport.model.hub import OAuthLogin, Server
from gloveport.model.reading import read_value
from gloveport.oauth.token_endpoint import ClientAuth, lifetime
from gloveport.policy.hosts.authorities import is_confidential
from gloveport.secrets.scrub import MIN_SECRET_CHARS, Needles, scrub_text
from gloveport.untrusted_text import one_line

_PROTOCOL = "2025-11-25"
_MOST_BYTES = 1 << 20
_MOST_WORDS = 200
_REQUEST_SECONDS = 30.0
_METHODS: tuple[ClientAuth, ...] = ("client_secret_basic", "client_secret_post")
_THEIRS = "ask whoever runs the server"
_KNOCK = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": {"name": "gloveport", "version": "0"}},
}


class LoginFlow(Struct, eq=False, kw_only=True):
    """One login: the storage and the handlers that the SDK's provider calls. The storage is always empty."""

    name: str
    server: Server
    auth: OAuthLogin
    secret: str
    waiting: Callback
    tls: ssl.SSLContext
    proxy: ForwardProxy | None
    show: Callable[[str], None]
    tokens: OAuthToken | None = None

    async def go(self, former_issuer: str) -> Login:
        """Log in; ``former_issuer`` is the authorization server of the login before. Raises as ``LoginDesk.login``."""
        url = httpx2.URL(self.server.url)
        if not is_confidential(url.scheme, url.host):
            raise _login_error("is reached without encryption", hint="write https in its url")

        async def redirect(target: str) -> None:
            self._check(provider.context.oauth_metadata, former_issuer)
            self._name_client(provider.context)
            self.waiting.state = parse_qs(urlsplit(target).query)["state"][0]
            self.show(target)

        provider = OAuthClientProvider(
            server_url=self.server.url,
            client_metadata=OAuthClientMetadata(
                redirect_uris=[AnyUrl(self.waiting.uri)],
                client_name="Gloveport",
                scope=" ".join(self.auth.scopes) or None,
            ),
            storage=self,
            redirect_handler=redirect,
            callback_handler=self.waiting.answer,
        )
        try:
            status = await self._knock(provider)
        except OAuthFlowError as error:
            raise _login_error(
                "leads to no login", hint=f"{_THEIRS}: {one_line(self._clean(str(error)), _MOST_WORDS)}"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, ValueError, ArithmeticError) as error:
            raise _login_error(f"can't be asked ({type(error).__name__})", hint=_THEIRS) from None
        if self.tokens is None:
            raise _login_error(
                f"asks for no login: it answers with status {status}", hint='take its kind = "oauth" away'
            )
        if status in {401, 403}:
            raise _login_error(f"refuses, with status {status}, the token that the login has brought", hint=_THEIRS)
        return self._login(provider.context, self.tokens)

    def _clean(self, text: str) -> str:
        """Remove the client's secret from what a server said, before it is cut: half a secret would not be found."""
        secret = self.secret if len(self.secret.strip()) >= MIN_SECRET_CHARS else ""
        return scrub_text(Needles.of({f"servers.{self.name}": secret}), text) if secret else text

    async def get_tokens(self) -> OAuthToken | None:
        """No tokens: each login is a new one."""
        return None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        """Take the tokens of the login."""
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        """The client that the owner has registered, if any."""
        if not self.auth.client_id:
            return None  # the SDK then registers a client for each login: the redirect goes to another port each time
        return OAuthClientInformationFull(client_id=self.auth.client_id, client_secret=self.secret or None)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Nothing to keep: a client that registers itself does so for one login."""

    async def _knock(self, provider: OAuthClientProvider) -> int:
        """Send the server a request, so that it asks for a login; return the status of its last answer."""
        status = 0
        client = httpx2.AsyncClient(
            auth=provider,
            transport=ForwardedTransport(self.tls, self.proxy),
            trust_env=False,
            follow_redirects=False,
            timeout=_REQUEST_SECONDS,
            event_hooks={"request": [self._require_private], "response": [self._take]},
        )
        headers = {
            **self.server.headers,
            "accept": "application/json, text/event-stream",
            "accept-encoding": "identity",
            "mcp-protocol-version": _PROTOCOL,
        }
        async with client:
            for method in ("GET",) if self.server.transport == "sse" else ("POST", "GET"):
                body = _KNOCK if method == "POST" else None
                async with client.stream(method, self.server.url, json=body, headers=headers) as response:
                    status = response.status_code
                if self.tokens is not None:
                    break
        return status

    async def _require_private(self, request: httpx2.Request) -> None:
        self._require(str(request.url))

    def _require(self, target: str) -> None:
        """Require HTTPS; only a server on this host may lead to others on this host without it."""
        url, server = httpx2.URL(target), httpx2.URL(self.server.url)
        if url.scheme != "https" and not (server.scheme == "http" and is_confidential(url.scheme, url.host)):
            raise _login_error(f"leads to {one_line(target, _MOST_WORDS)}, without encryption", hint=_THEIRS)

    async def _take(self, response: httpx2.Response) -> None:
        if response.headers.get("content-encoding", "identity") != "identity":
            raise _login_error("compresses an answer, though it was not asked to", hint=_THEIRS)
        assert isinstance(response.stream, httpx2.AsyncByteStream)  # noqa: S101 - of an asynchronous client
        response.stream = _BoundedStream(response.stream)
        if response.status_code == 401 and self.auth.scopes:
            # The SDK asks for the scopes of the challenge, and has no other place for those of the owner.
            challenge = response.headers.get("www-authenticate", "Bearer")
            response.headers["www-authenticate"] = f'Bearer scope="{" ".join(self.auth.scopes)}", {challenge}'

    def _check(self, metadata: OAuthMetadata | None, former_issuer: str) -> None:
        if metadata is None:
            raise _login_error("does not say where its authorization server is", hint=_THEIRS)
        if "S256" not in (metadata.code_challenge_methods_supported or ()):
            raise _login_error("has an authorization server without PKCE, which is not safe", hint=_THEIRS)
        for endpoint in (metadata.authorization_endpoint, metadata.token_endpoint, metadata.revocation_endpoint):
            if endpoint is not None:
                self._require(str(endpoint))
        if not is_issuer(self.auth, str(metadata.issuer)):  # checked before the token request, which has the secret
            raise UpstreamError(
                "issuer_refused",
                f"The server {self.name} names another authorization server than its client is registered with: "
                f"{one_line(str(metadata.issuer), _MOST_WORDS)} instead of "
                f"{self.auth.issuer or 'one that is configured'}.",
                hint=f"if it is the right one, write it as issuer of the login in [[servers.{self.name}.auth]]",
            )
        if former_issuer not in {"", str(metadata.issuer)}:
            raise UpstreamError(
                "issuer_changed",
                f"The server {self.name} names another authorization server than at the login before: "
                f"{one_line(str(metadata.issuer), _MOST_WORDS)} instead of {one_line(former_issuer, _MOST_WORDS)}.",
                hint=f"if that is right: gloveport servers logout {self.name}, and log in again",
            )

    def _name_client(self, context: OAuthContext) -> None:
        """Choose how a client with a configured secret authenticates: by what the authorization server supports."""
        if context.client_info is not None and self.auth.client_id:
            methods = (
                context.oauth_metadata and context.oauth_metadata.token_endpoint_auth_methods_supported
            ) or _METHODS
            method = next((method for method in _METHODS if method in methods), _METHODS[0])
            context.client_info.token_endpoint_auth_method = method if self.secret else "none"

    def _login(self, context: OAuthContext, tokens: OAuthToken) -> Login:
        metadata, client = context.oauth_metadata, context.client_info
        assert metadata is not None  # noqa: S101 - it was checked
        assert client is not None  # noqa: S101 - it has a token
        now = time.time()
        try:
            fields = {
                "issuer": str(metadata.issuer),
                "token_endpoint": str(metadata.token_endpoint),
                "revocation_endpoint": str(metadata.revocation_endpoint or ""),
                "resource": context.get_resource_url(),
                "client_id": client.client_id,
                "client_secret": "" if self.auth.client_id else client.client_secret or "",
                "client_auth": client.token_endpoint_auth_method or "none",
                "access_token": tokens.access_token,
                "refresh_token": tokens.refresh_token or "",
                "scope": tokens.scope or "",
                "obtained": now,
                "expires": None if tokens.expires_in is None else now + lifetime(tokens.expires_in),
            }
            return read_value(Login, fields)
        except ValueError:  # its text would quote the tokens
            raise _login_error("leads to tokens that can't be sent", hint=_THEIRS) from None


class _BoundedStream(httpx2.AsyncByteStream):
    """An answer that may have so many bytes, and no more."""

    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size = 0
        async for piece in self._stream:
            size += len(piece)
            if size > _MOST_BYTES:
                raise _login_error(f"leads to an answer of more than {_MOST_BYTES} bytes", hint=_THEIRS)
            yield piece

    async def aclose(self) -> None:
        await self._stream.aclose()


def _login_error(problem: str, *, hint: str) -> UpstreamError:
    return UpstreamError("login_failed", f"The server {problem}.", hint=hint)
