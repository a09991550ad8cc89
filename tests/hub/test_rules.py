"""What the owner says of servers and tools has its effect in a program's run: rules, conditions, budgets, keys. H5, H7.

Each label ``T5`` names the keys that its test sets.
"""

import dataclasses
import json
import time

import anyio
import pytest
from mcp import Client
from tests.far_side.authority import make
from tests.far_side.mcp_http import raw, reply, usual
from tests.far_side.models import KEY, models
from tests.hub.world import ALLOW, allowed, codes, found, offers, opened, tool

from gloveport.config import Config
from gloveport.server.protocol import make_server

pytestmark = pytest.mark.anyio

TEXT = {"x": {"type": "string"}}
DENY = {"action": "deny"}


def only(condition: dict, name: str) -> dict:
    """Allow this tool where its argument meets a condition."""
    return {"action": "allow", "tools": [name], "arguments": {"x": condition}}


@pytest.fixture(scope="module")
async def world(tmp_path_factory):
    """A server for rules by name and annotation, one for conditions on arguments, and one without rules."""
    directory = tmp_path_factory.mktemp("rules")
    rules = [
        {"action": "deny", "tools": ["secret_*"]},
        {"action": "allow", "tools": ["write_note"]},
        {"action": "allow", "read_only": True},
        {"action": "ask", "destructive": True},
        DENY,
    ]
    conditions = [
        only({"equals": "this"}, "equals"),
        only({"one_of": ["a", 1]}, "one_of"),
        only({"prefix": "re: "}, "prefix"),
        only({"pattern": "[a-z]+-[0-9]+"}, "pattern"),
        only({"beneath": "/srv/data"}, "beneath"),
        only({"url": "public"}, "url"),
        {"action": "allow", "tools": ["nested"], "arguments": {"a.b": {"equals": 1}}},
        DENY,
    ]
    servers = {
        "named": offers(
            directory / "named.json",
            "read",
            "secret_read",
            tool("write_note", readOnlyHint=False),
            tool("destroy", destructiveHint=True),
            tool("add", destructiveHint=False, readOnlyHint=False),
            rules=rules,
        ),
        "argued": offers(
            directory / "argued.json",
            *("equals", "one_of", "prefix", "pattern", "beneath", "url", "nested"),
            rules=conditions,
        ),
        "bare": offers(
            directory / "bare.json", "read", tool("write", readOnlyHint=False), rules=[], description="Bare."
        ),
    }
    async with opened(directory / "state", servers) as opened_world:
        await found(opened_world)
        yield opened_world


async def test_the_first_rule_that_speaks_of_a_tool_decides(world):
    """T5: servers.NAME.rules, rules.action, rules.tools, rules.read_only, rules.destructive. Nobody is there to ask."""
    calls = "read()", "secret_read()", "write_note()", "destroy()", "add()"
    assert await codes(world, *(f"tools.named.{call}" for call in calls)) == [
        *("ok", "unknown_tool", "ok", "approval_denied", "unknown_tool")
    ]


async def test_without_a_rule_what_reads_is_allowed_and_all_else_is_asked_about(world):
    """H5: the default for unknown side effects."""
    assert await codes(world, "tools.bare.read()", "tools.bare.write()") == ["ok", "approval_denied"]


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("equals", ["this"], ["that", "This", None, ["this", "that"], 1]),
        ("one_of", ["a", 1, ["a"]], ["b", "1", True, {"a": 1}]),
        ("prefix", ["re: x"], ["Re: x", " re: x", ["re: x", "x"], 7]),
        ("pattern", ["a-1"], ["a-1\n", "xa-1 ", "A-1"]),
        ("beneath", ["/srv/data/x", "/srv/data"], ["/srv/data/../x", "/srv/database", "srv/data", "/srv/data//x", "/"]),
        ("url", ["http://93.184.216.34/", "https://[2606:2800:220:1::1]:8443/x"], []),
    ],
)
async def test_a_condition_on_an_argument_holds_for_what_meets_it_and_for_nothing_else(world, name, right, wrong):
    """T5: rules.arguments, equals, one_of, prefix, pattern, beneath, url. What may be read in two ways meets none."""
    calls = [f"tools.argued.{name}(x={value!r})" for value in (*right, *wrong)]
    assert await codes(world, *calls) == ["ok"] * len(right) + ["tool_not_allowed"] * len(wrong)
    assert await codes(world, f"tools.argued.{name}()") == ["tool_not_allowed"]


async def test_no_other_spelling_of_an_arguments_name_evades_its_condition(world):
    """P22: a server that ignores case would take the last of the two."""
    calls = 'tools.argued.equals(**{"x": "this", "X": "that"})', 'tools.argued.equals(**{"X": "that", "x": "this"})'
    assert await codes(world, *calls) == ["tool_not_allowed"] * 2


