"""What an agent is told of the way out, what its programs find, and what is written down of all of it."""

import json
from dataclasses import replace
from urllib.parse import parse_qs

import pytest
from mcp import Client, StdioServerParameters
from tests import forked, remembered
from tests.egress.world import BEARER, SECRET
from tests.far_side.listening import HOST
from tests.far_side.web import web

from gloveport.config import Config
from gloveport.model.egress import Api, Egress
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server
from gloveport.server.rendering.api_text import apis_text

pytestmark = pytest.mark.anyio

PLACED = "placed/secret+VALUE=4711"
REDACTED = "customer-4711"
TYPES = """
enum Colour { Red = "red", Green = "green" }
interface Item { name: string; colour: Colour }
"""


@pytest.fixture(scope="module")
async def far(authority):
    async with web(authority.server("alpha.test", "beta.test", "gamma.test")) as server:
        yield server


@pytest.fixture(scope="module")
def config(far, api_at):
    """APIs: with rules and types, with a placeholder, with a secret that is not there, and one that is off."""
    port = far.place.port
    rules = [
        {"action": "allow", "methods": ["GET"], "paths": ["/echo/**", "/echo", "/status/*"]},
        {"action": "ask", "methods": ["DELETE"]},
    ]
    places = ["header:X-Token", "query:token", "body:login.token", "form:token"]
    placeholder = {"kind": "placeholder", "name": "BETA_TOKEN", "secret": "env:BETA_KEY", "places": places}
    missing = BEARER | {"secret": "env:NOBODY_SET_IT"}
    return {
        "alpha": api_at(
            port, description="Items of the shop.", rules=rules, types=TYPES, reference="https://alpha.test/docs"
        ),
        "beta": api_at(port, name="beta.test", description="Logins.", auth=[placeholder]),
        "gamma": api_at(port, name="gamma.test", auth=[missing]),
        "off": api_at(port, name="off.test", active=False),
    }


def test_an_agent_is_told_how_its_programs_reach_a_database():
    """N10: without a word about whose account it is."""
    account = {"kind": "postgres", "username": "agent-4711", "secret": "env:X", "databases": ["orders", "stock"]}
    apis = {
        "orders": read_value(Api, {"hosts": ["postgres://db.test:5432"], "auth": [account]}),
        "cache": read_value(
            Api, {"hosts": ["redis://cache.test:6379"], "auth": [{"kind": "redis", "secret": "env:X"}]}
        ),
    }
    assert apis_text(Egress(apis=apis), None).splitlines() == [
        "cache",
        "  hosts: redis://cache.test:6379",
        "  auth: logged in on the way; connect without user and password",
        "orders",
        "  hosts: postgres://db.test:5432",
        "  auth: logged in on the way; connect to database orders or stock without user and password",
    ]


@pytest.fixture(scope="module")
async def world(world_of, config):
    async with world_of({"BETA_KEY": PLACED}, api=config, egress={"redact": [REDACTED]}) as served:
        yield served


@pytest.fixture
def port(far):
    return far.place.port


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_an_agent_is_told_what_it_may_call_and_how(world, port, era):
    """N10: in few words, and nothing of where a secret is."""
    environ = {"GLOVEPORT_STATE": str(world.state)}
    async with Client(make_server(world.engine, Config(), environ, "stdio"), mode=era) as client:
        assert "list_apis" in {tool.name for tool in (await client.list_tools()).tools}
        told = (await client.call_tool("list_apis", {})).content[0].text
        one = (await client.call_tool("list_apis", {"name": "alpha"})).content[0].text
        none = await client.call_tool("list_apis", {"name": "off"})
    for words in (
        "alpha: Items of the shop.",
        f"alpha.test:{port}",
        "allow GET /echo/**",
        "ask DELETE",
        "https://alpha.test/docs",
        "BETA_TOKEN",
        "header:X-Token",
        "body:login.token",
    ):
        assert words in told
    for words in ("off.test", "env:", "ALPHA_KEY", "BETA_KEY", "ca.pem", SECRET, PLACED, "enum Colour"):
        assert words not in told
    assert "enum Colour" in one
    assert "beta" not in one
    assert none.is_error


async def test_a_server_that_is_a_process_gives_its_agent_the_way_out(far, port, authority, tmp_path):
    """N1, N2, N10, T4, P18, P19: configuration file, secret in the server's environment, MCP client over stdio."""
    path = tmp_path / "gloveport.toml"
    path.write_text(
        f"""
[pool]
forked = 0
booted = 0
[api.alpha]
description = "Items of the shop."
hosts = ["alpha.test:{port}"]
addresses = ["{HOST}"]
ca_file = "{authority.ca_file}"
auth = [{{ kind = "bearer", secret = "env:ALPHA_KEY" }}]
"""
    )
    path.chmod(0o600)
    state = tmp_path / "state"
    environ = {"GLOVEPORT_CONFIG": str(path), "GLOVEPORT_STATE": str(state), "ALPHA_KEY": SECRET}
    command, *arguments = forked.command("gloveport", "serve")
    server = StdioServerParameters(command=command, args=arguments, env=environ)
    code = f"curl -sS https://alpha.test:{port}/echo; curl -sS https://nowhere.test/; env; cat /proc/*/environ"
    with remembered.lent(state):
        async with Client(server) as client:
            told = (await client.call_tool("list_apis", {})).content[0].text
            result = await client.call_tool("execute_code", {"language": "shell", "code": code})
    assert told.startswith("alpha: Items of the shop.")
    text = result.content[0].text
    assert "Bearer [secret alpha.bearer]" in text
    assert "host_not_granted" in text
    assert SECRET not in result.model_dump_json()
    written = b"".join(file.read_bytes() for file in state.rglob("*") if file.is_file())
    assert b"fetch.ended" in written
    assert SECRET.encode() not in written


