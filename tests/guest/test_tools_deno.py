"""What a program in TypeScript or JavaScript calls tools with (H2, H3, H4, H7), run by Deno as in the sandbox."""

import base64
import contextlib
import itertools
import json
import socket
import subprocess

import anyio
import pytest
from deno import find_deno_bin
from tests.guest.test_deno_run import FLAGS, RUN, STATE, WORLD, finish

from gloveport import rpc
from gloveport.errors import Denied, UpstreamError

pytestmark = pytest.mark.anyio

WITH_TOOLS = RUN.with_name("run_with_tools.mjs")
PIXEL = base64.b64encode(b"\x89PNG" * 1000).decode()
IMAGE = {"type": "image", "data": PIXEL, "mimeType": "image/png"}
LINK = {"type": "resource_link", "uri": "file:///x.txt", "name": "x.txt", "mimeType": "text/plain"}
NOTE = {"type": "resource", "resource": {"uri": "note://1", "mimeType": "text/plain", "text": "é"}}
SOUND = {"type": "resource", "resource": {"uri": "song://1", "mimeType": "audio/wav", "blob": PIXEL}}


def text(*texts):
    return [{"type": "text", "text": one} for one in texts]


ANSWERS = {
    "structured": {"kind": "structured", "value": {"n": 1}, "blocks": text('{"n":1}')},
    "json": {"kind": "json", "value": [1, {"a": None}], "blocks": text('[1,{"a":null}]')},
    "text": {"kind": "text", "value": "one\ntwo", "blocks": text("one", "two")},
    "none": {"kind": "text", "value": "", "blocks": []},
    "broken": {"kind": "blocks", "value": None, "blocks": [IMAGE | {"data": "no!t64"}]},
    "image": {"kind": "blocks", "value": None, "blocks": [IMAGE, *text("a picture"), LINK, NOTE, SOUND]},
}
FOUND = {
    "server": "git-hub",
    "name": "create_issue",
    "exposed_server": "git_hub",
    "exposed": "create_issue",
    "description": "Make one.",
    "typescript": "create_issue(arguments: { title: string }): Promise<unknown>",
    "input_schema": {"type": "object"},
    "output_schema": None,
}


class Host:
    """Answers as the hub would, and keeps what it was asked."""

    def __init__(self):
        self.asked, self.connections = [], 0
        self.started, self.all_there = 0, anyio.Event()
        self.total, self.missing = 1, []

    def handlers(self):
        names = ("call", "tree", "describe", "search", "sample")
        return {name: self._noted(getattr(self, name)) for name in names}

    def _noted(self, handler):
        async def answer(request):
            self.asked.append({key: value for key, value in request.items() if key != "id"})
            return await handler(request)

        return answer

    async def call(self, request):
        tool = request["tool"].removeprefix("mcp__one__")
        if tool == "echo":
            return {"kind": "structured", "value": request["arguments"], "blocks": text("x")}
        if tool == "fails":
            raise UpstreamError("tool_error", "it is\nbroken", hint="title: string, required")
        if tool == "denied":
            raise Denied("tool_denied", "not that one")
        if tool == "large":
            value = "é" * request["arguments"]["size"]
            return {"kind": "text", "value": value, "blocks": text(value)}
        if tool == "together":  # nobody is answered before all have asked; the last is answered first
            self.started += 1
            if self.started == request["arguments"]["count"]:
                self.all_there.set()
            await self.all_there.wait()
            return {"kind": "json", "value": request["arguments"]["index"], "blocks": []}
        return ANSWERS[tool]

    async def tree(self, request):
        tools = {"tools": [{"name": "x-y", "exposed": "x_y", "summary": "Does."}]} if "server" in request else {}
        return {"servers": [{"name": "one", "exposed": "one", "description": "", "state": "ready", **tools}]}

    async def describe(self, request):
        if not request["tool"].endswith("create_issue"):
            raise Denied("unknown_tool", "there is no such tool")
        return FOUND | {"python": "def …"}

    async def search(self, request):
        return {"tools": [FOUND][: request["limit"]], "total": self.total, "missing": self.missing}

    async def sample(self, request):
        return {"text": request["messages"][-1]["content"].upper(), "model": "m", "stop_reason": "end", "tokens": 1}


