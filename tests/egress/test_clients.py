"""Clients as they are, in a real sandbox, by both doors, to a real HTTPS server with a private authority."""

import base64
import functools
import hashlib
import os

import pytest
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from tests.far_side import git
from tests.far_side.listening import listening
from tests.far_side.web import web
from tests.far_side.websocket import handle as websocket

pytestmark = pytest.mark.anyio

PROXY, TRANSPARENT = "one.wild.test", "alpha.test"
"""A name that a pattern grants has no address inside: only the proxy door leads there. The other one is asked for
without the proxy's variables, or by who does not look at them."""

ALONE = {
    "python": """
import os
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]
""",
    "shell": "unset HTTP_PROXY HTTPS_PROXY http_proxy https_proxy\n",
    "typescript": "",
}
HEADERS = '{"X-Mine": "yes", "Authorization": "Bearer of my own"}'
PACKAGES = 'import sys; sys.path.append("/opt/clients")'

URLLIB = f"""
import json, urllib.request
json.load(urllib.request.urlopen(urllib.request.Request("$URL", b"hello", {HEADERS})))
"""
REQUESTS = f"""
{PACKAGES}
import requests
requests.post("$URL", data=b"hello", headers={HEADERS}).json()
"""
HTTPX = f"""
{PACKAGES}
import httpx
httpx.post("$URL", content=b"hello", headers={HEADERS}).json()
"""
HTTPX_ASYNC = f"""
{PACKAGES}
import httpx
async with httpx.AsyncClient() as client:
    answer = await client.post("$URL", content=b"hello", headers={HEADERS})
answer.json()
"""
AIOHTTP = f"""
{PACKAGES}
import aiohttp
async with aiohttp.ClientSession(trust_env=True) as session:
    async with session.post("$URL", data=b"hello", headers={HEADERS}) as response:
        answer = await response.json()
answer
"""
FETCH = f"""
return await (await fetch("$URL", {{method: "POST", body: "hello", headers: {HEADERS}}})).json();
"""
NODE = f"""
import https from "node:https";
return await new Promise((resolve, reject) => {{
  const request = https.request("$URL", {{ method: "POST", headers: {HEADERS} }}, (answer) => {{
    let text = "";
    answer.on("data", (data) => text += data).on("end", () => resolve(JSON.parse(text))).on("error", reject);
  }});
  request.on("error", reject).end("hello");
}});
"""
CURL = 'curl -sS --fail -d hello -H "X-Mine: yes" -H "Authorization: Bearer of my own" "$URL"'

CLIENTS = [
    pytest.param(language, program, host, id=f"{name}, {'proxy' if host == PROXY else 'transparent'}")
    for name, language, program, hosts in [
        ("urllib", "python", URLLIB, (PROXY, TRANSPARENT)),
        ("requests", "python", REQUESTS, (PROXY, TRANSPARENT)),
        ("httpx", "python", HTTPX, (PROXY, TRANSPARENT)),
        ("httpx async", "python", HTTPX_ASYNC, (PROXY, TRANSPARENT)),
        ("aiohttp", "python", AIOHTTP, (PROXY, TRANSPARENT)),
        ("fetch", "typescript", FETCH, (PROXY,)),
        ("node:https", "typescript", NODE, (TRANSPARENT,)),
        ("curl", "shell", CURL, (PROXY, TRANSPARENT)),
    ]
    for host in hosts
]


def located(language, host, port, program):
    """The program with the URL in its place, and no proxy where it shall use none."""
    program = program.replace("$URL", f"https://{host}:{port}/echo?q=1&r=%20two")
    return f"{ALONE[language] if host == TRANSPARENT else ''}{program}"


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    return tmp_path_factory.mktemp("repositories")


@pytest.fixture(scope="module")
async def far(authority, repositories):
    async with web(authority.server(PROXY, TRANSPARENT)) as server:
        server.app.routes["git"] = functools.partial(git.answer, repositories)
        yield server


@pytest.fixture(scope="module")
async def echo(authority):
    """A WebSocket server."""
    async with listening(websocket, authority.server(PROXY, TRANSPARENT, protocols=("http/1.1",))) as place:
        yield place


@pytest.fixture(scope="module")
def apis(far, echo, api_at):
    return {
        name: api_at(place.port, hosts=[f"{TRANSPARENT}:{place.port}", f"*.wild.test:{place.port}"])
        for name, place in {"alpha": far.place, "socket": echo}.items()
    }


