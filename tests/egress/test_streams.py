"""What comes and goes piece by piece, through a sandbox's door, and to a server."""

import gzip
import json
import re
import zlib
from functools import partial
from pathlib import Path
from urllib.parse import unquote

import anyio
import brotli
import pytest
import zstandard
from tests.egress.world import BEARER
from tests.far_side.app import BreakOff, Response
from tests.far_side.listening import listening
from tests.far_side.web import web
from tests.far_side.websocket import handle as websocket
from wsproto.events import BytesMessage, Ping, TextMessage

pytestmark = pytest.mark.anyio

MIB = 1 << 20
LARGE = 24 * MIB
TOGETHER = 40

HTTP = """
import http.client, ssl, urllib.parse, urllib.request

def connect():
    return http.client.HTTPSConnection(urllib.parse.urlsplit(BASE).netloc, timeout=20)
"""
RAW = """
import socket, ssl, urllib.parse

def connect():
    place = urllib.parse.urlsplit(BASE)
    plain = socket.create_connection((place.hostname, place.port), timeout=20)
    return ssl.create_default_context().wrap_socket(plain, server_hostname=place.hostname)

def head(line, *fields):
    return "\\r\\n".join((f"{line} HTTP/1.1", f"Host: {BASE[8:]}", *fields, "", "")).encode()

def until(stream, end):
    data = b""
    while end not in data:
        piece = stream.recv(65536)
        if not piece:
            raise EOFError(data)
        data += piece
    return data
"""


class Coder:
    """Content codings, with all that was fed so far made readable at once."""

    def __init__(self, name):
        self.name = name
        self._gzip = zlib.compressobj(wbits=31 if name == "gzip" else 15)
        self._brotli = brotli.Compressor()
        self._zstd = zstandard.ZstdCompressor().compressobj()

    def feed(self, data):
        match self.name:
            case "br":
                return self._brotli.process(data) + self._brotli.flush()
            case "zstd":
                return self._zstd.compress(data) + self._zstd.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            case "identity":
                return data
            case _:
                return self._gzip.compress(data) + self._gzip.flush(zlib.Z_SYNC_FLUSH)


class Beat:
    """Lets streams of events go on, one event at a time."""

    def __init__(self):
        self.count = 0
        self._moved = anyio.Event()

    def strike(self):
        self.count += 1
        self._moved.set()
        self._moved = anyio.Event()

    async def events(self):
        first = self.count
        for number in range(100):
            while self.count <= first + number:
                await self._moved.wait()
            yield b"data: %d\n\n" % number


def further():
    """Answers that only these tests need."""
    beat, waiting = Beat(), []

    async def following(_request):
        beat.strike()
        return whole(b"")

    async def events(request):
        coder = Coder(request.target.rpartition("/")[2])
        fields = [(b"content-type", b"text/event-stream"), (b"content-encoding", coder.name.encode())]
        return Response((coder.feed(event) async for event in beat.events()), headers=fields)

    async def together(_request):
        waiting.append(anyio.Event())
        if len(waiting) == TOGETHER:
            for event in waiting:
                event.set()
        await waiting[-1].wait()
        return whole(b"together")

    return {"next": following, "events": events, "together": together, **FURTHER}


async def coded(request):
    name = unquote(request.target.rpartition("/")[2])
    return whole(CODED[name], [(b"content-encoding", name.encode())])


async def refusing(_request):
    return whole(b"too much", status=413)


async def duplex(request):
    return Response(request.body)


async def cut_chunks(_request):
    return Response(cut_off())


async def cut_long(_request):
    return Response(cut_off(), headers=[(b"content-length", b"1000000")])


FURTHER = {"coded": coded, "refusing": refusing, "duplex": duplex, "cut-chunks": cut_chunks, "cut-long": cut_long}
TEXT = b"a text that is worth it " * 1000
CODED = {
    "gzip": gzip.compress(TEXT),
    "br": brotli.compress(TEXT),
    "zstd": zstandard.compress(TEXT),
    "deflate": zlib.compress(TEXT),
    "gzip, br": brotli.compress(gzip.compress(TEXT)),
    "identity": TEXT,
}


