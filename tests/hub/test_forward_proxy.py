"""What the server itself asks over HTTPS goes through the owner's proxy: servers by URL, logins, tokens, the model."""

import ssl

import pytest
from tests.far_side import authority as far_authority
from tests.far_side.connect_proxy import connect_proxy
from tests.far_side.listening import HOST
from tests.far_side.mcp_http import raw, usual
from tests.far_side.web import web
from tests.hub.upstreams import using, words
from tests.hub.world import ALLOW, opened

from gloveport.bootstrap.app import adopt
from gloveport.config import Config
from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.hub.credentials.login_desk import LoginDesk
from gloveport.hub.credentials.login_storage import Logins
from gloveport.hub.credentials.oauth_endpoint import OAuthEndpoint
from gloveport.model.hub import OAuthLogin, Sampling, Server
from gloveport.model.proxy import Proxy
from gloveport.model.reading import read_value
from gloveport.sampling.model_question import Message, ModelQuestion
from gloveport.sampling.provider import Provider
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

PASSWORD = "proxy-passw0rd-4711"
NAME = "far.test"
URL = f"https://{NAME}/echo"


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return far_authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def tls(authority):
    return ssl.create_default_context(cafile=authority.ca_file)


async def fault(awaitable):
    """How it fails; empty where it does not."""
    try:
        await awaitable
    except UpstreamError as error:
        return str(error)
    return ""


@pytest.fixture
def asked(tls, tmp_path):
    """Have each of our clients ask something of the far side, through a proxy: how each fares."""

    async def server(proxy):
        async with using(Server(url=URL, transport="http", startup_seconds=5), verify=tls, proxy=proxy) as upstream:
            return await fault(upstream.tools())

    async def token(proxy):
        return await fault(OAuthEndpoint(owner="far", url=URL, tls=tls, proxy=proxy).post({}, b"grant_type=refresh"))

    async def login(proxy):
        logins = Logins(directory=tmp_path / "oauth", environ={})
        desk = LoginDesk(logins=logins, sources=Sources({}), tls=tls, proxy=proxy, show=print)
        return await fault(desk.login("far", Server(url=URL, transport="http", auth=(OAuthLogin(kind="oauth"),))))

    async def model(proxy):
        settings = Sampling(provider="openai", url=f"https://{NAME}/v1", timeout_seconds=5)
        question = ModelQuestion(messages=(Message(role="user", content="why?"),), max_tokens=5, model="small")
        return await fault(Provider(settings=settings, tls=tls, proxy=proxy).ask("", question))

    async def ask(proxy):
        return {client.__name__: await client(through(proxy)) for client in (server, token, login, model)}

    return ask


def through(proxy, secret="env:PROXY", **settings):
    told = Proxy(url=f"http://{HOST}:{proxy.place.port}", username="me", secret=secret, **settings)
    return ForwardProxy(settings=told, vault=Vault(Sources({"PROXY": PASSWORD})))


async def test_each_of_our_clients_goes_through_the_proxy_and_speaks_to_who_has_proved_its_name(authority, asked):
    """P50: no name is looked up here, and no request is seen by who is somebody else, wherever the proxy leads."""
    async with (
        web(authority.server(NAME, protocols=("http/1.1",))) as far,
        connect_proxy(far.place.port, pair=f"me:{PASSWORD}") as proxy,
    ):
        told = await asked(proxy)
        assert {request.split()[1] for request in far.app.requests} >= {"/echo", "/v1/chat/completions"}
        assert len(far.app.requests) >= 4, told
        assert {head.partition("\r\n")[0] for head in proxy.heads} == {f"CONNECT {NAME}:443 HTTP/1.1"}
        assert not any(HOST in text or PASSWORD in text for text in told.values())
    async with (
        web(authority.server("inside.test", protocols=("http/1.1",))) as other,
        connect_proxy(other.place.port, pair=f"me:{PASSWORD}") as proxy,
    ):
        assert all((await asked(proxy)).values())
        assert len(proxy.heads) >= 4
        assert other.app.requests == []


async def test_what_the_proxy_says_is_told_by_its_status_alone(asked):
    """P50."""
    async with connect_proxy(1, pair="me:another") as proxy:
        for text in (await asked(proxy)).values():
            assert f"The owner's proxy does not connect to {NAME}:443: it asks for a password" in text
        for answer, status in (
            (b"HTTP/1.1 403 secret words\r\n\r\n", "status 403"),
            (b"SSH-2.0-OpenSSH\r\n\r\n", ""),
            (b"HTTP/1.1 200 OK\r\nX: " + b"a" * (200 << 10), ""),
            (b"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", ""),
        ):
            proxy.answer = answer
            for client, text in (await asked(proxy)).items():
                assert text, f"{client} has believed {answer[:30]!r}"
                assert status in text
                assert "secret words" not in text


async def test_this_host_addresses_and_what_is_named_are_reached_without_it():
    """P50: as it was before there was a proxy; and what is not encrypted never goes there."""
    proxy = ForwardProxy(
        settings=Proxy(url="http://proxy.test:3128", direct=("git.corp.test", "*.inside.test")),
        vault=Vault(Sources({})),
    )
    for host in ("127.0.0.1", "::1", "10.0.0.1", "localhost", "a.localhost", "git.corp.test", "a.b.inside.test"):
        assert not proxy.serves("https", host), host
    for host in ("far.test", "corp.test", "a.git.corp.test", "inside.test", "notinside.test", "localhost.test"):
        assert proxy.serves("https", host), host
        assert not proxy.serves("http", host), host
    proxy.settings = Proxy()
    assert not proxy.serves("https", "far.test")


async def test_a_program_calls_a_tool_behind_the_proxy_and_a_new_proxy_counts_without_a_restart(
    authority, tls, tmp_path
):
    """P50, N2."""

    async def behave(asked):
        await asked.send(usual(asked))

    async with (
        raw(behave, authority.server(NAME, protocols=("http/1.1",))) as far,
        connect_proxy(far.place.port, pair=f"me:{PASSWORD}") as proxy,
        connect_proxy(far.place.port) as another,
    ):
        url = f"http://{HOST}:{proxy.place.port}"
        servers = {"far": {"url": f"https://{NAME}/mcp", "ca_file": authority.ca_file, "rules": ALLOW}}
        settings = {"url": url, "username": "me", "secret": "env:PROXY"}
        async with opened(tmp_path / "state", servers, {"PROXY": PASSWORD}, proxy=settings) as world:
            assert await world.value("python", "tools.far.plain()") == "right"
            assert proxy.heads
            changed = read_value(Config, {"proxy": {"url": f"http://{HOST}:{another.place.port}"}})
            adopt(world.engine, changed)
            kept = world.engine.gateway.proxy
            async with using(Server(url=f"https://{NAME}/mcp", transport="http"), verify=tls, proxy=kept) as upstream:
                assert words(await upstream.call("plain", {})) == "right"
            assert another.heads
            assert "authorization" not in another.heads[0].lower()
