"""Programs and servers that try to be understood in two ways. What leaves is one request, framed anew, for one that was
allowed; what comes back is one answer."""

import re
import textwrap

import pytest
from tests.egress.attacker import PRELUDE, unmasked
from tests.egress.world import SECRET
from tests.far_side.hostile import chunked, hostile, whole

pytestmark = pytest.mark.anyio

KEY = SECRET.encode()
RULES = [{"action": "allow", "methods": ["GET", "HEAD", "POST"], "paths": ["/open/**"]}]


@pytest.fixture(scope="module")
async def alpha(authority):
    """A server that is hostile, and is sent a key."""
    async with hostile(authority.server("alpha.test", protocols=("http/1.1",))) as server:
        yield server


@pytest.fixture(scope="module")
async def world(world_of, api_at, alpha):
    """Gloveport, with an API of which one path may be asked for."""
    limits = {"limits": {"output_bytes": "4MiB", "code_bytes": "1MiB"}}
    async with world_of(api={"alpha": api_at(alpha.place.port, rules=RULES)}, policy=limits) as opened:
        yield opened


@pytest.fixture
def say(world, alpha):
    """Let a program say each of these raw requests on a connection of its own, and tell what it was answered."""

    async def run(raw: dict[str, bytes], door: str = "direct") -> dict[str, str]:
        alpha.forget()
        place = f"alpha.test:{alpha.place.port}".encode()
        told = {name: text.replace(b"PLACE", place).decode("latin-1") for name, text in raw.items()}
        program = f"""
from concurrent.futures import ThreadPoolExecutor

def say(text):
    with {door}("alpha.test", {alpha.place.port}) as stream:
        stream.sendall(text.encode("latin-1"))
        return masked(until_end(stream, 1.5))

told = {told!r}
with ThreadPoolExecutor(len(told)) as pool:
    said = dict(zip(told, pool.map(say, told.values())))
said
"""
        seen = await world.value("python", PRELUDE + program)
        return {name: unmasked(text).decode("latin-1") for name, text in seen.items()}

    return run


def statuses(answer: str) -> list[str]:
    return re.findall("HTTP/1.1 ([0-9]+) ", answer)


HEAD = b"POST /open/x HTTP/1.1\r\nHost: PLACE\r\n"
INNER = b"GET /closed HTTP/1.1\r\nHost: PLACE\r\nX-Smuggled: 1\r\n\r\n"


async def test_no_request_is_smuggled_in_another(say, alpha):
    """N2, N3: CL.TE, TE.CL, TE.TE, CL.CL, bare line feeds, folds, spaces, NUL: refused, or one request and no other."""
    chunk = b"%x\r\n%b\r\n0\r\n\r\n" % (len(INNER), INNER)
    raw = {
        "cl.te": HEAD + b"Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" % (5 + len(INNER)) + INNER,
        "te.cl": HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n" + chunk,
        "te.te": HEAD + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n" + chunk,
        "te-list": HEAD + b"Transfer-Encoding: identity, chunked\r\n\r\n" + chunk,
        "te-gzip": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + chunk,
        "te-xchunked": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + chunk,
        "te-space-before-colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n" + chunk,
        "te-tab": HEAD + b"Transfer-Encoding:\x0bchunked\r\n\r\n" + chunk,
        "te-folded": HEAD + b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 3\r\n\r\n" + chunk,
        "cl.cl": HEAD + b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(INNER) + INNER,
        "cl-list": HEAD + b"Content-Length: 0, %d\r\n\r\n" % len(INNER) + INNER,
        "cl-plus": HEAD + b"Content-Length: +0\r\n\r\n" + INNER,
        "cl-negative": HEAD + b"Content-Length: -1\r\n\r\n" + INNER,
        "cl-hex": HEAD + b"Content-Length: 0x10\r\n\r\n" + INNER,
        "bare-lf": (HEAD + b"Content-Length: 2\r\n\r\n").replace(b"\r\n", b"\n") + b"ok",
        "fold": HEAD + b"X-Folded: a\r\n b\r\nContent-Length: 2\r\n\r\nok",
        "cl-huge": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + INNER,
        "chunk-size-sign": HEAD + b"Transfer-Encoding: chunked\r\n\r\n+1\r\nx\r\n0\r\n\r\n" + INNER,
        "chunk-size-hex": HEAD + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\nx\r\n0\r\n\r\n" + INNER,
        "chunk-size-huge": HEAD + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffffffff\r\nx\r\n0\r\n\r\n" + INNER,
        "chunk-without-end": HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n0\r\n\r\n" + INNER,
        "chunk-extension": HEAD + b'Transfer-Encoding: chunked\r\n\r\n2;x="\ny"\r\nok\r\n0\r\n\r\n',
        "nul-in-name": HEAD + b"X\0Y: 1\r\n\r\n" + INNER,
        "nul-in-value": HEAD + b"X: a\0b\r\n\r\n" + INNER,
        "cr-in-value": HEAD + b"X: a\rTransfer-Encoding: chunked\r\n\r\n" + chunk,
        "no-host": b"GET /open/x HTTP/1.1\r\n\r\n" + INNER,
        "two-hosts": b"GET /open/x HTTP/1.1\r\nHost: PLACE\r\nHost: PLACE\r\n\r\n" + INNER,
        "space-before-first-header": b"GET /open/x HTTP/1.1\r\n X: 1\r\nHost: PLACE\r\n\r\n" + INNER,
        "space-in-target": b"GET /open/x y HTTP/1.1\r\nHost: PLACE\r\n\r\n" + INNER,
        "http-0.9": b"GET /open/x\r\n\r\n",
        "http-1.2": b"GET /open/x HTTP/1.2\r\nHost: PLACE\r\n\r\n",
        "http-2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
        "lower-case": b"get /open/x HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "trace": b"TRACE /open/x HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "connect": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "connect-here": b"CONNECT PLACE HTTP/1.1\r\nHost: PLACE\r\n\r\n" + INNER,
        "tls": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    }
    said = await say(raw)
    answered = {name: statuses(answer) for name, answer in said.items()}
    passed = {name: codes for name, codes in answered.items() if any(code[0] in "123" for code in codes)}
    assert passed == {}
    assert not [heard.head for heard in alpha.heard if not heard.head.startswith(b"POST /open/x HTTP/1.1\r\n")]
    assert b"/closed" not in alpha.received
    assert b"Smuggled" not in alpha.received
    assert [name for name, codes in answered.items() if not codes] == []
    assert [name for name, answer in said.items() if "The answer of" in answer] == []  # it was the request


