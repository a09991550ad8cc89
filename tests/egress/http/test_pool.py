"""One exchange with a server over HTTP/1.1, and which connection carries it."""

import contextlib
import gzip
import hashlib
import json
from pathlib import Path

import anyio
import pytest
from tests.far_side import authority as far_authority
from tests.far_side import websocket
from tests.far_side.listening import listening
from tests.far_side.scripted import scripted
from tests.far_side.web import web
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Message, Request, TextMessage

from gloveport.egress.http.connection_pool import IDLE_IN_ALL, IDLE_OF_ROUTE, ConnectionPool
from gloveport.errors import UpstreamError

pytestmark = pytest.mark.anyio


@contextlib.asynccontextmanager
async def pool(**settings):
    async with anyio.create_task_group() as tasks:
        yield ConnectionPool(tasks, **settings)
        tasks.cancel_scope.cancel()


@pytest.fixture
async def upstreams():
    async with pool() as opened:
        yield opened


@pytest.fixture(params=["http", "https"])
async def far(request, authority):
    """A server of HTTP/1.1, and the scheme by which it is reached."""
    context = authority.server("api.test", protocols=("http/1.1",)) if request.param == "https" else None
    async with web(context) as server:
        yield server, request.param


async def content(answer):
    return b"".join([piece async for piece in answer])


async def fetch(upstreams, route, out, body=None, **told):
    async with upstreams.exchange(route, out, body, **told) as answer:
        return answer.status, dict(answer.headers), await content(answer)


async def refusal(code, upstreams, route, out, body=None, **told):
    with pytest.raises(UpstreamError) as caught:
        await fetch(upstreams, route, out, body, **told)
    assert caught.value.code == code
    return str(caught.value)


async def pieces(*each):
    for piece in each:
        yield piece


async def test_a_request_arrives_as_it_was_said_and_its_host_is_the_routes(far, upstreams, route_to, out):
    """N3 N7: repeated headers stay repeated; Host and framing are made here, whatever was said."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    said = ((b"x-a", b"1"), (b"x-a", b"2"), (b"host", b"evil.test"), (b"content-length", b"9"), (b"te", b"trailers"))
    status, _, body = await fetch(upstreams, route, out("/echo?q=1", "POST", said), b"abc")
    echo = json.loads(body)
    assert (status, echo["method"], echo["target"], echo["size"]) == (200, "POST", "/echo?q=1", 3)
    assert echo["headers"] == [
        ["host", f"api.test:{server.place.port}"], ["x-a", "1"], ["x-a", "2"], ["content-length", "3"],
    ]  # fmt: skip


@pytest.mark.parametrize("length", [None, 200_000])
async def test_a_body_that_comes_piece_by_piece_arrives_whole(far, upstreams, route_to, out, length):
    """N7: with a length where it is known, else in chunks."""
    server, scheme = far
    body = pieces(*[b"ab" * 10_000] * 10)
    _, _, answer = await fetch(
        upstreams, route_to(server.place, scheme=scheme), out("/echo", "PUT"), body, length=length
    )
    echo = json.loads(answer)
    framing = ["transfer-encoding", "chunked"] if length is None else ["content-length", "200000"]
    assert echo["headers"][-1] == framing
    assert echo["sha256"] == hashlib.sha256(b"ab" * 100_000).hexdigest()
    assert server.place.connections == 1


async def test_a_large_body_in_memory_arrives_whole(far, upstreams, route_to, out):
    """N7: larger than what any buffer takes at once."""
    server, scheme = far
    body = bytes(5_000_000)
    _, _, answer = await fetch(upstreams, route_to(server.place, scheme=scheme), out("/echo", "POST"), body)
    assert json.loads(answer)["sha256"] == hashlib.sha256(body).hexdigest()


async def test_a_body_that_is_not_as_long_as_it_said_is_an_error(far, upstreams, route_to, out):
    """N7: what follows would be read as another request."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    await refusal("bad_request", upstreams, route, out("/echo", "PUT"), pieces(b"abc"), length=2)
    await refusal("bad_request", upstreams, route, out("/echo", "PUT"), pieces(b"abc"), length=4)


