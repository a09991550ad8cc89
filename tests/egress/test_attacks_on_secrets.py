"""Programs and servers that work together to get a credential into a sandbox.

Each test tells what the program saw, past every scrubber, and what the far side received."""

import base64
import gzip
import json
import random
import sysconfig
import textwrap
import zlib
from collections.abc import Callable
from functools import partial

import anyio
import brotli
import pytest
import zstandard
from tests.egress.attacker import PRELUDE, left, unmasked
from tests.egress.world import SECRET
from tests.far_side.hostile import Heard, chunked, hostile, whole
from tests.far_side.listening import listening
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, CloseConnection, Ping, Request, TextMessage

pytestmark = pytest.mark.anyio

KEY = SECRET.encode()
MARK = b"[secret alpha.bearer]"
LIMITS = {"limits": {"output_bytes": "4MiB", "code_bytes": "1MiB"}}

READ_ALL = """
seen = {}
for path in PATHS:
    seen[path] = masked(tried(lambda: asked(direct("alpha.test", PORT), request(f"alpha.test:{PORT}", path))))
seen
"""


@pytest.fixture(scope="module")
async def alpha(authority):
    """A server that is hostile, and is sent a key."""
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        yield server


@pytest.fixture(scope="module")
async def world(world_of, api_at, alpha):
    """Gloveport, with an API that gets a bearer token."""
    async with world_of(api={"alpha": api_at(alpha.place.port)}, policy=LIMITS) as opened:
        yield opened


@pytest.fixture
def see(world, alpha):
    """Let a program ask for each path, which is answered so, and tell all that it saw of the answers."""

    async def run(answers: dict[str, Callable[[Heard], bytes]]) -> dict[str, bytes]:
        alpha.answers = {f"/{name}": answer for name, answer in answers.items()}
        alpha.forget()
        paths = f"PATHS = {[*alpha.answers]!r}; PORT = {alpha.place.port}\n"
        told = await world.value("python", PRELUDE + paths + READ_ALL)
        assert all(alpha.at(path)[0].key == KEY for path in alpha.answers), "it was not sent what it should reflect"
        return {path[1:]: unmasked(seen) for path, seen in told.items()}

    return run


def shifted(encode: Callable[[bytes], bytes], by: int) -> Callable[[bytes], bytes]:
    """An encoding of a key that stands behind other bytes, without what these have a part in."""
    return lambda key: encode(b"x" * by + key)[2 if by else 0 :]


def folded(key: bytes) -> bytes:
    text = base64.b64encode(b"user:" + key)
    return b"\r\n".join(text[at : at + 12] for at in range(0, len(text), 12))


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "whole": bytes,
    "reversed": lambda key: key[::-1],
    "upper-case": bytes.upper,
    "lower-case": bytes.lower,
    "swapped-case": bytes.swapcase,
    "base64-of-it-after-0": shifted(base64.b64encode, 0),
    "base64-of-it-after-1": shifted(base64.b64encode, 1),
    "base64-of-it-after-2": shifted(base64.b64encode, 2),
    "url-safe-base64-after-0": shifted(base64.urlsafe_b64encode, 0),
    "url-safe-base64-after-1": shifted(base64.urlsafe_b64encode, 1),
    "url-safe-base64-after-2": shifted(base64.urlsafe_b64encode, 2),
    "base64-without-padding": lambda key: base64.b64encode(key).rstrip(b"="),
    "base64-in-lines": folded,
    "base32": base64.b32encode,
    "hexadecimal": lambda key: key.hex().encode(),
    "hexadecimal-upper-case": lambda key: key.hex().upper().encode(),
    "hexadecimal-with-colons": lambda key: key.hex(":").encode(),
    "percent-encoded": lambda key: key.replace(b"/", b"%2F").replace(b"+", b"%2B").replace(b"=", b"%3D"),
    "percent-encoded-lower-case": lambda key: key.replace(b"/", b"%2f").replace(b"+", b"%2b").replace(b"=", b"%3d"),
    "percent-encoded-all": lambda key: b"".join(b"%%%02x" % byte for byte in key),
    "percent-encoded-twice": lambda key: key.replace(b"/", b"%252F").replace(b"+", b"%252B").replace(b"=", b"%253D"),
    "json-escaped": lambda key: json.dumps(key.decode()).encode().replace(b"/", b"\\/"),
    "json-in-code-points": lambda key: b"".join(b"\\u%04x" % byte for byte in key),
    "markup": lambda key: key.replace(b"+", b"&#43;"),
    "markup-in-code-points": lambda key: b"".join(b"&#%d;" % byte for byte in key),
    "utf-16-le": lambda key: key.decode().encode("utf-16-le"),
    "utf-16-be": lambda key: key.decode().encode("utf-16-be"),
    "numbers": lambda key: json.dumps([*key]).encode(),
}