async def test_what_may_be_odd_is_made_plain(say, alpha):
    """N3: what is understood leaves in one framing that is made anew, whoever comes behind."""
    raw = {
        "extensions": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2;a=b;c\r\nok\r\n0;d\r\n\r\n",
        "trailer": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 7\r\nHost: x\r\n\r\n",
        "underscores": HEAD + b"Content_Length: 99\r\nTransfer_Encoding: chunked\r\nContent-Length: 2\r\n\r\nok",
        "hop": HEAD + b"Connection: close, Authorization, X-Gone\r\nX-Gone: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\nContent-Length: 2\r\n\r\nok",
        "expect": HEAD + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\nok",
        "expectation": HEAD + b"Expect: a-miracle\r\nContent-Length: 2\r\n\r\nok",
        "http-1.0": HEAD.replace(b"1.1", b"1.0") + b"Content-Length: 2\r\n\r\nok",
        "h2c": b"GET /open/x HTTP/1.1\r\nHost: PLACE\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
        b"HTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "pipelined": b"GET /open/1 HTTP/1.1\r\nHost: PLACE\r\n\r\nGET /closed HTTP/1.1\r\nHost: PLACE\r\n\r\n"
        b"GET /open/2 HTTP/1.1\r\nHost: PLACE\r\nConnection: close\r\n\r\n",
    }
    said = await say(raw)
    answered = {name: [code for code in statuses(answer) if code != "100"] for name, answer in said.items()}
    assert answered.pop("pipelined") == ["200", "403", "200"]
    assert answered.pop("h2c")[0] == "200"
    assert {name: codes for name, codes in answered.items() if codes != ["200"]} == {}
    for heard in alpha.heard:
        head = heard.head.lower()
        assert head.count(b"\r\nhost: ") == 1
        assert head.count(b"\r\ncontent-length: ") + head.count(b"\r\ntransfer-encoding: ") == (heard.body == b"ok")
        assert heard.values("authorization") == [b"Bearer " + KEY]
        names = {line.partition(b":")[0] for line in head.split(b"\r\n")[1:]}
        assert not names & {b"connection", b"te", b"upgrade", b"http2-settings", b"x-gone", b"expect", b"trailer"}
        assert b"_" not in b"".join(names), "to some servers it is a hyphen"
    assert [heard.target for heard in alpha.heard].count("/open/x") == len(raw) - 1
    assert b"/closed" not in alpha.received


