"""Exchanges beside each other on one HTTP/2 connection: none can stop, fill or end another."""

import contextlib
import hashlib
import json

import anyio
import pytest
from h2.settings import SettingCodes
from hpack import Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    HeadersFrame,
    PingFrame,
    PushPromiseFrame,
    RstStreamFrame,
    SettingsFrame,
)
from tests.far_side.listening import listening
from tests.far_side.web import web

from gloveport.egress import http2, http2_stream
from gloveport.egress.upstream import Upstreams
from gloveport.errors import UpstreamError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def upstreams():
    async with Upstreams() as opened:
        yield opened


@pytest.fixture
async def far(authority, route_to):
    """A server of HTTP/2, and its route."""
    async with web(authority.server("api.test")) as server:
        yield server, route_to(server.place, scheme="https")


async def content(answer):
    return b"".join([piece async for piece in answer.body])


async def fetch(upstreams, route, out, body=None, **told):
    async with upstreams.exchange(route, out, body, **told) as answer:
        return answer.status, dict(answer.headers), await content(answer)


async def refusal(code, upstreams, route, out, body=None):
    with pytest.raises(UpstreamError) as caught:
        await fetch(upstreams, route, out, body)
    assert caught.value.code == code
    return str(caught.value)


async def pieces(*each):
    for piece in each:
        yield piece


async def test_a_request_arrives_as_it_was_said_and_its_authority_is_the_routes(far, upstreams, out):
    """N3 N7: what HTTP/1.1 says of one connection is not said."""
    server, route = far
    said = ((b"x-a", b"1"), (b"x-a", b"2"), (b"host", b"evil.test"), (b"connection", b"close"), (b"te", b"gzip"))
    status, _, body = await fetch(upstreams, route, out("/echo?q=1", "POST", said), b"abc")
    echo = json.loads(body)
    assert (status, echo["method"], echo["target"], echo["size"]) == (200, "POST", "/echo?q=1", 3)
    assert [":authority", f"api.test:{server.place.port}"] in echo["headers"]
    assert echo["headers"][4:] == [["x-a", "1"], ["x-a", "2"], ["content-length", "3"]]


