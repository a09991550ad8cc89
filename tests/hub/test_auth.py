"""Credentials of servers that are reached by URL: what is sent, to whom, and what is said when it can't be. H1, N5."""

import base64
import json
import ssl

import httpx2
import pytest
from tests.far_side import authority as far_authority
from tests.far_side.app import Response
from tests.far_side.web import web

from gloveport.errors import UpstreamError
from gloveport.hub.credentials.auth import auth_of
from gloveport.hub.credentials.login_storage import Logins
from gloveport.model.egress import Basic, Bearer, ClientCredentials, Header, Query
from gloveport.model.hub import Server
from gloveport.oauth.renewal import RenewedToken
from gloveport.oauth.token_endpoint import Token
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

SECRET = "a-secret-of-the-owner"


@pytest.fixture
def variables():
    return {"KEY": SECRET}


@pytest.fixture
def vault(variables):
    return Vault(Sources(variables))


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return far_authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(authority):
    return ssl.create_default_context(cafile=authority.ca_file)


@pytest.fixture
async def far(authority):
    async with web(authority.server("127.0.0.11", protocols=("http/1.1",))) as serving:
        yield serving


@pytest.fixture
def url(far):
    return f"https://{far.place.host}:{far.place.port}/echo"


@pytest.fixture
def credentials_for(tmp_path, vault, tls, url):
    """What goes with the requests to a server."""

    async def make(*auth, url=url):
        logins = Logins(directory=tmp_path / "oauth", environ={})
        return await auth_of("far", Server(url=url, auth=auth), vault=vault, logins=logins, tls=tls)

    return make


@pytest.fixture
def echoed(tls, url):
    """The headers that come with a request."""

    async def make(auth, url=url):
        async with httpx2.AsyncClient(auth=auth, verify=tls, trust_env=False) as client:
            answer = await client.post(url, json={"a": 1})
            assert answer.status_code == 200
            return {name.lower(): value for name, value in answer.json()["headers"]}

    return make


async def failure(awaitable):
    with pytest.raises(UpstreamError) as caught:
        await awaitable
    return caught.value


@pytest.mark.parametrize(
    ("auth", "name", "value"),
    [
        (Bearer(kind="bearer", secret="env:KEY"), "authorization", f"Bearer {SECRET}"),
        (Header(kind="header", name="X-Key", prefix="Token ", secret="env:KEY"), "x-key", f"Token {SECRET}"),
        (
            Basic(kind="basic", username="me", secret="env:KEY"),
            "authorization",
            f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}",
        ),
        (
            Basic(kind="basic", username="", secret="env:KEY", secret_is="username"),
            "authorization",
            f"Basic {base64.b64encode(f'{SECRET}:'.encode()).decode()}",
        ),
    ],
)
async def test_a_credential_goes_with_each_request_and_is_known_to_the_scrubber(
    credentials_for, echoed, vault, auth, name, value
):
    """H1, N5, T4."""
    headers = await echoed(await credentials_for(auth))
    assert headers[name] == value
    assert SECRET not in scrub_text(vault.needles, f"{value} {SECRET}")


async def test_a_key_in_the_query_goes_with_each_request_beside_what_is_there(credentials_for, tls, url, vault):
    """H1, N5, T4: and not twice."""
    auth = await credentials_for(Query(kind="query", name="api_key", secret="env:KEY"))
    async with httpx2.AsyncClient(auth=auth, verify=tls, trust_env=False) as client:
        for asked in (f"{url}?tools=all", f"{url}?tools=all&api_key=old"):
            answer = await client.post(asked, json={})
            assert answer.json()["target"] == f"/echo?tools=all&api_key={SECRET}"
    assert SECRET not in scrub_text(vault.needles, SECRET)


async def test_several_credentials_go_together(credentials_for, echoed):
    headers = await echoed(
        await credentials_for(
            Bearer(kind="bearer", secret="env:KEY"), Header(kind="header", name="X-Key", secret="env:KEY")
        )
    )
    assert (headers["authorization"], headers["x-key"]) == (f"Bearer {SECRET}", SECRET)


