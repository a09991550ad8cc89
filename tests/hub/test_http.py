"""A server over HTTP: what is sent to it, what is taken from it, and what ends the connection."""

import contextlib
import gzip
import json
import ssl

import anyio
import httpx2
import pytest
from tests.far_side import authority as far_authority
from tests.far_side.listening import listening as listening_at
from tests.far_side.mcp_http import MODERN, Asked, event, head, raw, reply, result, usual
from tests.hub.stalls import going_on
from tests.hub.upstreams import failure, give_up_a_call, listening, noting, until, using, words

from gloveport.forward_proxy.http_transport import ForwardedTransport, post_bounded
from gloveport.hub.connection.bounded_http import _Events
from gloveport.model.hub import Server

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module", params=["http", "json", "sse"])
def kind(request) -> str:
    """How a server speaks: in streams of events, in JSON, or by the older transport."""
    return request.param


@pytest.fixture(scope="module")
async def far(kind):
    """A server made with the SDK, connected; the transport is found out."""
    with listening(kind) as server:
        async with using(Server(url=server.url, call_seconds=30, concurrent_calls=100)) as upstream:
            yield upstream


async def behave(asked: Asked) -> None:
    await asked.send(usual(asked))


def server(far, **told) -> Server:
    return Server(url=far.url, **{"transport": "http", "startup_seconds": 5, "call_seconds": 5} | told)


async def test_tools_are_listed_and_called_over_each_transport(far):
    """H1, T5: transport; `auto` finds the older one too."""
    assert "add" in {tool.name for tool in await far.tools()}
    assert (await far.call("add", {"a": 1, "b": 2})).structured_content == {"result": 3}
    assert len((await far.call("picture", {})).content) == 2
    assert (await far.call("fail", {"why": "because"})).is_error


async def test_many_calls_at_once_all_come_back(far):
    """H2."""
    sums = []

    async def call(number):
        sums.append((await far.call("add", {"a": number, "b": 1})).structured_content["result"])

    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(call, number)
    assert sorted(sums) == list(range(1, 41))


async def test_who_gives_up_a_call_stops_it_at_the_server(far, kind):
    """H1: cancellation."""
    if kind == "json":
        return  # the SDK's server does not notice
    await far.tools()
    await give_up_a_call(far)


async def test_changes_are_heard_of(kind):
    """H1: list_changed; on 2026-07-28 by a subscription."""
    told = []
    with listening(kind) as server:
        async with using(Server(url=server.url), on_tools=noting(told)) as far:
            await far.tools()
            with anyio.fail_after(30):
                number = 0
                while len(told) < 2:
                    number += 1
                    await far.call("grow", {"name": f"another{number}"})
                    await anyio.sleep(0.05)
        assert "another" in {tool.name[:7] for tool in told[-1]}


async def test_a_server_that_dies_in_a_call_is_gone_and_is_not_there_for_the_next(kind):
    """H1: at once, not when the call's time is over."""
    with listening(kind) as server:
        async with using(Server(url=server.url, call_seconds=30)) as far:
            await far.tools()
            codes = []

            async def call():
                codes.append((await failure(far.call("sleep", {"seconds": 60}))).code)

            with anyio.fail_after(20):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(call)
                    await anyio.sleep(0.3)
                    server.process.kill()
            assert codes == ["server_gone"]
            await anyio.to_thread.run_sync(server.process.wait)  # while it dies, its socket takes connections
            error = await failure(far.call("add", {"a": 1, "b": 2}))
            assert error.code == "server_unavailable"
            assert "ConnectError" in str(error)


async def test_headers_and_credentials_go_with_each_request():
    """T5: headers, auth."""
    async with raw(behave) as far:
        told = server(far, headers={"X-Team": "blue"})
        async with using(told, auth=httpx2.BasicAuth("who", "hunter2-hunter2")) as upstream:
            assert words(await upstream.call("plain", {})) == "right"
    assert len(far.asked) >= 4
    assert {asked.headers["x-team"] for asked in far.asked} == {"blue"}
    assert all(asked.headers["authorization"].startswith("Basic ") for asked in far.asked)
    assert {asked.headers["accept-encoding"] for asked in far.asked} == {"identity"}


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
@pytest.mark.parametrize("transport", ["http", "sse"])
async def test_nothing_goes_to_where_a_server_sends_us(status, transport):
    """T4, H1: neither a credential nor a message leaves its origin."""
    async with raw(behave, host="127.0.0.12") as elsewhere:

        async def lead_away(asked):
            await asked.send(reply(b"", status=status, headers=(("location", elsewhere.url),)))

        async with raw(lead_away) as far:
            auth = httpx2.BasicAuth("who", "hunter2-hunter2")
            async with using(server(far, transport=transport, startup_seconds=2), auth=auth) as upstream:
                assert (await failure(upstream.tools())).code == "server_unavailable"
        assert far.asked
        assert elsewhere.place.connections == 0