async def test_what_a_server_says_is_one_answer(say, alpha):
    """N3, N6: answers split, smuggled behind others, or without a sound framing are refused or cut."""
    second = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX-Split: 1\r\n\r\nbad"
    answers = {
        "two": whole(b"ok") + second,
        "cl.te": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + second,
        "cl.cl": b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nContent-Length: 80\r\n\r\n" + second,
        "cl-list": b"HTTP/1.1 200 OK\r\nContent-Length: 0, 0\r\n\r\n" + second,
        "bare-cr": b"HTTP/1.1 200 OK\r\nX: a\rX-Split: 1\r\nContent-Length: 0\r\n\r\n",
        "bare-lf": b"HTTP/1.1 200 OK\nX-Split: 1\nContent-Length: 0\n\n",
        "nul": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\n",
        "status": b"HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
        "status-1000": b"HTTP/1.1 1000 OK\r\nContent-Length: 0\r\n\r\n",
        "switch": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n" + second,
        "hints": b"HTTP/1.1 103 Early Hints\r\nX-Split: 1\r\n\r\n" * 5000 + whole(b"ok"),
        "huge-head": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        "many-heads": b"HTTP/1.1 200 OK\r\n" + b"X-Split: 1\r\n" * 10_000 + b"\r\n",
        "redirect": whole(b"", b"Location: http://169.254.169.254/", b"Connection: close", status=b"302 Found"),
        "framing": chunked(b"ok", trailers=(b"Content-Length: 9", b"Transfer-Encoding: chunked", b"X: 1")),
    }
    alpha.answers = {f"/open/{name}": lambda _, said=said: said for name, said in answers.items()}
    get = b"GET /open/%b HTTP/1.1\r\nHost: PLACE\r\nConnection: close\r\n\r\n"
    said = await say({name: get % name.encode() for name in answers})
    alpha.answers = {}
    codes = {name: statuses(answer) for name, answer in said.items()}
    fine = {name: codes.pop(name) for name in ("two", "redirect", "framing")}
    assert fine == {"two": ["200"], "redirect": ["302"], "framing": ["200"]}
    assert {name: code for name, code in codes.items() if code != ["502"]} == {}
    assert not [
        name for name, answer in said.items() if "X-Split" in answer or "x-split" in answer or "bad" in answer[-9:]
    ]


async def test_a_connection_is_kept_and_each_answer_is_that_of_its_request(world, alpha):
    """N7: after requests without and with a body, after a refusal, and after HEAD."""
    alpha.answers = {f"/open/{number}": lambda _, number=number: whole(b"%d" % number) for number in range(6)}
    program = f"""
    REQUESTS = ("GET", "open", None), ("POST", "open", "x"), ("GET", "closed", None), ("HEAD", "open", None)
    connection = http.client.HTTPSConnection("alpha.test", {alpha.place.port})
    said, ports = [], set()
    for number in range(6):
        for method, path, body in REQUESTS:
            connection.request(method, f"/{{path}}/{{number}}", body)
            answer = connection.getresponse()
            content = answer.read().decode()
            said.append((answer.status, content if path == "open" else ""))
            ports.add(connection.sock.getsockname()[1])
    [said, len(ports)]
    """
    said, ports = await world.value("python", PRELUDE + textwrap.dedent(program))
    alpha.answers = {}
    assert ports == 1
    expected = [[(200, str(n)), (200, str(n)), (403, ""), (200, "")] for n in range(6)]
    assert [tuple(answer) for answer in said] == [answer for answers in expected for answer in answers]


async def test_the_proxy_door_is_no_way_around(world, say, alpha):
    """N1, N3: targets of other shapes, tunnels in tunnels, bytes ahead of the answer, TLS where there is none."""
    get = b"GET %b HTTP/1.1\r\nHost: PLACE\r\nConnection: close\r\n\r\n"
    raw = {
        "origin-form": get % b"/open/x",
        "asterisk": get.replace(b"GET", b"OPTIONS") % b"*",
        "user": get % b"https://PLACE@alpha.test/open/x",
        "scheme": get % b"file:///etc/passwd",
        "ftp": get % b"ftp://PLACE/open/x",
        "fragment": get % b"https://PLACE/open/x#@evil.test",
        "backslash": get % b"https:\\\\PLACE\\open/x",
        "no-slashes": get % b"https:PLACE/open/x",
        "plain": get % b"http://PLACE/open/x",
        "other-port": get.replace(b"Host: PLACE", b"Host: alpha.test") % b"https://alpha.test/open/x",
        "ahead": b"CONNECT PLACE HTTP/1.1\r\nHost: PLACE\r\n\r\n" + INNER,
        "no-port": b"CONNECT alpha.test HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "port-0": b"CONNECT alpha.test:0 HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "port-65536": b"CONNECT alpha.test:65536 HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "url": b"CONNECT https://PLACE/ HTTP/1.1\r\nHost: PLACE\r\n\r\n",
        "tls": b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03",
    }
    said = await say(raw, "plain")
    passed = {name: codes for name, answer in said.items() if (codes := statuses(answer)) and codes[0][0] in "123"}
    assert passed == {}
    assert alpha.heard == []
    tunnel = f"""
    with tunneled("alpha.test", {alpha.place.port}, None) as stream:
        stream.sendall(b"CONNECT alpha.test:{alpha.place.port} HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
        inner = code_of(until_end(stream, 0.4))
    with tunneled("127.0.0.2", 3128, None) as stream:
        itself = code_of(asked(stream, request("127.0.0.2:3128", "/")))
    stream = tunneled("alpha.test", {alpha.place.port}, None)
    plainly = code_of(asked(stream, request("alpha.test:{alpha.place.port}", "/open/x")))
    [inner, itself, plainly]
    """
    refused = await world.value("python", PRELUDE + textwrap.dedent(tunnel))
    assert refused == ["400 bad_request", "403 address_not_granted", "403 plain_http_not_granted"]
    assert alpha.heard == []