def whole(body, headers=(), status=200):
    return Response(once(body), status, [*headers, (b"content-length", b"%d" % len(body))])


async def once(body):
    yield body


async def cut_off():
    yield b"some of it"
    raise BreakOff


@pytest.fixture(scope="module")
async def servers(authority):
    async with web(authority.server("one.test")) as server:
        server.app.routes.update(further())
        yield {"one": server}


@pytest.fixture(scope="module")
async def socket_place(authority):
    """A WebSocket server that begins with the credential that it got, in two frames, and in a binary one."""

    def greeting(request):
        told = dict(request.extra_headers)[b"authorization"].decode()
        return (
            TextMessage(data=f"told: {told[:12]}", message_finished=False),
            TextMessage(data=f"{told[12:]}, twice"),
            BytesMessage(data=b"\0" + told.encode()),
            Ping(payload=b"there?"),
        )

    context = authority.server("socket.test", protocols=("http/1.1",))
    async with listening(partial(websocket, greeting=greeting), context) as place:
        yield place


@pytest.fixture(scope="module")
async def world(world_of, servers, socket_place, api_at, clients):
    apis = {name: api_at(server.place.port, name=f"{name}.test") for name, server in servers.items()}
    apis["socket"] = api_at(socket_place.port, name="socket.test", auth=[BEARER | {"secret": "env:SOCKET_KEY"}])
    async with world_of({"SOCKET_KEY": "of/the+socket=4712"}, policy=clients, api=apis) as served:
        yield served


@pytest.fixture
def far(servers):
    return servers["one"]


@pytest.fixture
def base(far):
    return f"https://one.test:{far.place.port}"


@pytest.fixture
def python(world, base):
    """Run a program that finds ``BASE``, and have its value."""

    async def value(*parts):
        return await world.value("python", f"BASE = '{base}'\n" + "".join(parts))

    return value


@pytest.mark.parametrize("coding", ["identity", "gzip", "br", "zstd", "deflate"])
async def test_events_arrive_one_by_one(python, coding):
    """N7: the server sends one only when the program says that it has the one before, so that none may be held back."""
    value = await python(
        HTTP,
        f"""
stream, events = urllib.request.urlopen(BASE + "/events/{coding}"), []
for _ in range(3):
    urllib.request.urlopen(BASE + "/next").close()
    events.append((stream.readline() + stream.readline()).decode())
[events, stream.headers["content-type"], stream.headers["content-encoding"]]
""",
    )
    assert value == [["data: 0\n\n", "data: 1\n\n", "data: 2\n\n"], "text/event-stream", None]


async def test_deno_reads_events_one_by_one(world, base):
    """N7."""
    value = await world.value(
        "typescript",
        f"""
        const base = "{base}";
        const reader = (await fetch(base + "/events/identity")).body!.pipeThrough(new TextDecoderStream()).getReader();
        const events: unknown[] = [];
        while (events.length < 3) {{
          await (await fetch(base + "/next")).body?.cancel();
          events.push((await reader.read()).value);
        }}
        await reader.cancel();
        return events;
        """,
    )
    assert value == ["data: 0\n\n", "data: 1\n\n", "data: 2\n\n"]


async def test_every_coding_arrives_decoded_and_whole(world, base):
    """N6, N7: to a program that asked for a coding, and to one that did not."""
    value = await world.value(
        "python",
        f"""
        import gzip, hashlib, urllib.parse, urllib.request
        def get(name, **headers):
            request = urllib.request.Request("{base}/coded/" + urllib.parse.quote(name), headers=headers)
            answer = urllib.request.urlopen(request)
            return [hashlib.sha256(answer.read()).hexdigest(), answer.headers["content-encoding"]]
        [get(name, **headers) for name in {list(CODED)[:5]} for headers in ({{}}, {{"Accept-Encoding": "gzip, br"}})]
        """,
    )
    assert [coding for _, coding in value] == [None] * 10
    assert len({digest for digest, _ in value}) == 1


