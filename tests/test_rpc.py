"""H2: what stubs and host say to each other on a door."""

import asyncio
import json
import socket

import anyio
import anyio.lowlevel
import pytest

from gloveport import rpc
from gloveport.errors import Denied, UpstreamError

HEAD = rpc.HEAD_BYTES


def frame(request) -> bytes:
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return len(body).to_bytes(HEAD, "big") + body


@pytest.fixture
async def speak():
    """A program's end of a connection that these handlers answer on."""
    ends = []
    async with anyio.create_task_group() as tasks:

        async def connect(**handlers):
            listener = socket.create_server(("127.0.0.1", 0))
            near = socket.create_connection(listener.getsockname())
            far, _ = listener.accept()
            listener.close()
            ends.extend((near, far))
            tasks.start_soon(rpc.answer, handlers, rpc.Room(), far)
            return Program(near)

        yield connect
        tasks.cancel_scope.cancel()
    for end in ends:
        end.close()


class Program:
    def __init__(self, end: socket.socket) -> None:
        end.settimeout(0)
        self.end = end

    async def send(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            await anyio.wait_writable(self.end)
            view = view[self.end.send(view[: 1 << 16]) :]

    async def ask(self, **request):
        await self.send(frame(request))
        return await self.answer()

    async def answer(self):
        size = int.from_bytes(await self.take(HEAD), "big")
        return json.loads(await self.take(size))

    async def take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            await anyio.wait_readable(self.end)
            chunk = self.end.recv(size - len(data))
            if not chunk:
                raise EOFError
            data += chunk
        return data


async def double(asked):
    return asked["number"] * 2


async def test_a_request_is_answered_with_its_own_id(speak):
    program = await speak(double=double)
    assert await program.ask(id=7, op="double", number=21) == {"id": 7, "value": 42}


async def test_answers_come_as_they_are_ready_whatever_the_order_of_the_questions(speak):
    first, second = anyio.Event(), anyio.Event()

    async def slow(_asked):
        second.set()
        await first.wait()
        return "slow"

    program = await speak(slow=slow, double=double)
    await program.send(frame({"id": 1, "op": "slow"}) + frame({"id": 2, "op": "double", "number": 1}))
    assert (await program.answer())["id"] == 2
    await second.wait()
    first.set()
    assert await program.answer() == {"id": 1, "value": "slow"}


@pytest.mark.parametrize(
    "error", [Denied("no", "You may not.", hint="Ask."), UpstreamError("no", "You may not.", hint="Ask.")]
)
async def test_a_refusal_and_a_failure_say_what_and_what_to_do(speak, error):
    async def refuse(_asked):
        raise error

    program = await speak(refuse=refuse)
    assert await program.ask(id=1, op="refuse") == {
        "id": 1,
        "error": {"code": "no", "message": "You may not.", "hint": "Ask."},
    }


@pytest.mark.parametrize("operation", ["absent", "__class__", "", None, 7, ["double"]])
async def test_what_nobody_handles_is_refused(speak, operation):
    program = await speak(double=double)
    assert (await program.ask(id=1, op=operation))["error"]["code"] == "unknown_operation"


@pytest.mark.parametrize(
    "data",
    [
        frame(b"not json"),
        frame([1, 2]),
        frame({"op": "double"}),
        frame({"id": "1", "op": "double"}),
        frame({"id": True, "op": "double"}),
        frame(b'{"id": 1, "op": "double", "number": NaN}'),
        frame(b"\xff\xfe"),
        frame(b"[" * 100_000),
        (rpc.MAX_FRAME_BYTES + 1).to_bytes(HEAD, "big"),
        b"\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
async def test_what_has_no_shape_ends_the_connection(speak, data):
    program = await speak(double=double)
    await program.send(data)
    with pytest.raises((EOFError, ConnectionResetError)):
        await program.answer()


async def test_a_program_that_says_a_frame_is_large_and_sends_nothing_takes_no_memory(speak):
    program = await speak(double=double)
    await program.send(rpc.MAX_FRAME_BYTES.to_bytes(HEAD, "big") + b"{")
    other = await speak(double=double)
    assert (await other.ask(id=1, op="double", number=1))["value"] == 2


async def test_what_a_program_that_has_gone_has_asked_for_is_given_up(speak):
    begun, ended = anyio.Event(), anyio.Event()

    async def work(_asked):
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    program = await speak(work=work)
    await program.send(frame({"id": 1, "op": "work"}))
    await begun.wait()
    program.end.close()
    with anyio.fail_after(5):
        await ended.wait()


async def test_a_request_that_is_withdrawn_ends_alone_and_is_not_answered(speak):
    ended = []

    async def work(asked):
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(asked["id"])

    program = await speak(work=work, double=double)
    for number in (1, 2):
        await program.send(frame({"id": number, "op": "work"}))
    for number in (3, 1):
        await program.send(frame({"id": number, "op": "cancel"}))
    with anyio.fail_after(30):
        while not ended:
            assert await program.ask(id=4, op="double", number=1) == {"id": 4, "value": 2}
    assert ended == [1]


async def test_a_request_that_waits_for_room_does_not_begin_when_its_run_has_ended():
    """P47: another that gave up its room let it begin, and nobody would have cancelled it."""
    begun = []

    async def work(request):
        begun.append(request)

    room = rpc.Room()
    assert room.take(rpc.MAX_FRAME_BYTES, lambda: None)
    near, far = socket.socketpair()
    with near:
        host = rpc._Host({"work": work}, room)
        transport, _ = await asyncio.get_running_loop().connect_accepted_socket(lambda: host, far)
        near.sendall(frame({"id": 1, "op": "work"}))
        with anyio.fail_after(30):
            while not room._waiting:
                await anyio.lowlevel.checkpoint()
        await host.give_up()
        room.give_back(rpc.MAX_FRAME_BYTES)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert begun == []
        transport.abort()


async def test_two_requests_with_one_id_are_both_answered(speak):
    second_answered = anyio.Event()

    async def wait(_asked):
        await second_answered.wait()
        return "first"

    program = await speak(wait=wait, double=double)
    await program.send(frame({"id": 7, "op": "wait"}))
    assert await program.ask(id=7, op="double", number=1) == {"id": 7, "value": 2}
    second_answered.set()
    assert await program.answer() == {"id": 7, "value": "first"}


async def test_a_program_that_reads_no_answers_holds_up_nobody_else(speak):
    async def much(_asked):
        return "x" * (1 << 20)

    program, other = await speak(much=much), await speak(double=double)
    for number in range(40):
        await program.send(frame({"id": number, "op": "much"}))
    assert (await other.ask(id=1, op="double", number=1))["value"] == 2


async def test_a_lone_surrogate_in_a_value_does_not_break_the_connection(speak):
    async def odd(_asked):
        return "\udc80"

    program = await speak(odd=odd, double=double)
    assert (await program.ask(id=1, op="odd"))["value"] == "?"
    assert (await program.ask(id=2, op="double", number=1))["value"] == 2


async def test_a_number_that_would_be_read_as_infinity_is_refused_in_words(speak):
    """H2, P22: rules would see infinity, and a server null."""
    program = await speak(double=double)
    await program.send(frame(b'{"id": 1, "op": "double", "number": 2, "more": [{"n": -1e999}]}'))
    refusal = (await program.answer())["error"]
    assert refusal["code"] == "malformed_call"
    assert "1e999" in refusal["message"]
    assert await program.ask(id=2, op="double", number=1e308 / 2) == {"id": 2, "value": 1e308}


async def test_infinity_in_a_value_is_null_for_a_program(speak):
    """H2: a tool's server may send it, and not every interpreter reads it."""

    async def far(_asked):
        return {"n": float("inf")}

    program = await speak(far=far)
    assert await program.ask(id=1, op="far") == {"id": 1, "value": {"n": None}}
