"""Access tokens are obtained when they are needed, renewed before they expire, and never asked for in vain. N5, T4, T5.

The time of the event loop can be put ahead. The token endpoint is a function that is handed in, as the real way out is.
"""

import asyncio
import base64
import json
import logging
import resource
from ipaddress import ip_address, ip_network
from urllib.parse import parse_qs

import anyio
import anyio.lowlevel
import pytest

from gloveport.egress.access_tokens import AccessTokens
from gloveport.errors import ConfigError, UpstreamError
from gloveport.model.egress import Api, ClientCredentials, RefreshToken
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

SECRET = "s3cret:of+the/client"


@pytest.fixture(autouse=True)
async def own_time(monkeypatch):
    """That of the event loop, which ``pass_time`` puts ahead, until the test is over."""
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(loop, "time", loop.time)


def pass_time(seconds):
    loop = asyncio.get_running_loop()
    time = loop.time
    loop.time = lambda: time() + seconds


class Endpoint:
    """A token endpoint: numbers its tokens, and answers what a test tells it to."""

    def __init__(self):
        self.asked = []
        self.more = {"token_type": "Bearer", "expires_in": 3600}
        self.refusal = None
        self.open = anyio.Event()
        self.open.set()

    async def __call__(self, route, out, body):
        self.asked.append((route, out, parse_qs(body.decode(), strict_parsing=True)))
        number = len(self.asked)
        await self.open.wait()
        if self.refusal is not None:
            status, content = self.refusal
            return status, (), content.encode()
        return 200, (), json.dumps({"access_token": f"access-token-{number}", **self.more}).encode()

    @property
    def fields(self):
        return self.asked[-1][2]


@pytest.fixture
def endpoint():
    return Endpoint()


@pytest.fixture
def variables():
    return {"SECRET": SECRET, "REFRESH": "refresh-token-0"}


@pytest.fixture
def vault(variables):
    return Vault(Sources(variables))


@pytest.fixture
def tokens(vault, endpoint):
    return AccessTokens(vault, endpoint)


API = Api(
    hosts=("api.github.test",),
    networks=(ip_network("10.0.0.0/8"),),
    addresses=(ip_address("127.0.0.9"),),
    ca_file="/etc/ca.pem",
)
CLIENT = ClientCredentials(
    kind="oauth2_client_credentials",
    token_url="https://Login.Example.test:8443/oauth/token?tenant=a",
    client_id="the client",
    client_secret="env:SECRET",
)
REFRESH = RefreshToken(
    kind="oauth2_refresh_token",
    token_url="https://login.example.test/token",
    client_id="client",
    refresh_token="env:REFRESH",
)


def changed(grant, **fields):
    return grant.model_copy(update=fields)


@pytest.fixture
def get(tokens):
    async def get(grant=CLIENT, name="github.oauth"):
        return await tokens.get(name, API, grant)

    return get


async def test_a_client_obtains_a_token_with_its_secret(get, endpoint, vault):
    """RFC 6749, 2.3.1 and 4.4: name and secret are encoded before they are joined."""
    assert await get() == "access-token-1"
    route, out, fields = endpoint.asked[0]
    assert (route.scheme, route.host, route.port, route.api) == ("https", "login.example.test", 8443, "github")
    assert (route.networks, route.addresses, route.ca_file) == (API.networks, API.addresses, API.ca_file)
    assert (out.method, out.target) == ("POST", "/oauth/token?tenant=a")
    headers = dict(out.headers)
    assert headers[b"content-type"] == b"application/x-www-form-urlencoded"
    scheme, pair = headers[b"authorization"].split()
    assert (scheme, base64.b64decode(pair)) == (b"Basic", b"the+client:s3cret%3Aof%2Bthe%2Fclient")
    assert fields == {"grant_type": ["client_credentials"]}


async def test_what_is_asked_for_is_what_the_operator_says(get, endpoint):
    """T5: scopes, audience, client_auth."""
    await get(changed(CLIENT, scopes=("read", "write"), audience="https://api", client_auth="body"))
    assert endpoint.fields == {
        "grant_type": ["client_credentials"],
        "scope": ["read write"],
        "audience": ["https://api"],
        "client_id": ["the client"],
        "client_secret": [SECRET],
    }
    assert b"authorization" not in dict(endpoint.asked[0][1].headers)