async def test_an_older_server_does_not_have_messages_posted_elsewhere():
    """T4: it names where to post to."""
    async with raw(behave, host="127.0.0.12") as elsewhere:

        async def lead_away(asked):
            stream = (("content-type", "text/event-stream"),)
            await asked.send(head("200 OK", stream), b"event: endpoint\ndata: " + elsewhere.url.encode() + b"\n\n")
            await anyio.sleep_forever()

        async with raw(lead_away) as far, using(server(far, transport="sse", startup_seconds=1)) as upstream:
            assert (await failure(upstream.tools())).code == "server_unavailable"
        assert elsewhere.place.connections == 0


async def test_nothing_of_the_environment_counts(monkeypatch, tmp_path):
    """T4: no proxy, no netrc, no authorities."""
    async with listening_at(lambda stream: stream.receive(), host="127.0.0.13") as proxy:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy.host}:{proxy.port}")
        async with raw(behave) as far:
            (tmp_path / "netrc").write_text(f"machine {far.place.host} login who password hunter2\n")
            monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
            monkeypatch.setenv("SSL_CERT_FILE", "/dev/null")
            async with using(server(far)) as upstream:
                assert words(await upstream.call("plain", {})) == "right"
        assert proxy.connections == 0
        assert not any("authorization" in asked.headers for asked in far.asked)


async def test_a_certificate_has_to_be_believed(tmp_path):
    """T4."""
    authority = far_authority.make(tmp_path)
    context = authority.server("127.0.0.11", protocols=("http/1.1",))
    async with raw(behave, context) as far:
        async with using(server(far)) as upstream:
            error = await failure(upstream.tools())
            assert error.code == "server_unavailable"
            assert "CERTIFICATE_VERIFY_FAILED" in str(error)
        assert not far.asked
        believed = ssl.create_default_context(cafile=authority.ca_file)
        async with using(server(far), verify=believed) as upstream:
            assert words(await upstream.call("plain", {})) == "right"


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden"])
@pytest.mark.parametrize("transport", ["auto", "http", "sse"])
async def test_who_is_not_let_in_is_told_so(status, transport):
    """H1: and what to do."""

    async def refuse(asked):
        await asked.send(reply(b"", status=status))

    async with raw(refuse) as far, using(server(far, transport=transport)) as upstream:
        error = await failure(upstream.tools())
        assert error.code == "server_unavailable"
        assert status[:3] in str(error)
        assert "auth" in error.hint


def large(asked: Asked) -> bytes:
    return result(asked, {"content": [{"type": "text", "text": "x" * (1 << 20)}]})


async def send_json(asked):
    await asked.send(reply(large(asked)))


async def send_event(asked):
    await asked.send(reply(event(large(asked)), "text/event-stream"))


async def send_endless(asked):
    await asked.send(head(fields=(("content-type", "application/json"), ("transfer-encoding", "chunked"))))
    while True:
        await asked.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")


async def send_endless_line(asked):
    await asked.send(head(fields=(("content-type", "text/event-stream"),)), b"data: ")
    while True:
        await asked.send(b"x" * 65536)


async def send_endless_event(asked):
    await asked.send(head(fields=(("content-type", "text/event-stream"),)))
    while True:
        await asked.send(b"data: xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n" * 1024)


async def send_error(asked):
    await asked.send(reply(large(asked), status="400 Bad Request"))


def server_that(acts_badly):
    """One whose tool ``bad`` does that."""

    async def conduct(asked):
        if asked.what == "tools/call" and asked.message["params"]["name"] == "bad":
            await acts_badly(asked)
        else:
            await behave(asked)

    return raw(conduct)


@pytest.mark.parametrize("too_much", [send_json, send_event, send_endless, send_endless_line, send_endless_event])
async def test_an_answer_that_is_too_large_is_an_error_of_its_call_alone(too_much):
    """H1, T5: answer_bytes, of a body and of an event."""
    async with (
        server_that(too_much) as far,
        using(server(far, answer_bytes=1 << 19, call_seconds=60)) as upstream,
    ):
        error = await failure(upstream.call("bad", {}))
        assert error.code == "answer_too_large"
        assert "524288 bytes" in str(error)
        assert upstream.state == "ready"
        assert words(await upstream.call("plain", {})) == "right"


