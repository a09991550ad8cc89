"""The tools as a client sees them, in both protocol eras."""

import asyncio
import dataclasses
import json
import re
import shutil
import time
from pathlib import Path

import anyio
import mcp_types as wire
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from tests import shared_host
from tests.server.eras import both_eras

from gloveport.config import Config, Sandboxing
from gloveport.config.schema import PoolSettings
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import Limits, Mount, Policy
from gloveport.server.protocol import make_server
from gloveport.server.server_offer import CODE_INSTRUCTIONS as INSTRUCTIONS

SHELL_ALONE = Config(policy=Policy(languages=frozenset({"shell"})))
"""Each language that health looks at takes a while."""

NPM = Path(__file__).parents[1] / "npm"


def text_of(result) -> str:
    assert [block.type for block in result.content] == ["text"]
    return result.content[0].text


@pytest.mark.parametrize(
    ("language", "code", "value"),
    [
        ("python", "import asyncio\nawait asyncio.sleep(0)\n6 * 7", 42),
        ("typescript", "const x: number = await Promise.resolve(6); x * 7", 42),
        ("javascript", "await Promise.resolve(6) * 7", 42),
        ("shell", "echo $((6 * 7))", 42),
    ],
)
async def test_every_language_gives_a_value_and_awaits_at_top_level(execute, language, code, value):
    """E1, E2."""
    result = await execute(language, code)
    assert result.structured_content["status"] == "ok", text_of(result)
    assert result.structured_content["value"] == value


async def test_an_answer_keeps_stdout_stderr_value_and_status_apart(execute):
    """E2: and the text a model reads has only what is there."""
    result = await execute("python", "import sys\nprint('out')\nprint('err', file=sys.stderr)\n[1, 'é']")
    said = result.structured_content
    assert (said["stdout"]["text"], said["stderr"]["text"], said["value"]) == ("out\n", "err\n", [1, "é"])
    first, *rest = text_of(result).splitlines()
    assert first.startswith("ok, ")
    assert first.endswith(said["run_id"])
    assert rest == ['value: [1, "é"]', "stdout:", "out", "stderr:", "err"]


async def test_the_answer_to_a_silent_program_is_one_line(execute):
    assert len(text_of(await execute("python", "None")).splitlines()) == 1


async def test_the_answer_says_which_limits_were_not_the_usual_ones_and_a_request_only_narrows_them(execute):
    """T1: the usual ones are in the tool's description."""
    result = await execute("python", "1", timeout_seconds=2.5, memory_mib=1 << 20)
    assert result.structured_content["grant"] == {"limits": {"wall_seconds": 2.5}}
    assert "grant" not in (await execute("python", "1", timeout_seconds=30)).structured_content


@both_eras
async def test_a_program_that_fails_is_a_result_with_its_own_lines_in_the_traceback(execute):
    """E2."""
    result = await execute("python", "def f():\n    1 / 0\nf()")
    assert not result.is_error
    assert result.structured_content["status"] == "error"
    assert 'File "program.py", line 2, in f' in text_of(result)
    assert text_of(result).count("division by zero") == 1


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "class E(Exception): pass\nE.__name__ = 'E' + {0}\ndef f(): raise E('said' + {0})\nf()"),
        ("typescript", "class E extends Error {{}}; const e = new E('said' + {0}); e.name = 'E' + {0}; throw e"),
    ],
)
async def test_nothing_in_an_error_moves_a_cursor_or_is_not_seen(execute, language, code):
    """P14: neither in its text nor in its fields."""
    unseen = r"'\u001b[2J\u001b]0;x\u0007\u009b1m\u202e\u2066\u200b\r'"
    answer = await execute(language, code.format(unseen))
    error = answer.structured_content["error"]
    assert "said" in error["message"]
    for text in (*error.values(), text_of(answer)):
        assert all(c in "\n\t" or c.isprintable() for c in text), ascii(text)


async def test_a_timeout_keeps_the_output_so_far_and_names_the_limit(execute):
    """E2, E4."""
    result = await execute("shell", "echo begun; sleep 100", timeout_seconds=1.0)
    assert text_of(result).splitlines()[0].startswith("timeout (wall_seconds)")
    assert result.structured_content["stdout"]["text"] == "begun\n"
    assert "hint: " in text_of(result)


@both_eras
async def test_a_refused_program_is_an_error_that_says_why(execute):
    result = await execute("python", "#" * (Config().policy.limits.code_bytes + 1))
    assert result.is_error
    assert result.structured_content["status"] == "denied"
    assert "hint: " in text_of(result)