@contextlib.asynccontextmanager
async def listening(answer):
    """Let ``answer(connection)`` have each connection; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        door.settimeout(0)

        async def serve(connection):
            with connection:
                await answer(connection)

        async def accept(tasks):
            while True:
                await anyio.wait_readable(door)
                tasks.start_soon(serve, door.accept()[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept, tasks)
            yield ":".join(map(str, door.getsockname()))
            tasks.cancel_scope.cancel()


def spawn(directory, hub, source, mode, run=WITH_TOOLS):
    """Run one program; return its report and what the process returned."""
    scratch, report = directory / "scratch", directory / "report"
    scratch.mkdir(parents=True)
    permissions = (f"--allow-read={scratch}", f"--allow-write={scratch},{report}")
    permissions += (f"--allow-net={hub}",) if hub else ()
    process = subprocess.Popen(
        [find_deno_bin(), "run", *FLAGS, *permissions, str(run), str(report), *mode],
        bufsize=0,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=scratch,
        env={"DENO_DIR": str(directory.parent / "cache"), "DENO_NO_UPDATE_CHECK": "1", "NO_COLOR": "1"},
    )
    job = {"source": source, "name": "program.ts", "language": "typescript", "value_bytes": 100_000, "hub": hub}
    done = finish(process, json.dumps(job))
    return json.loads(report.read_text().splitlines()[-1]), done


@pytest.fixture
def mode(request):
    """Of the interpreter: it has waited, as most have; ``in_both_modes`` where that could make a difference."""
    return () if getattr(request, "param", "") == "cold" else ("wait",)


in_both_modes = pytest.mark.parametrize("mode", ["cold", "waiting"], indirect=True)


@pytest.fixture
def host():
    return Host()


@pytest.fixture
def run(tmp_path, host, mode):
    """Run one program against the host; return its report and the process."""

    async def answer(connection):
        host.connections += 1
        await rpc.answer(host.handlers(), rpc.Room(), connection)

    numbers = itertools.count()

    async def run_one(source):
        async with listening(answer) as hub:
            return await anyio.to_thread.run_sync(spawn, tmp_path / str(next(numbers)), hub, source, mode)

    return run_one


@pytest.fixture
def value(run):
    """Run one program that succeeds; return its value."""

    async def run_one(source):
        report, done = await run(source)
        assert report["error"] is None, report["error"]
        assert done.stderr == ""
        return report["value"]

    return run_one


@in_both_modes
async def test_a_call_returns_structured_content_else_json_else_text(value, host):
    """H2, H3: by exposed and original names, with and without arguments."""
    source = """
        const { structured } = tools.one;
        [await structured(), await tools.one.json({}), await tools["one"].text(), await tools["my-server"]["none"](),
         await tools.one.echo({ title: "é😀", date: new Date(0), left: undefined, list: [1, [true, null]], "a b": {} })]
        """
    echoed = {"title": "é😀", "date": "1970-01-01T00:00:00.000Z", "list": [1, [True, None]], "a b": {}}
    assert await value(source) == [{"n": 1}, [1, {"a": None}], "one\ntwo", "", echoed]
    assert host.asked[0] == {"op": "call", "server": "one", "tool": "structured", "arguments": {}}
    assert host.asked[3]["server"] == "my-server"


async def test_other_blocks_are_handles_and_never_base64(value):
    """H3: all blocks of any call can be had."""
    source = """
        const result = await tools.one.image();
        const [image, said, link, note, sound] = result.blocks;
        await image.save("image.png");
        const shown = Deno.inspect(result);
        [result.value, result.text, result.kind, shown, JSON.stringify(result).length < 1000,
         image.data.length, image.size, Deno.readFileSync("image.png").length,
         said.text, link.uri, link.data, note.text, [...note.data], sound.size,
         (await tools.one.structured.blocks()).blocks.map(({ text }) => text), (await tools.one.json.blocks()).value,
         await link.save("x").catch((error) => error.message), result instanceof ToolResult]
        """
    found = await value(source)
    assert found.pop(3) == (
        'ToolResult {\n  kind: "blocks",\n  value: null,\n  blocks: [\n    [image image/png 4000 bytes],\n'
        '    [text "a picture"],\n    [resource_link text/plain file:///x.txt],\n'
        "    [resource text/plain note://1 2 bytes],\n    [resource audio/wav song://1 4000 bytes]\n  ]\n}"
    )
    assert found == [
        *(
            None,
            "a picture\né",
            "blocks",
            True,
            4000,
            4000,
            4000,
            "a picture",
            "file:///x.txt",
            None,
            "é",
            [0xC3, 0xA9],
            4000,
        ),
        *(['{"n":1}'], [1, {"a": None}], "a link to file:///x.txt holds nothing", True),
    ]


async def test_what_is_no_base64_is_an_error_of_who_wants_it(value):
    """H3: a server lies, or a secret was taken out of it."""
    source = """
        const [image] = (await tools.one.broken()).blocks;
        let message;
        try { image.data } catch (error) { message = error.message }
        [message, Deno.inspect(image)]
        """
    assert await value(source) == ["the image holds no valid base64", "[image image/png 4 bytes]"]


async def test_names_cost_no_round_trip_and_tools_is_no_promise(value, host):
    """H2: neither `await tools` nor showing it asks anything, and neither hangs."""
    source = """
        const shown = [tools, tools.one, tools.one["create-issue"]].map((one) => Deno.inspect(one));
        console.log(tools, tools.one, tools.one.x);
        [typeof await tools, typeof await tools.one, typeof await tools.one.x, tools.one.then ?? null,
         tools.toJSON ?? null, tools.one[Symbol.iterator] ?? null, JSON.stringify(tools), Object.keys(tools.one),
         tools.one.x.name, Reflect.set(tools, "one", 1), Object.prototype.toString.call(tools), `${tools.one}`, shown]
        """
    of_server = '[tools.one: `await listTools("one")` names its tools]'
    assert await value(source) == [
        *("object", "object", "function", None, None, None, "{}", [], "x", False, "[object tools]", of_server),
        ["[tools: `await listTools()` names the servers]", of_server, "[tool one/create-issue]"],
    ]
    report_of_tools = await value("tools.one")
    assert (report_of_tools, host.asked, host.connections) == (of_server, [], 0)


async def test_a_hundred_calls_go_on_at_the_same_time_over_one_connection(value, host):
    """H2."""
    source = """
        await Promise.all(Array.from({ length: 100 }, (_, index) => tools.one.together({ index, count: 100 })))
        """
    assert await value(source) == [*range(100)]
    assert host.connections == 1


async def test_a_thousand_calls_and_large_answers_come_through(value, host):
    """H2: more than the host works on at a time, and frames larger than a chunk."""
    source = """
        const many = await Promise.all(Array.from({ length: 1000 }, (_, index) => tools.one.echo({ index })));
        const sizes = [10, 32760, 32768, 40000, 5_000_000, 10];
        const large = await Promise.all(sizes.map((size) => tools.one.large({ size })));
        const pad = "x".repeat(6_000_000);
        [many.every(({ index }, at) => index === at), large.map(({ length }) => length),
         (await tools.one.echo({ pad })).pad === pad]
        """
    assert await value(source) == [True, [10, 32760, 32768, 40000, 5_000_000, 10], True]
    assert host.connections == 1


ERROR = """
async function make(title: string) {
  await null;
  return await tools.one.fails({ title });
}

