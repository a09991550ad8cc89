"""What a Python program calls tools by (H2, H3, H4, H7), run as the sandbox does, against a host on a real socket."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest

pytestmark = pytest.mark.anyio

GUEST = Path(__file__).parents[2] / "src/gloveport/guest"
PYTHONS = sorted({path for path in (sys.executable, "/usr/bin/python3") if Path(path).exists()})
DRIVER = f"""
import json, os, sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("init", {str(GUEST / "init.py")!r})
init = module_from_spec(spec)
spec.loader.exec_module(init)
path = sys.argv[1]
with open(path) as file:
    source = file.read()
report = init.run_here({{"source": source, "name": "program.py", "value_bytes": 1 << 20}})
with open(path + ".json", "w") as file:
    json.dump(report, file)
os._exit(report["exit_code"])
"""


@pytest.fixture
def run(tmp_path, host):
    """Run one program; return its report."""

    async def run_one(source, python=sys.executable, **env):
        (tmp_path / "source").write_text(source)
        env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GLOVEPORT_HUB": host.address, **env}
        with anyio.fail_after(20):
            done = await anyio.run_process(
                [python, "-I", "-B", "-c", DRIVER, str(tmp_path / "source")],
                env={name: value for name, value in env.items() if value},
                cwd=tmp_path,
                check=False,
                stderr=None,
            )
        report = json.loads((tmp_path / "source.json").read_text())
        report["stdout"] = done.stdout.decode()
        return report

    return run_one


@pytest.fixture
def value_of(run):
    """Run one program that goes well; return its value."""

    async def run_one(source, python=sys.executable):
        report = await run(source, python)
        assert report["error"] is None, report["error"]["traceback"]
        assert report["value_type"] is None, report["value"]
        return report["value"]

    return run_one


@pytest.mark.parametrize("python", PYTHONS)
async def test_a_tool_is_a_function_of_its_parameters(value_of, host, python):
    """H2, H3: structured content, else JSON, else text; one request a call and none besides."""
    value = await value_of(
        """
found = tools.github.create_issue({"x-trace": "t"}, title="ä", labels=("a", "b"))
[found, tools.github.json(), tools["my-server"]["text"](), tools.github.text(text="")]
""",
        python,
    )
    assert value == [{"x-trace": "t", "title": "ä", "labels": ["a", "b"]}, [1, {"a": None}], "line 1\nline 2", ""]
    assert [(asked["op"], asked["server"], asked["tool"]) for asked in host.asked] == [
        ("call", "github", "create_issue"),
        ("call", "github", "json"),
        ("call", "my-server", "text"),
        ("call", "github", "text"),
    ]
    assert host.connections == 1


async def test_without_the_door_a_program_has_no_name_more(run):
    """H2."""
    names = "sorted(name for name in globals() if not name.startswith('__'))"
    report = await run(names, GLOVEPORT_HUB="")
    assert report["value"] == []
    report = await run(
        f"import sys\n['tools' in sys.modules, 'gloveport_tools' in sys.modules, {names}]", GLOVEPORT_HUB=""
    )
    assert report["value"] == [False, False, ["sys"]]


@pytest.mark.parametrize("python", PYTHONS)
async def test_a_hundred_calls_go_on_at_once_on_one_connection(value_of, host, python):
    """H2: none is answered before all have been made."""
    value = await value_of(
        """
import asyncio
await asyncio.gather(*(tools.github.meet.aio(number=number, together=100) for number in range(100)))
""",
        python,
    )
    assert value == [str(number) for number in range(100)]
    assert host.connections == 1


async def test_every_event_loop_has_a_connection_of_its_own(value_of, host):
    code = """