async def test_a_refusal_that_is_too_large_ends_the_connection():
    """H1, T5: its status says what it is, and not whose."""
    async with server_that(send_error) as far, using(server(far, answer_bytes=1 << 19)) as upstream:
        assert (await failure(upstream.call("bad", {}))).code == "answer_too_large"
        assert upstream.state != "ready"
        assert words(await upstream.call("plain", {})) == "right"


def many(asked: Asked) -> bytes:
    return result(asked, {"structuredContent": {"a": [[]] * 300_000}})


async def many_in_json(asked):
    await asked.send(reply(many(asked)))


async def many_in_an_event(asked):
    await asked.send(reply(event(many(asked)), "text/event-stream"))


async def many_behind_a_comment(asked):
    await asked.send(reply(b': "\nfoo: "\n' + event(many(asked)), "text/event-stream"))


async def many_in_lines(asked):
    lines = many(asked).replace(b"[", b"[\ndata: ", 2).replace(b"[], ", b"[],\ndata:")
    await asked.send(reply(b"data: " + lines + b"\n\n", "text/event-stream"))


@pytest.mark.parametrize("too_many", [many_in_json, many_in_an_event, many_behind_a_comment, many_in_lines])
async def test_an_answer_of_very_many_values_is_an_error_of_its_call_alone(too_many):
    """H1: before anything is made of them, which takes seconds of the only event loop."""
    async with server_that(too_many) as far, using(server(far)) as upstream:
        error = await failure(upstream.call("bad", {}))
        assert error.code == "answer_too_large"
        assert "100000 values" in str(error)
        assert upstream.state == "ready"
        assert words(await upstream.call("plain", {})) == "right"


async def test_events_are_utf_8_whatever_a_server_calls_them():
    """H1: in another character set, what we have counted would be other text than what is read."""

    async def conduct(asked):
        if asked.what == "tools/call":
            right = result(asked, {"content": [{"type": "text", "text": "right"}]})
            await asked.send(reply(event(right), "text/event-stream; charset=utf-16-le"))
        else:
            await behave(asked)

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert words(await upstream.call("plain", {})) == "right"


async def test_a_body_that_unfolds_is_not_unfolded():
    """H1: a thousandth of what it becomes."""

    async def conduct(asked):
        if asked.what == "tools/call":
            await asked.send(reply(gzip.compress(large(asked)), headers=(("content-encoding", "gzip"),)))
        else:
            await behave(asked)

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert (await failure(upstream.call("plain", {}))).code == "bad_answer"


@pytest.mark.parametrize("kind", ["json", "events"])
@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b'"result":{"content":[{"type":"text","text":"ab \\ud83d"}]}', "ab \ufffd"),
        (b'"result":{"content":[{"type":"text","text":"ab \xf0\x9f"}]}', "ab \ufffd"),
        (b'"result":"s3cr3t-that-is-cut-by-whoever-quotes-it"', None),
        (b'"result":{"a":' + b"[" * 5000 + b"]" * 5000 + b"}", None),
    ],
)
async def test_an_answer_that_can_t_be_read_is_mended_or_an_error_at_once(kind, answer, text):
    """H1: and no part of it is quoted, for it would be cut before a secret in it is found."""

    async def conduct(asked):
        if asked.what != "tools/call":
            await behave(asked)
            return
        body = b'{"jsonrpc":"2.0","id":%d,%b}' % (asked.message["id"], answer)
        await asked.send(reply(body) if kind == "json" else reply(event(body), kind="text/event-stream"))

    async with raw(conduct) as far, using(server(far, call_seconds=600)) as upstream:
        with anyio.fail_after(60):
            if text is None:
                error = await failure(upstream.call("plain", {}))
                assert error.code == "bad_answer"
                assert "s3cr3t" not in str(error)
            else:
                (block,) = (await upstream.call("plain", {})).content
                assert block.text == text


