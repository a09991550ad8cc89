"""Raw TCP: a real Redis, and servers that speak first or last, for a real client and for a socket."""

import pytest
from tests.far_side.listening import HOST, free_port, listening
from tests.far_side.redis import redis as redis_server

from gloveport.egress.proxy import handler

pytestmark = pytest.mark.anyio

PASSWORD = "of-the-program-itself"


@pytest.fixture(scope="module")
async def redis(tmp_path_factory):
    """The port of a Redis that wants a password."""
    async with redis_server(tmp_path_factory.mktemp("redis"), PASSWORD) as port:
        yield port


async def speak_first(stream):
    await stream.send(b"220 ready\r\n")
    async for line in stream:
        await stream.send(b"250 " + line)


async def speak_last(stream):
    """Only when the client has finished is it answered: with how much there was."""
    size = 0
    async for piece in stream:
        size += len(piece)
    await stream.send(b"%d bytes" % size)


@pytest.fixture(scope="module")
async def first():
    async with listening(speak_first) as place:
        yield place


@pytest.fixture(scope="module")
async def last():
    async with listening(speak_last) as place:
        yield place


@pytest.fixture(scope="module")
async def world(world_of, first, last):
    async with world_of(api={"first": granted(first.port), "last": granted(last.port)}) as served:
        yield served


@pytest.fixture(scope="module")
async def with_redis(world_of, redis):
    async with world_of(api={"redis": granted(redis, name="redis.test")}) as served:
        yield served


def granted(port, name="first.test"):
    return {"hosts": [f"tcp://{name}:{port}"], "addresses": [HOST]}


async def test_a_real_client_speaks_to_a_real_database(with_redis, redis):
    """N11: redis-cli as it is, on the granted name; the password is the program's own."""
    text = await with_redis.value(
        "shell",
        f"""
        export REDISCLI_AUTH={PASSWORD}
        client="redis-cli -h redis.test -p {redis}"
        $client SET greeting hello
        head -c 3000000 /dev/zero | tr '\\0' a | $client -x SET large
        $client GET greeting
        $client STRLEN large
        $client GET large | tr -d '\\n' | wc -c
        """,
    )
    assert text.split() == ["OK", "OK", "hello", "3000000", "3000000"]


async def test_a_connection_is_written_down_with_its_sizes_and_without_its_bytes(with_redis, redis):
    """N11, T6: before and after; and it is in the answer."""
    code = f"redis-cli -h redis.test -p {redis} -a {PASSWORD} --no-auth-warning ECHO a-word-of-its-own"
    result = await with_redis.run("shell", code)
    assert result.stdout.text == "a-word-of-its-own\n"
    (listed,) = result.requests
    assert (listed.method, listed.url, listed.code) == ("CONNECT", f"tcp://redis.test:{redis}", None)
    admitted, ended = with_redis.records("connect", run=result.run_id)
    assert (admitted.kind, admitted.fields["host"], admitted.fields["port"]) == (
        "connect.admitted",
        "redis.test",
        redis,
    )
    assert admitted.fields["rule"] == "api.redis"
    assert ended.kind == "connect.ended"
    assert ended.fields["sent_bytes"] > len(PASSWORD)
    assert ended.fields["received_bytes"] > len("a-word-of-its-own")
    assert PASSWORD.encode() not in with_redis.written()
    assert b"a-word-of-its-own" not in with_redis.written()


async def test_a_server_may_speak_first(world, first):
    """N11: nothing is waited for from the program."""
    value = await world.value(
        "python",
        f"""
        import socket
        with socket.create_connection(("first.test", {first.port})) as connection:
            stream = connection.makefile("rwb", buffering=0)
            said = [stream.readline().decode()]
            for word in "one", "two":
                stream.write(word.encode() + b"\\n")
                said.append(stream.readline().decode())
        said
        """,
    )
    assert value == ["220 ready\r\n", "250 one\n", "250 two\n"]


@pytest.mark.parametrize("opening", [b"", b"\0\0\0\x08\x04\xd2\x16\x2f"], ids=["MySQL", "PostgreSQL"])
async def test_a_client_of_a_database_learns_that_its_server_has_another_name(world, first, monkeypatch, opening):
    """N11: it waits for the server to begin, or begins with no request; `localhost` is the sandbox itself."""
    monkeypatch.setattr(handler, "_SILENT_SECONDS", 0.1)
    code = f"""
    import socket
    with socket.create_connection(("127.0.0.1", {first.port})) as connection:
        connection.sendall({opening!r})
        try:
            answer = connection.recv(100)
        except ConnectionResetError:
            answer = b""
    answer.decode()
    """
    result = await world.run("python", code)
    assert result.value == "", result.error
    (listed,) = result.requests
    assert (listed.url, listed.code) == (f"tcp://127.0.0.1:{first.port}", "host_not_granted")
    assert f"Reachable: first (tcp://first.test:{first.port})" in listed.reason


async def test_each_direction_ends_by_itself(world, last):
    """N11: a program that has sent all says so, and still hears the answer."""
    value = await world.value(
        "python",
        f"""
        import socket
        with socket.create_connection(("first.test", {last.port})) as connection:
            connection.sendall(bytes(5_000_000))
            connection.shutdown(socket.SHUT_WR)
            said = connection.makefile().read()
        said
        """,
    )
    assert value == "5000000 bytes"


async def test_the_proxy_door_leads_there_too(world, first):
    """N11: by CONNECT, for clients that know a proxy and no names."""
    value = await world.value(
        "python",
        f"""
        import socket
        said = b""
        with socket.create_connection(("127.0.0.2", 3128)) as connection:
            connection.sendall(b"CONNECT first.test:{first.port} HTTP/1.1\\r\\nHost: first.test\\r\\n\\r\\n")
            while b"ready" not in said:
                said += connection.recv(1000)
        said.decode()
        """,
    )
    assert value.startswith("HTTP/1.1 200 ")
    assert value.endswith("\r\n\r\n220 ready\r\n")


async def test_deno_opens_a_connection(world, first):
    """N11."""
    value = await world.value(
        "typescript",
        f"""
        const connection = await Deno.connect({{ hostname: "first.test", port: {first.port} }});
        const buffer = new Uint8Array(100);
        const size = await connection.read(buffer);
        connection.close();
        return new TextDecoder().decode(buffer.subarray(0, size!));
        """,
    )
    assert value == "220 ready\r\n"


async def test_a_port_that_is_not_granted_is_refused(world, first):
    """N2, N11: there is nobody; and where another API has its door, the name does not lead to it."""
    value = await world.value(
        "python",
        f"""
        import http.client, json, socket
        def attempt(port):
            try:
                socket.create_connection(("first.test", port)).close()
                return "open"
            except ConnectionRefusedError:
                return "refused"
        proxy = http.client.HTTPConnection("127.0.0.2", 3128)
        proxy.set_tunnel("first.test", {first.port - 1})
        proxy.request("GET", "/")
        answer = proxy.getresponse()
        [attempt({first.port - 1}), answer.status, json.load(answer)["code"]]
        """,
    )
    assert value == ["refused", 403, "port_not_granted"]


async def test_a_server_that_can_not_be_reached_is_an_end_and_a_line_in_the_answer(world_of):
    """N11, T6: as it would be without a door, but that somebody has said why."""
    port = free_port()
    async with world_of(api={"gone": granted(port)}) as served:
        result = await served.run("python", f"import socket\nsocket.create_connection(('first.test', {port})).recv(1)")
        assert (result.value, result.requests[0].code) == ("b''", "upstream_unreachable")
        assert served.records("connect.ended")[-1].fields["code"] == "upstream_unreachable"