async def test_a_refresh_token_is_exchanged_for_a_token(get, endpoint):
    """RFC 6749, 6: a public client, and one with a secret."""
    await get(REFRESH)
    public = {"grant_type": ["refresh_token"], "refresh_token": ["refresh-token-0"], "client_id": ["client"]}
    assert endpoint.fields == public
    await get(changed(REFRESH, client_secret="env:SECRET", scopes=("read",)))
    assert endpoint.fields == {**public, "client_secret": [SECRET], "scope": ["read"]}
    await get(changed(REFRESH, client_secret="env:SECRET", client_auth="basic"))
    assert "client_secret" not in endpoint.fields


async def test_tokens_and_what_they_are_obtained_with_are_scrubbed(get, vault):
    """N6, T4"""
    await get(changed(REFRESH, client_secret="env:SECRET"))
    text = scrub_text(vault.needles, f"access-token-1 refresh-token-0 {SECRET}")
    assert text == "[secret github.oauth.token] [secret github.oauth.refresh] [secret github.oauth.client]"


@pytest.mark.parametrize(
    ("expires_in", "holds", "renewed"),
    [(3600, 2879, 2881), ("3600", 2879, 2881), (None, 2879, 2881), ("soon", 2879, 2881), (120, 59, 61), (20, 9, 11)],
)
async def test_a_token_is_renewed_before_it_expires(get, endpoint, expires_in, holds, renewed):
    """At four fifths of its life, or a minute before its end where that is sooner, but not in its first half."""
    endpoint.more["expires_in"] = expires_in
    await get()
    pass_time(holds)
    assert await get() == "access-token-1"
    pass_time(renewed - holds)
    assert await get() == "access-token-2"


@pytest.mark.parametrize("expires_in", [0, -5, 1e300, float("nan")])
async def test_a_life_without_sense_does_not_make_it_ask_for_each_request(get, endpoint, expires_in):
    endpoint.more["expires_in"] = expires_in
    assert [await get(), await get()] == ["access-token-1"] * 2
    pass_time(31 * 86_400)
    assert await get() == "access-token-2"


async def test_those_who_need_a_token_at_the_same_time_share_one(get, endpoint):
    got = []

    async def ask():
        got.append(await get())

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert got == ["access-token-1"] * 5
    assert len(endpoint.asked) == 1


async def test_who_comes_during_a_renewal_gets_the_token_that_still_holds(get, endpoint):
    await get()
    pass_time(3000)
    endpoint.open = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get)
        while len(endpoint.asked) < 2:
            await anyio.lowlevel.checkpoint()
        assert await get() == "access-token-1"
        endpoint.open.set()
    assert await get() == "access-token-2"


async def test_a_renewal_that_fails_leaves_the_token_that_still_holds(get, endpoint, caplog):
    await get()
    pass_time(3000)
    endpoint.refusal = 503, ""
    with caplog.at_level(logging.WARNING):
        assert [await get() for _ in range(5)] == ["access-token-1"] * 5
    assert len(endpoint.asked) == 2
    assert "answers 503" in caplog.text
    pass_time(11)
    endpoint.refusal = None
    assert await get() == "access-token-3"


async def test_an_endpoint_that_refuses_is_asked_once_in_ten_seconds(get, endpoint):
    """A program that asks again and again does not get the owner's account locked."""
    endpoint.refusal = 401, '{"error": "invalid_client"}'
    for _ in range(5):
        with pytest.raises(UpstreamError, match="invalid_client"):
            await get()
    assert len(endpoint.asked) == 1
    pass_time(11)
    endpoint.refusal = None
    assert await get() == "access-token-2"


async def test_a_refresh_token_that_comes_with_no_token_of_use_is_not_lost(get, endpoint):
    endpoint.more |= {"token_type": "mac", "refresh_token": "refresh-token-1"}
    with pytest.raises(UpstreamError, match="gives no bearer token"):
        await get(REFRESH)
    pass_time(11)
    endpoint.more["token_type"] = "bearer"
    await get(REFRESH)
    assert endpoint.fields["refresh_token"] == ["refresh-token-1"]


@pytest.mark.parametrize(
    ("status", "content", "said"),
    [
        (400, {"error": "invalid_grant", "error_description": SECRET}, "answers 400 invalid_grant"),
        (200, {"error": "bad_verification_code"}, "answers 200 bad_verification_code"),
        (400, {"error": SECRET}, "answers 400\n"),
        (302, {}, "answers 302\n"),
        (500, None, "answers 500\n"),
        (200, None, "gives no bearer token"),
        (200, [], "gives no bearer token"),
        (200, {"access_token": "", "token_type": "bearer"}, "gives no bearer token"),
        (200, {"access_token": "access\r\nX-Admin: 1"}, "gives no bearer token"),
        (200, {"access_token": "access-token", "token_type": "mac"}, "gives no bearer token"),
        (200, {"access_token": "short"}, "can't be kept out of answers"),
    ],
)
async def test_an_answer_without_a_token_is_an_error_that_names_the_api_and_repeats_nothing(
    get, endpoint, status, content, said
):
    """T4: an answer may quote what was sent."""
    endpoint.refusal = status, SECRET if content is None else json.dumps(content)
    with pytest.raises(UpstreamError) as caught:
        await get()
    assert caught.value.code == "oauth_failed"
    assert "github" in str(caught.value)
    assert said in str(caught.value)
    assert SECRET not in str(caught.value)