WRONG_ARGUMENTS = [
    (
        {"language": "python", "code": "1", "timeout": 3},
        "- timeout: there is no such argument; did you mean timeout_",
    ),
    ({"language": "ruby", "code": "1"}, "- language: should be 'python', 'typescript', 'javascript' or 'shell'"),
    ({"language": "python"}, "- code: is missing"),
    ({"language": "python", "code": 7}, "- code: should be a valid string; it was 7"),
    ({"language": "python", "code": "1", "timeout_seconds": 0}, "- timeout_seconds: should be greater than 0"),
    ({"language": "python", "code": "1", "memory_mib": 1.5}, "- memory_mib: should be a valid integer"),
    ({"language": "python", "code": "1", "apis": "shop"}, "- apis: should be a valid list; it was 'shop'"),
    ({}, "- language: is missing\n- code: is missing"),
]


@both_eras
async def test_a_wrong_argument_is_named_and_runs_nothing(client, records):
    for arguments, expected in WRONG_ARGUMENTS:
        result = await client.call_tool("execute_code", arguments)
        assert result.is_error
        assert expected in text_of(result)
        assert text_of(result).endswith(
            "hint: the arguments are language, code, timeout_seconds, memory_mib, ansi, apis, tools, session, "
            "environment, files, wait_seconds"
        )
        assert "pydantic" not in text_of(result)
        assert records() == []


async def test_null_for_an_optional_argument_is_not_given(client):
    """What converts schemas to strict ones sends all arguments; `apis` and `tools` of its invention would narrow."""
    names = ("timeout_seconds", "memory_mib", "ansi", "apis", "tools", "wait_seconds")
    nothing = dict.fromkeys(names)
    result = await client.call_tool("execute_code", {"language": "python", "code": "6 * 7", **nothing})
    assert (result.structured_content["value"], result.is_error) == (42, False)
    for tool, arguments in (("search_tools", ("query", "detail", "limit")), ("list_apis", ("name",))):
        assert not (await client.call_tool(tool, dict.fromkeys(arguments))).is_error
    missing = await client.call_tool("execute_code", {"language": "python", "code": None})
    assert "- code: is missing" in text_of(missing)
    unknown = await client.call_tool("execute_code", {"language": "python", "code": "1", "timeout": None})
    assert "- timeout: there is no such argument" in text_of(unknown)


async def test_no_run_starts_when_the_audit_log_can_not_be_written(tmp_path):
    """A1: the answer is an error with a hint, and health shows it."""
    config, environ = Config(pool=PoolSettings(forked=0, booted=0)), {"GLOVEPORT_STATE": str(tmp_path / "state")}
    async with (
        shared_host.assemble(config, environ) as engine,
        Client(make_server(engine, SHELL_ALONE, environ, "stdio")) as client,
    ):
        shutil.move(tmp_path / "state/audit", tmp_path / "state/gone")
        result = await client.call_tool("execute_code", {"language": "shell", "code": "echo ran"})
        health = await client.call_tool("health", {})
    assert result.is_error
    assert "audit log" in text_of(result)
    assert "hint: " in text_of(result)
    assert "Traceback" not in text_of(result)
    assert health.structured_content["status"] == "failing"
    assert any(c["name"] == "audit" and c["state"] == "missing" for c in health.structured_content["checks"])


async def test_health_of_a_sound_server_names_every_layer(client, records):
    health = await client.call_tool("health", {})
    checks = {check["name"]: check["state"] for check in health.structured_content["checks"]}
    assert health.structured_content["status"] == "ok"
    assert {"bubblewrap", "namespaces", "seccomp", "landlock", "capabilities", "audit", "python"} <= checks.keys()
    assert "missing" not in checks.values()
    assert [record.kind for record in records()] == ["health.asked"]


async def test_health_shows_a_layer_that_is_missing(connect):
    async with connect(Config(sandbox=Sandboxing(bubblewrap="/nonexistent/bwrap"))) as client:
        health = await client.call_tool("health", {})
    assert health.structured_content["status"] == "failing"
    assert "bwrap" in text_of(health)