try {
  await make("x");
} catch (error) {
  const { name, tool, code, text, hint, expected, message } = error;
  console.log(JSON.stringify({ name, tool, code, text, hint, expected, message, is: error instanceof ToolError }));
  console.log(error);
}
await make("y");
"""


@in_both_modes
async def test_a_tools_error_throws_with_the_lines_of_the_program(run):
    """H3: tool, code, text, and what to do; not a frame of the stubs."""
    report, done = await run(ERROR)
    caught, _, shown = done.stdout.partition("\n")
    message = "one/fails: it is\nbroken\nhint: title: string, required"
    assert json.loads(caught) == {
        "name": "ToolError",
        "tool": "one/fails",
        "code": "tool_error",
        "text": "it is\nbroken",
        "hint": "title: string, required",
        "expected": "title: string, required",
        "message": message,
        "is": True,
    }
    frames = "    at make (file:///program.ts:4:26)\n    at async file:///program.ts:8:3\n"
    assert shown == f"ToolError: {message}\n{frames}"
    error = report["error"]
    assert (error["type"], error["message"]) == ("ToolError", message)
    assert "\n  return await tools.one.fails({ title });\n" in error["traceback"]
    assert error["traceback"].endswith("    at make (program.ts:4:26)\n    at async program.ts:14:1\n")


async def test_a_call_that_nobody_awaits_behaves_as_any_promise(run, host):
    """H2: it is made, the program ends after it, and if it fails then so does the program."""
    report, done = await run("tools.one.echo({}).then(() => console.log('after'));\n1")
    assert (report["value"], report["error"], done.stdout) == (1, None, "after\n")
    report, done = await run("tools.one.denied();\n1")
    assert (report["error"]["type"], report["error"]["message"]) == ("ToolError", "one/denied: not that one")
    assert report["error"]["traceback"].endswith("    at program.ts:1:11\n")
    assert [request["tool"] for request in host.asked] == ["echo", "denied"]


NO_JSON = {
    "{ a: [1, { b: 10n }] }": ".a[1].b is a bigint (use Number or String), which is no JSON",
    "{ f() {} }": ".f is a function, which is no JSON",
    "{ 'a b': Symbol() }": '["a b"] is a symbol, which is no JSON',
    "{ a: [undefined] }": ".a[0] is undefined, which is no JSON",
    "{ a: [, 1] }": ".a[0] is undefined, which is no JSON",
    "{ a: NaN }": ".a is NaN, which is no JSON",
    "{ a: { b: cycle } }": ".a.b.me contains itself",
    "{ a: Promise.resolve(1) }": ".a is a Promise (use await), which is no JSON",
    "{ a: new Map() }": ".a is a Map (use Object.fromEntries), which is no JSON",
    "{ a: new Uint8Array(2) }": ".a is a Uint8Array (use toBase64), which is no JSON",
    "{ a: tools }": ".a is a tools, which is no JSON",
    "{ a: tools.one.echo }": ".a is a function, which is no JSON",
    "{ a: '\\ud83d' }": ".a has half a surrogate pair, which is no JSON",
    "{ '\\ud83d': 1 }": " has half a surrogate pair, which is no JSON",
    "{ a: deep }": f".a{'.a' * 99} is nested too deep",
    "'x'": None,
    "[1]": None,
    "null": None,
    "{}, {}": "one/echo: takes one object of arguments, and there are 2",
}


async def test_what_is_no_json_is_refused_by_its_path_before_anything_is_called(value, host):
    """H6: in words that teach, as a TypeError with the program's own lines, however deep it was."""
    source = f"""
        const cycle = {{ me: null }};
        cycle.me = cycle;
        let deep = 1;
        for (let level = 0; level < 100; level++) deep = {{ a: deep }};
        const found = [];
        for (const call of [{", ".join(f"() => tools.one.echo({given})" for given in NO_JSON)}]) {{
          await call().catch((error) => found.push([error.constructor === TypeError, error.message, error.stack]));
        }}
        found
        """
    for (given, expected), (is_type_error, message, stack) in zip(NO_JSON.items(), await value(source), strict=True):
        words = expected if expected is not None else "takes one object of arguments"
        assert is_type_error, given
        assert words in message, given
        assert "tools.mjs" not in stack, stack
        assert "file:///program.ts:8:" in stack, stack
    assert host.asked == []