async def test_a_server_that_echoes_the_key_in_another_form_is_scrubbed(see):
    """N6, W3 of CodeForge: whole, reversed, in other cases, in base64 at each alignment, hexadecimal, escaped."""
    saw = await see(
        {name: lambda heard, form=form: whole(b"<" + form(heard.key) + b">") for name, form in FORMS.items()}
    )
    leaked = {name: found for name, form in FORMS.items() if (found := left(form(KEY), saw[name]))}
    assert leaked == {}
    assert [name for name in FORMS if MARK not in saw[name]] == []


async def test_no_part_of_an_answer_is_a_place_for_the_key(see):
    """N6: head, reason, cookies, redirects, trailers, chunk extensions, early hints, error pages."""

    def extended(heard: Heard) -> bytes:
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=%b\r\nok\r\n0;%b\r\n\r\n" % (
            heard.key,
            heard.key,
        )

    places: dict[str, Callable[[Heard], bytes]] = {
        "header": lambda heard: whole(b"ok", b"X-Echo: " + heard.key),
        "two-headers": lambda heard: whole(b"ok", b"X-Echo: " + heard.key, b"X-Echo: again " + heard.key),
        "header-name": lambda heard: whole(b"ok", b"X-%b: 1" % heard.key.hex().encode()),
        "header-in-base64": lambda heard: whole(b"ok", b"ETag: " + base64.b64encode(heard.key)),
        "cookie": lambda heard: whole(b"ok", b"Set-Cookie: a=1", b"Set-Cookie: b=%b; Path=/" % heard.key),
        "redirect": lambda heard: whole(b"", b"Location: /next?key=" + heard.key, status=b"302 Found"),
        "reason": lambda heard: whole(b"ok", status=b"200 " + heard.key),
        "error": lambda heard: whole(b"bad key " + heard.key, status=b"500 Internal Server Error"),
        "unauthorized": lambda heard: whole(
            b"", b'WWW-Authenticate: Bearer error_description="%b"' % heard.key, status=b"401 Unauthorized"
        ),
        "trailer": lambda heard: chunked(b"ok", trailers=(b"X-Echo: " + heard.key,)),
        "trailer-of-a-name": lambda heard: chunked(b"ok", trailers=(b"X-%b: 1" % heard.key.hex().encode(),)),
        "chunk-extension": extended,
        "early-hint": lambda heard: b"HTTP/1.1 103 Early Hints\r\nLink: <%b>\r\n\r\n" % heard.key + whole(b"ok"),
        "folded-header": lambda heard: (
            b"HTTP/1.1 200 OK\r\nX-Echo: %b\r\n %b\r\nContent-Length: 0\r\n\r\n" % (heard.key[:11], heard.key[11:])
        ),
        "garbage": lambda heard: b"ICY 200 %b\r\n\r\n%b" % (heard.key, heard.key),
        "no-header": lambda heard: b"HTTP/1.1 200 OK\r\n%b\r\n\r\n" % heard.key,
        "behind-the-end": lambda heard: whole(b"ok") + heard.key,
        "http-1.0": lambda heard: b"HTTP/1.0 200 OK\r\n\r\n" + heard.key,
        "broken-off": lambda heard: b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5000\r\n\r\n" + heard.key,
        "half-of-it": lambda heard: b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n" + heard.key,
    }
    saw = await see(places)
    forms = (KEY, base64.b64encode(KEY), KEY.hex().encode())
    leaked = {name: found for name, seen in saw.items() for form in forms if (found := left(form, seen))}
    del leaked["half-of-it"]  # a server that has the key can always say less of it: nobody can tell
    assert leaked == {}
    assert [name for name, seen in saw.items() if not seen.startswith(b"HTTP/1.1 ")] == []
    assert saw["cookie"].count(b"set-cookie: ") == 2


