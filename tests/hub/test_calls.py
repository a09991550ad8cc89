"""Programs in real sandboxes call the tools of real servers. H1, H2, H3, H4, H6.

Server-everything, server-filesystem and server-memory are those of npm; ``plain`` is made with the SDK for Python.
"""

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator

import pytest
from tests.hub.world import NPM, far_side, know_servers, needs_npm, npm, opened

pytestmark = pytest.mark.anyio

AWKWARD = ("create-issue", "createIssue", "a.b", "a-b", "a_b", "1st", "class", "__proto__", "with space", "größe")
READS = {"readOnlyHint": True}


def offered(*names, **more) -> str:
    return json.dumps(
        [{"name": name, "inputSchema": {"type": "object"}, "annotations": READS} | more for name in names]
    )


@contextlib.contextmanager
def everything_over(transport: str) -> Iterator[dict]:
    """Server-everything behind HTTP, on loopback."""
    command = ["node", "-r", str(NPM.parent.parent / "loopback.cjs"), str(NPM / "mcp-server-everything"), transport]
    with subprocess.Popen(
        command, env=os.environ | {"PORT": "0"}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        try:
            port = next(int(line.split()[1]) for line in process.stdout if line.startswith(b"port "))
            path = "/sse" if transport == "sse" else "/mcp"
            yield {"url": f"http://127.0.0.1:{port}{path}", "rules": [{"action": "allow"}]}
        finally:
            process.kill()


@pytest.fixture(scope="module")
async def world(tmp_path_factory):
    """A Gloveport with every kind of server."""
    directory = tmp_path_factory.mktemp("calls")
    (directory / "files").mkdir()
    (directory / "files" / "note.txt").write_text("héllo\n")
    (directory / "awkward.json").write_text(offered(*AWKWARD))
    with contextlib.ExitStack() as stack:
        servers = {
            "plain": far_side("plain", "stdio", description="Numbers."),
            "my-awkward.Server": far_side("told", str(directory / "awkward.json")),
        }
        if NPM.is_dir():
            graph = {"MEMORY_FILE_PATH": str(directory / "memory.jsonl")}
            servers |= {
                "everything": npm("everything", env={"GREETING": "hello"}),
                "files": npm("filesystem", str(directory / "files")),
                "memory": npm("memory", env=graph),
                "over-http": stack.enter_context(everything_over("streamableHttp")),
                "over-sse": stack.enter_context(everything_over("sse")),
            }
        async with opened(directory / "state", servers, {"NOT_THEIRS": "of-the-owner-alone"}) as opened_world:
            yield opened_world


@needs_npm
async def test_a_python_program_joins_what_several_servers_know(world):
    """H2, H3: structured content is a value, an object in a text too, other text is text."""
    code = """
        entities = [{"name": city, "entityType": "city", "observations": ["warm"]} for city in ["Chicago", "New York"]]
        tools.memory.create_entities(entities=entities)
        graph = tools.memory.read_graph()
        weather = {
            entity["name"]: tools.everything.get_structured_content(location=entity["name"])["temperature"]
            for entity in graph["entities"]
        }
        tools.files.write_file(path=f"{FILES}/w.json", content=str(weather))
        [weather, tools.files.read_text_file(path=f"{FILES}/note.txt"), tools.everything.get_sum(a=2, b=3)]
        """.replace("FILES", "tools.files.list_allowed_directories()['content'].splitlines()[1]")
    weather, note, total = await world.value("python", code)
    assert weather == {"Chicago": 36, "New York": 33}
    assert note == {"content": "héllo\n"}
    assert total == "The sum of 2 and 3 is 5."


@needs_npm
async def test_a_typescript_program_does_the_same(world):
    """H2, H3."""
    code = """
        const { temperature } = await tools.everything.get_structured_content({ location: "Chicago" });
        const sums = await Promise.all([1, 2, 3].map((a) => tools.everything["get-sum"]({ a, b: 1 })));
        const error = await tools.everything.get_sum({ a: 1 }).catch((error) => error);
        [temperature, sums.length, sums[2], [error instanceof ToolError, error.code]];
        """
    assert await world.value("typescript", code) == [
        *(36, 3, "The sum of 3 and 1 is 4."),
        [True, "invalid_arguments"],
    ]


@needs_npm
async def test_every_language_of_a_session_calls_tools_in_each_of_its_calls(world):
    """H2, E7: the doors are those of the call that goes on."""
    codes = {
        "python": "tools.everything.get_sum(a=2, b=3), await tools.everything.get_sum.aio(a=2, b=3)",
        "typescript": "const sum: string = await tools.everything.get_sum({ a: 2, b: 3 }); sum",
        "shell": "tools everything get-sum --a 2 --b 3",
    }
    session = "new"
    for language, code in (*codes.items(), *codes.items()):
        result = await world.run(language, code, session=session)
        assert (result.status, result.tool_calls_total) == ("ok", 2 if language == "python" else 1), result
        assert "The sum of 2 and 3 is 5." in f"{result.value} {result.stdout.text}"
        session = result.session.id


@needs_npm
async def test_a_shell_program_does_the_same(world):
    """H2, H3: JSON on standard output; what was written wrongly exits with 2, what failed with 1."""
    code = """
        tools everything get-structured-content --location Chicago | tr -d ' '
        tools everything get-sum --a 2 --b 3
        tools everything get-sum --a x 2>/dev/null || echo "exit $?"
        tools files read_text_file --path /etc/passwd 2>&1 >/dev/null | grep -c denied
        tools files read_text_file --path /etc/passwd 2>/dev/null || echo "exit $?"
        """
    lines = (await world.value("shell", code)).splitlines()
    assert json.loads(lines[0])["temperature"] == 36
    assert lines[1:] == ["The sum of 2 and 3 is 5.", "exit 2", "1", "exit 1"]


@needs_npm
@pytest.mark.parametrize("server", ["everything", "over_http", "over_sse"])
async def test_an_image_is_a_handle_and_its_bytes_can_be_had(world, server):
    """H1, H3: over each transport."""
    code = f"""
        result = tools.{server}.get_tiny_image()
        image = next(block for block in result.blocks if block.type == "image")
        [image.mime_type, list(image.data[:4]), "iVBOR" in repr(result), [block.type for block in result.blocks]]
        """
    kinds = ["text", "image", "text"]
    assert await world.value("python", code) == ["image/png", [0x89, 0x50, 0x4E, 0x47], False, kinds]


async def test_a_hundred_calls_at_once_come_back_each_to_its_own(world):
    """H2: in one run."""
    code = """
        import asyncio
        await asyncio.gather(*(tools.plain.add.aio(a=number, b=1000) for number in range(100)))
        """
    result = await world.run("python", code)
    assert result.value == [number + 1000 for number in range(100)], (result.error, result.stderr.text)
    assert result.tool_calls_total == 100
    assert len(result.tool_calls) == 50


@needs_npm
@pytest.mark.parametrize("server", ["over_http", "over_sse"])
async def test_many_calls_at_once_over_http_too(world, server):
    """H1, H2."""
    code = f"""
        const numbers = Array.from({{ length: 40 }}, (_, number) => number);
        const sums = await Promise.all(numbers.map((a) => tools.{server}.get_sum({{ a, b: 1000 }})));
        sums.every((sum, a) => sum === `The sum of ${{a}} and 1000 is ${{a + 1000}}.`);
        """
    assert await world.value("typescript", code) is True


async def test_a_tool_that_fails_raises_and_says_what_it_takes(world):
    """H3: the tool, its words, and its parameters; so a model can do it right the next time."""
    code = """
        errors = []
        for call in (
            lambda: tools.plain.fail(why="no paper"),
            lambda: tools.plain.add(a=1),
            lambda: tools.plain.add(a=1, b="2"),
            lambda: tools.plain.ad(a=1, b=2),
            lambda: tools.nobody.add(a=1, b=2),
        ):
            try:
                call()
            except ToolError as error:
                errors.append([error.code, error.text, error.hint])
        errors
        """
    failed, missing, wrong, unknown, nobody = await world.value("python", code)
    assert failed[0] == "tool_error"
    assert "no paper" in failed[1]
    assert failed[2] == "the parameters are {why: string}"
    assert missing[0] == wrong[0] == "invalid_arguments"
    assert "b: is missing (number)" in missing[1]
    assert "b: expected integer, got string; try 2" in wrong[1]
    assert unknown[0] == "unknown_tool"
    assert "add, end, fail, fill, grow, picture, sleep, stopped" in unknown[2]
    assert nobody[0] == "tool_not_granted"
    assert "plain" in nobody[2]


async def test_an_error_that_nobody_catches_ends_the_program_and_names_the_tool(world):
    """H3: a failure never looks like a success."""
    result = await world.run("python", "tools.plain.fail(why='no paper')\nprint('went on')")
    assert (result.status, result.error.type, result.stdout.text) == ("error", "ToolError", "")
    assert "plain/fail: " in result.error.message
    assert [(call.tool, call.code) for call in result.tool_calls] == [("plain/fail", "tool_error")]


async def test_each_awkward_name_is_called_by_the_name_that_all_languages_share(world):
    """H2: hyphens, dots, upper case, keywords, digits, two that come to the same; and by its own name."""
    code = """
        server = tools.my_awkward_Server
        exposed = {tool["name"].split("__", 2)[2]: tool["call"].rpartition(".")[2]
                   for tool in search_tools("", 100, "names") if "awkward" in tool["name"]}
        called = {own: getattr(server, name)()["tool"] for own, name in exposed.items()}
        called |= {f"={own}": tools["my-awkward.Server"][own]()["tool"] for own in exposed}
        called |= {f"mcp {own}": (await call_mcp_tool(f"mcp__my-awkward.Server__{own}"))["structuredContent"]["tool"]
                   for own in exposed}
        [exposed, called]
        """
    await know_servers(world)
    # What begins with two underscores is split where it can be: the server's name has none.
    exposed, called = await world.value("python", code)
    assert set(exposed) == set(AWKWARD)
    assert (exposed["create-issue"], exposed["class"], exposed["1st"]) == ("create_issue", "class_", "_1st")
    assert exposed["a_b"] == "a_b"
    assert sorted([exposed["a.b"], exposed["a-b"]]) == ["a_b_2", "a_b_3"]
    assert len(set(exposed.values())) == len(AWKWARD)
    assert called == {f"{mark}{own}": own for mark in ("", "=", "mcp ") for own in AWKWARD}


async def test_the_same_names_hold_in_typescript_and_in_shell(world):
    """H2."""
    typescript = """
        [(await tools.my_awkward_Server.create_issue({})).tool, (await tools["my-awkward.Server"]["1st"]()).tool,
         (await tools.my_awkward_Server.class_()).tool];
        """
    assert await world.value("typescript", typescript) == ["create-issue", "1st", "class"]
    shell = "for name in create_issue 1st class_ 'with space'; do tools my-awkward.Server \"$name\"; done"
    printed = await world.value("shell", shell)
    assert [json.loads(line)["tool"] for line in printed.splitlines()] == ["create-issue", "1st", "class", "with space"]


async def test_a_program_looks_around_before_it_calls(world):
    """H4: search, the tree, one tool in full, declarations of all; nothing is in the context before it is asked for."""
    code = """
        import subprocess
        tools.plain.add(a=0, b=0)  # so that it is known
        found = search_tools("sum of two numbers add", 3, "full")
        subprocess.run(["tools", "--export", "declared"], check=True)
        text = open("declared/plain.pyi").read()
        output, texts = tools.plain.add.describe()["output_schema"], [repr(tools.plain), text, repr(tools)]
        [found[0]["call"], found[0]["signature"], sorted(dir(tools.plain)), output, *texts]
        """
    call, signature, names, output, branch, declared, whole = await world.value("python", code)
    assert call.endswith("add")
    assert "a: int" in signature
    assert names == ["add", "end", "fail", "fill", "grow", "picture", "sleep", "stopped"]
    assert "Numbers." in branch
    assert "Add two numbers." in branch
    assert output["properties"]["result"]["type"] == "integer"
    assert re.search(r"def add\(\s*\*,\s*a: int,\s*b: int,?\s*\) -> int:", declared), declared
    assert "tools.my_awkward_Server" in whole


@needs_npm
async def test_a_server_sees_the_environment_that_it_was_given_and_nothing_of_ours(world):
    """T4, H1: neither our variables nor any that the machine has besides a few harmless ones."""
    found = await world.value("python", "tools.everything.get_env()")
    allowed = {
        "HOME",
        "LANG",
        "LOGNAME",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "GREETING",
        "GLOVEPORT_NESTED",
    }
    assert found["GREETING"] == "hello"
    assert set(found) <= allowed
    assert "of-the-owner-alone" not in json.dumps(found)


async def test_a_call_for_which_its_program_waits_no_longer_is_stopped(world):
    """H8: a call that waits for the owner would be made when they allow it, and so would each further try."""
    code = """
        import asyncio
        async def is_stopped():
            try: await asyncio.wait_for(tools.plain.sleep.aio(seconds=60, name="given up"), 1)
            except TimeoutError: return "given up" in tools.plain.stopped()
        for _ in range(5):
            if found := await is_stopped(): break
        found
        """
    assert await world.value("python", code) is True


async def test_who_is_cancelled_stops_its_call_at_the_server(world):
    """E6: a call does not outlive its run."""
    code = """
        import asyncio
        asyncio.create_task(tools.plain.sleep.aio(seconds=60, name="mine"))
        await asyncio.sleep(0.2)
        """
    for _ in range(20):  # a program may be over before its call has come to the server
        await world.value("python", code)
        if "mine" in await world.value("python", "tools.plain.stopped()"):
            return
    pytest.fail("the call went on")