async def test_a_server_without_credentials_has_none(credentials_for):
    assert await credentials_for() is None


async def test_a_secret_that_was_exchanged_counts_at_once(credentials_for, echoed, variables):
    """H1: without another connection."""
    auth = await credentials_for(Bearer(kind="bearer", secret="env:KEY"))
    variables["KEY"] = "an-other-secret"
    assert (await echoed(auth))["authorization"] == "Bearer an-other-secret"


async def test_a_secret_that_is_not_ascii_is_sent_as_utf8(credentials_for, echoed, variables):
    variables["KEY"] = "ein-Schlüssel"
    headers = await echoed(await credentials_for(Header(kind="header", name="X-Key", secret="env:KEY")))
    assert headers["x-key"].encode("latin-1").decode() == "ein-Schlüssel"


async def test_a_secret_that_can_not_be_had_is_said_before_anybody_is_asked(credentials_for, far, variables):
    """N5: not where it is kept."""
    auth = await credentials_for(Bearer(kind="bearer", secret="env:KEY"))
    del variables["KEY"]
    for awaitable in (
        credentials_for(Bearer(kind="bearer", secret="file:/nowhere/of-the-owner")),
        httpx2.AsyncClient(auth=auth).get(f"https://{far.place.host}:{far.place.port}/echo"),
    ):
        error = await failure(awaitable)
        assert error.code == "secret_unavailable"
        assert "nowhere" not in str(error)
        assert "KEY" not in str(error)
    assert not far.app.requests


async def test_a_credential_that_is_refused_is_said_to_be(credentials_for, echoed, far, url):
    """H1: and no request is made more often than once again."""
    auth = await credentials_for(Bearer(kind="bearer", secret="env:KEY"))
    async with httpx2.AsyncClient(auth=auth, verify=False) as client:
        error = await failure(client.get(url.replace("/echo", "/status/401")))
    assert error.code == "credential_refused"
    assert SECRET not in str(error)
    assert len(far.app.requests) == 1


async def test_scopes_that_are_missing_are_told_to_the_owner(credentials_for, far, url, tls, caplog):
    """H1: the call fails, and its connection stays."""
    auth = await credentials_for(Bearer(kind="bearer", secret="env:KEY"))
    headers = [(b"www-authenticate", b'Bearer error="insufficient_scope", scope="write"'), (b"content-length", b"0")]

    async def forbidden(request):
        return Response(_nothing(), 403, headers)

    far.app.routes["forbidden"] = forbidden
    async with httpx2.AsyncClient(auth=auth, verify=tls) as client:
        assert (await client.get(url.replace("/echo", "/forbidden"))).status_code == 403
    assert 'scope="write"' in caplog.text


async def _nothing():
    yield b""


async def test_a_credential_goes_to_its_server_alone(credentials_for, authority, tls, url):
    """N5, P18: not where a redirect, or the server's own words, lead to."""
    auth = await credentials_for(Header(kind="header", name="X-Key", secret="env:KEY"))
    async with web(authority.server("127.0.0.12"), host="127.0.0.12") as other:
        async with httpx2.AsyncClient(auth=auth, verify=tls) as client:
            for elsewhere in (
                f"https://127.0.0.12:{other.place.port}/echo",
                url.replace("127.0.0.11", "127.0.0.12"),
                url.replace("https", "http"),
                url.replace("/echo", "1/echo"),
            ):
                assert (await failure(client.get(elsewhere))).code == "misdirected"
        assert other.place.connections == 0


@pytest.mark.parametrize("url", ["http://mcp.test/mcp", "http://10.0.0.1/mcp", "http://localhost.evil.test/"])
async def test_a_credential_never_leaves_without_encryption(credentials_for, url):
    """N5, P18."""
    assert (await failure(credentials_for(Bearer(kind="bearer", secret="env:KEY"), url=url))).code == "plain_http"


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]", "a.localhost"])
async def test_on_this_host_a_credential_needs_no_encryption(credentials_for, host):
    assert await credentials_for(Bearer(kind="bearer", secret="env:KEY"), url=f"http://{host}:8080/mcp")