async def test_a_url_leads_to_no_place_of_this_host_or_network_however_it_is_written(world):
    """H5: addresses of names are looked up with the host's own resolver."""
    urls = [
        *(
            "http://localhost/",
            "http://localhost./",
            "http://LOCALHOST:80/",
            "http://ip6-localhost/",
            "http://127.0.0.1/",
        ),
        *("http://127.1/", "http://2130706433/", "http://0x7f.1/", "http://[::1]/", "http://[::ffff:127.0.0.1]/"),
        *("http://169.254.169.254/latest", "http://10.0.0.1/", "http://100.64.0.1/", "http://nobody.invalid/"),
        *("http://93.184.216.34@127.0.0.1/", "http://93.184.216.34\\@127.0.0.1/", "//127.0.0.1/", "file:///etc/passwd"),
        *(
            "gopher://93.184.216.34/",
            " http://93.184.216.34/",
            "http://93.184.216.34/ http://127.0.0.1/",
            "http://[fe80::1]/",
        ),
    ]
    assert await codes(world, *(f"tools.argued.url(x={url!r})" for url in urls)) == ["tool_not_allowed"] * len(urls)
    (record, *_) = [one for one in world.records("call.denied") if "localhost" in one.fields.get("addresses", {})]
    assert "127.0.0.1" in record.fields["addresses"]["localhost"]


@pytest.mark.parametrize(("addresses", "code"), [(("93.184.216.34",), None), (("10.0.0.1",), "tool_not_allowed")])
async def test_no_name_that_a_program_chose_is_looked_up_before_a_person_has_said_yes(tmp_path, addresses, code):
    """H5, H8, T6: names of the program's choice would carry what it knows out of a sandbox without a network."""
    rules = [{"action": "ask", "arguments": {"x": {"url": "public"}}}, DENY]
    looked_up = []

    async def look_up(host):
        looked_up.append(host)
        return addresses

    async with opened(tmp_path / "state", {"far": offers(tmp_path / "t.json", "one", rules=rules)}) as opened_world:
        world = dataclasses.replace(opened_world, engine=dataclasses.replace(opened_world.engine, look_up=look_up))
        async with allowed(world, "tools.far.one(x='https://secret.example/')") as results:
            assert looked_up == []
        assert looked_up == ["secret.example"]
        assert [call.code for call in results[0].tool_calls] == [code]
        last = world.records("call", run=results[0].run_id)[-1]
        assert last.kind == ("call.denied" if code else "call.ended")
        assert code or last.fields["addresses"] == {"secret.example": [*addresses]}


async def test_a_condition_may_speak_of_a_member_of_an_object(world):
    """T5: rules.arguments."""
    calls = "a={'b': 1}", "a={'b': 2}", "a=[{'b': 1}, {'b': 2}]", "**{'a.b': 1, 'a': {'b': 2}}"
    assert await codes(world, *(f"tools.argued.nested({call})" for call in calls)) == ["ok", *["tool_not_allowed"] * 3]


async def test_what_policy_forbids_is_not_found_listed_described_or_declared(world):
    """H4, H5: neither by a program nor by the agent."""
    assert await found(world) == [
        *("argued.beneath", "argued.equals", "argued.nested", "argued.one_of", "argued.pattern", "argued.prefix"),
        *("argued.url", "bare.read", "bare.write", "named.destroy", "named.read", "named.write_note"),
    ]
    code = """
        import subprocess
        subprocess.run(["tools", "--export", "d"], check=True, capture_output=True)
        found = subprocess.run(["tools", "--search", "secret"], capture_output=True, text=True).stdout
        schema = await get_tool_schema("mcp__named__secret_read")
        [repr(tools.named), open("d/named.pyi").read(), open("d/named.d.ts").read(), schema, found]
        """
    assert "secret" not in json.dumps(await world.value("python", code))
    async with Client(make_server(world.engine, Config(), {}, "stdio")) as client:
        for query in ("secret", "read", ""):
            answer = await client.call_tool("search_tools", {"query": query, "limit": 50})
            assert "secret" not in answer.content[0].text
            assert "named.read(" in answer.content[0].text or query == "secret"


async def test_a_request_that_names_tools_finds_and_calls_those_alone(world):
    """T1, H4, H5: it narrows, and brings nothing back that policy forbids."""
    asked = {"tools": ("bare/*", "named.read", "mcp__named__secret_read")}
    assert await found(world, **asked) == ["bare.read", "bare.write", "named.read"]
    calls = "tools.bare.read()", "tools.named.read()", "tools.named.write_note()", "tools.named.secret_read()"
    assert await codes(world, *calls, "tools.argued.equals(x='this')", **asked) == [
        *("ok", "ok", "unknown_tool", "unknown_tool", "tool_not_granted")
    ]
    assert await found(world, tools=()) == []
    unknown = await world.run("python", "1", tools=("nobody/*",))
    assert (unknown.status, unknown.error.type) == ("denied", "unknown_tool")