@pytest.fixture(scope="module")
async def world(world_of, apis, clients):
    async with world_of(policy=clients, api=apis) as served:
        yield served


@pytest.mark.parametrize(("language", "program", "host"), CLIENTS)
async def test_a_client_as_it_is_calls_an_api_with_a_key_that_it_does_not_have(world, far, language, program, host):
    """N1, N5, N6, P18, P19: by both doors; its own credential is stripped, the owner's added, gone from the echo."""
    said = await world.value(language, located(language, host, far.place.port, program))
    assert_called(said)


def assert_called(said):
    assert (said["method"], said["target"], said["size"]) == ("POST", "/echo?q=1&r=%20two", 5)
    assert said["sha256"] == hashlib.sha256(b"hello").hexdigest()
    headers = [tuple(header) for header in said["headers"]]
    assert ("x-mine", "yes") in headers
    assert [value for name, value in headers if name == "authorization"] == ["Bearer [secret alpha.bearer]"]


async def test_sandboxes_that_have_waited_have_the_same_way_out(world_of, apis, far, clients):
    """N1: each language in a sandbox of the pool."""
    async with world_of(policy=clients, api=apis, pool={"forked": 1, "booted": 1}) as waiting:
        for language, program in ("python", URLLIB), ("typescript", FETCH), ("shell", CURL):
            assert_called(await waiting.value(language, located(language, PROXY, far.place.port, program)))


@pytest.mark.parametrize("host", [PROXY, TRANSPARENT])
async def test_git_clones_and_pushes_over_https(world, far, repositories, host):
    """N1: git as it is, its smart protocol both ways, with packs larger than it sends at once."""
    name = f"{host}.git"
    git.make_repository(repositories / name, {"README": "read me"})
    text = await world.value(
        "shell",
        (ALONE["shell"] if host == TRANSPARENT else "")
        + f"""
        set -e
        git clone -q https://{host}:{far.place.port}/git/{name} /tmp/here && cd /tmp/here
        cat README
        head -c 2000000 /dev/urandom > big && git add big
        git -c user.name=me -c user.email=me@here commit -q -m second
        git push -q origin main
        """,
    )
    assert text == "read me"
    assert git.log(repositories / name) == "second\nfirst\n"


async def test_deno_opens_a_websocket(world, echo):
    """N1, N7: text and binary, and the end, by the proxy door."""
    value = await world.value(
        "typescript",
        f"""
        const socket = new WebSocket("wss://{PROXY}:{echo.port}/");
        socket.binaryType = "arraybuffer";
        const said: unknown[] = [];
        return await new Promise((resolve) => {{
          socket.onopen = () => {{ socket.send("hello"); socket.send(new Uint8Array([1, 2, 255])); }};
          socket.onmessage = ({{ data }}) => {{
            said.push(typeof data === "string" ? data : [...new Uint8Array(data)]);
            if (said.length == 2) socket.close(4001, "enough");
          }};
          socket.onerror = (event) => said.push((event as ErrorEvent).message);
          socket.onclose = ({{ code, reason }}) => resolve([...said, code, reason]);
        }});
        """,
    )
    assert value == ["hello", [1, 2, 255], 4001, "enough"]


@pytest.mark.parametrize("host", [PROXY, TRANSPARENT])
async def test_aiohttp_opens_a_websocket(world, echo, host):
    """N1, N7: also where it offers compression, which nobody could look into."""
    program = f"""
    {PACKAGES}
    import aiohttp
    async with aiohttp.ClientSession(trust_env={host == PROXY}) as session:
        async with session.ws_connect("wss://{host}:{echo.port}/", compress=15) as socket:
            await socket.send_str("hello")
            said = [await socket.receive_str(), socket.compress]
    said
    """
    assert await world.value("python", program) == ["hello", 0]


async def test_a_client_that_would_rather_speak_http_2_speaks_http_1_1(world, far):
    """N1: to the door, which offers nothing else."""
    program = f"curl -sS --http2 -w ' %{{http_version}}' https://{TRANSPARENT}:{far.place.port}/size/3"
    assert await world.value("shell", program) == "012 1.1"