async def test_wherever_an_answer_is_cut_the_key_is_found(see):
    """N6: every split point, in chunks, in base64, between all bytes at once."""
    coded = base64.b64encode(b"user:" + KEY)

    def cut(text: bytes, at: int, _: Heard) -> bytes:
        return chunked(b"<" + text[:at], text[at:] + b">")

    answers = {f"whole-{at}": partial(cut, KEY, at) for at in range(1, len(KEY))}
    answers |= {f"base64-{at}": partial(cut, coded, at) for at in range(1, len(coded), 3)}
    answers["bytes"] = lambda heard: chunked(*(bytes([byte]) for byte in b"<" + heard.key + b">"))
    saw = await see(answers)
    core = coded[7:-1]  # of what precedes it, and of the padding, the key has no part
    assert {name: seen for name, seen in saw.items() if left(KEY, seen) or left(core, seen)} == {}


async def test_what_arrives_when_does_not_tell_whether_a_guess_is_the_beginning_of_the_key(world, alpha):
    """N6: a server sends guesses, and the program sees which of them were held back, in the chunks that it gets.

    Of half a key and more it is told, as of the whole: who has guessed that much has guessed it.
    """
    going = anyio.Event()

    async def guess(text: bytes, _: Heard):
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        for piece in (b"go\n", text):
            yield b"%x\r\n%b\r\n" % (len(piece), piece)
        await going.wait()
        yield b"2\r\n!\n\r\n0\r\n\r\n"

    def go(_: Heard) -> bytes:
        nonlocal going
        going.set()
        going = anyio.Event()
        return whole(b"ok")

    forms = (KEY, KEY.upper(), KEY[::-1], base64.b64encode(KEY), KEY.hex().encode())
    guesses = [(form[:size], form[: size - 1] + b"~") for form in forms for size in (1, 8, 9, 11)]
    alpha.answers = {"/go": go}
    alpha.answers |= {
        f"/{at}-{n}": partial(guess, text) for at, pair in enumerate(guesses) for n, text in enumerate(pair)
    }
    program = f"""
def told(path):
    stream, seen = direct("alpha.test", {alpha.place.port}), b""
    stream.sendall(request("alpha.test:{alpha.place.port}", path))
    while b"go\\n" not in seen:
        seen += stream.recv(65536)
    asked(direct("alpha.test", {alpha.place.port}), request("alpha.test:{alpha.place.port}", "/go"))
    return (seen + until_end(stream)).partition(b"\\r\\n\\r\\n")[2]
[[masked(told(f"/{{at}}-{{n}}")) for n in (0, 1)] for at in range({len(guesses)})]
"""
    saw = await world.value("python", PRELUDE + program.replace("\\\\", "\\"))
    for pair, seen in zip(guesses, saw, strict=True):
        right, wrong = (unmasked(one).replace(text, b"<guess>") for text, one in zip(pair, seen, strict=True))
        assert right == wrong
        assert b"<guess>!\n" in right


CODINGS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


async def test_under_a_coding_the_key_is_found_and_under_one_that_is_unknown_nothing_passes(see):
    """N6, W4 of CodeForge: what can't be decoded is refused; that is no reason to let it pass."""

    def coded(names: tuple[str, ...], heard: Heard) -> bytes:
        body = b"your key is %b, keep it" % heard.key
        for name in names:
            body = CODINGS[name](body)
        return whole(body, *(b"Content-Encoding: " + name.encode() for name in names))

    layers = [(name,) for name in CODINGS] + [("gzip", "br"), ("deflate", "zstd", "gzip")]
    answers = {",".join(names): partial(coded, names) for names in layers}
    refused: dict[str, Callable[[Heard], bytes]] = {
        "compress": lambda heard: whole(heard.key, b"Content-Encoding: compress"),
        "rot13": lambda heard: whole(heard.key, b"Content-Encoding: gzip, rot13"),
        "four": lambda heard: whole(heard.key, b"Content-Encoding: gzip, gzip, gzip, gzip"),
        "quoted": lambda heard: whole(heard.key, b'Content-Encoding: "gzip"'),
        "not-what-it-says": lambda heard: whole(heard.key, b"Content-Encoding: gzip"),
        "transfer": lambda heard: (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
            b"%x\r\n%b\r\n0\r\n\r\n" % (len(body := gzip.compress(heard.key)), body)
        ),
        "partial": lambda heard: whole(heard.key[:11], b"Content-Range: bytes 0-10/23", status=b"206 Partial Content"),
        "range-of-200": lambda heard: whole(heard.key[11:], b"Content-Range: bytes 11-22/23"),
        "unasked-upgrade": lambda heard: (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n" + heard.key
        ),
    }
    saw = await see(answers | refused)
    assert {name: seen for name, seen in saw.items() if left(KEY, seen)} == {}
    assert [name for name in answers if MARK not in saw[name]] == []
    passed = [name for name in refused if not saw[name].startswith((b"HTTP/1.1 502", b"HTTP/1.1 403"))]
    assert passed == ["not-what-it-says"], "of that the head was passed on, and nothing else"
    assert not saw["not-what-it-says"].endswith(b"0\r\n\r\n")


