"""What tests of the way out share: an authority of their own, servers on loopback addresses and ways to them."""

import functools
import itertools
import sysconfig
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from ipaddress import ip_address

import anyio
import pytest
from tests.egress import world
from tests.egress.world import World
from tests.far_side import authority as far_authority
from tests.far_side.authority import Authority
from tests.far_side.listening import Place
from tests.far_side.web import web

from gloveport.egress.http.heads import Headers, Outbound
from gloveport.egress.transport.route import Route

NAME = "api.test"


@pytest.fixture(scope="session")
def authority(tmp_path_factory) -> Authority:
    """A private authority."""
    return far_authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def route_to(authority: Authority) -> Callable[..., Route]:
    """Make a route to a server as an operator names one: its address, and its authority."""

    def make(place: Place, **other) -> Route:
        told = {
            "api": "far",
            "scheme": "http",
            "host": NAME,
            "port": place.port,
            "addresses": (ip_address(place.host),),
        }
        return Route(**told | ({"ca_file": authority.ca_file} if other.get("scheme") == "https" else {}) | other)

    return make


@pytest.fixture
def out() -> Callable[..., Outbound]:
    """Make the head of a request."""

    def make(target: str = "/", method: str = "GET", headers: Headers = ()) -> Outbound:
        return Outbound(method=method, target=target, headers=headers)

    return make


@pytest.fixture
def soon():
    """Wait until a condition holds, without standing in the way of what makes it hold."""

    async def wait(condition: Callable[[], bool]) -> None:
        with anyio.fail_after(30):
            while not condition():
                await anyio.sleep(0.002)

    return wait


@pytest.fixture(scope="session")
def world_of(tmp_path_factory) -> Callable[..., AbstractAsyncContextManager[World]]:
    """Serve a configuration: ``world_of({"NAME": "value of an environment variable"}, api=..., egress=..., ...)``."""
    parent, numbers = tmp_path_factory.mktemp("worlds"), itertools.count()

    def serve(environ=None, **config):
        return world.opened(parent / str(next(numbers)), environ or {}, **config)

    return serve


@pytest.fixture(scope="module")
async def far(authority: Authority):
    """``alpha.test``: HTTP/1.1 over TLS, the far side's ``App``."""
    async with web(authority.server("alpha.test")) as server:
        yield server


@pytest.fixture(scope="session")
def api_at(authority: Authority) -> Callable[..., dict]:
    """Make the table of an API for a port: ``world.api_at`` with this authority."""
    return functools.partial(world.api_at, ca_file=authority.ca_file)


@pytest.fixture(scope="session")
def clients() -> dict:
    """A ``[policy]`` under which programs see the HTTP clients of this environment, below ``/opt/clients``."""
    return {"mounts": [{"source": sysconfig.get_path("purelib"), "target": "/opt/clients"}]}
