"""The HTTP proxy that this host has to use: what goes through it, what is believed of it, and what is told of it."""

import contextlib
import json
import tomllib
from ipaddress import ip_address, ip_network

import anyio
import pytest
from tests.egress.world import BEARER
from tests.far_side.connect_proxy import connect_proxy
from tests.far_side.listening import HOST
from tests.far_side.web import web

from gloveport.config.checks.cross_checks import rule_faults
from gloveport.egress.http.connection_pool import ConnectionPool
from gloveport.egress.http.upstream_proxy import UpstreamProxy
from gloveport.egress.transport.route import Route
from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.model.proxy import Proxy
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

PASSWORD = "proxy-passw0rd-4711"


@contextlib.asynccontextmanager
async def pool(proxy, **settings):
    """Connections that go out through a proxy. No name has an address here."""

    async def resolve(host, port):
        assert host == HOST, f"{host} is looked up here"
        return [ip_address(HOST)]

    told = Proxy(url=f"http://{HOST}:{proxy.place.port}", **settings)
    owner = ForwardProxy(settings=told, vault=Vault(Sources({"PROXY": PASSWORD})))
    upstream = UpstreamProxy(owner=owner)
    async with anyio.create_task_group() as tasks:
        yield ConnectionPool(tasks, resolve, proxy=upstream)
        tasks.cancel_scope.cancel()


def route(authority, **more):
    return Route(
        **{"api": "far", "scheme": "https", "host": "api.test", "port": 443, "ca_file": authority.ca_file, **more}
    )


async def fetch(upstreams, to, out):
    async with upstreams.exchange(to, out("/echo"), None) as answer:
        return json.loads(b"".join([piece async for piece in answer]))


async def test_https_goes_through_the_proxy_and_the_rest_does_not(authority, out):
    """P50: what says where it lies is dialled as ever, addresses checked."""
    async with (
        web(authority.server("api.test", protocols=("http/1.1",))) as server,
        connect_proxy(server.place.port, pair=f"me:{PASSWORD}") as proxy,
        pool(proxy, username="me", secret="env:PROXY") as upstreams,
    ):
        for _ in range(2):
            echo = await fetch(upstreams, route(authority), out)
            assert not any("proxy" in name for name, _ in echo["headers"])
        [head] = proxy.heads  # the connection was kept
        assert head.startswith("CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n")
        placed = {"port": server.place.port, "addresses": (ip_address(HOST),)}
        await fetch(upstreams, route(authority, **placed), out)
        for direct in (
            {"networks": (ip_network("10.0.0.0/8"),)},
            {"scheme": "http"},
            {"host": "127.0.0.1", "api": ""},
            {"api": ""},
        ):
            with pytest.raises((UpstreamError, AssertionError), match=r"is looked up here|not public"):
                await fetch(upstreams, route(authority, **direct), out)
        assert len(proxy.heads) == 1


async def test_no_connection_through_a_former_proxy_is_used_again(authority, out):
    """P20, P50: its address was not checked."""
    async with (
        web(authority.server("api.test", protocols=("http/1.1",))) as server,
        connect_proxy(server.place.port) as former,
        connect_proxy(server.place.port) as present,
        pool(former) as upstreams,
    ):
        owner = upstreams._proxy.owner
        await fetch(upstreams, route(authority), out)
        owner.settings = Proxy(url=f"http://{HOST}:{present.place.port}")
        await fetch(upstreams, route(authority), out)
        assert (len(former.heads), len(present.heads)) == (1, 1)
        owner.settings = Proxy()
        with pytest.raises((UpstreamError, AssertionError), match="is looked up here"):
            await fetch(upstreams, route(authority), out)


async def test_who_can_not_prove_the_name_gets_nothing_wherever_the_proxy_leads(authority, out):
    """P50: a proxy, or a name, that leads to a server inside."""
    async with (
        web(authority.server("inside.test", protocols=("http/1.1",))) as server,
        connect_proxy(server.place.port) as proxy,
        pool(proxy) as upstreams,
    ):
        with pytest.raises(UpstreamError) as caught:
            await fetch(upstreams, route(authority), out)
        assert caught.value.code == "tls_failed"
        assert server.app.requests == []


async def test_what_a_proxy_may_say_is_believed_and_told_by_its_status_alone(authority, out):
    """P50."""
    large = b"HTTP/1.1 200 OK\r\nX: " + b"a" * (70 << 10)
    told = {}
    async with (
        connect_proxy(1, pair="me:another") as proxy,
        pool(proxy, username="me", secret="env:PROXY") as upstreams,
    ):
        for answer in (
            b"",
            b"HTTP/1.1 403 secret words\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nmore",
            b"HTTP/1.1 200 OK\r\n",
            b"SSH-2.0-OpenSSH\r\n\r\n",
            large,
        ):
            proxy.answer = answer
            with pytest.raises(UpstreamError) as caught:
                await fetch(upstreams, route(authority), out)
            assert caught.value.code == "upstream_unreachable"
            told[answer[:24]] = str(caught.value)
    assert "another" in told[b""]
    assert "status 403" in told[b"HTTP/1.1 403 secret words"[:24]]
    assert not any("secret" in text or HOST in text or PASSWORD in text for text in told.values())
    async with pool(proxy) as upstreams:  # nobody listens there any more
        with pytest.raises(UpstreamError, match="proxy can't be reached") as caught:
            await fetch(upstreams, route(authority), out)
        assert HOST not in str(caught.value)


async def test_a_program_reaches_what_is_granted_through_the_proxy(authority, world_of, monkeypatch):
    """P50: whose password it never sees. Variables name no proxy to Gloveport."""
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with (
        web(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        connect_proxy(server.place.port, pair=f"me:{PASSWORD}") as proxy,
    ):
        url = f"http://{HOST}:{proxy.place.port}"
        config = {
            "api": {"alpha": {"hosts": ["alpha.test"], "ca_file": authority.ca_file, "auth": [BEARER]}},
            "proxy": {"url": url, "username": "me", "secret": "env:PROXY"},
        }
        async with world_of({"PROXY": PASSWORD}, **config) as world:
            code = f"""
                import os, urllib.request
                said = urllib.request.urlopen("https://alpha.test/echo").read().decode()
                print("{PASSWORD}")
                ["alpha.bearer" in said, "{proxy.place.port}" in str(os.environ)]
            """
            result = await world.run("python", code)
            assert result.value == [True, False], result
            assert PASSWORD not in result.model_dump_json()
            assert len(proxy.heads) == 1
            assert server.app.requests == ["GET /echo"]
            assert PASSWORD.encode() not in world.written()


def test_yolo_and_a_proxy_are_refused_together():
    """P50: a program would choose names, of which nobody here knows where they lead."""
    [fault] = rule_faults(tomllib.loads("egress.yolo = true\nproxy.url = 'http://proxy.test:3128'"), own=())
    assert "only the proxy knows" in fault.problem
    assert [*rule_faults(tomllib.loads("proxy.url = 'http://proxy.test:3128'"), own=())] == []


def test_a_proxy_that_lies_nowhere_is_refused():
    """T3: when the configuration is read, not when something is to go out."""
    for url in ("http://proxy.test:0", "http://proxy.test:65536", "http://[:::]:80"):
        [fault] = rule_faults({"proxy": {"url": url}}, own=())
        assert "no port from 1 to 65535, or no address" in fault.problem, url