async def test_deno_opens_tls_connections_of_its_own(world, far):
    """N1: without any HTTP client, by the transparent door."""
    value = await world.value(
        "typescript",
        f"""
        const connection = await Deno.connectTls({{ hostname: "{TRANSPARENT}", port: {far.place.port} }});
        const lines = ["GET /size/3 HTTP/1.1", "Host: {TRANSPARENT}:{far.place.port}", "Connection: close", "", ""];
        await connection.write(new TextEncoder().encode(lines.join("\\r\\n")));
        return await new Response(connection.readable).text();
        """,
    )
    assert value.startswith("HTTP/1.1 200")
    assert value.endswith("\r\n\r\n012")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_urls_without_a_port_lead_to_80_and_443(world_of, authority, api_at, clients, scheme):
    """N1: by both doors, and plain HTTP where the owner grants it. Only root may listen there."""
    if os.geteuid() != 0:
        return
    context = authority.server(PROXY, TRANSPARENT) if scheme == "https" else None
    prefix = "" if scheme == "https" else "http://"
    hosts = [f"{prefix}{host}" for host in (TRANSPARENT, "*.wild.test")]
    async with web(context, host="127.0.0.12", port={"http": 80, "https": 443}[scheme]) as server:
        api = api_at(0, hosts=hosts, addresses=["127.0.0.12"], auth=[])
        async with world_of(policy=clients, api={"alpha": api}) as served:
            for host in PROXY, TRANSPARENT:
                program = f"curl -sS --fail {scheme}://{host}/chunked/3"
                assert await served.value("shell", (ALONE["shell"] if host == TRANSPARENT else "") + program) == "012"
    assert server.app.requests == ["GET /chunked/3"] * 2


async def test_every_runtime_trusts_the_door_and_nobody_else(world):
    """N1: the authority's certificate is the only one that is trusted, in each runtime's own place for it."""
    value = await world.value(
        "python",
        """
        import base64, os, ssl, subprocess
        names = ("SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE GIT_SSL_CAINFO DENO_CERT NODE_EXTRA_CA_CERTS PIP_CERT"
                 " AWS_CA_BUNDLE").split()
        bundle = open(os.environ["SSL_CERT_FILE"]).read()
        trusted = ssl.create_default_context().get_ca_certs()
        java = base64.b64encode(open("/etc/ssl/certs/java/cacerts", "rb").read()).decode()
        return [[os.environ.get(name) for name in names], bundle.count("BEGIN"), [c["subject"] for c in trusted], java]
        """,
    )
    paths, certificates, trusted, java = value
    (stored,) = load_pkcs12(base64.b64decode(java), None).additional_certs
    assert stored.certificate.subject.rfc4514_string() == "CN=Gloveport"
    assert set(paths) == {"/etc/ssl/certs/ca-certificates.crt"}
    assert certificates == 1
    assert trusted == [[[["commonName", "Gloveport"]]]]


async def test_no_private_key_is_anywhere_in_a_sandbox(world, far):
    """N1, T4: not in a file, the environment, what is mapped or open, when the door has been used."""
    result = await world.run(
        "shell",
        f"""
        curl -sS -o /dev/null --fail https://{PROXY}:{far.place.port}/size/1
        grep -rlsE 'BEGIN ([A-Z]+ )?PRIVATE KEY' /etc /run /tmp /opt/gloveport /var /dev/shm
        env | grep -E 'PRIVATE KEY'
        cat /proc/*/maps | grep -E 'leaf|[.]pem|[.]key'
        ls -l /proc/*/fd | grep -E 'leaf|[.]pem|[.]key'
        true
        """,
    )
    assert (result.status, result.stdout.text) == ("ok", "")
    assert len(result.requests) == 1


STAND_IN = {
    "python": """
import json, os, urllib.request
key = os.environ["SHOP_API_KEY"]
headers = {"Authorization": f"Bearer {key}"}
[key, json.load(urllib.request.urlopen(urllib.request.Request("$URL", b"hello", headers)))]
""",
    "typescript": """
const key = Deno.env.get("SHOP_API_KEY");
const answer = await fetch("$URL", { method: "POST", body: "hello", headers: { Authorization: `Bearer ${key}` } });
return [key, await answer.json()];
""",
}


@pytest.mark.parametrize("language", STAND_IN)
async def test_a_library_that_demands_a_key_finds_one_that_is_never_sent(world_of, api_at, far, language):
    """N5: it does not even start without."""
    hosts = [f"{PROXY}:{far.place.port}"]
    async with world_of(api={"shop": api_at(far.place.port, hosts=hosts, stand_ins=["SHOP_API_KEY"])}) as served:
        key, said = await served.value(language, located(language, PROXY, far.place.port, STAND_IN[language]))
    assert key == "added-by-gloveport"
    assert [value for name, value in map(tuple, said["headers"]) if name == "authorization"] != [f"Bearer {key}"]
    assert key not in str(said)