@pytest.mark.parametrize(
    ("method", "url", "status", "code"),
    [
        ("GET", "https://nowhere.test/a?b=c", 403, "host_not_granted"),
        ("GET", "https://alpha.test/echo", 403, "port_not_granted"),
        ("GET", "http://alpha.test:PORT/echo", 403, "plain_http_not_granted"),
        ("GET", "https://127.0.0.11:PORT/echo", 403, "address_not_granted"),
        ("GET", "https://off.test:PORT/", 403, "host_not_granted"),
        ("POST", "https://alpha.test:PORT/echo", 403, "method_or_path_not_allowed"),
        ("GET", "https://alpha.test:PORT/size/1", 403, "method_or_path_not_allowed"),
        ("DELETE", "https://alpha.test:PORT/echo", 403, "approval_denied"),
        ("GET", "https://gamma.test:PORT/echo", 502, "secret_unavailable"),
    ],
)
async def test_a_refusal_says_what_why_and_what_to_do(world, port, method, url, status, code):
    """N2, N10, T6: to the program, in the answer, and in the audit log; the far side hears nothing."""
    url = url.replace("PORT", str(port))
    result = await world.run("shell", f"curl -sS -X {method} -w '\\n%{{http_code}} %{{content_type}}' '{url}'")
    body, _, end = result.stdout.text.rpartition("\n")
    said = json.loads(body)
    assert end == f"{status} application/json"
    assert list(said) == ["code", "reason", "hint"]
    assert said["code"] == code
    assert len(said["reason"]) > 10
    assert len(said["hint"]) > 10
    (listed,) = result.requests
    assert (listed.method, listed.url, listed.code) == (method, url.partition("?")[0], code)
    assert listed.status in {None, status}
    denied = world.records("fetch", run=result.run_id)[-1]
    assert denied.fields.get("code") == code
    assert denied.fields["status"] in {"denied", "failed"}


async def test_a_request_is_written_down_before_and_after(world, port):
    """T6: where, by which rule, what was put in and what came; no query, no header, no body."""
    query = "word=that-is-nobodys-business"
    result = await world.run(
        "shell", f"curl -sS 'https://alpha.test:{port}/echo?{query}' -H 'X-Mine: of-my-own-too' -d inside -X GET"
    )
    assert result.status == "ok"
    before, after = world.records("fetch", run=result.run_id)
    assert before.kind == "fetch.admitted"
    expected = {"method": "GET", "scheme": "https", "host": "alpha.test", "port": port, "path": "/echo"}
    assert expected.items() <= before.fields.items()
    assert before.fields["rule"].startswith("api.alpha")
    assert after.kind == "fetch.ended"
    expected = {"api": "alpha", "injected": ["header:authorization"], "http_status": 200, "sent_bytes": len("inside")}
    assert expected.items() <= after.fields.items()
    assert after.fields["received_bytes"] > 100
    assert after.fields["scrubbed"] == ["alpha.bearer"]
    (ended,) = world.records("execute.ended", run=result.run_id)
    assert ended.fields["requests"] == 1
    written = world.written()
    for word in ("that-is-nobodys-business", "of-my-own-too", SECRET, PLACED):
        assert word.encode() not in written


async def test_a_request_names_the_apis_it_uses_and_has_no_other(world, port):
    """N2, T1: by both doors, and the grant says so."""
    program = f"""
    for door in "" "--noproxy *"; do
      set -f; curl -sS $door https://alpha.test:{port}/echo -o /dev/null -w '%{{http_code}} '
      curl -sS $door https://beta.test:{port}/echo -o /dev/null -w '%{{http_code}} '
    done
    """
    for apis, expected in ((None, "200 200 200 200 "), (("alpha",), "200 403 200 403 "), ((), "403 403 403 403 ")):
        result = await world.run("shell", program, apis=apis)
        assert result.stdout.text == expected
        granted = sorted(result.grant.egress.apis)
        assert granted == (["alpha", "beta", "gamma"] if apis is None else list(apis))


async def test_an_api_that_is_not_there_is_refused(world):
    """N10, T1: and the answer says which there are."""
    result = await world.run("python", "1", apis=("nothing",))
    assert result.status == "denied"
    assert "alpha" in result.hint