async def test_the_agent_and_programs_are_told_what_a_server_is_for(world):
    """T5: servers.NAME.description."""
    assert "Bare." in await world.value("python", "repr(tools)")
    assert "bare.read" in await found(world)


async def test_a_call_is_written_down_with_rule_sizes_digests_and_duration_and_without_what_was_in_it(world):
    """T2: the arguments and the result themselves are in no log."""
    result = await world.run("python", "tools.bare.read(x='hunter2-in-arguments')")
    admitted, ended = world.records("call", run=result.run_id)
    assert (admitted.kind, admitted.fields["server"], admitted.fields["tool"]) == ("call.admitted", "bare", "read")
    assert admitted.fields["rule"] == "servers.bare: read only"
    assert admitted.fields["arguments"]["bytes"] == len('{"x":"hunter2-in-arguments"}')
    assert len(admitted.fields["arguments"]["sha256"]) == len(ended.fields["result_sha256"]) == 64
    assert (ended.kind, ended.fields["outcome"]) == ("call.ended", "ok")
    assert ended.fields["result_bytes"] > 20
    assert ended.fields["duration_ms"] >= 0
    assert b"hunter2" not in world.written()


LOOP = """
def attempt(number):
    try:
        tools.far.one(x="x" * SIZE)
    except ToolError as error:
        return error.code
    return "ok"

[attempt(number) for number in range(TIMES)]
"""


def loop(times: int, size: int = 1) -> str:
    return LOOP.replace("SIZE", str(size)).replace("TIMES", str(times))


async def test_a_run_has_so_many_calls_and_the_log_so_many_lines(tmp_path):
    """T5, H5: limits.tool_calls. To fill the log with refusals is no way to stop it."""
    servers = {"far": offers(tmp_path / "t.json", "one")}
    async with opened(tmp_path / "state", servers, policy={"limits": {"tool_calls": 3}}) as world:
        result = await world.run("python", loop(20))
        assert result.value == ["ok"] * 3 + ["too_many_calls"] * 17
        assert (result.limits_hit, result.tool_calls_total) == (("tool_calls",), 20)
        assert len(world.records("call.denied")) == 1
        assert await codes(world, "tools.far.one()") == ["ok"], "the next run has its own"


async def test_a_run_sends_and_gets_so_many_bytes(tmp_path):
    """T5, H5: limits.tool_bytes, of arguments and results together; the answer that is too much is not given."""
    servers = {"far": offers(tmp_path / "t.json", "one")}
    async with opened(tmp_path / "state", servers, policy={"limits": {"tool_bytes": 10_000}}) as world:
        result = await world.run("python", loop(5, 3000))
        assert result.value == ["ok", *["too_many_tool_bytes"] * 4]
        assert result.limits_hit == ("tool_bytes",)
        assert (await world.run("python", loop(1, 6000))).value == ["too_many_tool_bytes"]
        assert world.records("call.admitted")[-1].fields["arguments"]["bytes"] > 6000


async def test_bytes_a_minute_of_a_server_are_counted_over_all_runs(tmp_path):
    """T5, H5: servers.NAME.bytes_per_minute. What has come is owed; another server is not concerned."""
    servers = {
        "far": offers(tmp_path / "t.json", "long", bytes_per_minute=2000),
        "other": offers(tmp_path / "o.json", "one"),
    }
    async with opened(tmp_path / "state", servers) as world:
        assert await codes(world, "tools.far.long(size=5000)") == ["tool_error"]  # so long is what it says
        assert await codes(world, "tools.far.long(size=1)", "tools.other.one()") == ["too_many_bytes_a_minute", "ok"]


async def test_a_server_is_called_so_often_a_minute_by_all_runs_together(tmp_path):
    """T5, H5: servers.NAME.calls_per_minute. Another server is not concerned."""
    servers = {
        "far": offers(tmp_path / "t.json", "one", calls_per_minute=4),
        "other": offers(tmp_path / "o.json", "one"),
    }
    async with opened(tmp_path / "state", servers) as world:
        first = await codes(world, *["tools.far.one()"] * 3)
        second = await codes(world, *["tools.far.one()"] * 3, "tools.other.one()")
        assert first + second == ["ok"] * 4 + ["too_many_calls_a_minute"] * 2 + ["ok"]