@pytest.fixture
def granting(far):
    """A token endpoint: what it was sent, and what it says."""
    asked, answers = [], []

    async def token(request):
        body = b"".join([piece async for piece in request.body])
        headers = {name.decode().lower(): value.decode() for name, value in request.headers}
        asked.append((headers.get("authorization", ""), body.decode()))
        status, document = answers[min(len(asked), len(answers)) - 1]
        return _json(status, document)

    far.app.routes["token"] = token
    return asked, answers


def _json(status, document):
    content = json.dumps(document).encode()

    async def body():
        yield content

    return Response(body(), status, [(b"content-length", b"%d" % len(content))])


@pytest.fixture
def grant(url):
    def make(**other):
        told = {
            "kind": "oauth2_client_credentials",
            "token_url": url.replace("/echo", "/token"),
            "client_id": "us & them",
            "client_secret": "env:KEY",
        }
        return ClientCredentials(**told | other)

    return make


async def test_a_client_gets_a_token_for_its_own_credentials(credentials_for, echoed, granting, grant, vault):
    """H1: once, while it holds; from the endpoint that the owner names."""
    asked, answers = granting
    answers.append((200, {"access_token": "a-token-1", "token_type": "Bearer", "expires_in": 3600}))
    auth = await credentials_for(grant(scopes=("a", "b"), audience="https://api.test"))
    for _ in range(3):
        assert (await echoed(auth))["authorization"] == "Bearer a-token-1"
    pair = base64.b64encode(f"us+%26+them:{SECRET}".encode()).decode()
    fields = "grant_type=client_credentials&scope=a+b&audience=https%3A%2F%2Fapi.test"
    assert asked == [(f"Basic {pair}", fields)]
    assert "a-token-1" not in scrub_text(vault.needles, f"a-token-1 {SECRET}")


async def test_a_client_may_name_itself_in_the_body(credentials_for, granting, grant):
    asked, answers = granting
    answers.append((200, {"access_token": "a-token-1"}))
    await credentials_for(grant(client_auth="body"))
    assert asked == [("", f"grant_type=client_credentials&client_id=us+%26+them&client_secret={SECRET}")]


@pytest.mark.parametrize(
    "answer", [(401, {"error": "invalid_client", "error_description": SECRET}), (200, {}), (200, [SECRET]), (500, 7)]
)
async def test_a_token_that_is_not_given_is_an_error_that_repeats_nothing(credentials_for, granting, grant, answer):
    """N5: it may quote what was sent."""
    _, answers = granting
    answers.append(answer)
    error = await failure(credentials_for(grant()))
    assert error.code == "oauth_failed"
    assert SECRET not in str(error)


async def test_a_token_endpoint_that_nobody_vouches_for_gets_nothing(tmp_path, vault, granting, grant, url):
    """N5."""
    asked, _ = granting
    logins = Logins(directory=tmp_path / "oauth", environ={})
    strict = ssl.create_default_context()
    error = await failure(auth_of("far", Server(url=url, auth=(grant(),)), vault=vault, logins=logins, tls=strict))
    assert (error.code, "ConnectError" in error.args[0]) == ("oauth_failed", True)
    assert not asked


@pytest.mark.parametrize("hours", [1, 24 * 3652])
async def test_a_refused_token_is_renewed_although_the_clock_was_set_back(hours):
    """As after the start of a host whose clock is wrong until the network has told it the time."""
    now, obtained = [2_000_000_000.0], []

    async def obtain(_refused):
        obtained.append(Token(f"token-{len(obtained)}", now[0], now[0] + 3600))
        return obtained[-1]

    token = RenewedToken(owner="far", obtain=obtain, clock=lambda: now[0])
    assert await token.get() == "token-0"
    now[0] -= hours * 3600
    assert await token.get("token-0") == "token-1"
    with pytest.raises(UpstreamError):
        await token.get("token-1")