import asyncio, threading
async def two(): return await asyncio.gather(*(tools.github.meet.aio(number=n, together=4) for n in range(2)))
found = []
threads = [threading.Thread(target=lambda: found.append(asyncio.run(two()))) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
found.append(asyncio.run(two()))
found
"""
    assert await value_of(code) == [["0", "1"]] * 3
    assert host.connections == 3


async def test_a_call_that_is_given_up_disturbs_no_other(value_of):
    code = """
import asyncio
waiting = asyncio.create_task(tools.github.meet.aio(number=1, together=2))
given_up = asyncio.create_task(tools.github.meet.aio(number=0, together=3))
while await tools.github.met.aio() != "2": pass
given_up.cancel()
[await tools.github.text.aio(text="a"), await tools.github.meet.aio(number=2, together=3), await waiting]
"""
    assert await value_of(code) == ["a", "2", "1"]


async def test_threads_call_at_the_same_time(value_of, host):
    """H2: each has a connection while it waits; more threads than connections wait in turn."""
    code = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(80) as pool:
    at_once = [*pool.map(lambda n: tools.github.meet(number=n, together=20), range(20))]
    in_turn = [*pool.map(lambda n: tools.github.text(text=str(n)), range(200))]
[at_once, in_turn]
"""
    assert await value_of(code) == [[str(n) for n in range(20)], [str(n) for n in range(200)]]
    assert host.connections <= 32


async def test_after_a_fork_the_child_speaks_for_itself(value_of, host):
    code = """
import asyncio, multiprocessing, os
from multiprocessing import get_context
tools.github.text()
read, write = os.pipe()
async def in_child(): return await tools.github.text.aio(text="child")
async def main():
    await tools.github.text.aio()
    if not os.fork():
        try:
            os.write(write, tools.github.text(text="child").encode())
        finally:
            os._exit(0)
    os.wait()
    return [os.read(read, 100).decode(), await tools.github.text.aio(text="parent")]
def failing(n):
    return tools.github.fail() if n else [llm.ask("x"), search_tools("x"), asyncio.run(in_child())]
found = asyncio.run(main())
with get_context("fork").Pool(2) as pool:
    found += [pool.apply(failing, [0])]
    try:
        pool.apply(failing, [1])
    except ToolError as error:
        found.append(error.code)
[*found, tools.github.text(text="again")]
"""
    value = await value_of(code)
    assert value[:2] == ["child", "parent"]
    assert (value[2][0], value[2][2], value[3:]) == ("||x", "child", ["tool_error", "again"])


async def test_every_block_is_reachable(value_of, tmp_path):
    """H3: none is shown in base64."""
    code = """
result = tools.github.blocks()
same = await tools.github.blocks.aio_blocks()
image = result.blocks[1]
try:
    result.blocks[4].data
except ValueError as error:
    refused = str(error)
[
    type(result).__name__, result.kind, result.value, result.text, repr(result) == repr(same), repr(result), refused,
    [(block.type, block.mime_type, block.uri, block.name, block.text) for block in result.blocks],
    [block.data.hex() for block in result.blocks[:4]],
    open(image.save("a.png"), "rb").read() == image.data,
    tools.github.create_issue.blocks(title="x").value, tools.github.create_issue.blocks(title="x").text,
]
"""
    code = code.replace("tools.github.blocks.aio_blocks", "tools.github['blocks'].aio_blocks")
    value = await value_of(code)
    png = "89504e470d0a1a0a"
    shown = (
        "ToolResult(blocks, [<text, 9 characters>, <image, image/png, 9 bytes>, <resource, text/plain, file:///a, "
        "1 characters>, <resource, file:///b, 9 bytes>, <resource_link, file:///c>])"
    )
    assert value == [
        *("ToolResult", "blocks", None, "two files\nä", True, shown),
        "<resource_link, file:///c> has no content of its own; ask a tool of its server for file:///c",
        [
            ["text", None, None, None, "two files"],
            ["image", "image/png", None, None, None],
            ["resource", "text/plain", "file:///a", None, "ä"],
            ["resource", None, "file:///b", None, None],
            ["resource_link", None, "file:///c", "c", None],
        ],
        [b"two files".hex(), png, "ä".encode().hex(), png],
        True,
        {"title": "x"},
        "created",
    ]


async def test_a_tool_that_fails_raises_and_the_error_teaches(value_of):
    """H2, H3: never an answer like any other."""
    code = """
errors = []
for call in (tools.github.fail, tools.github.create_isue, tools.github.fail.blocks):
    try:
        call(title="x")
    except ToolError as error:
        errors.append([error.tool, error.code, error.text, error.hint, error.expected, str(error)])
for name in ("fail", "create_isue"):
    try:
        await tools.github[name].aio()
    except ToolError as error:
        errors.append(error.code)
errors
"""
    takes = "It takes: title (string, required)."
    archived = "the repository is archived"
    fail = ["github/fail", "tool_error", archived, takes, takes, f"github/fail: {archived}\nhint: {takes}"]
    unknown = "There is no tool 'create_isue'."
    near = "There are: create_issue."
    assert await value_of(code) == [
        fail,
        ["github/create_isue", "unknown_tool", unknown, near, "", f"github/create_isue: {unknown}\nhint: {near}"],
        fail,
        "tool_error",
        "unknown_tool",
    ]


FAILURES = {
    "tools.github.fail(title='x')": 1,
    "await tools.github.fail.aio(title='x')": 1,
    "import asyncio\nasyncio.run(tools.github.fail.aio())": 2,
    "import asyncio\nawait asyncio.gather(tools.github.fail.aio(), tools.github.fail.aio())": 2,
    "await call_mcp_tool('mcp__github__fail', {})": 1,
    "def f():\n  try:\n    tools.github.fail()\n  except ToolError as error:\n    raise ValueError from error\nf()": 7,
    "import asyncio\nasync with asyncio.TaskGroup() as group:\n  group.create_task(tools.github.fail.aio())": 2,
}


@pytest.mark.parametrize("source", FAILURES)
async def test_a_traceback_shows_the_lines_of_the_program_alone(run, source):
    """H2, E2."""
    error = (await run(source))["error"]
    text = error["traceback"]
    assert "ToolError: github/fail: the repository is archived" in text or "ToolError: mcp__github__fail" in text
    assert "\nhint: It takes" in text or "| hint: It takes" in text
    assert "main__.ToolError" not in text
    assert "gloveport" not in text, text


NO_JSON = {
    "datetime.date(2026, 1, 1)": ("argument when is a date", "value.isoformat()"),
    "[{'a': b'x'}]": ("argument when[0].a is a bytes", "value.decode()"),
    "{'a': {1}}": ("argument when.a is a set", "list(value)"),
    "[float('nan')]": ("argument when[0] is nan", "None"),
    "-float('inf')": ("argument when is -inf", "None"),
    "{1: 2}": ("argument when has a int as a key", "str"),
    "{'\\ud800': 2}": ("argument when has half of a surrogate pair", "repair"),
    "'\\ud800'": ("argument when has half of a surrogate pair", "repair"),
    "10 ** 5000": ("argument when is a number of more than 4,300 digits", "text"),
    "decimal.Decimal(1)": ("argument when is a Decimal", "str(value)"),
    "pathlib.Path('.')": ("argument when is a PosixPath", "str(value)"),
    "dataclasses.make_dataclass('D', ['x'])(1)": ("argument when is a D", "dataclasses.asdict(value)"),
    "print": ("argument when is a builtin_function_or_method", "None, bool, int"),
    "endless": ("[0] is nested more than 100 deep", "flatter"),
    "(x for x in ())": ("argument when is a generator", "list(value)"),
}


async def test_an_argument_that_is_no_json_is_refused_with_its_place_and_what_to_do(value_of, host):
    """H6: before anything is asked."""
    code = f"""
import dataclasses, datetime, decimal, pathlib
endless = []
endless.append(endless)
errors = []
for value in ({", ".join(NO_JSON)}):
    try:
        tools.github.create_issue(when=value)
    except TypeError as error:
        errors.append(str(error))
for arguments in ((1,), ({{}}, {{}}), ([],)):
    try:
        tools.github.create_issue(*arguments)
    except TypeError as error:
        errors.append(str(error))
try:
    tools.github.create_issue({{"title": 1}}, title=2)
except TypeError as error:
    errors.append(str(error))
errors
"""
    *errors, one, two, three, both = await value_of(code)
    assert len(errors) == len(NO_JSON)
    for error, (place, hint) in zip(errors, NO_JSON.values(), strict=True):
        text, _, advice = error.partition("\nhint: ")
        assert place in text
        assert hint in advice
    assert one == two == three
    assert "by name" in one
    assert both == "github/create_issue got multiple values for argument 'title'"
    assert host.asked == []


async def test_what_derives_from_json_types_counts_as_they_do(value_of):
    code = """
import collections, enum
class Level(enum.IntEnum): HIGH = 3
class Color(str, enum.Enum): RED = "red"
class Name(str): pass
Point = collections.namedtuple("Point", "x y")
tools.github.create_issue(
    level=Level.HIGH, color=Color.RED, name=Name("n"), point=Point(1, 2.5), yes=True,
    more=collections.OrderedDict(a=None),
)
"""
    more = {"a": None}
    assert await value_of(code) == {
        "level": 3,
        "color": "red",
        "name": "n",
        "point": [1, 2.5],
        "more": more,
        "yes": True,
    }


async def test_a_request_that_is_too_large_says_so_and_the_next_works(value_of):
    code = """
found = []
for call in (tools.github.text, tools.github.text.aio):
    try:
        done = call(text="x" * (9 << 20))
        await done
    except ToolError as error:
        found.append([error.code, error.hint])
[*found, len(tools.github.text(text="x" * (6 << 20))), len(await tools.github.text.aio(text="x" * (6 << 20)))]
"""
    refused = ["too_large", "Pass less, or the parts of it in several calls."]
    assert await value_of(code) == [refused, refused, 6 << 20, 6 << 20]


async def test_a_host_that_is_gone_is_a_tool_error(run, host):
    """H2: whether it never listened or ends in the middle of calls."""
    code = """
found = []
for call in (tools.github.text, tools.github.text.aio, llm.ask, search_tools):
    try:
        done = call("x") if call in (llm.ask, search_tools) else call()
        await done
    except ToolError as error:
        found.append(error.code)
found
"""
    assert (await run(code, GLOVEPORT_HUB="127.0.0.1:1"))["value"] == ["unavailable"] * 4


async def test_a_connection_that_ends_ends_the_calls_on_it_and_the_next_call_opens_another(value_of, host, monkeypatch):
    async def end(_arguments):
        raise RuntimeError("the handler is broken")

    monkeypatch.setattr(host, "tool_end", end, raising=False)
    code = """
import asyncio
found = await asyncio.gather(tools.github.never.aio(), tools.github.end.aio(), return_exceptions=True)
found = [error.code for error in found]
try:
    tools.github.end()
except ToolError as error:
    found.append(error.code)
[*found, tools.github.text(text="a"), await tools.github.text.aio(text="b")]
"""
    assert await value_of(code) == ["unavailable"] * 3 + ["a", "b"]


async def test_an_interrupted_call_leaves_no_answer_to_another(value_of):
    code = """
import signal
def ring(*_): raise InterruptedError
signal.signal(signal.SIGALRM, ring)
signal.setitimer(signal.ITIMER_REAL, 0.05)
try:
    tools.github.never()
except ToolError as error:
    found = error.code
[found, tools.github.text(text="a")]
"""
    assert await value_of(code) == ["unavailable", "a"]


async def test_the_tree_of_tools_can_be_read(run):
    """H4: by print, dir, help and inspect, and nothing is asked before."""
    code = """
import inspect
print(tools)
print(tools.github)
print(tools.github.create_issue)
print(tools.gitlab)
help(tools.github.create_issue)
[
    dir(tools), dir(tools.github), tools.github.create_issue.__doc__, tools.github.create_issue.__name__,
    str(inspect.signature(tools.github.create_issue)), str(inspect.signature(tools.github.json)),
    inspect.iscoroutinefunction(tools.github.create_issue.aio), callable(tools.github.create_issue),
    hasattr(tools, "__path__"), hasattr(tools.github, "__len__"),
]
"""
    report = await run(code)
    assert report["error"] is None, report["error"]["traceback"]
    doc = "Create an issue. In any repository.\n\ndef create_issue(*, title: str, body: str | None = ...) -> dict: ..."
    signature = (
        "(arguments: dict, /, *, title: str, body: str = Ellipsis, labels: list = Ellipsis, "
        "count: int = Ellipsis, dry_run: bool = Ellipsis)"
    )
    assert report["value"] == [
        ["ToolError", "ToolResult", "github", "my_files", "search_tools"],
        ["create_issue", "json"],
        doc + '\n    """Create an issue."""',
        "create_issue",
        signature,
        "(**arguments)",
        *(True, True, False, False),
    ]
    out = report["stdout"]
    assert out.startswith(
        "tools.github    ready  Issues and code\n"
        "tools.my_files  ready\n"
        "print(tools.NAME) shows a server's tools, print(tools.NAME.TOOL) one of them.\n"
        "tools.github (ready): Issues and code\n"
        "    create_issue  Create an issue.\n"
        "    json\n"
        "def create_issue(*, title: str"
    )
    assert "<tools.gitlab: gitlab: There is no server 'gitlab'.\nhint: There are: github.>" in out
    assert "In any repository." in out


async def test_a_schema_of_no_shape_has_a_signature_all_the_same(value_of, host, monkeypatch):
    """H2: what a server says of a tool may be anything."""
    schemas = iter(
        [
            {"properties": ["x"], "required": 5},
            {"properties": {"a": 1, "b": {"type": [5], "anyOf": None}, "class": {}, "c": {"enum": ["x", 1, None]}}},
        ]
    )

    async def describe(_asked):
        return {"description": "", "python": "", "input_schema": next(schemas)}

    monkeypatch.setattr(host, "describe", describe)
    code = "import inspect\n[str(inspect.signature(tools.github[name])) for name in 'ab']"
    expected = "(arguments: dict, /, *, a=Ellipsis, b=Ellipsis, c: int | str = Ellipsis)"
    assert await value_of(code) == ["(**arguments)", expected]


async def test_the_tree_can_be_imported(value_of):
    code = """
import tools as other
from tools import ToolError as Same, github, search_tools as search
[other is tools, Same is ToolError, github.text(text="a"), search is search_tools]
"""
    assert await value_of(code) == [True, True, "a", True]


async def test_search_tells_by_what_a_tool_is_called(value_of, host):
    """H4: with or without await, under either name."""
    code = """
first = search_tools("make a ticket", limit=3)
second = await search_tools("x", detail="full")
third = await searchTools("x", 2, "names")
[first, first.total, first.missing, second[0]["parameters"]["required"], second.total, third]
"""
    plain = {
        "name": "mcp__github__create-issue",
        "call": "tools.github.create_issue",
        "description": "Create an issue.",
    }
    line = "def create_issue(*, title: str, body: str | None = ...) -> dict: ..."
    missing = [{"server": "slow", "reason": "starting"}]
    assert await value_of(code) == [[{**plain, "signature": line}], 7, missing, ["title"], 7, [plain]]
    assert host.asked[0] == {"op": "search", "query": "make a ticket", "limit": 3, "detail": "signatures"}


async def test_programs_for_code_executor_run_as_they_did(value_of, host):
    """H2: its names, coroutines as there; but a tool that fails raises."""
    code = """
import inspect
names = (call_mcp_tool, callMCPTool, discover_mcp_tools, discoverMCPTools, get_tool_schema, getToolSchema)
try:
    await call_mcp_tool("mcp__github__fail", {})
except ToolError as error:
    failed = error.code
schema = await get_tool_schema("mcp__github__create-issue")
[
    all(map(inspect.iscoroutinefunction, names)), failed,
    await call_mcp_tool("mcp__github__create-issue", {"title": "x"}), await callMCPTool("mcp__github__json"),
    [block["type"] for block in (await call_mcp_tool("mcp__github__only_image", {}))["content"]],
    [tool["name"] for tool in await discover_mcp_tools(["issue", "ticket"])], len(await discoverMCPTools()),
    [schema["name"], schema["parameters"]["required"]], await getToolSchema("mcp__gitlab__x"),
]
"""
    host.tool_only_image = answer_of_an_image
    assert await value_of(code) == [
        *(True, "tool_error", "created", '[1,{"a":null}]', ["image"]),
        *(["mcp__github__create-issue"], 1, ["mcp__github__create-issue", ["title"]], None),
    ]
    asked = [asked["query"] for asked in host.asked if asked["op"] == "search"]
    assert asked == ["issue ticket", ""]


async def answer_of_an_image(_arguments):
    return {"kind": "blocks", "value": None, "blocks": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]}