async def test_an_error_of_the_body_itself_is_raised_where_the_answer_is_awaited(far, upstreams, route_to, out):
    """N7: a program that breaks off breaks off its request."""
    server, scheme = far

    async def broken():
        yield b"a"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await fetch(upstreams, route_to(server.place, scheme=scheme), out("/echo", "PUT"), broken())


async def test_headers_of_one_connection_stay_on_it(far, upstreams, route_to, out):
    """N7: hop by hop ones, those that Connection names, and framing are not passed on; two cookies stay two."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    _, headers, _ = await fetch(upstreams, route, out("/hop"))
    assert headers == {b"x-stays": b"2"}
    async with upstreams.exchange(route, out("/cookies"), None) as answer:
        assert answer.headers == ((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2"))
        assert answer.length == 0


async def test_trailers_come_after_the_body_without_framing(far, upstreams, route_to, out):
    """N7: chunks and trailers."""
    server, scheme = far
    async with upstreams.exchange(route_to(server.place, scheme=scheme), out("/trailers"), None) as answer:
        assert await content(answer) == b"ab"
        assert answer.trailers == ((b"x-checksum", b"ab"),)


@pytest.mark.parametrize(
    ("method", "path", "length"), [("HEAD", "/size/7", 7), ("GET", "/status/204", 0), ("GET", "/status/304", 0)]
)
async def test_an_answer_without_a_body_ends_with_its_head(far, upstreams, route_to, out, method, path, length):
    """N7: HEAD, 204 and 304; and the connection is kept though nobody read."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    for _ in range(2):
        async with upstreams.exchange(route, out(path, method), None) as answer:
            assert answer.length == length
        assert await content(answer) == b""
    assert server.place.connections == 1


async def test_a_coded_body_and_an_early_hint_pass_as_they_are_meant(far, upstreams, route_to, out):
    """N7: content coding is untouched, an informational answer is not the answer."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    _, headers, body = await fetch(upstreams, route, out("/gzip/hello"))
    assert (headers, gzip.decompress(body)) == ({b"content-encoding": b"gzip"}, b"hello")
    assert await fetch(upstreams, route, out("/informational")) == (200, {}, b"ok")


async def test_a_redirect_is_an_answer_and_nobody_follows_it(far, upstreams, route_to, out):
    """N4: where it leads is judged anew, as a request of the program's."""
    server, scheme = far
    status, headers, _ = await fetch(upstreams, route_to(server.place, scheme=scheme), out("/redirect"))
    assert (status, headers) == (302, {b"location": b"http://169.254.169.254/latest"})
    assert server.app.requests == ["GET /redirect"]


async def test_events_arrive_one_by_one(far, upstreams, route_to, out):
    """N7: SSE."""
    server, scheme = far
    async with upstreams.exchange(route_to(server.place, scheme=scheme), out("/sse"), None) as answer:
        for number in range(3):
            server.app.event.set()
            assert await anext(answer) == b"data: %d\n\n" % number


async def test_who_reads_slowly_slows_the_server_and_fills_no_memory(far, upstreams, route_to, out):
    """N7: of 50 MB no more is on its way than the kernel's buffers take."""
    server, scheme = far
    read = 0
    async with upstreams.exchange(route_to(server.place, scheme=scheme), out("/size/50000000"), None) as answer:
        async for piece in answer:
            assert len(piece) <= 65_536
            read += len(piece)
            assert server.app.sent - read < 20_000_000
    assert read == 50_000_000


