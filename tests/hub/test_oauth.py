"""Logins to other MCP servers, and the tokens that come of them: end to end, and against servers that lie. H1."""

import functools
import gzip
import resource
import ssl
import time
from urllib.parse import parse_qs, urlsplit

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull
from tests.far_side.mcp_oauth import browse, protected
from tests.hub.upstreams import ignore

from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.connect import Connector
from gloveport.hub.connection.upstream import Upstream
from gloveport.hub.credentials.auth import auth_of
from gloveport.hub.credentials.login_desk import LoginDesk
from gloveport.hub.credentials.login_storage import Logins
from gloveport.model.hub import OAuthLogin, Server
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

TLS = ssl.create_default_context()
SECRET = "the-secret-of-the-client"


@pytest.fixture(scope="module")
async def serving():
    async with protected() as made:
        yield made


@pytest.fixture
def far(serving):
    serving.forget()
    return serving


@pytest.fixture
def logins(tmp_path):
    return Logins(directory=tmp_path / "state" / "oauth", environ={})


@pytest.fixture
def vault():
    return Vault(Sources({"CLIENT": SECRET}))


@pytest.fixture
def storage(logins, far):
    return logins.of("far", far.url, "file")


@pytest.fixture
async def logged_in(server, desk_of, storage):
    """A login of an hour ago."""
    made = (await desk_of().login("far", server)).model_copy(update={"obtained": time.time() - 3600})
    await storage.save(made)
    return made


@pytest.fixture
def server(far):
    return Server(url=far.url, auth=(OAuthLogin(kind="oauth"),))


@pytest.fixture
async def tasks():
    async with anyio.create_task_group() as group:
        yield group
        group.cancel_scope.cancel()


@pytest.fixture
def desk_of(logins, tasks):
    """A desk whose person has a browser; ``browse`` says what it does with the URL."""

    def make(do=browse, seconds=10.0):
        def show(url):
            make.urls.append(url)
            tasks.start_soon(do, url)

        sources = Sources({"CLIENT": SECRET})
        return LoginDesk(logins=logins, sources=sources, tls=TLS, show=show, seconds=seconds)

    make.urls = []
    return make


class AnyPort(OAuthClientInformationFull):
    """A client that may come back to any port, as RFC 8252 has it."""

    def validate_redirect_uri(self, redirect_uri):
        return redirect_uri


async def whoami(server, vault, logins, name="far"):
    """Call the tool, as the hub does."""
    auth = await auth_of(name, server, vault=vault, logins=logins, tls=TLS)
    async with (
        httpx2.AsyncClient(auth=auth, verify=TLS) as http,
        Client(streamable_http_client(server.url, http_client=http)) as client,
    ):
        return (await client.call_tool("whoami", {})).content[0].text


async def failure(awaitable):
    with pytest.raises(UpstreamError) as caught:
        await awaitable
    assert str(caught.value).replace("\n", "").isprintable()
    assert len(str(caught.value)) < 700
    return caught.value


