"""A client of our server in the same process."""

from pathlib import Path

import pytest
from mcp import Client
from tests import shared_host
from tests.server.eras import MODERN
from tests.server.shop import opened

from gloveport.approvals import desk
from gloveport.audit import read
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.model.hub import Sampling
from gloveport.server.protocol import make_server


@pytest.fixture
def era() -> str:
    """See ``eras.both_eras``."""
    return MODERN


@pytest.fixture(scope="module")
def environ(tmp_path_factory):
    """The environment of a Gloveport whose state is that of all tests of a file."""
    return {"GLOVEPORT_STATE": str(tmp_path_factory.mktemp("server") / "state")}


@pytest.fixture(scope="module")
async def engine(environ):
    """One for all tests of a file, who leave it as it was."""
    async with shared_host.assemble(Config(pool=PoolSettings(forked=0, booted=0)), environ) as assembled:
        yield assembled


@pytest.fixture
def records(environ, engine):
    """What has been written into the audit log since the test began."""
    directory = Path(environ["GLOVEPORT_STATE"]) / "audit"
    before = len([*read.records(directory)])
    return lambda: [*read.records(directory)][before:]


@pytest.fixture(scope="module")
def server(engine, environ):
    """Its server, with the default configuration."""
    return make_server(engine, Config(), environ, "stdio")


@pytest.fixture
def connect(engine, environ, server, era):
    """``async with connect() as client``; by default to ``server``."""

    def make(config=None, **options):
        return Client(make_server(engine, config, environ, "stdio") if config else server, mode=era, **options)

    return make


@pytest.fixture
async def client(connect):
    async with connect() as connected:
        yield connected


@pytest.fixture
def execute(client):
    """Call ``execute_code``."""

    async def call(language, code, **rest):
        progress = rest.pop("progress", None)
        arguments = {"language": language, "code": code, **rest}
        # On a wire the SDK makes the token itself; within a process it makes none.
        meta = {"progressToken": 1} if progress else None
        return await client.call_tool("execute_code", arguments, progress_callback=progress, meta=meta)

    return call


@pytest.fixture(scope="module")
async def opened_shop(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("shop"), sampling=Sampling(enabled=True)) as shop:
        yield shop


@pytest.fixture
async def shop(opened_shop, monkeypatch):
    """The shop, whose desk looks often; in the end nothing may run or wait."""
    monkeypatch.setattr(desk, "_POLL_SECONDS", 0.02)
    yield opened_shop
    await opened_shop.idle()
    assert [one for one in opened_shop.store.entries() if one.status == "pending"] == []