async def test_a_run_that_calls_without_end_leaves_others_their_few_calls(tmp_path):
    """P8: they come as the minute goes on, to runs that have made few before others."""
    servers = {"far": offers(tmp_path / "t.json", "one")}
    async with opened(tmp_path / "state", servers) as world:
        flood = (await world.run("python", loop(800))).value
        assert flood.count("too_many_calls_a_minute") > 100
        assert (await world.run("python", loop(10))).value == ["ok"] * 10


async def test_so_many_calls_of_a_server_go_on_at_the_same_time(tmp_path):
    """T5, H5: servers.NAME.concurrent_calls; the rest wait, and are not refused."""
    going = most = 0
    as_many = anyio.Event()

    async def conduct(asked):
        nonlocal going, most
        if asked.what == "tools/call":
            going, most = going + 1, max(most, going + 1)
            if going == 3:
                as_many.set()
            await as_many.wait()
            await anyio.sleep(0.05)  # for more to come, if they may
            going -= 1
        await asked.send(usual(asked))

    async with raw(conduct) as far:
        servers = {"far": {"url": far.url, "transport": "http", "rules": ALLOW, "concurrent_calls": 3}}
        async with opened(tmp_path / "state", servers) as world:
            code = "import asyncio\nlen(await asyncio.gather(*(tools.far.plain.aio() for _ in range(12))))"
            assert await world.value("python", code) == 12
    assert most == 3


async def test_a_call_and_a_start_take_so_long_and_no_longer(tmp_path):
    """T5: servers.NAME.url, transport, headers, call_seconds, startup_seconds."""

    async def conduct(asked):
        if asked.path == "/slow" or asked.what == "tools/call":
            await anyio.sleep(30)
        await asked.send(usual(asked))

    async with raw(conduct) as far:
        table = {"transport": "http", "rules": ALLOW, "headers": {"X-Mine": "yes"}}
        servers = {
            "far": table | {"url": far.url, "call_seconds": 0.3},
            "slow": table | {"url": far.url.replace("/mcp", "/slow"), "startup_seconds": 0.3},
        }
        async with opened(tmp_path / "state", servers) as world:
            began = time.monotonic()
            calls = "tools.far.plain()", "tools.slow.plain()"
            assert await codes(world, *calls) == ["tool_timeout", "server_unavailable"]
            assert time.monotonic() - began < 15
        assert {asked.headers.get("x-mine") for asked in far.asked} == {"yes"}


async def test_a_provider_answers_by_the_name_place_and_key_that_the_owner_gave_it(tmp_path):
    """T5, H7: sampling.enabled, channel, provider, url, model, models, secret. The key is no program's to see."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    code = """
        def attempt(**given):
            try:
                return str(llm.ask("why?", **given))
            except ToolError as error:
                return error.code

        [attempt(), attempt(model="large"), attempt(model="another")]
        """
    async with models() as far:
        settings = {"enabled": True, "channel": "provider", "url": far.url(), "model": "small", "models": ["large"]}
        for provider, path in (("openai", "/v1/chat/completions"), ("anthropic", "/v1/messages")):
            far.asked.clear()
            told = settings | {"provider": provider, "secret": f"file:{key}"}
            async with opened(tmp_path / provider, {}, sampling=told) as world:
                assert await world.value("python", code) == ["an answer", "an answer", "model_not_allowed"]
                assert KEY.encode() not in world.written()
            assert [(asked[0], asked[2]["model"]) for asked in far.asked] == [(path, "small"), (path, "large")]


async def test_a_server_of_http_is_believed_by_the_authority_that_the_owner_names(tmp_path):
    """T5: servers.NAME.ca_file."""
    (tmp_path / "authority").mkdir()
    authority = make(tmp_path / "authority")

    async def conduct(asked):
        await asked.send(usual(asked))

    async with raw(conduct, authority.server("localhost"), "127.0.0.1") as far:
        table = {"url": far.url.replace("127.0.0.1", "localhost"), "transport": "http", "rules": ALLOW}
        servers = {"known": table | {"ca_file": authority.ca_file}, "unknown": table}
        async with opened(tmp_path / "state", servers) as world:
            assert await codes(world, "tools.known.plain()", "tools.unknown.plain()") == ["ok", "server_unavailable"]


async def test_what_a_server_redirects_to_is_not_asked(tmp_path):
    """H5: a URL that the owner wrote leads where they wrote, and nowhere else."""

    async def elsewhere(asked):
        await asked.send(usual(asked))

    async with raw(elsewhere) as other:

        async def conduct(asked):
            await asked.send(reply(b"", status="307 Temporary Redirect", headers=(("location", other.url),)))

        async with raw(conduct) as far:
            servers = {"far": {"url": far.url, "rules": ALLOW}}
            async with opened(tmp_path / "state", servers) as world:
                assert await codes(world, "tools.far.plain()") == ["server_unavailable"]
        assert other.asked == []