async def test_a_key_in_the_place_of_a_content_coding_is_written_down_nowhere(world_of, api_at, authority, caplog):
    """P19: it is quoted in the refusal, in the log and on standard error, and it was cut before it was scrubbed."""
    key = "sk-" + "k3y.4711/alpha+" * 8
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as far:
        far.answers = {"/": lambda heard: whole(b"ok", b"Content-Encoding: " + heard.key)}
        async with world_of({"ALPHA_KEY": key}, api={"alpha": api_at(far.place.port)}, policy=LIMITS) as opened:
            program = f"""
            place, port = "alpha.test:{far.place.port}", {far.place.port}
            masked(tried(lambda: asked(direct("alpha.test", port), request(place, "/"))))
            """
            result = await opened.run("python", PRELUDE + textwrap.dedent(program))
            assert result.status == "ok"
            assert result.requests[0].code == "unknown_encoding"
            assert left(key.encode(), unmasked(result.value), 20) == []
            assert left(key.encode(), result.model_dump_json().encode(), 20) == []
            assert left(key.encode(), opened.written(), 20) == []
            assert left(key.encode(), caplog.text.encode(), 20) == []


async def test_parts_of_an_answer_and_its_reflection_are_not_to_be_had(world, alpha):
    """N6: a Range, and TRACE, never leave; and nothing asks for compression."""
    alpha.answers, place = {}, f"alpha.test:{alpha.place.port}"
    alpha.forget()
    program = f"""
place, port = {place!r}, {alpha.place.port}
def say(*args, **more):
    return code_of(tried(lambda: asked(direct("alpha.test", port), request(place, *args, **more))))
[
    say("/range", headers=["Range: bytes=0-10"]),
    say("/range", headers=["rAnGe: bytes=-5"]),
    say("/trace", "TRACE"),
    say("/coding", headers=["Accept-Encoding: rot13, gzip;q=0, *"]),
]
"""
    said = await world.value("python", PRELUDE + program)
    assert said == ["403 range_refused", "403 range_refused", "400 bad_request", "200"]
    (heard,) = alpha.heard
    assert heard.values("accept-encoding") == [b"identity"]


async def test_how_well_an_echo_is_compressed_does_not_tell_which_guess_is_right(world, alpha):
    """N6: an honest server compresses a guess together with the key (BREACH): HEAD told it in 340 requests a character.

    One that compresses unasked tells no length to HEAD at least.
    """
    noise = bytes(random.Random(4).choices(range(33, 127), k=40_000))

    def page(heard: Heard, codings: list[bytes]) -> bytes:
        text = b"Bearer %b&%b%b" % (heard.key, b"".join(heard.values("x-guess")), noise)
        is_coded = b"gzip" in b",".join(codings)
        answer = whole(gzip.compress(text, mtime=0), b"Content-Encoding: gzip") if is_coded else whole(text)
        return answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if heard.head.startswith(b"HEAD") else answer

    alpha.answers = {
        "/echo": lambda heard: page(heard, heard.values("accept-encoding")),
        "/unasked": lambda heard: page(heard, [b"gzip"]),
    }
    program = f"""
    import re
    place, port = "alpha.test:{alpha.place.port}", {alpha.place.port}
    def lengths(method, path, guess):
        headers = ["Accept-Encoding: gzip", "X-Guess: Bearer " + guess]
        answer = asked(direct("alpha.test", port), request(place, path, method, headers))
        return [len(answer), re.findall(rb"ength: ([0-9]+)|\\r\\n([0-9a-f]+)\\r\\n", answer)].__repr__()
    asks = ("GET", "/echo"), ("HEAD", "/echo"), ("HEAD", "/unasked")
    [len({{lengths(*ask, guess) for guess in GUESSES}}) for ask in asks]
    """
    guesses = [SECRET[:9], SECRET[:8] + "~", SECRET[:4] + "~!^[]"]
    told = await world.value("python", f"{PRELUDE}GUESSES = {guesses!r}\n" + textwrap.dedent(program))
    assert told == [1, 1, 1], "for each guess the same"