async def test_a_person_logs_in_once_and_programs_call_tools(far, server, desk_of, vault, logins):
    """H1: registration, consent, tokens; the server's process opens no browser."""
    login = await desk_of().login("far", server)
    assert (login.issuer, login.resource) == (far.issuer, far.url)
    assert await whoami(server, vault, logins) == await whoami(server, vault, logins) == "the owner"
    assert len(desk_of.urls) == 1
    query = parse_qs(urlsplit(desk_of.urls[0]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["resource"] == [far.url]
    assert "/token" not in " ".join(far.server.asked)


async def test_without_a_login_the_way_to_one_is_told_and_nobody_is_asked(far, server, vault, logins):
    """H1."""
    error = await failure(whoami(server, vault, logins))
    assert (error.code, "gloveport servers login far" in error.hint) == ("login_required", True)
    assert not far.server.asked
    assert not far.authority.asked


async def test_a_login_is_for_one_url(far, logged_in, server, vault, logins):
    """H1: who changes the URL gets nobody's token."""
    other = server.model_copy(update={"url": far.url + "/"})
    assert (await failure(whoami(other, vault, logins))).code == "login_required"
    assert (await failure(whoami(server, vault, logins, name="near"))).code == "login_required"


async def test_a_token_that_is_about_to_expire_is_renewed_where_it_came_from(
    far, logged_in, server, storage, vault, logins
):
    """H1: the refresh token goes to its authorization server, and not to the server whose tools are called."""
    await storage.save(logged_in.model_copy(update={"expires": time.time() + 1}))
    assert await whoami(server, vault, logins) == "the owner"
    assert far.books.exchanged == 1
    assert far.authority.fields("/token")[-1] == {
        "grant_type": "refresh_token",
        "refresh_token": logged_in.refresh_token,
        "resource": far.url,
        "client_id": logged_in.client_id,
        **({"client_secret": logged_in.client_secret} if logged_in.client_secret else {}),
    }
    assert logged_in.refresh_token not in str(far.server.bodies)
    renewed = await storage.load()
    assert renewed.access_token != logged_in.access_token
    assert renewed.refresh_token != logged_in.refresh_token
    assert renewed.expires > time.time() + 3000


async def test_a_token_that_the_server_refuses_is_renewed_once_and_the_call_succeeds(
    far, logged_in, server, vault, logins
):
    """H1: it was revoked, or the clocks differ."""
    far.books.access.clear()
    assert await whoami(server, vault, logins) == "the owner"
    assert far.books.exchanged == 1


async def test_many_that_share_a_login_exchange_it_once(far, logged_in, server, storage, vault, logins):
    """H1: a refresh token that comes twice looks stolen, and ends the login."""
    await storage.save(logged_in.model_copy(update={"expires": 0.0}))
    answers = []

    async def call():
        answers.append(await whoami(server, vault, logins))

    async with anyio.create_task_group() as group:
        for _ in range(8):
            group.start_soon(call)
    assert answers == ["the owner"] * 8
    assert far.books.exchanged == 1


async def test_what_another_process_has_exchanged_is_found(far, logged_in, server, storage, vault, logins):
    """H1: while this one holds the token of before."""
    auth = await auth_of("far", server, vault=vault, logins=logins, tls=TLS)
    far.books.access.clear()
    other = far.books.issue(logged_in.client_id, ["read"], far.url)
    await storage.save(logged_in.model_copy(update={"access_token": other.access_token}))
    async with httpx2.AsyncClient(auth=auth) as client:
        assert (await client.post(far.url, json={})).status_code != 401
    assert far.books.exchanged == 0


async def test_a_login_that_its_server_has_ended_is_asked_for_anew(far, logged_in, server, storage, vault, logins):
    """H1."""
    far.books.access.clear()
    far.books.refresh.clear()
    await storage.save(logged_in.model_copy(update={"expires": 0.0}))
    error = await failure(whoami(server, vault, logins))
    assert (error.code, "gloveport servers login far" in error.hint) == ("login_required", True)


async def test_a_login_without_renewal_is_over_when_its_token_is(far, server, desk_of, storage, vault, logins):
    """H1."""
    far.books.refreshes = False
    login = await desk_of().login("far", server)
    assert await whoami(server, vault, logins) == "the owner"
    await storage.save(login.model_copy(update={"expires": 0.0}))
    assert "over" in (await failure(whoami(server, vault, logins))).args[0]


async def test_a_login_without_renewal_holds_until_its_token_expires(far, server, desk_of, storage, vault, logins):
    """H1: and not only until a token would be renewed."""
    far.books.refreshes = False
    login = await desk_of().login("far", server)
    now = time.time()
    await storage.save(login.model_copy(update={"obtained": now - 24 * 86_400, "expires": now + 5 * 86_400}))
    assert await whoami(server, vault, logins) == "the owner"


async def test_a_token_that_holds_still_is_used_while_no_other_can_be_had(
    far, logged_in, server, storage, vault, logins
):
    """H1: and whoever gives none is not asked for each request."""
    far.authority.said["/token"] = (503, {}, b"down")
    await storage.save(logged_in.model_copy(update={"expires": time.time() + 30}))
    auth = await auth_of("far", server, vault=vault, logins=logins, tls=TLS)
    async with httpx2.AsyncClient(auth=auth) as client:
        for _ in range(20):
            assert (await client.post(far.url, json={})).status_code != 401
    assert far.authority.asked.count("POST /token") == 2  # the login's own


@pytest.mark.parametrize("seconds", [0, 30])
async def test_a_login_outlives_a_full_disk(far, logged_in, server, storage, vault, logins, seconds):
    """H1: a refresh token is exchanged only where there is room for the next; until then its access token is used."""
    await storage.save(logged_in.model_copy(update={"expires": time.time() + seconds}))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (64, limits[1])
    )  # the kernel refuses what goes beyond, as a full disk does
    try:
        if seconds:
            assert await whoami(server, vault, logins) == "the owner"
        else:
            assert (await failure(whoami(server, vault, logins))).code == "secret_unavailable"
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert far.books.exchanged == 0
    await storage.save(logged_in.model_copy(update={"expires": 0.0}))
    assert await whoami(server, vault, logins) == "the owner"


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, {}, b""),
        (200, {}, b"<html>"),
        (200, {}, b'{"access_token": 7}'),
        (200, {}, b'{"access_token": "a\\r\\nx-evil: 1"}'),
        (200, {}, b'{"access_token": "a-token-for-others", "token_type": "mac"}'),
        (200, {}, b'{"access_token": "short"}'),
        (200, {}, b'{"access_token": "/etc/passwd"}'),
        (200, {}, b'{"access_token": "a-token-that-is-1-of-those", "refresh_token": "github.com"}'),
        (200, {}, b'{"access_token": "' + b"a" * 9000 + b'"}'),
        (200, {}, b" " * (2 << 20)),
        (200, {"content-encoding": "gzip"}, gzip.compress(b'{"access_token": "a-token-in-a-bomb"}', mtime=0)),
        (302, {"location": "http://127.0.0.1:1/"}, b""),
        (400, {}, b'{"error": "\x1b[2J"}'),
        (400, {}, b'{"error": ["invalid_grant"]}'),
        (500, {}, b"\xff" * 100),
    ],
)
async def test_what_a_token_endpoint_says_otherwise_is_an_error(
    far, logged_in, server, storage, logins, status, headers, body
):
    """H1: and the login stays what it was."""
    far.authority.said["/token"] = (status, headers, body)
    expired = logged_in.model_copy(update={"expires": 0.0})
    await storage.save(expired)
    vault = Vault(Sources({}))
    error = await failure(whoami(server, vault, logins))
    assert error.code == "oauth_failed"
    assert await storage.load() == expired
    for text in ("root from /etc/passwd", "https://github.com/"):  # P25: no server says what is scrubbed elsewhere
        assert vault.clean(text) == text


