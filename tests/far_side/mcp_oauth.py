"""An MCP server that wants a token, and the authorization server that gives one. By the SDK, over real sockets."""

import contextlib
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import uvicorn
from mcp.server import MCPServer
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    AuthorizeError,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.applications import Starlette

HOST = "127.0.0.1"


@dataclass
class Front:
    """What stands before a server: it notes what is asked, and answers some of it otherwise.

    Attributes:
        asked: Method and target of each request.
        bodies: The bodies of those that have one, by their path.
        said: Status, headers and body that are answered instead, by path.
    """

    app: object
    asked: list[str] = field(default_factory=list)
    bodies: dict[str, list[bytes]] = field(default_factory=dict)
    said: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        self.asked.append(f"{scope['method']} {scope['path']}")
        if scope["path"] in self.said:
            status, headers, body = self.said[scope["path"]]
            named = [(name.encode(), value.encode()) for name, value in headers.items()]
            await send({"type": "http.response.start", "status": status, "headers": named})
            await send({"type": "http.response.body", "body": body})
            return

        async def heard():
            message = await receive()
            if message["type"] == "http.request" and message["body"]:
                self.bodies.setdefault(scope["path"], []).append(message["body"])
            return message

        await self.app(scope, heard, send)

    def fields(self, path: str) -> list[dict[str, str]]:
        """The forms that were sent there."""
        return [{k: v[0] for k, v in parse_qs(body.decode()).items()} for body in self.bodies.get(path, [])]


@dataclass
class Books:
    """The authorization server's memory.

    Attributes:
        seconds: How long an access token holds.
        rotates: Whether a refresh token is good for one exchange only.
        refreshes: Whether there are refresh tokens at all.
        refused: The person says no.
        trusted: The MCP server takes its tokens.
    """

    seconds: int = 3600
    rotates: bool = True
    refreshes: bool = True
    refused: bool = False
    trusted: bool = True
    clients: dict[str, OAuthClientInformationFull] = field(default_factory=dict)
    codes: dict[str, AuthorizationCode] = field(default_factory=dict)
    access: dict[str, AccessToken] = field(default_factory=dict)
    refresh: dict[str, RefreshToken] = field(default_factory=dict)
    exchanged: int = 0

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        if self.refused:
            raise AuthorizeError(error="access_denied", error_description="\x1b[2Jno")
        code = AuthorizationCode(
            code=secrets.token_urlsafe(24),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, _client, authorization_code: str) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code: AuthorizationCode) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self.issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, _client, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token: RefreshToken, scopes: list[str]) -> OAuthToken:
        if refresh_token.token not in self.refresh:
            raise TokenError(error="invalid_grant")
        self.exchanged += 1
        if self.rotates:
            del self.refresh[refresh_token.token]
        return self.issue(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.access.get(token)

    async def revoke_token(self, _token: AccessToken | RefreshToken) -> None:
        self.access.clear()
        self.refresh.clear()

    def issue(self, client_id: str, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(24), secrets.token_urlsafe(24)
        self.access[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, resource=resource)
        if self.refreshes:
            self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(
            access_token=access,
            expires_in=self.seconds,
            scope=" ".join(scopes),
            refresh_token=refresh if self.refreshes else None,
        )

    async def verify_token(self, token: str) -> AccessToken | None:
        """What the MCP server asks."""
        return self.access.get(token) if self.trusted else None


@dataclass
class FarSide:
    """Both servers.

    Attributes:
        url: Of the MCP server, which has a tool ``whoami``.
        issuer: Of the authorization server.
        server, authority: What stands before them.
    """

    url: str
    issuer: str
    books: Books
    server: Front
    authority: Front

    def forget(self) -> None:
        """Be as new."""
        vars(self.books).update(vars(Books()))
        for front in (self.server, self.authority):
            front.asked.clear()
            front.bodies.clear()
            front.said.clear()

    def metadata(self, **other) -> tuple[int, dict[str, str], bytes]:
        """What the authorization server says of itself, changed."""
        told = {
            "issuer": self.issuer,
            "authorization_endpoint": f"{self.issuer}/authorize",
            "token_endpoint": f"{self.issuer}/token",
            "registration_endpoint": f"{self.issuer}/register",
            "code_challenge_methods_supported": ["S256"],
        }
        return 200, {"content-type": "application/json"}, json.dumps(told | other).encode()


@contextlib.asynccontextmanager
async def protected() -> AsyncIterator[FarSide]:
    """Serve until the context is left."""
    with _socket() as for_server, _socket() as for_authority:
        url = f"http://{HOST}:{for_server.getsockname()[1]}/mcp"
        issuer = f"http://{HOST}:{for_authority.getsockname()[1]}"
        books = Books()
        auth = AuthSettings(
            issuer_url=issuer, resource_server_url=url, required_scopes=["read"], validate_token_resource=True
        )
        routes = create_auth_routes(
            books,
            issuer_url=auth.issuer_url,
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"]),
            revocation_options=RevocationOptions(enabled=True),
        )
        server, authority = Front(_mcp(auth, books)), Front(Starlette(routes=routes))
        async with _serving(server, for_server), _serving(authority, for_authority):
            yield FarSide(url=url, issuer=issuer, books=books, server=server, authority=authority)


async def browse(url: str, **other: str) -> httpx2.Response:
    """Do what a person's browser does that says yes, or something else than it: ``state="wrong"``."""
    async with httpx2.AsyncClient(trust_env=False) as client:
        answer = await client.get(url)
        assert answer.status_code == 302, answer.text
        target = answer.headers["location"]
        query = {name: values[0] for name, values in parse_qs(urlsplit(target).query).items()} | other
        return await client.get(target.partition("?")[0], params=query)


def _mcp(auth: AuthSettings, books: Books):
    mcp = MCPServer("protected", token_verifier=books, auth=auth)

    @mcp.tool()
    def whoami() -> str:
        """Say who asks."""
        return "the owner"

    return mcp.streamable_http_app(host=HOST)


def _socket() -> socket.socket:
    return socket.create_server((HOST, 0))


@contextlib.asynccontextmanager
async def _serving(app, listener: socket.socket) -> AsyncIterator[None]:
    config = uvicorn.Config(app, log_config=None, access_log=False, ws="none", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve, [listener])
        with anyio.fail_after(10):
            while not server.started:
                await anyio.sleep(0.005)
        try:
            yield
        finally:
            server.should_exit = server.force_exit = True