async def test_arguments_that_are_too_large_are_refused_and_the_connection_stays(value, host):
    source = """
        const pad = "x".repeat(9_000_000);
        [await tools.one.echo({ pad }).catch((error) => [error.code, error.message]), await tools.one.json()]
        """
    refusal, after = await value(source)
    assert refusal == [
        "too_large",
        "one/echo: its arguments have 9000072 bytes, and 8388608 is the most",
    ]
    assert (after, host.connections) == ([1, {"a": None}], 1)


async def test_the_names_of_code_executor_work_as_they_did(value, host):
    """H2: the text of the first block, else the whole result; but an error is thrown."""
    source = """
        [await callMCPTool("mcp__one__structured", {}), await call_mcp_tool("mcp__one__text"),
         await callMCPTool("mcp__one__image", { a: 1 }), await callMCPTool("mcp__one__none"),
         await callMCPTool("mcp__one__fails").catch((error) => [error instanceof ToolError, error.tool]),
         await getToolSchema("mcp__git-hub__create_issue"), await get_tool_schema("mcp__git-hub__other"),
         await searchTools("issue", 0), (await search_tools("issue"))[0].name,
         await discoverMCPTools(), (await discover_mcp_tools({ search: ["make", "issue"] })).length]
        """
    schema = {
        "name": "mcp__git-hub__create_issue",
        "call": "tools.git_hub.create_issue",
        "description": "Make one.",
        "parameters": {"type": "object"},
        "signature": FOUND["typescript"],
    }
    image = {"content": ANSWERS["image"]["blocks"]}
    assert await value(source) == [
        *('{"n":1}', "one", image, {"content": []}, [True, "mcp__one__fails"]),
        *(schema, None, [], "mcp__git-hub__create_issue", [schema], 1),
    ]
    assert host.asked[2] == {"op": "call", "server": "", "tool": "mcp__one__image", "arguments": {"a": 1}}
    assert [(one["query"], one["detail"], one["limit"]) for one in host.asked if one["op"] == "search"] == [
        *(("issue", "full", 0), ("issue", "full", 10), ("", "full", 100), ("make issue", "full", 100)),
    ]