async def test_an_early_answer_comes_through_and_the_rest_of_the_request_is_given_up(far, upstreams, route_to, out):
    """N7: the connection is not used again, for half a request is on it."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    stopped = []

    async def endless():
        try:
            while True:
                yield b"x" * 10_000
                await anyio.sleep(0)
        finally:
            stopped.append(True)

    async with upstreams.exchange(route, out("/early", "POST"), endless()) as answer:
        assert answer.status == 413
        assert await anext(answer) == b"half"
        server.app.released.set()
        assert await content(answer) == b"full"
    assert stopped == [True]
    await fetch(upstreams, route, out("/status/200"))
    assert server.place.connections == 2


SMUGGLED = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
MALFORMED = {
    "both lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "one length twice": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-length: 3\r\n\r\nabc",
    "a list of lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3, 3\r\n\r\nabc",
    "a signed length": b"HTTP/1.1 200 OK\r\nContent-Length: +3\r\n\r\nabc",
    "a length of 30 digits": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"1" * 30 + b"\r\n\r\nabc",
    "a space before the colon": b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
    "another coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "a coding twice": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a coding in HTTP/1.0": b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded line": b"HTTP/1.1 200 OK\r\nX-A: 1\r\n Content-Length: 3\r\n\r\nabc",
    "a bare LF": b"HTTP/1.1 200 OK\nContent-Length: 3\r\n\r\nabc",
    "a bare CR": b"HTTP/1.1 200 OK\r\nX-A: 1\rContent-Length: 3\r\n\r\nabc",
    "a NUL": b"HTTP/1.1 200 OK\r\nX-A: 1\x002\r\n\r\nabc",
    "no name": b"HTTP/1.1 200 OK\r\n: 1\r\n\r\nabc",
    "HTTP/0.9": b"<html>hello</html>\r\n\r\n",
    "HTTP/2 as text": b"HTTP/2.0 200 OK\r\n\r\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "status 099": b"HTTP/1.1 099 OK\r\n\r\n",
    "an upgrade nobody asked for": b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
    "a bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "a chunk that is too long": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n",
    "an endless head": b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 20_000,
    "a large head": b"HTTP/1.1 200 OK\r\n" + b"X-A: 1\r\n" * 20_000 + b"\r\n",
    "many informational heads": b"HTTP/1.1 103 Early\r\n\r\n" * 10_000 + b"HTTP/1.1 200 OK\r\n\r\n",
    "an endless chunk size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + b"a" * 200_000,
    "endless trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"X-A: 1\r\n" * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("said", MALFORMED.values(), ids=MALFORMED)
async def test_an_answer_that_two_readers_could_read_in_two_ways_is_refused(said, upstreams, route_to, out):
    """N7: response smuggling; what a server said is not told, for nobody has scrubbed it."""
    async with scripted(said) as place:
        text = await refusal("bad_response", upstreams, route_to(place), out("/"))
    assert "api.test" in text
    assert "X-A" not in text


@pytest.mark.parametrize(
    "said",
    [
        b"", b"HTTP/1.1 200", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ],
)  # fmt: skip
async def test_an_answer_that_breaks_off_is_said_to_have_broken_off(said, upstreams, route_to, out):
    """N7: a part is not taken for the whole."""
    async with scripted(said) as place:
        await refusal("upstream_broke_off", upstreams, route_to(place), out("/"))


async def test_what_comes_before_a_break_is_delivered(far, upstreams, route_to, out):
    """N7: piece by piece, then the error."""
    server, scheme = far
    async with upstreams.exchange(route_to(server.place, scheme=scheme), out("/cut"), None) as answer:
        assert await anext(answer) == b"some of it"
        with pytest.raises(UpstreamError, match="hung up"):
            await anext(answer)


@pytest.mark.parametrize("says_so", [True, False])
async def test_an_answer_that_ends_with_its_connection_is_whole_only_where_tls_says_so(
    authority, upstreams, route_to, out, says_so
):
    """N7: anybody on the way can end a connection; without close_notify a part was taken for the whole."""

    async def handle(stream):
        await stream.receive()
        await stream.send(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nabc")
        if not says_so:
            await stream.transport_stream.aclose()

    async with listening(handle, authority.server("api.test", protocols=("http/1.1",))) as place:
        route = route_to(place, scheme="https")
        if says_so:
            assert (await fetch(upstreams, route, out("/")))[2] == b"abc"
        else:
            async with upstreams.exchange(route, out("/"), None) as answer:
                assert await anext(answer) == b"abc"
                with pytest.raises(UpstreamError, match="without ending its TLS"):
                    await anext(answer)


async def test_an_answer_of_an_old_server_ends_where_its_connection_ends(upstreams, route_to, out):
    """N7: HTTP/1.0 without a length, and a head with hundreds of headers."""
    head = b"HTTP/1.0 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(500))
    async with scripted(head + b"\r\nabc") as place:
        status, headers, body = await fetch(upstreams, route_to(place), out("/"))
    assert (status, len(headers), body) == (200, 500, b"abc")


@pytest.mark.parametrize(
    "told",
    [
        {"headers": ((b"authorization", b"Bearer secret\r\nX-A: 1"),)}, {"headers": ((b"x a", b"secret"),)},
        {"headers": ((b"x-a", b"secret\x00"),)}, {"target": "/secret HTTP/1.1\r\nHost: evil"},
        {"target": "/secr\u00e9t"}, {"method": "GET /secret"}, {"method": "CONNECT"},
    ],
)  # fmt: skip
async def test_a_request_that_would_be_two_is_not_sent_and_its_error_tells_no_secret(
    far, told, upstreams, route_to, out
):
    """T4 N3: header injection, also by a credential with a line end in it."""
    server, scheme = far
    assert "secr" not in await refusal("bad_request", upstreams, route_to(server.place, scheme=scheme), out(**told))
    assert server.app.requests == []


async def test_connections_are_used_again_and_only_for_the_very_same_route(far, upstreams, route_to, out):
    """N3: what was verified on other terms is another connection."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)
    for _ in range(3):
        await fetch(upstreams, route, out("/size/100"))
    assert server.place.connections == 1
    await fetch(upstreams, route_to(server.place, scheme=scheme, api="other"), out("/size/100"))
    assert server.place.connections == 2


