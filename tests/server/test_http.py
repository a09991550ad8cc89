"""HTTP as it comes: the socket that it is served on, and what is parsed."""

import contextlib
import socket

import anyio
import pytest
import uvicorn
from tests.http_server import serve
from tests.hub.stalls import going_on

from gloveport.server.transports.http import _MOST_HEAD_BYTES, _Connection, _listen, _Server

HEAD = b"POST / HTTP/1.1\r\nhost: 127.0.0.1\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
HONEST = HEAD + b"content-length: 4\r\n\r\nping"


async def count(_scope, receive, send) -> None:
    """Answer with the size of the body."""
    size, more = 0, True
    while more:
        message = await receive()
        size, more = size + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d bytes" % size})


@contextlib.asynccontextmanager
async def serving():
    """Serve in this process; yields the port."""
    web = _Server(
        uvicorn.Config(
            count,
            http=_Connection,
            h11_max_incomplete_event_size=_MOST_HEAD_BYTES,
            lifespan="off",
            log_config=None,
            ws="none",
            timeout_graceful_shutdown=1,
        )
    )
    async with serve(web, _listen(0)) as port:
        yield port


async def answer_to(port: int, request: bytes) -> bytes:
    """What a connection of its own is answered."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(request)
        answer = b""
        while b" bytes" not in answer:
            answer += await stream.receive()
        return answer


def test_an_answer_does_not_wait_for_the_client_to_confirm_its_beginning():
    with _listen(0) as listener, socket.create_connection(listener.getsockname()):
        connection, _ = listener.accept()
        with connection:
            assert connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_a_body_in_very_small_chunks_stops_nobody():
    """P8: 256 KiB of them took more than a second of the only event loop."""
    async with serving() as port, anyio.create_task_group() as tasks:
        async with going_on():
            for _ in range(6):
                tasks.start_soon(answer_to, port, CHUNKED + b"1\r\n \r\n" * 60_000)
            for _ in range(10):
                assert b"4 bytes" in await answer_to(port, HONEST)
        tasks.cancel_scope.cancel()


async def test_a_long_head_is_read_however_it_comes():
    head = HEAD + b"".join(b"x-%d: %b\r\n" % (number, b"x" * 1000) for number in range(50))
    async with serving() as port:
        assert b"4 bytes" in await answer_to(port, head + b"content-length: 4\r\n\r\nping")


@pytest.mark.parametrize("size", [20, 1000, 100_000, 1_000_000])
async def test_a_body_of_any_size_and_however_cut_arrives_whole(size):
    body = b"x" * size
    parts = (body[:10], body[10:-9], body[-9:])
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    async with serving() as port:
        for request in (HEAD + b"content-length: %d\r\n\r\n" % size + body, CHUNKED + chunks):
            assert b"%d bytes" % size in await answer_to(port, request)