async def test_a_websocket_tells_no_key_in_any_frame(world_of, api_at, authority):
    """N6, N7, W5 of CodeForge: in messages, in fragments of one, in pings, in the reason of its end."""
    sent: list[bytes] = []

    async def reflect(stream) -> None:
        protocol, key = WSConnection(ConnectionType.SERVER), b""
        async for data in stream:
            protocol.receive_data(data)
            for event in protocol.events():
                if isinstance(event, Request):
                    key = dict(event.extra_headers)[b"authorization"].removeprefix(b"Bearer ")
                    sent.append(key)
                    text = key.decode()
                    fragments = [TextMessage(data=letter, message_finished=False) for letter in text]
                    halves = [BytesMessage(data=key[:9], message_finished=False), BytesMessage(data=key[9:])]
                    coded = base64.b64encode(b"a" + key)
                    for said in (
                        AcceptConnection(extra_headers=[(b"x-echo", key)]),
                        TextMessage(data=f"<{text}>"),
                        BytesMessage(data=b"\x00" + key[::-1]),
                        *fragments,
                        TextMessage(data="."),
                        *halves,
                        Ping(payload=key),
                        BytesMessage(data=coded[:13], message_finished=False),
                        BytesMessage(data=coded[13:]),
                        CloseConnection(code=1000, reason=text),
                    ):
                        await stream.send(protocol.send(said))

    program = """
    from wsproto import ConnectionType, WSConnection
    from wsproto.events import Request

    stream = direct("alpha.test", PORT)
    protocol = WSConnection(ConnectionType.CLIENT)
    stream.sendall(protocol.send(Request(host="alpha.test:PORT", target="/")))
    seen = b""
    while b"\\x88" not in seen:  # the end of a WebSocket
        seen += stream.recv(65536)
    head, _, frames = seen.partition(b"\\r\\n\\r\\n")
    [masked(head), masked(frames)]
    """
    context = authority.server("alpha.test", protocols=("http/1.1",))
    async with listening(reflect, context) as place:
        mounts = {"mounts": [{"source": sysconfig.get_path("purelib"), "target": "/opt/clients"}]}
        async with world_of(api={"alpha": api_at(place.port)}, policy=mounts) as world:
            code = textwrap.dedent(program).replace("PORT", str(place.port))
            path = "import sys; sys.path.append('/opt/clients')\n"
            head, frames = map(unmasked, await world.value("python", path + PRELUDE + code))
    assert sent == [KEY]
    assert head.startswith(b"HTTP/1.1 101")
    assert MARK in head
    found = [left(form, head + frames) for form in (KEY, KEY[::-1], base64.b64encode(b"a" + KEY)[2:])]
    assert found == [[], [], []]
    assert frames.count(MARK) == 7