async def test_repeated_headers_stay_repeated(python):
    """N7: two cookies are two, and what is for the hop alone goes no further."""
    value = await python(
        HTTP,
        """
cookies = urllib.request.urlopen(BASE + "/cookies").headers.get_all("set-cookie")
hop = urllib.request.urlopen(BASE + "/hop").headers
[cookies, hop["x-stays"], hop["x-for-you"]]
""",
    )
    assert value[:2] == [["a=1", "b=2"], "2"]


async def test_trailers_arrive(python):
    """N7: but none that would speak of the message's length."""
    text = await python(
        RAW,
        """
with connect() as stream:
    stream.sendall(head("GET /trailers", "TE: trailers"))
    text = until(stream, b"x-checksum: ab\\r\\n\\r\\n").decode()
text
""",
    )
    assert "transfer-encoding: chunked" in text.lower()
    assert "content-length" not in text.lower()


async def test_a_body_of_unknown_length_goes_up(python):
    """N7: in chunks, as a program sends them."""
    value = await python(
        HTTP,
        """
import json
connection = connect()
connection.request("POST", "/echo", iter([b"piece"] * 1000), {"Transfer-Encoding": "chunked"}, encode_chunked=True)
json.load(connection.getresponse())
""",
    )
    assert value["size"] == 5000


async def test_a_program_that_waits_for_leave_to_send_gets_it(python):
    """N7: 100-continue."""
    value = await python(
        RAW,
        """
with connect() as stream:
    stream.sendall(head("POST /echo", "Content-Length: 5", "Expect: 100-continue"))
    leave = until(stream, b"\\r\\n\\r\\n").decode()
    stream.sendall(b"hello")
    answer = until(stream, b"sha256").decode()
[leave, answer]
""",
    )
    assert value[0].startswith("HTTP/1.1 100 ")
    assert '"size": 5' in value[1]


async def test_early_hints_are_no_answer(python):
    """N7: the answer is what comes after 103."""
    assert await python(HTTP, 'urllib.request.urlopen(BASE + "/informational").read().decode()') == "ok"


async def test_answers_without_a_body_leave_the_connection_in_step(python):
    """N7: HEAD, which is asked for the length, 204, 304, and more on the same connection."""
    value = await python(
        HTTP,
        """
connection, said = connect(), []
for method, path in ("HEAD", "/size/1000"), ("GET", "/status/204"), ("GET", "/status/304"), ("GET", "/size/3"):
    connection.request(method, path)
    answer = connection.getresponse()
    said.append([answer.status, answer.headers["content-length"], answer.read().decode()])
    socket = connection.sock
[*said, connection.sock is socket is not None]
""",
    )
    assert value == [[200, "1000", ""], [204, None, ""], [304, None, ""], [200, "3", "012"], True]


async def test_a_program_that_speaks_http_1_0_gets_all_of_it(world, base):
    """N7: no chunks for it, the end is the end of the connection."""
    for door in "", "--noproxy '*'":
        program = f"curl -sS --fail -0 {door} {base}/chunked/100000 | tee /tmp/answer | wc -c; head -c 4 /tmp/answer"
        assert await world.value("shell", program) == "100000\n0123"


async def test_connections_are_kept_on_both_sides(python, far):
    """N7: fifty requests on one connection."""
    before = far.place.connections
    value = await python(
        HTTP,
        """
connection, sockets = connect(), set()
for number in range(50):
    connection.request("GET", f"/size/{number}")
    answer = connection.getresponse()
    assert len(answer.read()) == number
    sockets.add(connection.sock.fileno())
len(sockets)
""",
    )
    assert value == 1
    assert far.place.connections - before <= 1


async def test_requests_go_out_side_by_side(world, base, far):
    """N7: the server answers none before all are there; then a hundred more."""
    before = far.place.connections
    value = await world.value(
        "typescript",
        f"""
        const get = async (path: string) => (await fetch("{base}" + path)).text();
        const first = await Promise.all(Array.from({{ length: {TOGETHER} }}, () => get("/together")));
        const then = await Promise.all(Array.from({{ length: 100 }}, (_, number) => get("/size/" + number)));
        return [new Set(first).size, first[0], then.every((text, number) => text.length == number)];
        """,
    )
    assert value == [1, "together", True]
    assert far.place.connections - before <= TOGETHER + 100