async def test_an_endpoint_that_does_not_answer_is_given_up(get, endpoint):
    endpoint.open = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def ask():
            with pytest.raises(UpstreamError, match="does not answer in time"):
                await get()

        tasks.start_soon(ask)
        while not endpoint.asked:
            await anyio.lowlevel.checkpoint()
        pass_time(11)


async def test_who_goes_away_during_a_renewal_loses_no_token(get, endpoint, tmp_path):
    """A program that breaks off could otherwise lose the owner's refresh token, which the server has exchanged."""
    endpoint.open, endpoint.more["refresh_token"] = anyio.Event(), "refresh-token-1"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get, REFRESH)
        while not endpoint.asked:
            await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
        endpoint.open.set()
    assert await get(REFRESH) == "access-token-1"
    pass_time(3000)
    await get(REFRESH)
    assert endpoint.fields["refresh_token"] == ["refresh-token-1"]


async def test_a_token_that_an_upstream_refuses_is_obtained_again(get, tokens, endpoint):
    await get()
    pass_time(60)
    tokens.invalidate("github.oauth")
    assert await get() == "access-token-2"


async def test_a_program_that_is_refused_all_the_time_obtains_no_token_each_time(get, tokens, endpoint):
    for _ in range(5):
        assert await get() == "access-token-1"
        tokens.invalidate("github.oauth")


async def test_a_token_that_was_refused_is_not_used_when_there_is_no_other(get, tokens, endpoint):
    await get()
    pass_time(60)
    tokens.invalidate("github.oauth")
    endpoint.refusal = 400, "{}"
    for _ in range(2):
        with pytest.raises(UpstreamError):
            await get()


async def test_a_refresh_token_that_was_exchanged_is_used_from_then_on(get, endpoint, variables, vault):
    """Kept in memory, until the owner puts another where it came from."""
    for number in (1, 2):
        endpoint.more["refresh_token"] = f"refresh-token-{number}"
        await get(REFRESH)
        assert endpoint.fields["refresh_token"] == [f"refresh-token-{number - 1}"]
        pass_time(3000)
    assert scrub_text(vault.needles, "refresh-token-2").startswith("[secret github.oauth.refresh")
    del endpoint.more["refresh_token"]
    await get(REFRESH)
    assert endpoint.fields["refresh_token"] == ["refresh-token-2"]
    pass_time(3000)
    variables["REFRESH"] = "refresh-token-of-the-owner"
    await get(REFRESH)
    assert endpoint.fields["refresh_token"] == ["refresh-token-of-the-owner"]


async def test_a_refresh_token_from_a_file_is_written_back(get, endpoint, tmp_path):
    """A restart goes on with it."""
    file = tmp_path / "refresh"
    file.write_text("refresh-token-0\n")
    file.chmod(0o600)
    grant = changed(REFRESH, refresh_token=f"file:{file}")
    endpoint.more["refresh_token"] = "refresh-token-1"
    await get(grant)
    assert file.read_text() == "refresh-token-1\n"
    pass_time(3000)
    await get(grant)
    assert endpoint.fields["refresh_token"] == ["refresh-token-1"]


