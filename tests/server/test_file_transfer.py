"""E3, E7: files come and go over HTTP, by links and tickets that nobody can guess and no page of the web can use."""

import hashlib
import re

import httpx
import pytest
from mcp import Client
from tests.server.workspace.served import opened

from gloveport.server.transports import file_transfer

pytestmark = pytest.mark.anyio

LINK = re.compile(r"http://127\.0\.0\.1:\d+/artifacts/[\w-]{43}")


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("transfer")) as one:
        yield one


@pytest.fixture(scope="module")
async def url(served):
    async with served.over_http() as url:
        yield url


@pytest.fixture(scope="module")
async def web(url):
    async with httpx.AsyncClient(base_url=url.removesuffix("/mcp"), trust_env=False) as web:
        yield web


@pytest.fixture(scope="module")
async def client(url):
    async with Client(url, mode="legacy") as client:
        yield client


async def run(client, code, **more):
    return await client.call_tool("execute_code", {"language": "python", "code": code, **more})


async def link_of(client, code):
    """The link to what the program left."""
    uri = (await run(client, code)).structured_content["artifacts"]["files"][0]["uri"]
    answer = await client.call_tool("read_artifact", {"uri": uri})
    return LINK.search(answer.content[0].text)[0]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("table.bin", "bytes(range(256)) * 4000"),
        ("page.html", "b'<script>alert(1)</script>'"),
        ("ü ; x.txt", "b'text'"),
    ],
)
async def test_what_a_program_left_is_downloaded_whole_and_shown_by_no_browser(client, web, name, data):
    link = await link_of(client, f"open({'/out/' + name!r}, 'wb').write({data})")
    answer = await web.get(link)
    assert answer.content == eval(data)
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert answer.headers["content-security-policy"].startswith("sandbox")
    assert (answer.headers["x-content-type-options"], answer.headers["cache-control"]) == ("nosniff", "no-store")


async def test_a_link_that_is_too_old_or_guessed_leads_nowhere(client, web, monkeypatch):
    link = await link_of(client, "open('/out/a.txt', 'w').write('a')")
    for wrong in (
        link[:-1] + ("A" if link[-1] != "A" else "B"),
        link.replace("/artifacts/", "/artifacts//"),
    ):
        assert (await web.get(wrong)).status_code == 404
    assert (await web.get(link)).status_code == 200
    monkeypatch.setattr(file_transfer, "LINK_SECONDS", 0)
    assert (await web.get(await link_of(client, "open('/out/a.txt', 'w').write('a')"))).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        *({"Host": host} for host in ("evil.example", "a@127.0.0.1", "[::1")),
        *(
            {"Origin": origin}
            for origin in (
                *("https://evil.example", "null", "http://[::1", "http://localhost@evil.example"),
                "http://127.0.0.1:5173",  # a page that an agent's server shows
            )
        ),
    ],
)
async def test_no_page_of_the_web_downloads_or_uploads(client, web, headers):
    link = await link_of(client, "open('/out/a.txt', 'w').write('a')")
    assert (await web.get(link, headers=headers)).status_code == 404
    assert (await web.put("/uploads", content=b"x", headers=headers)).status_code == 403


async def test_a_file_that_is_uploaded_is_beside_the_program_that_gets_its_ticket(client, web):
    data = bytes(range(256)) * 100
    told = (await web.put("/uploads", content=data)).json()
    assert told["bytes"] == len(data)
    code = "import hashlib; hashlib.sha256(open('data.bin', 'rb').read()).hexdigest()"
    answer = await run(client, code, files={"data.bin": told["ticket"]})
    assert answer.structured_content["value"] == hashlib.sha256(data).hexdigest()


async def test_a_ticket_is_good_once_and_not_for_long(client, web, monkeypatch):
    ticket = (await web.put("/uploads", content=b"x")).json()["ticket"]
    assert not (await run(client, "1", files={"a": ticket})).is_error
    again = await run(client, "1", files={"a": ticket})
    assert again.is_error
    assert "that ticket was used, or is too old" in again.content[0].text
    assert (await run(client, "1", files={"a": "upload:" + "A" * 43})).is_error
    assert not (await run(client, "open('a').read()", files={"a": "upload: is a word"})).is_error
    monkeypatch.setattr(file_transfer, "_TICKET_SECONDS", 0)
    old = (await web.put("/uploads", content=b"x")).json()["ticket"]
    assert (await run(client, "1", files={"a": old})).is_error


async def test_what_is_too_large_or_too_much_is_refused_and_keeps_nothing(served):
    most = int(served.engine.policy.limits.input_bytes)
    async with served.over_http() as url, httpx.AsyncClient(base_url=url.removesuffix("/mcp"), trust_env=False) as web:
        assert (await web.put("/uploads", content=bytes(most + 1))).status_code == 413
        for _ in range(4):
            assert (await web.put("/uploads", content=bytes(most))).status_code == 200
        full = await web.put("/uploads", content=b"x")
    assert (full.status_code, full.headers["retry-after"]) == (503, "60")


async def test_a_client_over_standard_streams_is_told_of_no_link(served):
    uri = (await run(served.client, "open('/out/a.txt', 'w').write('a')")).structured_content["artifacts"]["files"][0][
        "uri"
    ]
    answer = await served.client.call_tool("read_artifact", {"uri": uri})
    assert answer.content[0].text == "a"
