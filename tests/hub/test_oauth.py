"""Logins to other MCP servers, and the tokens that come of them: end to end, and against servers that lie. H1."""

import json
import logging
import os
import ssl
import time
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from tests.far_side.mcp_oauth import browse, protected

from gloveport.errors import ConfigError, UpstreamError
from gloveport.hub.auth import auth_of
from gloveport.hub.login import LoginDesk
from gloveport.hub.logins import Logins
from gloveport.model.hub import OAuthLogin, Server
from gloveport.secrets.scrub import scrub_text
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault

pytestmark = pytest.mark.anyio

TLS = ssl.create_default_context()


@pytest.fixture
async def far():
    async with protected() as serving:
        yield serving


@pytest.fixture
def logins(tmp_path):
    return Logins(directory=tmp_path / "state" / "oauth", environ={})


@pytest.fixture
def vault():
    return Vault(Sources({"CLIENT": "the-secret-of-the-client"}))


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

    def make(do=browse, seconds=10.0, **other):
        desk = LoginDesk(
            logins=logins,
            sources=Sources({"CLIENT": "the-secret-of-the-client"}),
            tls=TLS,
            show=lambda url: (desk_urls.append(url), tasks.start_soon(do, url)),
            seconds=seconds,
        )
        return desk

    desk_urls = make.urls = []
    return make


async def whoami(name, server, vault, logins):
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
    assert (await failure(whoami("far", server, vault, logins))).code == "login_required"
    login = await desk_of().login("far", server)
    assert login.issuer == far.issuer
    assert await whoami("far", server, vault, logins) == "the owner"
    assert len(desk_of.urls) == 1


async def test_without_a_login_the_way_to_one_is_told(far, server, vault, logins):
    error = await failure(whoami("far", server, vault, logins))
    assert "gloveport servers login far" in error.hint
    assert not far.server.asked
    assert not far.authority.asked