async def test_a_refresh_token_is_not_exchanged_where_there_is_no_room_for_the_next_one(get, endpoint, tmp_path):
    """N5: the server makes the former one void, so a restart would need a new login."""
    file = tmp_path / "refresh"
    file.write_text("refresh-token-0\n")
    file.chmod(0o600)
    grant = changed(REFRESH, refresh_token=f"file:{file}")
    endpoint.more["refresh_token"] = "refresh-token-1"
    assert await get(grant) == "access-token-1"
    pass_time(3000)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4, before[1]))  # the kernel refuses more, as a full disk does
    try:
        assert await get(grant) == "access-token-1"  # while it is valid
        pass_time(700)
        with pytest.raises(ConfigError, match="can't be written anew"):
            await get(grant)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert len(endpoint.asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["refresh"]
    pass_time(3000)
    endpoint.more["refresh_token"] = "refresh-token-2"
    assert await get(grant) == "access-token-2"
    assert file.read_text() == "refresh-token-2\n"


async def test_a_refresh_token_that_can_not_be_written_back_is_used_all_the_same(get, endpoint, tmp_path, caplog):
    directory = tmp_path / "gone"
    directory.mkdir()
    file = directory / "refresh"
    file.write_text("refresh-token-0\n")
    file.chmod(0o600)
    grant = changed(REFRESH, refresh_token=f"file:{file}")
    endpoint.more["refresh_token"] = "refresh-token-1"
    endpoint.open = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get, grant)
        while not endpoint.asked:
            await anyio.sleep(0.001)
        directory.rename(tmp_path / "moved")
        endpoint.open.set()
    assert "is lost when this server ends" in caplog.text
    assert "refresh-token-1" not in caplog.text
    (tmp_path / "moved").rename(directory)
    pass_time(3000)
    await get(grant)
    assert endpoint.fields["refresh_token"] == ["refresh-token-1"]


async def test_a_changed_configuration_obtains_a_token_of_its_own(get, endpoint):
    """Hot reload."""
    assert await get() == "access-token-1"
    assert await get(changed(CLIENT, scopes=("more",))) == "access-token-2"
    assert await get(CLIENT, name="gitlab.oauth") == "access-token-3"


async def test_a_changed_api_renews_its_token_on_its_present_terms_alone(tokens, endpoint):
    """P18, P20: else the owner's secret goes on going to an address, or under an authority, that they took away."""
    present = API.model_copy(
        update={"addresses": (ip_address("127.0.0.8"),), "networks": (), "ca_file": "/etc/new.pem"}
    )
    await tokens.get("github.oauth", API, CLIENT)
    assert await tokens.get("github.oauth", present, CLIENT) == "access-token-2"
    pass_time(3601)
    await tokens.get("github.oauth", present, CLIENT)
    for route, _, _ in endpoint.asked[1:]:
        assert (route.networks, route.addresses, route.ca_file) == ((), present.addresses, "/etc/new.pem")
    assert len(endpoint.asked) == 3


async def test_an_old_and_a_new_configuration_leave_each_other_their_tokens(get, endpoint):
    """N5, hot reload: programs of the old one go on while the new one begins, and a refresh token holds once."""
    both = REFRESH, changed(REFRESH, scopes=("more",))
    for number in range(6):
        endpoint.more["refresh_token"] = f"refresh-token-{len(endpoint.asked) + 1}"
        assert await get(both[number % 2]) == f"access-token-{number % 2 + 1}"
    assert [fields["refresh_token"] for _, _, fields in endpoint.asked] == [["refresh-token-0"], ["refresh-token-1"]]


async def test_a_refresh_token_is_never_sent_twice_at_the_same_time(get, endpoint):
    """N5: a server may take the second for a thief's."""
    endpoint.open, endpoint.more["refresh_token"] = anyio.Event(), "refresh-token-1"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(get, REFRESH)
        tasks.start_soon(get, changed(REFRESH, scopes=("more",)))
        await anyio.wait_all_tasks_blocked()
        assert len(endpoint.asked) == 1
        endpoint.open.set()
    assert endpoint.fields["refresh_token"] == ["refresh-token-1"]


async def test_what_one_server_put_in_place_of_a_refresh_token_is_not_sent_to_another(get, endpoint):
    """T4: the source may be one; what came of it is the server's that gave it."""
    endpoint.more["refresh_token"] = "refresh-token-1"
    await get(REFRESH)
    await get(changed(REFRESH, token_url="https://other.example.test/token"))
    assert endpoint.fields["refresh_token"] == ["refresh-token-0"]


async def test_grants_of_former_configurations_are_forgotten_with_their_tokens(get, tokens):
    """N5: reloads fill nothing."""
    for number in range(5):
        await get(changed(CLIENT, scopes=(f"scope-{number}",)))
        pass_time(3700)
    assert len(tokens._tokens) == 1


async def test_a_secret_that_is_missing_is_named(get, endpoint, variables):
    del variables["SECRET"]
    with pytest.raises(ConfigError, match="env:SECRET"):
        await get()
    assert not endpoint.asked


@pytest.mark.parametrize("url", ["https://127.1/token", "https://login.test:99999/token", "https:///token"])
async def test_an_endpoint_that_is_no_server_is_the_operators_to_repair(get, url):
    with pytest.raises(ConfigError, match="token_url of github"):
        await get(changed(CLIENT, token_url=url))
