"""What a hostile program sends on the door to the tools costs it its own run at most. H5, E5."""

import json

import anyio
import pytest
from tests.hub.stalls import going_on
from tests.hub.world import codes, know_servers, offers, opened, tool

from gloveport.hub import discovery
from gloveport.rpc import MAX_FRAME_BYTES
from gloveport.server.rendering.tool_search import found_text

pytestmark = pytest.mark.anyio

RAW = """
import json, os, socket, threading

def connected():
    host, _, port = os.environ["GLOVEPORT_HUB"].partition(":")
    connection = socket.create_connection((host, int(port)))
    connection.settimeout(10)
    return connection

def frame(body):
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    return len(body).to_bytes(4, "big") + body

def answer(connection):
    try:
        head = connection.recv(4, socket.MSG_WAITALL)
        return connection.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL).decode()
    except OSError:
        return ""
"""


@pytest.fixture(scope="module")
async def world(tmp_path_factory):
    """With many tools, to search which takes a while."""
    directory = tmp_path_factory.mktemp("attacks")
    properties = {f"p{number}": {"type": "string", "description": "What it is."} for number in range(8)}
    tools = [tool("echo"), *(tool(f"tool-{number}", "Does something.", properties) for number in range(300))]
    async with opened(directory / "state", {"far": offers(directory / "t.json", *tools)}) as opened_world:
        await codes(opened_world, "tools.far.echo()")
        yield opened_world


FLOODS = {
    "search": {"id": 1, "op": "search", "query": "", "limit": 100, "detail": "full"},
    "stubs": {"id": 1, "op": "stubs", "language": "python"},
    "nothing": {"id": 1, "op": "no such"},
    "held back": {"id": 1, "op": "describe", "server": "far", "tool": "no such"},
}


@pytest.mark.parametrize("kind", FLOODS)
async def test_a_program_that_floods_the_door_does_not_keep_others_from_calling(world, kind):
    """H5: thousands of requests at a time on many connections, none of whose answers is read."""
    code = f"""{RAW}
connections = [connected() for _ in range(30)]
for connection in connections:
    connection.setblocking(False)
flood = frame({FLOODS[kind]!r}) * 128
while True:
    for connection in connections:
        try:
            connection.send(flood)
        except BlockingIOError:
            pass
"""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.run, "python", code)
        with anyio.fail_after(20):
            assert await codes(world, *["tools.far.echo()"] * 4) == ["ok"] * 4
        tasks.cancel_scope.cancel()


async def test_a_request_of_millions_of_values_is_refused_before_anything_is_made_of_it(world):
    """H5: 16 MB of empty lists were 500 MB and a second of the only event loop; text of any length is text."""
    code = f"""{RAW}
lists, text, call = (connected() for _ in range(3))
lists.sendall(frame(b'{{"id":1,"op":"no such","x":[' + b"[]," * 1_000_000 + b"0]}}"))
text.sendall(frame({{"id": 1, "op": "no such", "x": ',[{{"\\\\' * 1_000_000}}))
unended = b'{{"id":1,"op":"no such","x":' + b'"' + b',\\\\"' * 1_000_000
call.sendall(frame(unended))
answers = [answer(lists), "unknown_operation" in answer(text), answer(call)]
answers
"""
    assert await world.value("python", code) == ["", True, ""]


async def test_a_name_of_megabytes_is_no_name(world):
    """Issue 15: it was scrubbed and looked up, for seconds, and counted for nothing."""
    code = """
        def code_of(server, tool):
            try:
                tools[server][tool]()
            except Exception as error:
                return error.code

        [code_of("far", "x" * 513), code_of("far", "x" * 6_000_000), code_of("x" * 6_000_000, "echo")]
        """
    assert await world.value("python", code) == ["malformed_call"] * 3


async def test_large_requests_wait_for_room_and_all_are_answered(world):
    """H2, H5: more than fits at a time, on several connections, in threads and in an event loop."""
    code = """
        import asyncio
        from concurrent.futures import ThreadPoolExecutor

        def sent(size):
            return len(tools.far.echo(x="y" * size)["arguments"]["x"])

        with ThreadPoolExecutor(6) as pool:
            threads = sum(pool.map(sent, [3_000_000] * 6))
        async def sends():
            return len((await tools.far.echo.aio(x="y" * 1_000_000))["arguments"]["x"])
        [threads, sum(await asyncio.gather(*(sends() for _ in range(4))))]
        """
    assert await world.value("python", code) == [18_000_000, 4_000_000]


async def test_room_comes_back_from_who_does_not_finish_or_hangs_up(world):
    """H5: else a program's own large calls would wait for ever."""
    code = f"""{RAW}
size = ({MAX_FRAME_BYTES}).to_bytes(4, "big")
for _ in range(5):
    connection = connected()
    connection.sendall(size + b"x" * 100_000)
    connection.close()
broken = connected()
broken.sendall(frame(b"x" * 2_000_000))
answer(broken)
len(tools.far.echo(x="y" * 1_000_000)["arguments"]["x"])
"""
    assert await world.value("python", code) == 1_000_000