async def test_answers_of_every_shape_come_as_they_were_said(far, upstreams, out):
    """N7: two cookies, trailers, an early hint, no body."""
    _, route = far
    async with upstreams.exchange(route, out("/cookies"), None) as answer:
        assert answer.headers == ((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"))
        assert (answer.length, await content(answer)) == (0, b"")
    async with upstreams.exchange(route, out("/trailers"), None) as answer:
        assert await content(answer) == b"ab"
        assert answer.trailers == ((b"x-checksum", b"ab"),)
    assert await fetch(upstreams, route, out("/informational")) == (200, {}, b"ok")
    async with upstreams.exchange(route, out("/size/7", "HEAD"), None) as answer:
        assert (answer.length, await content(answer)) == (7, b"")


async def test_events_arrive_one_by_one(far, upstreams, out):
    """N7: SSE."""
    server, route = far
    async with upstreams.exchange(route, out("/sse"), None) as answer:
        for number in range(3):
            server.app.event.set()
            assert await anext(answer.body) == b"data: %d\n\n" % number


@pytest.mark.parametrize("length", [None, 5_000_000])
async def test_a_body_larger_than_any_window_arrives_whole(far, upstreams, out, length):
    """N7: flow control of what is sent."""
    _, route = far
    body = bytes(5_000_000)
    sent = body if length is None else pieces(*[body[:50_000]] * 100)
    _, _, answer = await fetch(upstreams, route, out("/echo", "PUT"), sent, length=length)
    assert json.loads(answer)["sha256"] == hashlib.sha256(body).hexdigest()


async def test_who_reads_slowly_slows_its_own_server_and_nobody_else(far, upstreams, out):
    """N7: of 100 MB no more than a window is held, and others pass meanwhile."""
    server, route = far
    read = 0
    async with upstreams.exchange(route, out("/size/100000000"), None) as slow:
        async for piece in slow.body:
            assert len(piece) <= 65_536
            if read % 50_000_000 < len(piece):
                await fetch(upstreams, route, out("/size/1000000"))
                server.app.sent -= 1_000_000
            read += len(piece)
            assert server.app.sent - read <= http2_stream.STREAM_WINDOW + 65_536
    assert read == 100_000_000
    assert server.place.connections == 1


async def test_many_that_read_nothing_do_not_stop_one_that_reads(far, upstreams, out):
    """N7: the connection's window is not theirs to hold."""
    server, route = far
    async with anyio.create_task_group() as tasks:

        async def idle():
            async with upstreams.exchange(route, out("/size/100000000"), None):
                await anyio.sleep_forever()

        for _ in range(50):
            tasks.start_soon(idle)
        with anyio.fail_after(20):
            _, _, body = await fetch(upstreams, route, out("/size/3000000"))
        assert len(body) == 3_000_000
        tasks.cancel_scope.cancel()
    assert server.place.connections == 1


async def test_an_exchange_that_is_cancelled_leaves_the_connection_to_the_others(far, upstreams, out, soon):
    """N7: its stream is reset, whether it waits, reads or sends."""
    server, route = far

    async def endless():
        while True:
            yield bytes(65_536)

    for number, (target, body) in enumerate([("/slow", None), ("/half", None), ("/slow", endless())], 1):
        with anyio.move_on_after(0.05):
            await fetch(upstreams, route, out(target, "PUT"), body)
        await soon(lambda count=number: len(server.sessions[0].resets) == count)
    assert len((await fetch(upstreams, route, out("/size/2000000")))[2]) == 2_000_000
    assert server.place.connections == 1


async def test_an_answer_before_the_request_has_ended_comes_through_and_the_rest_is_given_up(far, upstreams, out, soon):
    """N7: an early answer."""
    server, route = far

    async def endless():
        while True:
            yield bytes(65_536)

    async with upstreams.exchange(route, out("/early", "POST"), endless()) as answer:
        assert answer.status == 413
        server.app.released.set()
        assert await content(answer) == b"halffull"
    await soon(lambda: server.sessions[0].resets == [1])
    await fetch(upstreams, route, out("/status/200"))
    assert server.place.connections == 1


async def test_an_error_of_the_body_itself_is_raised_where_the_answer_is_awaited(far, upstreams, out):
    """N7: a program that breaks off breaks off its request."""
    _, route = far

    async def broken():
        yield b"a"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fetch(upstreams, route, out("/echo", "PUT"), broken())
    with pytest.raises(UpstreamError, match="has 3 bytes, and its head said 4"):
        await fetch(upstreams, route, out("/echo", "PUT"), pieces(b"abc"), length=4)


async def test_a_server_that_is_about_to_hang_up_ends_what_it_has_begun(far, upstreams, out, soon):
    """N7: GOAWAY. What is in flight goes on, what comes later takes another connection."""
    server, route = far
    async with upstreams.exchange(route, out("/half"), None) as answer:
        await server.sessions[0].go_away(1)
        await soon(lambda: answer._connection.is_ready() is False)
        await fetch(upstreams, route, out("/status/200"))
        server.app.released.set()
        assert await content(answer) == b"halffull"
    await soon(lambda: server.place.ended == 1)
    assert server.place.connections == 2


async def test_a_request_that_the_server_has_not_begun_is_sent_again(far, upstreams, out, soon):
    """N7: also a POST, when its body is still there."""
    server, route = far
    async with anyio.create_task_group() as tasks:

        async def leave():
            await soon(lambda: len(server.app.requests) == 1)
            await server.sessions[0].go_away(0)
            await soon(lambda: len(server.app.requests) == 2)
            server.app.released.set()

        tasks.start_soon(leave)
        assert (await fetch(upstreams, route, out("/slow", "POST"), b"x"))[2] == b"at last"
    assert server.place.connections == 2


async def test_what_is_not_begun_and_can_not_be_said_again_is_an_error(far, upstreams, out, soon):
    """N7: a body that came piece by piece is gone."""
    server, route = far
    async with anyio.create_task_group() as tasks:

        async def leave():
            await soon(lambda: len(server.app.requests) == 1)
            await server.sessions[0].go_away(0)

        tasks.start_soon(leave)
        await refusal("upstream_broke_off", upstreams, route, out("/slow", "POST"), pieces(b"x"))


async def test_a_stream_that_is_reset_delivers_what_came_and_ends_alone(far, upstreams, out):
    """N7: a part is not taken for the whole."""
    server, route = far
    async with upstreams.exchange(route, out("/half"), None) as other:
        async with upstreams.exchange(route, out("/cut"), None) as answer:
            assert await anext(answer.body) == b"some of it"
            with pytest.raises(UpstreamError, match="reset the stream"):
                await anext(answer.body)
        server.app.released.set()
        assert await content(other) == b"halffull"
    assert server.place.connections == 1


async def test_a_server_gets_no_more_streams_at_once_than_it_takes(authority, upstreams, route_to, out):
    """N7: MAX_CONCURRENT_STREAMS. The rest gets another connection."""
    async with web(authority.server("api.test"), streams_at_once=1) as server:
        route = route_to(server.place, scheme="https")
        await fetch(upstreams, route, out("/status/200"))
        async with upstreams.exchange(route, out("/half"), None):
            await fetch(upstreams, route, out("/status/200"))
        assert server.place.connections == 2


async def test_an_idle_connection_is_closed_and_leaving_closes_all(authority, route_to, out, soon):
    """N7: nothing is kept for ever."""
    async with web(authority.server("api.test")) as server:
        async with Upstreams(idle_seconds=0.02) as upstreams:
            await fetch(upstreams, route_to(server.place, scheme="https"), out("/status/200"))
            await soon(lambda: server.place.ended == 1)
        async with Upstreams() as upstreams:
            await fetch(upstreams, route_to(server.place, scheme="https"), out("/status/200"))
        await soon(lambda: server.place.ended == 2)


def head(*headers, flags=("END_HEADERS",)):
    return HeadersFrame(1, data=Encoder().encode(headers), flags=flags)


OK = head((":status", "200"))
PUSHED = Encoder().encode([(":method", "GET"), (":path", "/"), (":scheme", "https"), (":authority", "api.test")])
BAD = {
    "no frames": [b"HTTP/1.1 200 OK\r\n\r\n"],
    "a frame that is too large": [b"\xff\xff\xff\x00\x00\x00\x00\x00\x01"],
    "no status": [head(("x-a", "1"))],
    "a status that is none": [head((":status", "abc"))],
    "an upper-case name": [head((":status", "200"), ("X-A", "1"))],
    "a line end in a value": [head((":status", "200"), ("x-a", "1\r\nx-b: 2"))],
    "a header of HTTP/1.1": [head((":status", "200"), ("transfer-encoding", "chunked"))],
    "two lengths": [head((":status", "200"), ("content-length", "1"), ("content-length", "2"))],
    "a length that is none": [head((":status", "200"), ("content-length", "x"))],
    "a wrong length": [
        head((":status", "200"), ("content-length", "5")), DataFrame(1, data=b"abc", flags=("END_STREAM",)),
    ],
    "a head of a megabyte": [head((":status", "200"), ("x-a", "a" * 15_000), *[("x-a", "a" * 15_000)] * 70)],
    "endless continuation": [head(flags=()), *[ContinuationFrame(1, data=b"\x82")] * 100],
    "data before a head": [DataFrame(1, data=b"abc")],
    "a push": [PushPromiseFrame(1, promised_stream_id=2, data=PUSHED, flags=("END_HEADERS",))],
}  # fmt: skip


@pytest.fixture
def saying(authority, route_to):
    """A server that waits for a request, then says these frames and listens no more."""

    @contextlib.asynccontextmanager
    async def serve(*frames):
        async def handle(stream):
            data = b""
            while b"\x00\x00\x00\x01" not in data[50:]:
                data += await stream.receive()
            said = [SettingsFrame(0), *frames]
            await stream.send(b"".join(frame if isinstance(frame, bytes) else frame.serialize() for frame in said))
            await anyio.sleep_forever()

        async with listening(handle, authority.server("api.test")) as place:
            yield route_to(place, scheme="https")

    return serve


@pytest.mark.parametrize("frames", BAD.values(), ids=BAD)
async def test_an_answer_that_breaks_the_protocol_is_refused(frames, upstreams, saying, out):
    """N7: and what a server said is not told, for nobody has scrubbed it."""
    async with saying(*frames) as route:
        with anyio.fail_after(5):
            assert "x-a" not in await refusal("bad_response", upstreams, route, out("/"))


async def test_a_server_that_sends_more_than_the_window_to_one_who_does_not_read_is_left(upstreams, saying, out, soon):
    """N7: memory is bounded, whatever a server says."""
    frames = [OK, *[DataFrame(1, data=bytes(16_384))] * (2 * http2_stream.STREAM_WINDOW // 16_384)]
    async with saying(*frames) as route, upstreams.exchange(route, out("/"), None, length=None) as answer:
        await soon(lambda: answer.fault is not None)
        assert answer.fault.code == "bad_response"


async def test_a_server_that_asks_for_much_and_reads_nothing_is_left(upstreams, saying, out, monkeypatch):
    """N7: a flood of PING."""
    monkeypatch.setattr(http2, "FLOOD_BYTES", 10_000)
    async with saying(*[PingFrame(0, opaque_data=b"12345678")] * 3_000) as route:
        assert "asks for much" in await refusal("upstream_broke_off", upstreams, route, out("/"))


async def test_a_server_that_wants_a_large_table_of_headers_gets_none(upstreams, saying, out):
    """N7: each header is looked for in all of the table; and what is to be said of changes does not grow."""
    changes = [SettingsFrame(0, settings={1: size}) for size in (2**32 - 1, 64, 2**32 - 1)]
    frames = [*changes * 100, OK, DataFrame(1, data=b"a", flags=("END_STREAM",))]
    async with saying(*frames) as route, upstreams.exchange(route, out("/"), None) as answer:
        encoder = answer._connection._h2.encoder
        assert encoder.header_table_size == http2.TABLE_BYTES
        assert encoder.table_size_changes == [64, http2.TABLE_BYTES]


@pytest.mark.parametrize("size", [0, 100, 65_536])
async def test_a_server_that_changes_its_table_of_headers_understands_what_follows(far, upstreams, out, soon, size):
    """N7: the table is ours to bound, and its size is told."""
    server, route = far
    await fetch(upstreams, route, out("/status/200", headers=((b"x-a", b"1"),)))
    session = server.sessions[0]
    async with upstreams.exchange(route, out("/half"), None) as answer:
        session.protocol.update_settings({SettingCodes.HEADER_TABLE_SIZE: size})
        await session.flush()
        await soon(lambda: answer._connection._h2.remote_settings.header_table_size == size)
        for number in (1, 1, 2):
            said = ((b"x-a", b"%d" % number),)
            _, _, body = await fetch(upstreams, route, out("/echo", headers=said))
            assert ["x-a", str(number)] in json.loads(body)["headers"]
    assert server.place.connections == 1


async def test_padding_and_empty_frames_are_no_content(upstreams, saying, out):
    """N7: their bytes count for the window and for nothing else."""
    padded = DataFrame(1, data=b"a", pad_length=255, flags=("PADDED",))
    frames = [OK, *[padded] * 100, DataFrame(1), DataFrame(1, data=b"b", flags=("END_STREAM",))]
    async with saying(*frames) as route:
        assert (await fetch(upstreams, route, out("/")))[2] == b"a" * 100 + b"b"


async def test_a_refused_stream_is_tried_once_more_and_then_an_error(upstreams, saying, out):
    """N7: REFUSED_STREAM."""
    async with saying(RstStreamFrame(1, error_code=7)) as route:
        await refusal("upstream_broke_off", upstreams, route, out("/", "POST"), b"x")