async def test_a_call_that_is_not_answered_takes_its_own_time_and_no_other_call():
    """H1, T5: call_seconds."""

    asked_for_bad = []

    async def conduct(asked):
        if asked.what == "tools/call" and asked.message["params"]["name"] == "bad":
            asked_for_bad.append(asked)
            await anyio.sleep_forever()
        await behave(asked)

    async with raw(conduct) as far, using(server(far, call_seconds=2)) as upstream:
        await upstream.tools()
        codes = []

        async def call():
            codes.append((await failure(upstream.call("bad", {}))).code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await until(lambda: asked_for_bad)
            assert words(await upstream.call("plain", {})) == "right"
            assert not codes
        assert codes == ["tool_timeout"]
        assert words(await upstream.call("plain", {})) == "right"
        assert upstream.state == "ready"


async def test_what_is_still_open_when_nobody_waits_any_more_is_cleared_away():
    """H1: a server that says nothing, and one that says nothing for ever; else each call would leave a connection."""
    came, over = [], []

    async def conduct(asked):
        if asked.what != "tools/call":
            await behave(asked)
            return
        came.append(asked.message["params"]["name"])
        if asked.message["params"]["name"] == "trickle":
            await asked.send(head(fields=(("content-type", "text/event-stream"),)))
            with contextlib.suppress(anyio.BrokenResourceError, ConnectionError):
                while True:
                    await asked.send(b": still there\n\n")
                    await anyio.sleep(0.05)
        else:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                await asked.stream.receive()
        over.append(asked)

    async with raw(conduct) as far, using(server(far, startup_seconds=4, call_seconds=0.5)) as upstream:
        await upstream.tools()
        for tool in ("trickle", "silent"):
            while tool not in came:  # on a busy host the time of a call may be over before it is sent
                assert (await failure(upstream.call(tool, {}))).code == "tool_timeout"
        assert not over
        await until(lambda: len(over) == len(came))
        assert upstream.state == "ready"


async def test_a_stream_that_ends_without_an_answer_is_not_taken_up_again():
    """H1: a server could have us ask for the rest of it for ever, long after the call."""

    async def conduct(asked):
        if asked.what == "tools/call":
            stream = event(b"", b"id: 5\nretry: 0\n") + event(b'{"jsonrpc":"2.0","method":"x"}', b"id: 6\r\n")
            await asked.send(reply(stream, "text/event-stream"))
        else:
            await behave(asked)

    async with raw(conduct) as far, using(server(far)) as upstream:
        with anyio.fail_after(20):
            assert (await failure(upstream.call("plain", {}))).code == "server_error"
        assert upstream.state == "ready"
        await upstream.tools()
        assert not any("last-event-id" in asked.headers for asked in far.asked)


@pytest.mark.parametrize("cut", [1, 2, 3, 7])
async def test_events_arrive_however_they_are_cut_up(cut):
    """H1: a field that is left out takes no line end of another along."""

    async def conduct(asked):
        if asked.what != "tools/call":
            await behave(asked)
            return
        lines = [b": hello", b"event: message", b"id: 7", b"retry: 1", b"data: " + result(asked, {"content": []}), b""]
        stream = b"".join(line + b"\r\n" for line in lines)
        await asked.send(head(fields=(("content-type", "text/event-stream"), ("content-length", str(len(stream))))))
        for start in range(0, len(stream), cut):
            await asked.send(stream[start : start + cut])
            await anyio.lowlevel.checkpoint()

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert (await upstream.call("plain", {})).content == []


async def test_a_connection_that_breaks_in_a_call_is_gone():
    """H1: with half of an answer, in both forms."""
    for begun in (
        head(fields=(("content-type", "application/json"), ("content-length", "100"))) + b'{"json',
        head(fields=(("content-type", "text/event-stream"), ("content-length", "100"))) + b"data: {",
        b"",
    ):

        async def conduct(asked, begun=begun):
            if asked.what == "tools/call":
                await asked.send(begun)
                await asked.stream.aclose()
            else:
                await behave(asked)

        async with raw(conduct) as far, using(server(far)) as upstream:
            assert (await failure(upstream.call("plain", {}))).code == "server_gone"
            assert upstream.state == "failed"
            assert far.count("tools/call") == 1


async def test_a_session_that_the_server_has_forgotten_is_begun_anew():
    """H1: reconnect; the call that met it is not made twice."""
    sessions = iter(("first", "second"))
    forgotten = set()

    async def conduct(asked):
        if asked.headers.get("mcp-session-id") in forgotten:
            await asked.send(reply(b"{}", status="404 Not Found"))
        else:
            await asked.send(usual(asked, session=next(sessions) if asked.what == "initialize" else ""))

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert words(await upstream.call("plain", {})) == "right"
        forgotten.add("first")
        assert (await failure(upstream.call("plain", {}))).code == "server_gone"
        assert words(await upstream.call("plain", {})) == "right"
        assert far.asked[-1].headers["mcp-session-id"] == "second"


async def test_cookies_are_not_kept():
    """A jar would grow with each answer."""

    async def conduct(asked):
        first, rest = usual(asked).split(b"\r\n", 1)
        await asked.send(first + b"\r\nset-cookie: a=b\r\n" + rest)

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert words(await upstream.call("plain", {})) == "right"
    assert not any("cookie" in asked.headers for asked in far.asked)


async def test_arguments_are_repeated_in_headers_where_the_schema_says_so():
    """H1, 2026-07-28: a server may refuse what lacks them. A tool with headers that can't be sent is left out."""
    schema = {
        "type": "object",
        "properties": {
            "region": {"type": "string", "x-mcp-header": "Region"},
            "at": {"type": "object", "properties": {"depth": {"type": "integer", "x-mcp-header": "Depth"}}},
        },
    }
    wrong = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "No Token"}}}
    tools = ({"name": "placed", "inputSchema": schema}, {"name": "wrong", "inputSchema": wrong})

    async def conduct(asked):
        await asked.send(usual(asked, tools=tools, version=MODERN))

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert [tool.name for tool in await upstream.tools()] == ["plain", "placed"]
        await upstream.call("placed", {"region": "später\r\nX: y", "at": {"depth": 5}})
        headers = far.asked[-1].headers
        assert headers["mcp-param-depth"] == "5"
        assert headers["mcp-param-region"].startswith("=?base64?")
        await upstream.call("plain", {"region": "north"})
        assert "mcp-param-region" not in far.asked[-1].headers