async def test_tools_are_found_listed_and_what_was_not_searched_is_said(run, host):
    """H4."""
    host.total, host.missing = 2000, [{"server": "two", "reason": "it does not start"}]
    report, done = await run("""
        await searchTools("y", {});
        [await searchTools("x", { detail: "names", limit: 3 }), await listTools(), await listTools("one"),
         (await discoverMCPTools()).length]
        """)
    found, servers, (one,), discovered = report["value"]
    assert host.asked[:2] == [
        {"op": "search", "query": "y", "detail": "signatures", "limit": 10},
        {"op": "search", "query": "x", "detail": "names", "limit": 3},
    ]
    assert [tool["name"] for tool in found] == ["mcp__git-hub__create_issue"]
    assert done.stderr.splitlines() == [
        *["searchTools: not searched: two (it does not start)"] * 2,
        "discoverMCPTools: these are 100 of 2000 tools; name other words",
        "discoverMCPTools: not searched: two (it does not start)",
    ]
    assert servers == [{"name": "one", "exposed": "one", "description": "", "state": "ready"}]
    assert one["tools"] == [{"name": "x-y", "exposed": "x_y", "summary": "Does."}]
    assert host.asked[2:4] == [{"op": "tree"}, {"op": "tree", "server": "one"}]
    assert discovered == 1


async def test_a_language_model_is_asked_and_asked_with_messages(value, host):
    """H7: both forms of think; a stream is the answer in one piece."""
    source = """
        const messages = [{ role: "user", content: "b" }];
        const pieces = [];
        for await (const piece of llm.ask("c", { stream: true })) pieces.push(piece);
        for await (const piece of await llm.think({ messages, stream: true })) pieces.push(piece);
        [await llm.ask("a", { systemPrompt: "be brief", maxTokens: 5, model: "m" }), await llm.think({ messages }),
         await llm.think(messages, { maxTokens: 6 }), pieces,
         await llm.ask(10n).catch((error) => `${error}`)]
        """
    refusal = "TypeError: llm.ask: arguments.messages[0].content is a bigint (use Number or String), which is no JSON"
    assert await value(source) == ["A", "B", "B", ["C", "B"], refusal]
    asked = {"op": "sample", "messages": [{"role": "user", "content": "a"}], "system": "be brief"}
    assert host.asked[2] == asked | {"max_tokens": 5, "model": "m"}
    assert [(one["max_tokens"], one["model"], one["system"]) for one in host.asked[3:]] == [(1000, "", ""), (6, "", "")]