def memory(name):
    """A figure of this process, in bytes."""
    return int(re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024


@pytest.mark.parametrize("way", ["up", "down"])
async def test_what_is_large_is_never_held_whole(world, base, way):
    """N7: this process is the proxy and the server; its memory stays where it was."""
    program = {
        "down": f"curl -sS --fail {base}/chunked/{LARGE} | wc -c",
        "up": f"head -c {LARGE} /dev/zero | curl -sS --fail -T - {base}/echo",
    }[way]
    Path("/proc/self/clear_refs").write_text("5")  # the peak is what is now
    before = memory("VmRSS")
    value = await world.value("shell", program)
    assert (value if way == "down" else value["size"]) == LARGE
    assert memory("VmHWM") - before < LARGE / 3


async def test_an_answer_that_comes_before_the_body_is_passed_on_at_once(world, base):
    """N7: the server never reads the body, so that nobody can wait for its end."""
    program = f"head -c 50000000 /dev/zero | curl -sS -w ' %{{http_code}}' -H 'Expect:' -T - {base}/refusing"
    result = await world.run("shell", program, limits={"wall_seconds": 20})
    assert result.stdout.text == "too much 413", result.stderr.text
    assert result.requests[-1].status == 413


async def test_both_directions_flow_at_the_same_time(python):
    """N7: each line comes back before the next is sent."""
    value = await python(
        RAW,
        """
with connect() as stream:
    stream.sendall(head("POST /duplex", "Transfer-Encoding: chunked"))
    for piece in b"alpha\\n", b"gamma\\n", b"delta\\n":
        stream.sendall(b"6\\r\\n" + piece + b"\\r\\n")
        until(stream, piece)
    stream.sendall(b"0\\r\\n\\r\\n")
    end = until(stream, b"0\\r\\n\\r\\n")
len(end) > 0
""",
    )
    assert value is True


@pytest.mark.parametrize("path", ["/cut-long", "/cut-chunks"])
async def test_an_answer_that_breaks_off_is_an_error_and_no_short_success(world, base, path):
    """N7, T6: for Python, curl and Deno, with and without a length; and it is written down."""
    program = f"""
    import http.client, urllib.request
    try:
        urllib.request.urlopen("{base}{path}").read()
    except (http.client.IncompleteRead, ConnectionError) as error:
        print("broken")
    """
    result = await world.run("python", program)
    assert result.stdout.text == "broken\n", result.error
    assert (result.requests[0].status, result.requests[0].code) == (200, "upstream_broke_off")
    ended = world.records("fetch", run=result.run_id)[-1]
    assert (ended.fields["http_status"], ended.fields["code"]) == (200, "upstream_broke_off")
    assert (await world.run("shell", f"curl -sS -o /tmp/x {base}{path}")).exit_code in {18, 56}
    assert (await world.run("typescript", f"await (await fetch('{base}{path}')).text()")).status == "error"


async def test_a_short_answer_that_breaks_off_is_a_refusal(world, base):
    """N7: it is complete before a byte of it is passed on."""
    result = await world.run("shell", f"curl -sS -w '%{{http_code}}' {base}/cut")
    assert result.stdout.text.endswith("502")
    assert '"code": "upstream_broke_off"' in result.stdout.text


SOCKET = """
import sys; sys.path.append("/opt/clients")
from wsproto import ConnectionType, WSConnection
from wsproto.events import *

class Client:
    def __init__(self):
        place = urllib.parse.urlsplit(BASE)
        self.stream, self.protocol, self.seen = connect(), WSConnection(ConnectionType.CLIENT), []
        self.send(Request(host=place.netloc, target="/chat"))
        assert isinstance(self.next(), AcceptConnection)

    def send(self, event):
        self.stream.sendall(self.protocol.send(event))

    def next(self):
        while not self.seen:
            self.protocol.receive_data(self.stream.recv(65536) or None)
            self.seen += self.protocol.events()
        return self.seen.pop(0)

    def message(self):
        parts = []
        while True:
            event = self.next()
            parts.append(event.data)
            if event.message_finished:
                return "".join(parts) if isinstance(event, TextMessage) else bytes(b"".join(parts)).decode()
"""


@pytest.fixture
def chat(world, socket_place):
    """Run a program of the WebSocket client, and have its value."""

    async def value(program):
        return await world.value("python", f"BASE = 'https://socket.test:{socket_place.port}'\n{RAW}{SOCKET}{program}")

    return value


async def test_messages_of_a_websocket_are_scrubbed_across_frames(chat):
    """N6, N7, P19: text in two frames, and binary."""
    value = await chat("client = Client()\n[client.message(), client.message()]")
    told = "Bearer [secret socket.bearer]"
    assert value == [f"told: {told}, twice", f"\0{told}"]


async def test_pings_and_pongs_go_both_ways(chat):
    """N7: the server hears the program's pong, and the program the server's."""
    value = await chat(
        """
client = Client()
client.message(), client.message()
ping = client.next()
client.send(ping.response())
heard = client.message()
client.send(Ping(payload=b"you?"))
pong = client.next()
[type(ping).__name__, bytes(ping.payload).decode(), heard, type(pong).__name__, bytes(pong.payload).decode()]
"""
    )
    assert value == ["Ping", "there?", "pong there?", "Pong", "you?"]


async def test_fragments_stay_one_message(chat):
    """N7: also where a character is cut in two."""
    value = await chat(
        """
client = Client()
client.message(), client.message(), client.next()
client.send(TextMessage(data="one ", message_finished=False))
client.send(TextMessage(data="two \\u20ac ", message_finished=False))
client.send(TextMessage(data="three"))
client.send(BytesMessage(data=bytes(100_000)))
[client.message(), len(client.message())]
"""
    )
    assert value == ["one two \u20ac three", 100_000]


async def test_a_close_of_either_side_arrives_with_its_code(chat):
    """N7: and its reason, scrubbed."""
    value = await chat(
        """
ends = []
client = Client()
client.message(), client.message(), client.next()
client.send(TextMessage(data="close 4002 enough"))
end = client.next()
client.send(end.response())
ends.append([end.code, end.reason])
client = Client()
client.message(), client.message(), client.next()
client.send(CloseConnection(code=4003, reason="bye"))
end = client.next()
[*ends, [end.code, end.reason]]
"""
    )
    assert value == [[4002, "enough"], [4003, "bye"]]


async def test_a_websocket_is_written_down(world, chat):
    """T6: sizes both ways, the secret that came, nothing of what was said."""
    await chat(
        """
client = Client()
client.message(), client.message(), client.next()
client.send(TextMessage(data="a word of mine"))
assert client.message() == "a word of mine"
client.stream.close()
"""
    )
    ended = world.records("fetch.ended")[-1].fields
    assert (ended["api"], ended["http_status"], ended["scrubbed"]) == ("socket", 101, ["socket.bearer"])
    assert ended["sent_bytes"] >= len("a word of mine")
    assert b"a word of mine" not in json.dumps(ended).encode()


SIGV4 = {
    "kind": "sigv4",
    "access_key_id": "env:ALPHA_KEY",
    "secret_access_key": "env:ALPHA_KEY",
    "region": "us-east-1",
    "service": "s3",
}


@pytest.mark.parametrize("declared", ["", "-H 'X-Amz-Content-Sha256: STREAMING-UNSIGNED-PAYLOAD-TRAILER'"])
async def test_an_upload_to_s3_that_is_larger_than_what_is_read_whole_is_signed(world_of, api_at, authority, declared):
    """N5: as boto3 puts an object, and as curl does."""
    async with web(authority.server("alpha.test")) as far:
        place = f"alpha.test:{far.place.port}"
        async with world_of(api={"store": api_at(far.place.port, hosts=[place], auth=[SIGV4])}) as served:
            program = f"head -c 20000000 /dev/zero | curl -sS --fail {declared} -T - https://{place}/echo"
            said = await served.value("shell", program)
    headers = dict(map(tuple, said["headers"]))
    assert said["size"] == 20_000_000
    assert headers["x-amz-content-sha256"] in {"UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER"}
    assert "x-amz-content-sha256;x-amz-date" in headers["authorization"]