async def test_a_server_that_asks_back_is_told_that_nobody_answers():
    """H7, H8: an InputRequiredResult is an error of its call."""

    async def conduct(asked):
        if asked.what != "tools/call":
            await asked.send(usual(asked, version=MODERN))
            return
        request = {
            "method": "elicitation/create",
            "params": {"message": "Password?", "requestedSchema": {"type": "object", "properties": {}}},
        }
        value = {"resultType": "input_required", "inputRequests": {"ask": request}, "requestState": "s"}
        await asked.send(reply(result(asked, value)))

    async with raw(conduct) as far, using(server(far)) as upstream:
        assert (await failure(upstream.call("plain", {}))).code == "input_required"
        assert far.count("tools/call") == 1


async def test_an_older_server_that_refuses_a_message_is_gone():
    """H1: the SDK's older transport sends nothing more after that, so a call would wait for nothing."""
    streams, calls = [], []

    async def conduct(asked):
        if asked.method == "GET":
            streams.append(asked)
            await asked.send(head(fields=(("content-type", "text/event-stream"),)))
            await asked.send(b"event: endpoint\ndata: /post\n\n")
            await anyio.sleep_forever()
        if asked.what == "tools/call":
            calls.append(asked)
            if len(calls) == 1:
                await asked.send(reply(b"", status="500 Oh No"))
                return
        await asked.send(reply(b"", status="202 Accepted"))
        if "id" in asked.message:
            error = {"jsonrpc": "2.0", "id": asked.message["id"], "error": {"code": -32601, "message": "no"}}
            answer = usual(asked).partition(b"\r\n\r\n")[2]
            await streams[-1].send(event(answer or json.dumps(error).encode()))

    async with raw(conduct) as far, using(server(far, transport="sse")) as upstream:
        assert (await failure(upstream.call("plain", {}))).code == "server_gone"
        assert words(await upstream.call("plain", {})) == "right"


async def test_closing_says_goodbye_and_does_not_wait_for_an_answer():
    """H1: a session is given back; a server that does not let go of us is left alone."""

    async def conduct(asked):
        if asked.method == "DELETE":
            await anyio.sleep_forever()
        await asked.send(usual(asked, session="mine"))

    async with raw(conduct) as far, using(server(far)) as upstream:
        await upstream.tools()
        with anyio.fail_after(15):
            await upstream.close()
        assert "DELETE" in {asked.method for asked in far.asked}


def _cut_text(asked: Asked) -> bytes:
    """An answer of millions of escapes, the last of which is half a character."""
    text = b"\\n" * (3 << 20) + b"\\ud800"
    return result(asked, {"content": [{"type": "text", "text": "TEXT"}]}).replace(b"TEXT", text)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_mending_a_long_text_stops_nobody(kind):
    """H1, P25: 7 MB of escapes took two seconds of the only event loop."""

    async def conduct(asked):
        cut = asked.what == "tools/call"
        body = await anyio.to_thread.run_sync(_cut_text, asked) if cut else b""
        await asked.send(reply(event(body) if "event" in kind else body, kind) if cut else usual(asked))

    async with raw(conduct) as far, using(server(far, call_seconds=60)) as upstream:
        await upstream.tools()
        async with going_on():
            assert words(await upstream.call("plain", {}))[-2:] == "\n\ufffd"