async def test_a_refresh_token_that_comes_with_no_token_of_use_is_kept(far, logged_in, server, storage, vault, logins):
    """H1: the one before may be void, and to send it again looks like theft."""
    expired = logged_in.model_copy(update={"expires": 0.0})
    await storage.save(expired)
    body = b'{"access_token": "for-others", "token_type": "mac", "refresh_token": "the-next-refresh-token-4c7d9a"}'
    far.authority.said["/token"] = (200, {}, body)
    assert (await failure(whoami(server, vault, logins))).code == "oauth_failed"
    assert await storage.load() == expired.model_copy(update={"refresh_token": "the-next-refresh-token-4c7d9a"})
    assert "the-next-refresh-token-4c7d9a" not in scrub_text(vault.needles, "the-next-refresh-token-4c7d9a")


async def test_tokens_are_known_to_the_scrubber_before_they_are_sent(far, logged_in, server, storage, vault, logins):
    """H1, T4: those of before too."""
    await storage.save(logged_in.model_copy(update={"expires": 0.0}))
    await whoami(server, vault, logins)
    renewed = await storage.load()
    said = " ".join(token for login in (logged_in, renewed) for token in (login.access_token, login.refresh_token))
    scrubbed = scrub_text(vault.needles, said)
    assert all(token not in scrubbed for token in said.split())
    assert "[secret servers.far.oauth.token]" in scrubbed


async def test_a_damaged_login_is_the_owners_business(logged_in, server, logins, vault):
    """H1: where it is kept is nothing for a program."""
    [file] = logins.directory.glob("*.json")
    file.chmod(0o644)
    error = await failure(whoami(server, vault, logins))
    assert error.code == "secret_unavailable"
    assert str(logins.directory) not in str(error)


async def test_an_answer_with_a_wrong_state_is_nobodys(far, server, desk_of, storage):
    """H1: another page has sent the browser; the login waits on for its own."""

    async def attacked(url):
        assert (await browse(url, state="wrong")).status_code == 400
        assert (await browse(url, code="evil", state="")).status_code == 400
        assert (await browse(url)).status_code == 200

    await desk_of(attacked).login("far", server)
    assert await storage.load() is not None