@in_both_modes
async def test_without_a_hub_a_program_finds_nothing_new_and_with_one_what_is_meant(tmp_path, value, mode):
    """H2, T1: a program under a narrower grant has none, though its Deno may have waited for one that has."""
    source = "Reflect.ownKeys(globalThis).map(String)"
    with_hub = await value(source)
    narrower, without = [
        (await anyio.to_thread.run_sync(spawn, tmp_path / run.stem, "", source, mode, run))[0]["value"]
        for run in (WITH_TOOLS, RUN)
    ]
    assert narrower == without
    assert [name for name in with_hub if name not in without] == [
        *("tools", "llm", "skills", "listSkills", "ToolError", "SkillError", "ToolResult"),
        *("callMCPTool", "call_mcp_tool", "listTools", "searchTools"),
        *("discoverMCPTools", "getToolSchema", "discover_mcp_tools", "get_tool_schema", "search_tools"),
    ]
    assert [name for name in without if name not in with_hub] == []


async def test_a_program_with_tools_finds_nothing_of_the_warm_up(tmp_path):
    """E1: what it finds after a cold start, once node's modules are loaded. No connection is open."""
    typed = "const typed: boolean = true;"

    async def answer(connection):
        await rpc.answer(Host().handlers(), rpc.Room(), connection)

    found = {}
    async with listening(answer) as hub:
        for kind, mode in {"cold": (), "waiting": ("wait",)}.items():
            for name, source in {"state": typed + STATE, "world": typed + WORLD}.items():
                _, done = await anyio.to_thread.run_sync(spawn, tmp_path / f"{kind}-{name}", hub, source, mode)
                found[kind, name] = done.stdout.splitlines()
    assert "globalThis.tools" in "\n".join(found["cold", "world"])
    assert found["waiting", "world"] == found["cold", "world"]
    assert found["waiting", "state"] == found["cold", "state"]


async def test_a_program_that_patches_the_globals_hurts_itself_at_most(value):
    source = """
        const refuse = () => { throw new Error("patched") };
        JSON.stringify = JSON.parse = Deno.connect = Deno.inspect = Object.entries = Array.isArray = refuse;
        TextEncoder.prototype.encode = TextDecoder.prototype.decode = Promise.prototype.then = refuse;
        Object.prototype.toJSON = undefined;
        globalThis.Promise = globalThis.Map = globalThis.Error = globalThis.Proxy = globalThis.Uint8Array = refuse;
        Error.captureStackTrace = refuse;
        Error.prepareStackTrace = () => 3;
        const found = [await tools.one.echo({ a: [1] })];
        try { await tools.one.fails() } catch (error) { found[1] = error.code }
        found
        """
    assert await value(source) == [{"a": [1]}, "tool_error"]


async def test_a_host_that_hangs_up_fails_what_waits_and_is_called_anew(tmp_path, mode):
    """E2: nothing hangs, and nothing is called a second time."""
    numbers = iter(range(9))

    async def answer(connection):
        if next(numbers) == 1:
            await rpc.answer(Host().handlers(), rpc.Room(), connection)
            return
        await anyio.wait_readable(connection)
        connection.recv(1 << 16)
        connection.sendall(b"\0\0\0\x20{")  # the beginning of an answer

    source = """
        const outcome = await Promise.allSettled([tools.one.text(), tools.one.text()]);
        [...outcome.map(({ reason }) => reason.message), outcome[0].reason.code, await tools.one.text()]
        """
    lost = "one/text: the host does not answer: the connection has ended\nhint: whether it was done is not known"
    async with listening(answer) as hub:
        report, _ = await anyio.to_thread.run_sync(spawn, tmp_path / "run", hub, source, mode)
    assert report["value"] == [lost, lost, "unavailable", "one\ntwo"]


async def test_a_host_that_is_not_there_is_an_error_of_the_call(tmp_path, mode):
    with socket.create_server(("127.0.0.1", 0)) as door:
        hub = ":".join(map(str, door.getsockname()))
    source = "await tools.one.text().catch((error) => [error.tool, error.code])"
    report, _ = await anyio.to_thread.run_sync(spawn, tmp_path / "run", hub, source, mode)
    assert report["value"] == ["one/text", "unavailable"]