async def test_a_key_that_is_sent_later_does_not_come_by_an_answer_that_had_begun(world_of, api_at, authority):
    """N5, N6: the placeholder goes out on one connection while another one waits: by body, under a coding, by frame."""
    known: list[bytes] = []
    learned = anyio.Event()

    def give(heard: Heard) -> bytes:
        known.extend(heard.values("x-token"))
        learned.set()
        return whole(b"ok")

    async def stream(heard: Heard, encode=bytes, coding=b"identity"):
        yield b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Encoding: %b\r\n\r\n" % coding
        await learned.wait()
        yield encode(b"<" + known[0] + b">")

    async def websocket(heard: Heard):
        protocol = WSConnection(ConnectionType.SERVER)
        protocol.receive_data(heard.head + b"\r\n")
        assert [type(event) for event in protocol.events()] == [Request]
        yield protocol.send(AcceptConnection())
        await learned.wait()
        yield protocol.send(TextMessage(data=known[0].decode()))

    program = """
    streams = []
    for path in ("/stream", "/gzip"):
        streams.append(direct("alpha.test", PORT))
        streams[-1].sendall(request("alpha.test:PORT", path))
    frames = direct("alpha.test", PORT)
    upgrade = ["Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=="]
    frames.sendall(request("alpha.test:PORT", "/ws", headers=upgrade).replace(b"close", b"upgrade"))
    begun = [stream.recv(20) for stream in (*streams, frames)]
    token = "X-Token: " + os.environ["TOKEN"]
    said = code_of(asked(direct("alpha.test", PORT), request("alpha.test:PORT", "/give", headers=[token])))
    while b"[" not in begun[-1] and len(begun[-1]) < 4096:
        begun.append(frames.recv(4096))
    [said, masked(b"".join(begun) + b"".join(map(until_end, streams)))]
    """
    placeholder = {"kind": "placeholder", "name": "TOKEN", "secret": "env:ALPHA_KEY", "places": ["header:x-token"]}
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        server.answers = {
            "/give": give,
            "/stream": stream,
            "/gzip": partial(stream, encode=gzip.compress, coding=b"gzip"),
            "/ws": websocket,
        }
        async with world_of(api={"alpha": api_at(server.place.port, auth=[placeholder])}) as world:
            code = textwrap.dedent(program).replace("PORT", str(server.place.port))
            said, saw = await world.value("python", PRELUDE + code)
    assert (said, known) == ("200", [KEY])
    assert left(KEY, unmasked(saw)) == []
    assert unmasked(saw).count(b"[secret alpha.TOKEN]") == 3


async def test_what_a_program_makes_of_what_it_was_told_is_scrubbed_once_more(world, alpha):
    """N6, T4: in thirds by three answers, put together in output, value, exception, URL, and under escapes."""
    alpha.answers = {
        "/first": lambda heard: whole(heard.key[:8]),
        "/second": lambda heard: whole(heard.key[8:16]),
        "/third": lambda heard: whole(heard.key[16:]),
    }
    program = f"""
import sys
def third(path):
    answer = asked(direct("alpha.test", {alpha.place.port}), request("alpha.test:{alpha.place.port}", path))
    return answer.partition(b"\\r\\n\\r\\n")[2].decode()
key = third("/first") + third("/second") + third("/third")
"""
    endings = {
        "letter by letter": "for letter in key: print(letter, end='', flush=True); sys.stderr.write(letter)",
        "value": "{'keys': [key, {key: key[::-1]}], 'text': 'a' + key}",
        "exception": "raise KeyError(key)",
        "exit": "sys.exit(key)",
        "escapes": "print(key[:9] + '\\x1b[0m' + key[9:]); print(key[:9] + '\\0' + key[9:]); print('\\x7f'.join(key))",
        "bytes": "sys.stdout.buffer.write(b'\\xff' + key.encode() + b'\\xe2\\x82'); [*key.encode()]",
        "path": "code_of(asked(plain(), request('alpha.test', f'http://alpha.test/{key}')))",
        "host": "code_of(asked(plain(), request(f'{key.encode().hex()}.test', f'http://{key.encode().hex()}.test/')))",
        "garbage": "code_of(asked(plain(), request('x', f'<{key}>')))",
        "method": "code_of(asked(plain(), request('x', '/', key.replace('/', '-').replace('=', '-'))))",
    }
    alpha.forget()
    leaked = {}
    for name, ending in endings.items():
        result = await world.run("python", PRELUDE + program + ending)
        told = result.model_dump_json().encode()
        assert result.status == ("error" if name in {"exception", "exit"} else "ok"), result
        if found := [part for form in (KEY, KEY.hex().encode()) for part in left(form, told, size=12)]:
            leaked[name] = found[0]
    assert leaked == {}
    assert len(alpha.at("/first")) == len(alpha.at("/second")) == len(endings)
    written = world.written()
    assert [part for form in (KEY, KEY.hex().encode()) for part in left(form, written, size=12)] == []