async def test_an_answer_with_a_code_that_was_never_given_brings_nothing(far, server, desk_of, storage):
    error = await failure(desk_of(functools.partial(browse, code="evil")).login("far", server))
    assert error.code == "login_failed"
    assert await storage.load() is None


async def test_an_answer_of_another_issuer_brings_nothing(far, server, desk_of, storage):
    """H1: RFC 9207."""
    error = await failure(desk_of(functools.partial(browse, iss="https://evil.test")).login("far", server))
    assert error.code == "login_failed"
    assert "iss mismatch" in error.hint
    assert await storage.load() is None
    assert not far.authority.bodies.get("/token")


async def test_a_person_who_says_no_has_said_no(far, server, desk_of, storage):
    far.books.refused = True
    assert (await failure(desk_of().login("far", server))).code == "login_refused"
    assert await storage.load() is None


async def test_a_login_that_nobody_makes_ends(far, server, desk_of):
    async def absent(url):
        pass

    assert (await failure(desk_of(absent, seconds=0.3).login("far", server))).code == "login_timeout"


async def test_a_server_that_names_another_authorization_server_gets_no_further(
    far, logged_in, server, desk_of, storage
):
    """H1: nothing is shown that a person could say yes to; after a logout it is a new server."""
    async with protected() as other:
        metadata = f'{{"resource": "{far.url}", "authorization_servers": ["{other.issuer}"]}}'
        far.server.said["/.well-known/oauth-protected-resource/mcp"] = (200, {}, metadata.encode())
        error = await failure(desk_of().login("far", server))
        assert error.code == "issuer_changed"
        assert other.issuer in error.args[0]
        assert len(desk_of.urls) == 1
        assert await storage.load() == logged_in
        assert await desk_of().logout("far", server) == "revoked"
        assert (await failure(desk_of().login("far", server))).code == "login_failed"  # its tokens are another's
        assert len(desk_of.urls) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"issuer": "https://evil.test"}, "mismatch"),
        ({"code_challenge_methods_supported": None}, "PKCE"),
        ({"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        ({"token_endpoint": "http://auth.test/token"}, "encryption"),
        ({"authorization_endpoint": "http://auth.test/authorize"}, "encryption"),
        ({"registration_endpoint": "http://169.254.169.254/latest"}, "encryption"),
        ({"revocation_endpoint": "http://auth.test/revoke"}, "encryption"),
        ({"authorization_endpoint": "file:///etc/passwd"}, "no login"),
        ({"authorization_endpoint": "javascript:alert(1)"}, "no login"),
    ],
    ids=str,
)
async def test_an_authorization_server_that_is_not_safe_is_shown_to_nobody(
    far, server, desk_of, storage, changed, said
):
    """H1: a mix-up, a downgrade, and ways into this network."""
    far.authority.said["/.well-known/oauth-authorization-server"] = far.metadata(**changed)
    far.authority.said["/register"] = (201, {}, b'{"client_id": "us"}')
    far.server.said["/register"] = (404, {}, b"")
    error = await failure(desk_of().login("far", server))
    assert error.code == "login_failed"
    assert said in str(error)
    assert not desk_of.urls
    assert await storage.load() is None


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (200, {}, b" " * (2 << 20)),
        (200, {"content-encoding": "gzip"}, gzip.compress(b" " * (1 << 20), mtime=0)),
        (200, {}, b'{"resource": "https://other.test/mcp", "authorization_servers": ["https://evil.test"]}'),
        (302, {"location": "http://169.254.169.254/"}, b""),
        (500, {}, b"\x1b[2J" * 1000),
    ],
    ids=["huge", "compressed", "another resource", "redirect", "broken"],
)
async def test_metadata_of_a_server_that_lies_leads_nowhere(far, server, desk_of, storage, status, headers, body):
    """H1."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        far.server.said[path] = (status, headers, body)
    assert (await failure(desk_of().login("far", server))).code == "login_failed"
    assert not desk_of.urls


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, b"\xff\xfe"),
        (400, b"\x1b[2J" * 10_000),
        (200, b"{}"),
        (200, b'{"access_token": "a b", "token_type": "Bearer"}'),
        (200, b'{"access_token": "a-long-enough-token", "expires_in": 1%s}' % (b"0" * 400)),
    ],
)
async def test_what_a_token_endpoint_says_at_a_login_is_shown_short_and_printable(
    far, server, desk_of, storage, caplog, capfd, status, body
):
    """H1: on the terminal of the owner, by whatever way."""
    far.authority.said["/token"] = (status, {}, body)
    assert (await failure(desk_of().login("far", server))).code == "login_failed"
    assert not [record for record in caplog.records if record.name.startswith("mcp.")]
    assert "\x1b" not in "".join(capfd.readouterr())
    assert await storage.load() is None


async def test_a_server_that_asks_for_no_login_gets_none(far, server, desk_of):
    far.server.said["/mcp"] = (200, {}, b"{}")
    assert "asks for no login" in (await failure(desk_of().login("far", server))).args[0]
    assert not desk_of.urls


async def test_a_server_that_refuses_the_new_token_is_told_of(far, server, desk_of, storage):
    far.books.trusted = False
    assert "refuses, with status 401" in (await failure(desk_of().login("far", server))).args[0]
    assert await storage.load() is None


async def test_the_owners_scopes_are_asked_for_in_the_place_of_the_servers(far, server, desk_of):
    """H1, T5: the knob ``servers.NAME.auth.scopes``, at the registration and at the login."""
    scoped = server.model_copy(update={"auth": (OAuthLogin(kind="oauth", scopes=("read", "write")),)})
    login = await desk_of().login("far", scoped)
    assert parse_qs(urlsplit(desk_of.urls[0]).query)["scope"] == ["read write"]
    assert login.scope == "read write"


def registered(server, issuer):
    """The server, with a client that the owner has registered with an authorization server."""
    auth = OAuthLogin(kind="oauth", client_id="known", client_secret="env:CLIENT", issuer=issuer)
    return server.model_copy(update={"auth": (auth,)})


def named(far, issuer):
    """The server names this authorization server."""
    metadata = f'{{"resource": "{far.url}", "authorization_servers": ["{issuer}"]}}'
    far.server.said["/.well-known/oauth-protected-resource/mcp"] = (200, {}, metadata.encode())


def heard(*sides):
    return "".join(str(front.bodies) for side in sides for front in (side.server, side.authority))


@pytest.mark.parametrize("issuer", ["the owner's", ""])
async def test_the_secret_of_a_client_goes_to_nobody_whom_only_the_server_names(far, server, desk_of, storage, issuer):
    """H1, N5, T5: the knob ``servers.NAME.auth.issuer``. At the first login too, before a person is shown a page."""
    async with protected() as other:
        other.books.clients["known"] = AnyPort(client_id="known", client_secret=SECRET, scope="read")
        named(far, other.issuer)
        error = await failure(desk_of().login("far", registered(server, issuer and far.issuer)))
        assert (error.code, other.issuer in error.args[0]) == ("issuer_refused", True)
        assert not desk_of.urls
        assert SECRET not in heard(far, other)
        assert await storage.load() is None


async def test_a_server_that_calls_itself_the_owners_authorization_server_gets_no_secret(far, server, desk_of):
    """H1, N5: without a word of where another is, the metadata are the server's own."""
    for path in ("/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"):
        far.server.said[path] = (404, {}, b"")
    root = far.url.removesuffix("/mcp")
    far.server.said["/.well-known/oauth-authorization-server"] = far.metadata(token_endpoint=f"{root}/token")
    assert (await failure(desk_of().login("far", registered(server, far.issuer)))).code == "login_failed"
    assert not desk_of.urls
    assert SECRET not in heard(far)