ODD = [
    {"op": "stubs", "language": []},
    {"op": "stubs", "language": {}},
    {"op": "search", "detail": {}},
    {"op": "search", "query": ["x"]},
    {"op": "search", "limit": 10**30},
    {"op": "search", "limit": True},
    {"op": "search", "query": '\x00" OR * NEAR(\x00) ' * 1000},
    {"op": ["call"]},
    {"op": {}},
    {"op": "tree", "server": ["far"]},
    {"op": "tree", "server": "__proto__"},
    {"op": "describe", "server": "far", "tool": 5},
    {"op": "describe", "server": "far", "tool": "x" * 50_000},
    {"op": "call", "server": "far" * 10_000, "tool": "\x1b[2J\n" * 1000},
    {"op": "call", "tool": "mcp" + "_" * 400},
    {"op": "call", "server": "far", "tool": "echo", "arguments": []},
    {"op": "call", "server": "far", "tool": "echo", "arguments": {"": {"__proto__": None}, "n": 10**400}},
    {"op": "sample", "messages": {"role": []}},
    {"op": "__class__"},
    {"op": "handlers"},
]


async def test_whatever_stands_in_a_request_it_is_answered_and_nothing_goes_wrong(world, caplog):
    """H5: an error that nobody has foreseen would end the connection, and fill our log with tracebacks."""
    code = f"""{RAW}
requests = {ODD!r}
answers = []
for number, request in enumerate(requests):
    connection = connected()
    connection.sendall(frame({{"id": number, **request}}))
    answers.append(json.loads(answer(connection) or "{{}}").get("id"))
answers
"""
    result = await world.run("python", code)
    assert result.value == [*range(len(ODD))], (result.error, caplog.text)
    assert "went wrong" not in caplog.text
    assert len(result.model_dump_json()) < 20_000, "nor is the agent told at length"
    assert "\x1b" not in result.model_dump_json()
    assert "\\u001b" not in json.dumps(world.records("call", run=result.run_id)[-1].fields)


async def test_a_program_that_asks_without_reading_fills_no_log(world, caplog):
    """H5: whoever hangs up gets no answers, and no line of the log for each of them."""
    code = f"""{RAW}
for _ in range(5):
    connection = connected()
    connection.sendall(frame({{"id": 1, "op": "search", "limit": 100, "detail": "full"}}) * 128)
    connection.close()
"""
    await world.run("python", code)
    assert await codes(world, "tools.far.echo()") == ["ok"]
    assert len(caplog.records) < 5, caplog.text


ASKS = f"""{RAW}
connection = connected()
answers = connection.makefile("rb")
def code_of(request):
    connection.sendall(frame(request))
    told = json.loads(answers.read(int.from_bytes(answers.read(4), "big")))
    return told.get("error", {{}}).get("code", "ok")
"""


async def test_a_program_asks_a_thousand_times_for_tools(world, monkeypatch):
    """H5: each question is work of ours. What is beyond that is refused, and written down once."""
    assert discovery._MOST_REQUESTS == 1000
    monkeypatch.setattr(discovery, "_MOST_REQUESTS", 50)
    code = ASKS + "[code_of({'id': 1, 'op': 'search', 'query': 'no such', 'detail': 'names'}) for _ in range(55)]"
    result = await world.run("python", code)
    assert result.value == ["ok"] * 50 + ["too_many_searches"] * 5
    (record,) = world.records("search.denied", run=result.run_id)
    assert record.fields["code"] == "too_many_searches"


SEARCH = {"id": 1, "op": "search", "query": "", "limit": 100, "detail": "full"}
TALKS_MUCH = [tool(f"t{number}", "Long. " * 25_000) for number in range(12)]


async def test_what_is_told_of_tools_counts_as_bytes_of_calls(tmp_path):
    """T5, H5: limits.tool_bytes."""
    servers = {"far": offers(tmp_path / "t.json", *TALKS_MUCH)}
    async with opened(tmp_path / "state", servers, policy={"limits": {"tool_bytes": 2_500_000}}) as world:
        await know_servers(world)
        result = await world.run("python", f"{ASKS}[code_of({SEARCH!r}) for _ in range(5)]")
        assert result.value == [*["ok"] * 3, *["too_many_searches"] * 2]
        assert result.limits_hit == ("tool_bytes",)


async def test_what_is_told_at_once_is_bounded_and_stops_nobody(tmp_path):
    """H5, P25: 128 searches, each of all that is known of a hundred large tools, kept everybody waiting for seconds."""
    async with opened(tmp_path / "state", {"far": offers(tmp_path / "t.json", *TALKS_MUCH)}) as world, going_on():
        await know_servers(world)
        found = await world.value("python", "x = search_tools('', 100, 'full')\n[len(x), x.total, len(str([*x]))]")
        assert found[0] < found[1] == 12
        assert found[2] < 1 << 20
        code = f"{RAW}\nconnected().sendall(frame({SEARCH!r}) * 128)\nimport time\ntime.sleep(100)"
        with anyio.fail_after(20):
            result = await world.run("python", code, limits={"wall_seconds": 3})
        assert result.status == "timeout"
        engine = world.engine
        told = await discovery.search(engine.hub, engine.reach.toolbox, "", 50)
        assert "of 12; narrow the query" in found_text(engine.hub, told, "full")