async def test_a_url_with_a_secret_in_it_is_refused_like_any_other_where_it_would_be_refused_anyway(world, alpha):
    """Not an oracle: a host that exists nowhere told of thirteen requests which of 13,000 guesses was the password."""
    port = alpha.place.port
    program = f"""
    import http.client
    answers = []
    for text in ("n0-s3cret-at-all-4711", KEY):
        text = text.replace("/", "%2F").replace("+", "%2B").replace("=", "%3D")
        for target in (
            f"http://nowhere.invalid/?q={{text}}", f"http://nowhere.invalid/{{text}}", f"http://alpha.test:{port}/{{text}}",
            f"http://alpha.test:1/{{text}}",
        ):
            connection = http.client.HTTPConnection("127.0.0.2", 3128)
            connection.request("GET", target)
            answer = connection.getresponse()
            answers.append((answer.status, answer.read().decode().replace(text, "GUESS")))
    answers
    """
    result = await world.run("python", f"KEY = {SECRET!r}\n" + textwrap.dedent(program))
    assert result.value[:4] == result.value[4:]
    assert {status for status, _ in result.value} == {403}
    refused = world.records("fetch.denied", result.run_id)
    codes = {record.fields["code"] for record in refused}
    assert codes == {"host_not_granted", "plain_http_not_granted"}
    assert left(KEY, world.written(), 12) == []


async def test_a_run_that_goes_on_putting_secrets_into_urls_makes_no_more_requests(world, alpha):
    """Each refusal tells that one guess is right: after three there is nothing more to learn."""
    alpha.answers = {}
    alpha.forget()
    program = f"""
    place, port = "alpha.test:{alpha.place.port}", {alpha.place.port}
    def code(path):
        return code_of(tried(lambda: asked(direct("alpha.test", port), request(place, path))))
    [code("/?a=" + text) for text in ("right", KEY, KEY.lower(), "wrong", KEY.upper(), "wrong", KEY)]
    """
    result = await world.run("python", PRELUDE + f"KEY = {SECRET.replace('/', '%2F')!r}\n" + textwrap.dedent(program))
    guessed = "403 secret_in_url"
    assert result.value == ["200", guessed, guessed, "200", guessed, "403 too_many_secrets", "403 too_many_secrets"]
    codes = [record.fields["code"] for record in world.records("fetch.denied", result.run_id)]
    assert codes == ["secret_in_url"] * 3 + ["too_many_secrets"]
    assert left(KEY, world.written(), 12) == []
    assert left(KEY, result.model_dump_json().encode(), 12) == []


async def test_what_a_program_has_sent_where_no_credential_goes_comes_back_as_it_was(
    world_of, api_at, alpha, authority
):
    """An echo told at once which of 18,200 guesses is a secret. From where a credential goes all is scrubbed."""

    def echo(heard: Heard) -> bytes:
        return whole(heard.body + b"|" + b"".join(heard.values("x-guess")))

    async with hostile(authority.server("beta.test", protocols=("http/1.1",))) as beta:
        beta.answers = {"/echo": echo, "/stored": lambda _: whole(KEY)}
        alpha.answers = {"/echo": echo}
        beta_api = api_at(beta.place.port, name="beta.test", auth=[])
        async with world_of(api={"alpha": api_at(alpha.place.port), "beta": beta_api}, policy=LIMITS) as opened:
            program = f"""
            import json, urllib.request
            def say(host, port, path, body=None, **headers):
                asked = urllib.request.Request(f"https://{{host}}:{{port}}{{path}}", body, headers)
                return urllib.request.urlopen(asked).read().hex()
            alpha, beta = ("alpha.test", {alpha.place.port}), ("beta.test", {beta.place.port})
            guesses = b"guess-4711 " * 20000 + KEY + b" guess-4712"
            say(*alpha, "/first")
            seen = [say(*beta, "/stored"), say(*beta, "/echo", guesses)]
            seen += [say(*beta, "/echo", b"", **{{"X-Guess": KEY.decode()}})]
            seen += [say(*beta, "/stored"), say(*alpha, "/echo", guesses)]
            masked_all = [bytes(byte ^ 0x5A for byte in bytes.fromhex(one)).hex() for one in seen]
            [masked_all[0], masked_all[1][-200:], *masked_all[2:4], masked_all[4][-200:]]
            """
            told = await opened.value("python", f"KEY = {KEY!r}\n" + textwrap.dedent(program))
            stored, echoed, in_header, again, credentialed = map(unmasked, told)
            assert stored == MARK, "before it has sent it, nobody tells it"
            assert KEY + b" guess-4712|" in echoed
            assert in_header == b"|" + KEY
            assert again == KEY, "it has sent that itself"
            assert KEY not in credentialed
            assert MARK in credentialed