async def test_a_login_of_before_is_no_way_to_the_secret(far, logged_in, server, desk_of, storage, vault, logins):
    """H1, N5: neither to renew its token, nor to end it."""
    await storage.save(logged_in.model_copy(update={"expires": 0.0, "client_secret": ""}))
    known = registered(server, "https://auth.test")
    assert (await failure(whoami(known, vault, logins))).code == "login_required"
    assert await desk_of().logout("far", known) == "forgotten"
    assert SECRET not in heard(far)


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_a_client_that_the_owner_has_registered_is_named_as_the_server_wants_it(
    far, server, desk_of, storage, vault, logins, method
):
    """H1, N5: its secret is not written beside the tokens. T5: the knobs ``servers.NAME.auth.client_id`` and
    ``client_secret``."""
    far.books.clients["known"] = AnyPort(
        client_id="known", client_secret=SECRET, scope="read", token_endpoint_auth_method=method
    )
    far.authority.said["/.well-known/oauth-authorization-server"] = far.metadata(
        token_endpoint_auth_methods_supported=[method]
    )
    known = registered(server, far.issuer)
    login = await desk_of().login("far", known)
    assert (login.client_id, login.client_secret, login.client_auth) == ("known", "", method)
    assert "POST /register" not in far.authority.asked
    await storage.save(login.model_copy(update={"expires": 0.0}))
    assert await whoami(known, vault, logins) == "the owner"
    assert far.books.exchanged == 1
    assert SECRET not in scrub_text(vault.needles, f"it is {SECRET}")