async def test_a_connection_is_not_used_again_when_its_authority_is_not_trusted_any_more(
    authority, upstreams, route_to, out, tmp_path
):
    """P18: else the owner's credentials go on going to a server that has proved nothing to anybody still trusted."""
    file = tmp_path / "ca.pem"
    file.write_bytes(Path(authority.ca_file).read_bytes())
    (other := tmp_path / "other").mkdir()
    async with web(authority.server("api.test", protocols=("http/1.1",))) as server:
        route = route_to(server.place, scheme="https", ca_file=str(file))
        await fetch(upstreams, route, out("/size/100"))
        file.write_bytes(Path(far_authority.make(other).ca_file).read_bytes())
        await refusal("tls_failed", upstreams, route, out("/size/100"))
        file.unlink()
        await refusal("tls_failed", upstreams, route, out("/size/100"))


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nleft over",
        SMUGGLED + SMUGGLED,
    ],
)
async def test_a_connection_in_doubt_is_not_used_again(said, upstreams, route_to, out):
    """N7: one that is to be closed, and one on which something came that nobody asked for."""
    async with scripted(said, SMUGGLED) as place:
        await fetch(upstreams, route_to(place), out("/"))
        await fetch(upstreams, route_to(place), out("/"))
        assert place.connections == 2