async def test_a_long_line_that_comes_byte_by_byte_stops_nobody():
    """H1, P25: all of it was copied for each byte, for eight seconds without a turn for anybody."""
    chunk = b"data: " + b"x" * (7 << 20)
    parts = head(fields=(("content-type", "text/event-stream"), ("transfer-encoding", "chunked")))
    parts += b"%x\r\n%b\r\n" % (len(chunk), chunk) + b"1\r\nx\r\n" * 10_000 + b"0\r\n\r\n"

    async def conduct(asked):
        await asked.send(parts if asked.what == "tools/call" else usual(asked))

    async with raw(conduct) as far, using(server(far, call_seconds=60)) as upstream:
        await upstream.tools()
        async with going_on():
            assert (await failure(upstream.call("plain", {}))).code == "server_error"


def test_of_the_older_transport_an_event_that_can_t_be_read_becomes_an_error():
    """H1: the SDK drops it, and the call waits its whole time."""
    events = _Events(answers_all=True)
    bad = b'{"jsonrpc":"2.0","id":7,"result":"s3cr3t"}'
    said = events.feed(b"event: message\r\ndata: " + bad + b"\r\n\r\ndata: /messages?id=5\n\n")
    first, endpoint = said.split(b"data: ")[1:]
    message = json.loads(first)
    assert (message["id"], message["error"]["code"]) == (7, -33001)
    assert b"s3cr3t" not in said
    assert first.endswith(b"}\r\n\r\n")
    assert endpoint == b"/messages?id=5\n\n"
    good = b'data: {"jsonrpc":"2.0","id":7,"result":{}}\n\n'
    assert events.feed(good) == good
    assert _Events().feed(b"data: " + bad + b"\n\n") == b"data: " + bad + b"\n\n"


def test_of_a_stream_only_lines_that_mean_something_are_passed_on():
    """P25: a flood of comments held up everybody in each turn of the event loop, for the SDK read them one by one."""
    events = _Events()
    assert events.feed(b":\n" * 2000 + b"\n" * 2000 + b"unknown: x\nretry: 1\n\n") == b""
    assert events.feed(b": a\nevent: message\nid: 1\ndata: a\n\n\n\ndata\n\n") == (
        b"event: message\ndata: a\n\ndata\n\n"
    )
    assert events.feed(b"data: b\r\n\r\n\r\n:\rdata: c\r\r\n") == b"data: b\r\n\r\ndata: c\r\r\n"


@pytest.mark.parametrize("status", ["100 Continue", "103 Early Hints"])
async def test_interim_answers_without_end_are_the_end_of_a_connection(status):
    """P25: each turn of the event loop took as long as to read thousands of them, however long the call may take."""
    flood, sent = f"HTTP/1.1 {status}\r\n\r\n".encode(), 0

    async def conduct(asked):
        nonlocal sent
        while asked.what == "tools/call":
            await asked.send(flood * 100)
            sent += 1
        await asked.send(flood * 10 + usual(asked))

    async with raw(conduct) as far, using(server(far, call_seconds=60)) as upstream:
        assert (await failure(upstream.call("plain", {}))).code == "server_gone"
        assert sent < 10_000


async def test_who_posts_to_a_token_endpoint_gives_others_turns_however_its_answer_is_cut():
    """P25: an answer in chunks of a byte held up everybody, by 0.4 s for each 64 KiB."""
    turns = 0
    parts = head(fields=(("transfer-encoding", "chunked"),)) + b"1\r\nx\r\n" * 20_000 + b"0\r\n\r\n"

    async def conduct(asked):
        await asked.send(parts)

    async def count_turns() -> None:
        nonlocal turns
        while True:
            await anyio.lowlevel.checkpoint()
            turns += 1

    async with raw(conduct) as far, anyio.create_task_group() as tasks:
        tasks.start_soon(count_turns)
        transport = ForwardedTransport(ssl.create_default_context(), None)
        assert (await post_bounded(transport, far.url, {}, b"", 1 << 20)).content == b"x" * 20_000
        tasks.cancel_scope.cancel()
    assert turns > 10_000