async def test_types_are_there_for_programs_that_name_the_api(world):
    """N10: an enum is code; and the lines of the program keep their numbers."""
    program = (
        'const item: Item = { name: "cup", colour: Colour.Green };\nconst line = 2;\nthrow new Error(item.colour);\n'
    )
    result = await world.run("typescript", program, apis=("alpha",))
    assert result.error.message == "green"
    assert "program.ts:3:7" in result.error.traceback
    assert (await world.value("typescript", "const colour: Colour = Colour.Red; colour", apis=("alpha",))) == "red"
    assert (await world.run("typescript", "Colour.Red")).error.type == "ReferenceError"
    assert (await world.value("typescript", "const Colour = 1; Colour")) == 1


PLACES = {
    "python": """
import json, os, urllib.request
token = os.environ["BETA_TOKEN"]
def send(path, body=None, **headers):
    request = urllib.request.Request("$BASE" + path, body and body.encode(), headers)
    urllib.request.urlopen(request).close()
send("/look", **{"X-Token": token})
send("/look?token=" + token)
send("/look", json.dumps({"login": {"token": token}}), **{"Content-Type": "application/json"})
send("/look", "token=" + token)
send("/look", token, **{"Content-Type": "text/plain"})
token
""",
    "typescript": """
const token = Deno.env.get("BETA_TOKEN")!;
const send = async (path: string, body?: string, headers = {}) => {
  await (await fetch("$BASE" + path, { method: body ? "POST" : "GET", body, headers })).body?.cancel();
};
await send("/look", undefined, { "X-Token": token });
await send("/look?token=" + token);
await send("/look", JSON.stringify({ login: { token } }), { "Content-Type": "application/json" });
await send("/look", "token=" + token, { "Content-Type": "application/x-www-form-urlencoded" });
await send("/look", token);
return token;
""",
    "shell": """
send() { curl -sS --fail -o /dev/null "$@"; }
send $BASE/look -H "X-Token: $BETA_TOKEN"
send "$BASE/look?token=$BETA_TOKEN"
send $BASE/look -H 'Content-Type: application/json' -d "{\\"login\\": {\\"token\\": \\"$BETA_TOKEN\\"}}"
send $BASE/look -d "token=$BETA_TOKEN"
send $BASE/look -H 'Content-Type: text/plain' -d "$BETA_TOKEN"
echo "\\"$BETA_TOKEN\\""
""",
}


@pytest.mark.parametrize("language", PLACES)
async def test_a_placeholder_works_in_its_places_and_nowhere_else(world, far, port, language):
    """N5: found by its name in the environment; the far side gets the secret in header, query, JSON and form."""
    seen = []

    async def look(request):
        body = b"".join([piece async for piece in request.body])
        seen.append((dict(request.headers).get(b"x-token"), request.target, body))
        return await far.app.answer(replace(request, target="/status/200"))

    far.app.routes["look"] = look
    result = await world.run(language, PLACES[language].replace("$BASE", f"https://beta.test:{port}"))
    assert result.status == "ok", (result.error, result.stdout.text, result.stderr.text)
    header, query, in_json, in_form, elsewhere = seen
    assert header[0] == PLACED.encode()
    assert parse_qs(query[1].partition("?")[2]) == {"token": [PLACED]}
    assert json.loads(in_json[2]) == {"login": {"token": PLACED}}
    assert parse_qs(in_form[2].decode()) == {"token": [PLACED]}
    assert elsewhere[2].decode() == result.value
    injected = [record.fields["injected"] for record in world.records("fetch.ended", run=result.run_id)]
    assert injected == [["header:x-token"], ["query:token"], ["body:login.token"], ["form:token"], ["stray:body"]]
    assert PLACED.encode() not in world.written()


async def test_a_placeholder_is_another_in_each_run(world):
    """N5."""
    assert len({await world.value("shell", "echo $BETA_TOKEN") for _ in range(3)}) == 3


async def test_what_the_owner_redacts_leaves_in_no_request(world, port):
    """N8: in the URL, a header and a body, also in one that is compressed."""
    said = await world.value(
        "shell", f"curl -sS 'https://beta.test:{port}/echo?q={REDACTED}' -H 'X-Of: {REDACTED}!' -d 'for {REDACTED}'"
    )
    assert said["target"] == "/echo?q=REDACTED"
    assert ["x-of", "REDACTED!"] in said["headers"]
    assert said["size"] == len("for REDACTED")
    send = f"curl -sS https://beta.test:{port}/echo -H 'Content-Encoding: gzip' --data-binary @-"
    said = await world.value("shell", f"echo for {REDACTED} | gzip | {send}")
    assert said["size"] == len("for REDACTED\n")


async def test_a_program_without_an_api_has_no_network(world_of):
    """N2: no door, no variable, no name."""
    async with world_of() as served:
        text = await served.value("shell", "env | grep -ic proxy; curl -sS https://alpha.test/ 2>&1; cat /etc/hosts")
    assert text.startswith("0\n")
    assert "Could not resolve host" in text