async def test_a_language_model_is_asked(value_of, host):
    """H7: with or without await, many at once, whole where a stream was asked for."""
    code = """
import asyncio
async def streamed(**given): return [part async for part in llm.ask("s", stream=True)]
history = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}]
try:
    llm.ask("x", max_tokens=6000)
except ToolError as error:
    refused = [error.tool, error.code]
for wrong in (lambda: llm.think("x"), lambda: llm.ask(b"x")):
    try:
        wrong()
    except TypeError as error:
        refused.append(str(error).splitlines()[0])
[
    llm.ask("p", "sys"), await llm.ask("p", system_prompt="sys", model=None),
    await asyncio.gather(llm.ask.aio("1"), llm.think.aio(history, system_prompt="s")),
    llm.think(history, model="m"), await streamed(), refused, {"answer": llm.ask("p")},
]
"""
    no_json = "argument messages[0].content is a bytes, and arguments must be JSON"
    refused = ["llm.ask", "too_many_tokens", "messages must be a list", no_json]
    assert await value_of(code) == [
        *("|sys|p", "|sys|p", ["||1", "|s|a\nb"], "m||a\nb", ["||s"]),
        *(refused, {"answer": "||p"}),
    ]
    assert host.asked[0]["max_tokens"] == 6000
    assert host.asked[1] == {
        "op": "sample",
        "messages": [{"role": "user", "content": "p"}],
        "system": "sys",
        "max_tokens": 1000,
        "model": "",
    }