@pytest.mark.parametrize(
    ("asked", "offered", "kept"),
    [
        (b"NTLM TlRMTVNTUAAB", b"", False),
        (b"negotiate YII", b"", False),
        (b"", b"NTLM", False),
        (b"", b'Basic realm="a", NEGOTIATE oYG2', False),
        (b"Bearer ntlm-negotiate", b'Basic realm="a"', True),
    ],
)
async def test_a_connection_that_may_be_somebodys_is_not_anothers(asked, offered, kept, upstreams, route_to, out):
    """N3: NTLM and Negotiate authenticate the connection, and the next program's request would be the first one's."""
    said = SMUGGLED.replace(b"\r\n\r\n", b"\r\nWWW-Authenticate: %b\r\n\r\n" % offered, 1) if offered else SMUGGLED
    headers = ((b"authorization", asked),) if asked else ()
    async with scripted(said, SMUGGLED) as place:
        await fetch(upstreams, route_to(place), out("/", headers=headers))
        await fetch(upstreams, route_to(place), out("/"))
        assert place.connections == (1 if kept else 2)


async def test_a_connection_on_which_the_server_hung_up_meanwhile_is_not_used(upstreams, route_to, out, soon):
    """N7: it is looked at before it is used, so that also a POST meets no dead one."""
    async with scripted(SMUGGLED) as place:
        await fetch(upstreams, route_to(place), out("/"))
        await soon(lambda: place.ended == 1)
        async with scripted():
            pass
        await refusal("upstream_broke_off", upstreams, route_to(place), out("/", "POST"), b"x")
        assert place.connections == 2


@pytest.mark.parametrize(
    ("method", "body", "again"),
    [("GET", None, True), ("PUT", b"x", True), ("POST", b"x", False), ("PUT", "pieces", False)],
)
async def test_a_request_is_sent_again_only_where_twice_is_the_same(method, body, again, upstreams, route_to, out):
    """N7: a server that hangs up on a kept connection at the moment of the request."""
    seen = []

    async def hang_up_on_the_second(stream):
        for _ in range(2 if not seen else 1):
            seen.append(await stream.receive())
            if len(seen) != 2:
                await stream.send(SMUGGLED)

    async with listening(hang_up_on_the_second) as place:
        await fetch(upstreams, route_to(place), out("/"))
        body = pieces(b"x") if body == "pieces" else body
        if again:
            assert (await fetch(upstreams, route_to(place), out("/", method), body))[0] == 200
        else:
            await refusal("upstream_broke_off", upstreams, route_to(place), out("/", method), body)
        assert (len(seen), place.connections) == ((3, 2) if again else (2, 1))


async def test_of_a_route_and_in_all_only_so_many_idle_connections_are_kept(route_to, out, soon):
    """N7: the oldest goes."""
    async with web() as server, pool() as upstreams:
        async with anyio.create_task_group() as tasks:
            for _ in range(IDLE_OF_ROUTE + 2):
                tasks.start_soon(fetch, upstreams, route_to(server.place), out("/slow"))
            await soon(lambda: len(server.app.requests) == IDLE_OF_ROUTE + 2)
            server.app.released.set()
        await soon(lambda: server.place.ended == 2)
        for number in range(IDLE_IN_ALL):
            await fetch(upstreams, route_to(server.place, api=f"api{number}"), out("/status/200"))
        await soon(lambda: server.place.connections - server.place.ended == IDLE_IN_ALL)


async def test_a_connection_that_is_idle_for_long_is_closed_and_the_end_closes_all(route_to, out, soon):
    """N7: nothing is kept for ever."""
    async with web() as server:
        async with pool(idle_seconds=0.02) as upstreams:
            await fetch(upstreams, route_to(server.place), out("/status/200"))
            await soon(lambda: server.place.ended == 1)
        async with pool() as upstreams:
            await fetch(upstreams, route_to(server.place), out("/status/200"))
        await soon(lambda: server.place.ended == 2)