async def test_health_counts_the_runs_that_go_on(connect, engine):
    async with connect(SHELL_ALONE) as client, engine.admission.place("test"), engine.admission.place("test"):
        health = (await client.call_tool("health", {})).structured_content
        assert (health["running"], health["waiting"], health["status"]) == (2, 0, "ok")
        places = engine.admission.concurrent_runs - 2
        async with asyncio.TaskGroup() as tasks:
            release = asyncio.Event()

            async def hold():
                async with engine.admission.place("test"):
                    await release.wait()

            holders = [tasks.create_task(hold()) for _ in range(places + 1)]
            while engine.admission.waiting == 0:
                await asyncio.sleep(0)
            health = (await client.call_tool("health", {})).structured_content
            assert (health["running"], health["waiting"]) == (engine.admission.concurrent_runs, 1)
            assert health["status"] == "busy"
            release.set()
    assert all(holder.done() for holder in holders)


@both_eras
async def test_the_audit_log_names_the_client_as_it_names_itself(connect, records):
    """A1: bounded, and marked as a claim."""
    info = wire.Implementation(name="evil\n" * 100, version="9")
    async with connect(client_info=info) as client:
        await client.call_tool("execute_code", {"language": "shell", "code": "true"})
    caller = records()[-1].fields["caller"]
    assert caller.startswith("stdio (claims to be evil\n")
    assert len(caller) < 100


@both_eras
async def test_a_name_that_a_client_claims_gives_it_no_share_of_its_own(engine, environ, era, eventually):
    """E4: else each new name would drive another's run out of a full queue."""
    door = AdmissionQueue(concurrent_runs=1, queue_length=2, queue_seconds=30)
    server = make_server(dataclasses.replace(engine, admission=door), Config(), environ, "stdio")

    async def run_as(name):
        async with Client(server, mode=era, client_info=wire.Implementation(name=name, version="1")) as client:
            return await client.call_tool("execute_code", {"language": "shell", "code": "echo ran"})

    async with door.place("test"):
        waiting = [asyncio.create_task(run_as("one")) for _ in range(2)]
        await asyncio.to_thread(eventually, lambda: door.waiting == 2)
        refused = await run_as("other")
    assert "queue_full" in text_of(refused)
    assert "2 are waiting (2 of them yours; at most 2 may wait)" in text_of(refused)
    assert all(text_of(answer).startswith("ok, ") for answer in await asyncio.gather(*waiting))


@pytest.mark.skipif(not (NPM / "node_modules").exists(), reason="npm was not there when things were installed")
async def test_the_whole_surface_costs_at_most_2000_tokens(connect):
    """H4: with the o200k vocabulary, for an agent; `mcp` and its like, which get output schemas, have no model."""
    async with connect(client_info=wire.Implementation(name="claude-code", version="1")) as client:
        tools = (await client.list_tools()).tools
    said = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in tools]
    counted = await anyio.run_process(["node", "count.mjs"], input=json.dumps([*said, INSTRUCTIONS]).encode(), cwd=NPM)
    assert sum(json.loads(counted.stdout)) <= 2000


@both_eras
async def test_schemas_are_strict_and_tools_say_what_they_do(client):
    execute, session, wait, cancel, pages, artifact, search, apis, health, *skills = tools = (
        await client.list_tools()
    ).tools
    names = ["execute_code", "session", "wait_run", "cancel_run", "read_output", "read_artifact", "search_tools"]
    assert [tool.name for tool in tools] == [
        *(*names, "list_apis", "health"),
        *("save_skill", "update_skill", "delete_skill", "run_skill"),
    ]
    for tool in (session, wait, cancel, pages, artifact, search, *skills):
        assert tool.input_schema["additionalProperties"] is False
        assert tool.title
    for tool in (execute, health):
        assert tool.input_schema["additionalProperties"] is False
        assert tool.title
        assert tool.annotations.open_world_hint is (tool is execute)  # it may reach the owner's APIs
    assert apis.input_schema["additionalProperties"] is False
    assert execute.input_schema["properties"]["language"]["enum"] == ["python", "typescript", "javascript", "shell"]
    assert execute.input_schema["required"] == ["language", "code"]
    hints = execute.annotations
    assert (hints.read_only_hint, hints.destructive_hint) == (False, False)
    assert health.annotations.read_only_hint is True


@both_eras
async def test_output_that_an_answer_can_not_show_is_read_by_pages(client, execute):
    """E2: nothing is lost and no character is cut in two."""
    result = await execute("python", "print('aé€😀' * 20_000)")
    stdout = result.structured_content["stdout"]
    assert stdout["truncated"]
    assert stdout["handle"] in text_of(result)
    pages, uri = [], stdout["handle"]
    while uri:
        (page,) = (await client.read_resource(uri)).contents
        content, _, rest = page.text.partition("\n[continues at ")
        pages.append(content)
        uri = rest.removesuffix("]")
    assert len(pages) > 2
    assert "".join(pages) == "aé€😀" * 20_000 + "\n"


