"""Where a browser comes back to: one answer counts, and nobody else's. H1."""

import contextlib

import anyio
import pytest

from gloveport.errors import UpstreamError
from gloveport.hub.credentials.loopback import callback

pytestmark = pytest.mark.anyio

STATE = "the-state-of-this-login"


@pytest.fixture
async def waiting():
    async with callback() as made:
        made.state = STATE
        yield made


async def said(waiting, line, *, rest=b"host: x\r\n\r\n"):
    """What is answered to a request."""
    port = int(waiting.uri.rpartition(":")[2].partition("/")[0])
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(line + b"\r\n" + rest)
        answer = b""
        with anyio.fail_after(5):
            while True:
                try:
                    answer += await stream.receive()
                except anyio.EndOfStream:
                    return answer


async def test_the_answer_is_what_carries_the_state(waiting):
    """H1: code and issuer are passed on."""
    page = await said(waiting, f"GET /callback?code=c-1&state={STATE}&iss=https%3A%2F%2Fauth.test HTTP/1.1".encode())
    assert page.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"default-src 'none'" in page
    assert b"no-referrer" in page
    assert b"c-1" not in page
    answer = await waiting.answer()
    assert (answer.code, answer.state, answer.iss) == ("c-1", STATE, "https://auth.test")


@pytest.mark.parametrize(
    "line",
    [
        "GET /callback?code=c&state=wrong HTTP/1.1",
        "GET /callback?code=c&state= HTTP/1.1",
        "GET /callback?code=c HTTP/1.1",
        f"GET /callback?code=c&state={STATE}&state={STATE} HTTP/1.1",
        f"GET /callback?code=c&code=d&state={STATE} HTTP/1.1",
        f"GET /other?code=c&state={STATE} HTTP/1.1",
        f"GET //callback?code=c&state={STATE} HTTP/1.1",
        f"POST /callback?code=c&state={STATE} HTTP/1.1",
        f"GET /callback?code=c&state={STATE}",
        f"GET /callback?code=c&state={STATE} HTTP/3",
        "GET /callback?" + "&".join(f"a{n}=1" for n in range(100)) + f"&state={STATE} HTTP/1.1",
        "GET /callback?code=c&state=\xff HTTP/1.1",
        "",
    ],
)
async def test_what_is_not_the_answer_is_turned_away_and_the_login_waits_on(waiting, line):
    """H1: a web page, or another user, that knocks meanwhile ends no login, and gets into none."""
    assert (await said(waiting, line.encode("latin-1"))).startswith(b"HTTP/1.1 400 ")
    await said(waiting, f"GET /callback?code=right&state={STATE} HTTP/1.1".encode())
    assert (await waiting.answer()).code == "right"


async def test_before_a_login_waits_nothing_is_an_answer(waiting):
    waiting.state = ""
    assert b" 400 " in await said(waiting, b"GET /callback?code=c&state= HTTP/1.1")


async def test_only_the_first_answer_counts(waiting):
    for code in ("first", "second"):
        await said(waiting, f"GET /callback?code={code}&state={STATE} HTTP/1.1".encode())
    assert (await waiting.answer()).code == "first"


@pytest.mark.parametrize(
    ("error", "shown"), [("access_denied", "access_denied"), ("%1b%5b2J", "no reason"), ("e" * 100, "no reason")]
)
async def test_a_refusal_is_told_in_a_word(waiting, error, shown):
    await said(waiting, f"GET /callback?error={error}&error_description=%1b&state={STATE} HTTP/1.1".encode())
    with pytest.raises(UpstreamError, match=shown) as caught:
        await waiting.answer()
    assert caught.value.code == "login_refused"
    assert "\x1b" not in str(caught.value)


async def test_who_sends_without_end_is_turned_away(waiting):
    assert b" 400 " in await said(waiting, b"GET /callback HTTP/1.1", rest=b"x" * 16_384)


async def test_a_connection_that_says_nothing_does_not_keep_the_port_open():
    """H1: browsers open some ahead of need."""
    with anyio.fail_after(5):
        async with callback() as waiting:
            port = int(waiting.uri.rpartition(":")[2].partition("/")[0])
            idle = await anyio.connect_tcp("127.0.0.1", port)
        async with idle:
            with pytest.raises(anyio.EndOfStream):
                await idle.receive()
        with pytest.raises(OSError, match="connect"):
            await anyio.connect_tcp("127.0.0.1", port)


async def test_what_goes_wrong_inside_is_raised_as_it_is():
    with pytest.raises(ZeroDivisionError):
        async with callback():
            raise ZeroDivisionError


async def test_who_opens_many_connections_keeps_no_browser_away(waiting):
    """Each user of this host can; with a descriptor for each of them the login would end."""
    port = int(waiting.uri.rpartition(":")[2].partition("/")[0])
    async with contextlib.AsyncExitStack() as stack:
        opened = [await stack.enter_async_context(await anyio.connect_tcp("127.0.0.1", port)) for _ in range(80)]
        assert (await said(waiting, f"GET /callback?code=c&state={STATE} HTTP/1.1".encode())).startswith(
            b"HTTP/1.1 200"
        )
        with anyio.fail_after(5), pytest.raises(anyio.EndOfStream):  # long before its deadline
            await opened[0].receive()
    assert (await waiting.answer()).code == "c"