async def test_who_is_cancelled_while_waiting_leaves_no_connection(far, upstreams, route_to, out, soon):
    """N7: neither before the head nor in the middle of the body nor while sending."""
    server, scheme = far
    route = route_to(server.place, scheme=scheme)

    async def endless():
        while True:
            yield bytes(65_536)

    for number, (target, body) in enumerate([("/slow", None), ("/half", None), ("/slow", endless())], 1):
        async with anyio.create_task_group() as tasks:
            asked = len(server.app.requests)
            tasks.start_soon(fetch, upstreams, route, out(target, "PUT"), body)
            await soon(lambda asked=asked: len(server.app.requests) > asked)
            tasks.cancel_scope.cancel()
        server.app.released.set()
        await soon(lambda ended=number: server.place.ended == ended)
        server.app.released = anyio.Event()


async def test_a_websocket_has_a_connection_of_its_own_that_speaks_http_1(authority, upstreams, route_to, out):
    """N7: WebSocket, also where the server would rather speak HTTP/2."""
    client = WSConnection(ConnectionType.CLIENT)
    hello = client.send(Request(host="api.test", target="/")).split(b"\r\n")
    headers = tuple((name.lower(), value) for name, _, value in (line.partition(b": ") for line in hello[2:] if line))
    async with listening(websocket.handle, authority.server("api.test")) as place:
        route = route_to(place, scheme="https")
        async with upstreams.open_websocket(route, out("/chat", "GET", headers)) as answer:
            assert (answer.status, answer.ahead) == (101, b"")
            assert b"upgrade" not in dict(answer.headers)
            lines = b"".join(b"%s: %s\r\n" % header for header in answer.headers)
            switched = b"HTTP/1.1 101 \r\nupgrade: websocket\r\nconnection: upgrade\r\n" + lines + b"\r\n"
            client.receive_data(switched)
            await answer.upgraded.send(client.send(TextMessage(data="hello")))
            client.receive_data(await answer.upgraded.receive())
            accepted, message = list(client.events())
            assert isinstance(accepted, AcceptConnection)
            assert isinstance(message, Message)
            assert message.data == "hello"


@pytest.mark.parametrize(("said", "code"), [("h2c", "bad_response"), ("websocket, h2c", "bad_response")])
async def test_an_upgrade_to_something_else_is_refused(said, code, upstreams, route_to, out):
    """N7: nobody could scrub it."""
    answer = f"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: {said}\r\n\r\n".encode()
    async with scripted(answer) as place:
        with pytest.raises(UpstreamError) as caught:
            async with upstreams.open_websocket(route_to(place), out("/")):
                pass
    assert caught.value.code == code


async def test_what_comes_with_an_upgrade_is_not_lost_and_a_refusal_is_an_answer(upstreams, route_to, out):
    """N7: the first frame may be in the packet of the head."""
    answer = b"HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: WebSocket\r\n\r\nframe"
    async with scripted(answer, b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno") as place:
        async with upstreams.open_websocket(route_to(place), out("/")) as upgraded:
            assert upgraded.ahead == b"frame"
        async with upstreams.open_websocket(route_to(place), out("/")) as refused:
            assert (refused.status, refused.upgraded, await content(refused)) == (403, None, b"no")


async def test_a_raw_connection_is_tcp_and_nothing_more(upstreams, route_to):
    """N11: no TLS, also where the scheme would have it."""

    async def shout(stream):
        await stream.send((await stream.receive()).upper())

    async with listening(shout) as place:
        wire = await upstreams.dialer.connect(route_to(place, scheme="https"))
        await wire.send(b"hello")
        assert await wire.receive() == b"HELLO"
        wire.close()


async def test_a_small_request_has_a_small_answer(authority, upstreams, route_to, out, soon):
    """N5: what a token endpoint says, within bounds."""
    async with web(authority.server("api.test")) as server:
        route = route_to(server.place, scheme="https")
        status, headers, body = await upstreams.post(route, out("/echo", "POST"), b"a=b")
        assert (status, headers) == (200, ((b"content-type", b"application/json"),))
        assert json.loads(body)["size"] == 3
        with pytest.raises(UpstreamError, match="larger than 1 MiB"):
            await upstreams.post(route, out("/size/2000000", "POST"), b"")
        await soon(lambda: server.place.ended == 2)