async def test_a_tool_reads_the_same_pages_for_clients_without_resources(client, execute):
    """E2: from where the answer was cut, and each says which call goes on."""
    result = await execute("python", "print('aé€😀' * 10_000)")
    shown, call = text_of(result), r"read_output\(output_ref='(\S+)', offset=(\d+)\) goes on"
    pages, following = [], re.search(call, shown)
    while following:
        arguments = {"output_ref": following[1], "offset": int(following[2]), "limit": 60_000}
        text = text_of(await client.call_tool("read_output", arguments))
        following = re.search(call, text)
        pages.append(text.partition("\n[read_output(")[0])
    head = shown.partition("stdout:\n")[2].partition("\n[…")[0]
    assert len(pages) > 1
    assert head + "".join(pages) == "aé€😀" * 10_000 + "\n"
    beyond = await client.call_tool("read_output", {**arguments, "offset": 10**6})
    assert text_of(beyond) == "[nothing from byte 1000000 on]"
    lost = await client.call_tool("read_output", {"output_ref": "output://run-0/stdout"})
    assert lost.is_error
    assert "run the program again" in text_of(lost)


@pytest.mark.parametrize(
    "uri", ["output://run-0/stdout", "output://run-0/stdout?offset=x", "output://run-0/stdout?offset=-1"]
)
async def test_output_that_is_not_kept_is_not_found(client, uri):
    with pytest.raises(MCPError) as caught:
        await client.read_resource(uri)
    assert caught.value.error.code == wire.INVALID_PARAMS


@both_eras
async def test_lines_are_sent_as_progress_while_the_program_runs(execute):
    """E6: a line comes while the program that wrote it still waits."""
    came = []

    async def note(progress, total, message):
        came.append((progress, message, time.time()))

    result = await execute(
        "python",
        "import time\nfor i in 0.3, 0.31, 1:\n    print('line', i, flush=True)\n    time.sleep(i)\ntime.time()",
        progress=note,
    )
    assert result.structured_content["status"] == "ok"
    assert "\n".join(message for _, message, _ in came) == "line 0.3\nline 0.31\nline 1"
    assert came[0][2] < result.structured_content["value"]
    assert [progress for progress, _, _ in came] == sorted({progress for progress, _, _ in came})


async def test_a_flood_of_output_is_little_progress(execute):
    """E6: notifications are few and short, whatever the program writes."""
    came = []

    async def note(progress, total, message):
        came.append(message)

    began = time.monotonic()
    await execute("shell", "seq 100000; sleep 0.3; seq 100000", progress=note)
    assert len(came) <= 2 + (time.monotonic() - began) / 0.1
    assert max(map(len, came)) < 2100


@both_eras
async def test_a_cancelled_call_kills_every_process_of_the_run(client, records, is_running, eventually):
    """E5."""
    word = f"70{time.time_ns()}"
    code = f"(sleep {word} & sleep {word}) & sleep {word}; true"
    call = asyncio.create_task(client.call_tool("execute_code", {"language": "shell", "code": code}))
    await asyncio.to_thread(eventually, lambda: is_running(word))
    call.cancel()
    await asyncio.to_thread(eventually, lambda: not is_running(word))
    await asyncio.to_thread(eventually, lambda: records()[-1].kind == "execute.ended")
    assert records()[-1].fields["status"] == "cancelled"


async def test_structured_content_is_json_all_the_way(execute):
    result = await execute("python", "{'a': [1, None, True, 'x\\ud800'], 'b': float('nan')}")
    json.dumps(result.structured_content, allow_nan=False).encode()


async def test_the_description_says_the_operators_limits_and_what_can_be_read(engine, environ, era):
    """T1: a model that knows what it can't have does not ask for it."""
    policy = Policy(
        limits=Limits(wall_seconds=90, memory_bytes=64 << 20), mounts=(Mount(source="/srv/x", target="/data"),)
    )
    narrow = dataclasses.replace(engine, policy=policy)
    async with Client(make_server(narrow, Config(), environ, "stdio"), mode=era) as client:
        described = {tool.name: tool.description for tool in (await client.list_tools()).tools}["execute_code"]
    assert "90 s (without timeout_seconds 30 s) and 64 MiB" in described
    assert described.endswith("Files of the owner to read: /data.")