async def test_a_logout_ends_the_login_on_both_sides(far, logged_in, server, desk_of, storage, vault, logins):
    """H1: RFC 7009."""
    assert await desk_of().logout("far", server) == "revoked"
    assert far.authority.fields("/revoke")[0]["token"] == logged_in.refresh_token
    assert await storage.load() is None
    assert not far.books.access
    assert (await failure(whoami(server, vault, logins))).code == "login_required"
    assert await desk_of().logout("far", server) == "nobody"


async def test_a_logout_succeeds_here_where_it_can_not_there(far, logged_in, server, desk_of, storage, logins):
    far.authority.said["/revoke"] = (500, {}, b"")
    assert await desk_of().logout("far", server) == "forgotten"
    await storage.save(logged_in)
    [file] = logins.directory.glob("*.json")
    file.write_bytes(b"damaged")
    assert await desk_of().logout("far", server) == "forgotten"
    assert await storage.load() is None


async def test_a_logout_that_its_server_was_not_told_of_counts_under_a_connection(
    far, server, desk_of, vault, logins, tasks
):
    """H1: no token that is still valid goes on in the memory of a running server."""
    far.authority.said["/revoke"] = (500, {}, b"")
    await desk_of().login("far", server)
    ways = Connector(vault=vault, logins=logins, environ={}, record=lambda *_: None).ways("far", server)
    upstream = Upstream("far", server, ways, tasks=tasks, on_tools=ignore)
    assert (await upstream.call("whoami", {})).content[0].text == "the owner"
    assert await desk_of().logout("far", server) == "forgotten"
    assert far.books.access
    assert (await failure(upstream.call("whoami", {}))).code == "login_required"
    await upstream.close()


async def test_who_has_no_login_can_not_log_in(far, desk_of):
    with pytest.raises(ConfigError, match="has no login"):
        await desk_of().login("far", Server(url=far.url))
    clear = Server(url="http://mcp.test/mcp", auth=(OAuthLogin(kind="oauth"),))
    assert "without encryption" in (await failure(desk_of().login("far", clear))).args[0]


async def test_a_login_that_ends_under_a_connection_is_said_in_its_own_words(
    far, logged_in, server, vault, logins, tasks
):
    """H1: all the way from the hub's connection to who calls."""
    ways = Connector(vault=vault, logins=logins, environ={}, record=lambda *_: None).ways("far", server)
    upstream = Upstream("far", server, ways, tasks=tasks, on_tools=ignore)
    assert (await upstream.call("whoami", {})).content[0].text == "the owner"
    far.books.access.clear()
    assert (await upstream.call("whoami", {})).content[0].text == "the owner"
    assert far.books.exchanged == 1
    far.books.access.clear()
    far.books.refresh.clear()
    assert (await failure(upstream.call("whoami", {}))).code == "login_required"
    await upstream.close()


async def test_requests_with_a_login_do_not_wait_for_each_other(far, logged_in, server, vault, logins):
    """H1: a long call holds up no other, as it would with a lock around each."""
    auth = await auth_of("far", server, vault=vault, logins=logins, tls=TLS)
    entered, leave = anyio.Event(), anyio.Event()
    app = far.server.app

    async def slow_once(scope, receive, send):
        if not entered.is_set():
            entered.set()
            await leave.wait()
        await app(scope, receive, send)

    far.server.app = slow_once
    try:
        async with httpx2.AsyncClient(auth=auth) as client, anyio.create_task_group() as group:
            group.start_soon(client.get, far.url)
            await entered.wait()
            with anyio.fail_after(20):
                await client.post(far.url, json={})
            leave.set()
    finally:
        far.server.app = app
