"""W5, H8: gates, and who may open them, as clients and the owner see them. The sandbox holds in every mode."""

import dataclasses
import functools
import json
import os
import re
import subprocess
import time
import tomllib
from pathlib import Path

import anyio
import pytest
from mcp import Client
from msgspec.structs import replace
from tests.http_server import serve_app
from tests.server.shop import DISMISS, NO, YES, Dialogs, accept
from tests.server.workspace.served import opened

from gloveport.approvals import desk
from gloveport.server.protocol import make_server
from gloveport.server.tools import gated_calls, permission
from gloveport.workspace_service.own_directories import _TICKS

pytestmark = pytest.mark.anyio

COARSE = 5
"""CLOCK_REALTIME_COARSE, by which files are made."""
RESET = "git reset --hard"
WROTE = "write_generated_or_ignored"
PATCH = "*** Begin Patch\n*** Add File: {0}\n+x\n*** End Patch\n"


@pytest.fixture(scope="module")
async def safe(tmp_path_factory):
    """A workspace in mode safe."""
    tables = {"api": {"example": {"hosts": ["example.org"]}}}
    async with opened(Path(tmp_path_factory.mktemp("safe")), tables=tables, mode="safe") as one:
        one.write(".gitignore", "*.log\n")
        one.write("tests/test_socket.py", "print('ok')\n")
        one.write("node_modules/left/index.js", "")
        for name in ("old", "mixed"):
            one.write(f"{name}/note.txt", "the owner's\n")
        one.git("add", "-A")
        one.git("commit", "-qm", "first")
        yield one


@pytest.fixture(autouse=True)
def fresh(safe, monkeypatch):
    """Nothing is permitted yet; answers are looked for often; and no call asks by itself."""
    monkeypatch.setattr(desk, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(gated_calls, "_MOST_DECLINED_OF_ONE", 0)
    safe.forget_permissions()


@pytest.fixture(params=["legacy", "2026-07-28"])
def era(request):
    return request.param


@pytest.fixture(scope="module")
def server(safe):
    """The same workspace served anew: with these keys, over this transport. What was permitted stays permitted."""

    @functools.cache
    def make(transport="stdio", **settings):
        settings["gates"] = dict(settings.get("gates", ()))
        workspace = safe.service.config.workspace.model_copy(update=settings)
        config = safe.service.config.model_copy(update={"workspace": workspace})
        service = replace(safe.service, config=config, transport=transport)
        return make_server(safe.engine, config, safe.environ, transport, service)

    return make


@pytest.fixture
def approvals(gloveport, safe, tmp_path):
    """``gloveport approvals`` in another process."""
    empty = tmp_path / "gloveport.toml"
    empty.touch(mode=0o600)

    def run(*arguments: str) -> subprocess.CompletedProcess:
        done = gloveport.run(
            "approvals", *arguments, env={**os.environ, **safe.environ, "GLOVEPORT_CONFIG": str(empty)}
        )
        assert done.returncode == 0, done.stderr
        return done

    return run


async def asked(client, permission="destructive_command", tool="exec_command", more=None, **arguments):
    """What becomes of a request for a permission."""
    request = {"tool_name": tool, "permission": permission, "reason": "It is broken.", "arguments": arguments}
    return (await client.call_tool("request_permissions", request | (more or {}))).structured_content


async def outcome(client, tool="exec_command", **arguments):
    """``ran``, or the gate at which a call is refused."""
    told = (await client.call_tool(tool, arguments)).structured_content
    if told["ok"]:
        return "ran"
    assert told["error"]["code"] == "PERMISSION_REQUIRED", told
    return told["error"]["details"]["permission"]


def since(served, kinds, count):
    """The records of these kinds after the first so many of all."""
    return [one for one in served.records()[count:] if one.kind in kinds]


async def test_a_command_at_a_gate_is_refused_with_what_a_program_can_act_on(safe):
    """W5. CT-G4: error and request say the same of whether to try again."""
    count = len(safe.records())
    answer = await safe.call("exec_command", cmd=f"{RESET} && curl -s https://example.org", env={"X": "1"})
    told = answer.structured_content
    assert (told["status"], told["ok"]) == ("failed", False)
    details = told["error"]["details"]
    assert details["permission"] == "network"
    assert details["permissions"] == ["network", "destructive_command"]
    assert [one["permission"] for one in details["reasons"]] == details["permissions"]
    assert all(one["why"] and one["instead"] for one in details["reasons"])
    assert details["command"].startswith(RESET)
    assert told["error"]["retryable"] is told["permission_request"]["retryable"] is True
    assert told["permission_request"] == {
        "tool_name": "exec_command",
        "permission": "network",
        "status": "required",
        "retryable": True,
    }
    assert "request_permissions asks the owner" in answer.content[0].text
    (record,) = since(safe, {"command.denied"}, count)
    assert record.fields["code"] == "permission_required"
    assert record.fields["gates"] == ["network", "destructive_command"]


async def test_what_the_owner_permits_in_a_dialog_holds_once(safe, server, era):
    """H8, W5. CT-G4: a refusal is no dead end."""
    count = len(safe.records())
    dialogs = Dialogs([YES])
    async with Client(server(), mode=era, elicitation_callback=dialogs) as client:
        assert await outcome(client, cmd=RESET) == "destructive_command"
        told = await asked(client, cmd=RESET)
        assert (told["ok"], told["status"]) == (True, "granted")
        assert told["grant_id"].startswith("grant-")
        assert told["expires_at"]
        assert told["constraints"]["scope"] == "once"
        grants = (await client.call_tool("server_info", {})).structured_content["grants"]
        assert [one["id"] for one in grants] == [told["grant_id"]]
        assert (await asked(client, cmd=RESET))["grant_id"] == told["grant_id"]  # nobody is asked twice
        assert await outcome(client, cmd=RESET) == "ran"
        assert await outcome(client, cmd=RESET) == "destructive_command"
        assert (await client.call_tool("server_info", {})).structured_content["grants"] == []
    (question,) = dialogs.read
    assert "The agent says: It is broken." in question.message
    assert "'git' throws away what is not committed." in question.message
    assert RESET in question.message
    granted, admitted = since(safe, {"permission.granted", "command.admitted"}, count)
    assert granted.fields["id"] == told["grant_id"]
    assert (granted.fields["by"], granted.fields["scope"]) == ("client", "once")
    assert admitted.fields["command"] == RESET


async def test_what_the_owner_refuses_stays_refused(safe, server, era):
    """H8."""
    count = len(safe.records())
    async with Client(server(), mode=era, elicitation_callback=Dialogs([NO])) as client:
        told = await asked(client, cmd=f"{RESET} HEAD")
        assert (told["ok"], told["status"], told["grant_id"]) == (False, "denied", None)
        assert told["error"]["code"] == "PERMISSION_REQUIRED"
        assert told["error"]["retryable"] is False
        assert await outcome(client, cmd=f"{RESET} HEAD") == "destructive_command"
    assert since(safe, {"permission.granted", "command.admitted"}, count) == []


async def test_a_permission_for_a_session_takes_two_to_say_so(server, era):
    """H8: the agent asks for it, and the owner grants it."""
    dialogs = Dialogs([YES, accept(allow=True, remember="session")])
    async with Client(server(), mode=era, elicitation_callback=dialogs) as client:
        short = f"git clean -fd {era}"
        assert (await asked(client, cmd=short, more={"scope": "session"}))["constraints"]["scope"] == "once"
        assert [await outcome(client, cmd=short) for _ in range(2)] == ["ran", "destructive_command"]
        long = f"git clean -fdx {era}"
        assert (await asked(client, cmd=long, more={"scope": "session"}))["constraints"]["scope"] == "session"
        assert [await outcome(client, cmd=long) for _ in range(3)] == ["ran"] * 3
        assert await outcome(client, cmd=f"{long} -q") == "destructive_command"


async def test_a_client_that_can_not_ask_leaves_it_to_the_queue(safe, server, era, approvals):
    """H8: another process answers, and the same call fetches the answer."""
    command = f"rm -rf tests {era}"
    async with Client(server(), mode=era) as client:
        told = await asked(client, cmd=command)
        assert (told["ok"], told["status"], told["grant_id"]) == (False, "waiting", None)
        (identifier,) = re.findall(r"apr-[0-9a-f]+", told["message"])
        assert f"rm -rf tests {era}" in approvals("list").stdout
        approvals("approve", identifier, "--yes")
        assert (await asked(client, cmd=command))["status"] == "granted"
        assert await outcome(client, cmd=command) == "ran"
        ended = time.time_ns()
        while time.clock_gettime_ns(COARSE) <= ended:  # else it could be the command that has made them
            pass
        safe.git("checkout", "-q", "--", "tests")
        assert await outcome(client, cmd=command) == "destructive_command"


async def test_nothing_is_asked_that_nobody_can_permit(safe, server):
    """W4: a gate and a protected path at once; what was tried is in the log."""
    patch = PATCH.format(".git/hooks/pre-commit")
    async with Client(server()) as client:
        count = len(safe.records())
        refused = (await client.call_tool("apply_patch", {"patch": patch})).structured_content
        assert refused["error"]["code"] == "PROTECTED_PATH", refused
        assert since(safe, {"write.denied"}, count)
        wanted = {"tool_name": "apply_patch", "permission": WROTE, "reason": "r", "arguments": {"patch": patch}}
        refused = (await client.call_tool("request_permissions", wanted)).structured_content
        assert refused["error"]["code"] == "PROTECTED_PATH", refused
    assert not (safe.root / ".git/hooks/pre-commit").exists()


async def test_a_pattern_of_the_owner_holds_until_it_is_forgotten(safe, server, approvals):
    """H8, A1: for what it means and nothing else; the log says that it was that."""
    count = len(safe.records())
    async with Client(server()) as client:
        told = await asked(client, cmd="git stash drop one")
        (identifier,) = re.findall(r"apr-[0-9a-f]+", told["message"])
        pattern = "permit destructive_command command .: git%20stash%20drop*"
        approvals("approve", identifier, "--always", pattern, "--yes")
        assert [await outcome(client, cmd=f"git stash drop {name}") for name in ("one", "two")] == ["ran", "ran"]
        ran = since(safe, {"command.admitted"}, count)
        assert [one.fields["permission"] for one in ran] == [["remembered"]] * 2
        assert await outcome(client, cmd="git stash clear") == "destructive_command"
        (remembered,) = json.loads(approvals("remembered", "--json").stdout)
        assert remembered["pattern"] == pattern
        approvals("forget", str(remembered["number"]))
        assert await outcome(client, cmd="git stash drop three") == "destructive_command"


async def test_a_permission_ends_with_its_time(server):
    """H8."""
    async with Client(server(), mode="legacy", elicitation_callback=Dialogs([YES])) as client:
        assert (await asked(client, cmd="git clean -f", more={"ttl_seconds": 1}))["status"] == "granted"
        with anyio.fail_after(30):
            while (await client.call_tool("server_info", {})).structured_content["grants"]:
                await anyio.sleep(0.05)
        assert await outcome(client, cmd="git clean -f") == "destructive_command"


OTHERS = [
    {"cmd": "git clean -f sub"},
    {"cmd": "git clean  -f"},
    {"cmd": "git clean -f", "workdir": "tests"},
    {"cmd": "git clean -f", "env": {"A": "1"}},
    {"cmd": "git clean -f", "stdin": "nobody has seen this"},
    {"cmd": "git clean -f; curl -s https://example.org"},
]


async def test_other_arguments_are_not_covered_and_use_nothing_up(safe, server):
    """P36, H8."""
    async with Client(server(), mode="legacy", elicitation_callback=Dialogs([YES])) as client:
        await asked(client, cmd="git clean -f")
        assert {await outcome(client, **one) for one in OTHERS} == {"destructive_command", "network"}
        assert await outcome(client, cmd="git clean -f") == "ran"


async def test_who_permits_ten_minutes_has_not_permitted_an_hour(server):
    """H8. CT-G5: long_timeout is a gate to which something comes."""
    minutes, hour = {"cmd": "true", "timeout_ms": 660_000}, {"cmd": "true", "timeout_ms": 3_600_000}
    async with Client(server(), mode="legacy", elicitation_callback=Dialogs([YES])) as client:
        assert await outcome(client, **minutes) == "long_timeout"
        assert (await asked(client, "long_timeout", **minutes))["status"] == "granted"
        assert await outcome(client, **hour) == "long_timeout"
        assert await outcome(client, **minutes) == "ran"


async def test_one_answer_is_one_permission_however_many_wait_for_it(server):
    """H8."""
    dialogs = Dialogs([YES], held=anyio.Event())
    granted, ran = [], []
    async with Client(server(), mode="legacy", elicitation_callback=dialogs) as client:

        async def ask():
            granted.append((await asked(client, cmd="git clean -fd"))["grant_id"])

        async def run():
            ran.append(await outcome(client, cmd="git clean -fd"))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
            while len(dialogs.read) < 3:
                await anyio.sleep(0.01)
            dialogs.held.set()
        assert len({*granted}) == 1
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run)
        assert sorted(ran) == ["destructive_command"] * 3 + ["ran"]


async def test_where_two_things_need_a_permission_one_of_them_is_not_enough(server):
    """H8."""
    both = "git clean -f; curl -s https://example.org"
    async with Client(server(), mode="legacy", elicitation_callback=Dialogs([YES])) as client:
        await asked(client, cmd=both)
        assert await outcome(client, cmd=both) == "network"
        await asked(client, "network", cmd=both)
        assert await outcome(client, cmd=both) == "ran"
        assert (await client.call_tool("server_info", {})).structured_content["grants"] == []


async def test_another_session_has_no_part_in_it(server):
    """H8: over HTTP, where sessions are told from each other."""
    async with serve_app(server("http").streamable_http_app(host="127.0.0.1")) as url:
        yes, other = (Client(url, mode="legacy", elicitation_callback=Dialogs([one])) for one in (YES, NO))
        async with yes as client, other as stranger:
            told = await asked(client, cmd="git clean -f x")
            assert told["status"] == "granted"
            assert await outcome(stranger, cmd="git clean -f x") == "destructive_command"
            assert (await stranger.call_tool("server_info", {})).structured_content["grants"] == []
            assert await outcome(client, cmd="git clean -f x") == "ran"


async def test_who_asks_very_often_withdraws_none_of_what_another_asks(safe, server, monkeypatch):
    """P36."""
    monkeypatch.setattr(permission, "_MOST_ASKING", 4)
    monkeypatch.setattr(permission, "_WAIT_SECONDS", 0.1)
    async with serve_app(server("http").streamable_http_app(host="127.0.0.1")) as url:
        clients = (Client(url, mode="legacy") for _ in range(2))
        async with next(clients) as quiet, next(clients) as busy:
            first = await asked(quiet, cmd=RESET)
            assert first["status"] == "waiting"
            for number in range(6):
                assert (await asked(busy, cmd=f"git clean -f x{number}"))["status"] == "waiting"
            assert (await asked(quiet, cmd=RESET))["message"] == first["message"]
    await safe.engine.runs.end()


async def test_what_nobody_can_permit_is_not_asked(server):
    """W5."""
    dialogs = Dialogs([YES])
    async with Client(server(), mode="legacy", elicitation_callback=dialogs) as client:
        answer = await client.call_tool("exec_command", {"cmd": "sudo ls"})
        assert answer.structured_content["permission_request"]["retryable"] is False
        assert answer.structured_content["error"]["retryable"] is False
        told = await asked(client, "privileged_executable", cmd="sudo ls")
        assert (told["status"], told["error"]["message"]) == ("denied", "Nobody can permit it here.")
    assert dialogs.read == []


async def test_where_nobody_can_be_asked_it_says_so(safe, server):
    """W1: the code that clients know."""
    engine = safe.engine
    nobody = dataclasses.replace(safe.service.permissions.desk, channels=frozenset())
    service = replace(safe.service, permissions=replace(safe.service.permissions, desk=nobody))
    async with Client(make_server(engine, service.config, safe.environ, "stdio", service)) as client:
        told = await asked(client, cmd=RESET)
        assert (told["status"], told["error"]["code"]) == ("unsupported", "ELICITATION_UNSUPPORTED")


LONG = [
    ("exec_command", "destructive_command", {"cmd": "echo \n" * 300 + "rm -rf tests"}),
    (
        "apply_changes",
        WROTE,
        {
            "changes": [
                {"action": "create", "path": f"{'x' * 200}/{number}.log", "content": ""} for number in range(100)
            ]
        },
    ),
]


@pytest.mark.parametrize(("tool", "gate", "arguments"), LONG)
async def test_what_nobody_would_read_is_not_asked_about(server, tool, gate, arguments):
    """H8: nor cut, for the agent chooses what would be left out."""
    dialogs = Dialogs([YES])
    async with Client(server(), mode="legacy", elicitation_callback=dialogs) as client:
        assert await outcome(client, tool, **arguments) == gate
        told = await asked(client, gate, tool, **arguments)
        assert (told["status"], told["error"]["details"]["reason"]) == ("denied", "too_large_to_ask")
    assert dialogs.read == []


async def test_what_needs_no_permission_gets_none(safe):
    told = await asked(safe.client, "network", cmd="true")
    assert (told["status"], told["grant_id"]) == ("granted", None)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec_command", {}),
        ("exec_command", {"cmd": "x", "workdir": "../x"}),
        ("exec_command", {"cmd": 3}),
        ("edit_file", {"path": "a", "old_string": ""}),
        ("apply_changes", {"changes": 3}),
        ("apply_changes", {"changes": [{"action": "hop", "path": "x"}]}),
    ],
)
async def test_arguments_that_are_no_call_are_not_asked_about(safe, tool, arguments):
    told = await asked(safe.client, tool=tool, **arguments)
    assert told["error"]["code"] in {"INVALID_ARGUMENT", "PATH_OUTSIDE_WORKSPACE"}


WRITES = [
    ("package-lock.json", WROTE),
    ("sub/deep.log", WROTE),
    ("./node_modules/left/new.js", WROTE),
    ("src/package-lock.json.py", "ran"),
    ("notes.txt", "ran"),
]


@pytest.mark.parametrize(("path", "expected"), WRITES)
async def test_a_write_to_what_a_tool_makes_or_git_ignores_is_at_a_gate(safe, path, expected):
    """W5. CT-G5."""
    change = {"action": "write", "path": f"{path}.log", "content": "x"}
    assert await outcome(safe.client, "apply_patch", patch=PATCH.format(path)) == expected
    assert await outcome(safe.client, "apply_changes", changes=[change]) == WROTE
    dry = {"dry_run": True, "patch": PATCH.format(path)}
    assert await outcome(safe.client, "apply_patch", **dry) == "ran"  # a look is no write


async def test_a_write_that_the_owner_permits_is_made_once(safe, server, era):
    """W5, H8: of a move it is both ends."""
    safe.write("from.log", "x\n")
    revision = (await safe.told("read_file", path="from.log"))["revision"]
    target = f"{era}.log"
    move = {"action": "move", "path": "from.log", "destination": target, "revision": revision}
    other = {"action": "create", "path": target, "content": "x"}
    async with Client(server(), mode=era, elicitation_callback=Dialogs([YES])) as client:
        told = await asked(client, WROTE, "apply_changes", changes=[move])
        assert told["constraints"]["subject"].startswith(f"permit {WROTE} write move:from.log,move:{target} ")
        assert await outcome(client, "apply_changes", changes=[other]) == WROTE
        assert await outcome(client, "apply_changes", changes=[move]) == "ran"
        assert await outcome(client, "apply_changes", changes=[other]) == WROTE
        patch = PATCH.format("patched.log")
        assert (await asked(client, WROTE, "apply_patch", patch=patch))["status"] == "granted"
        assert await outcome(client, "apply_patch", patch=patch) == "ran"
        assert await outcome(client, "apply_patch", patch=patch) == WROTE


async def test_to_delete_what_one_has_made_oneself_asks_nobody(safe):
    """W5: a directory that is new with all that is in it, or that is not there yet."""
    await safe.run("mkdir -p mine/deep && echo 1 > mine/deep/a && cp -r old copied && ln -s ../old mine/link")
    await safe.told("apply_patch", patch=PATCH.format("patched/x.txt"))
    await safe.run("mkdir taken && mv mixed taken/ && ln -s old way")
    ended = time.time_ns()
    while time.clock_gettime_ns(_TICKS) <= ended:  # what is made within the same tick counts as the client's
        await anyio.sleep(0.001)
    safe.write("looks\\x5clike/x\\x5cy/note.txt", "the owner's\n")
    asks = {
        "rm -rf taken": "what lies there is older",
        "rm -rf old": "it is the owner's",
        "rm -rf mine old": "one of them is the owner's",
        "rm -rf mine && mv old mine": "old would come there",
        "mv old fresh && rm -rf fresh": "old would come there",
        "git mv old fresh && rm -rf fresh": "old would come there",
        "rm -rf way/none": "by way of a link",
        "rm -rf 'looks\\x5clike'": "it is the name itself, and no spelling of another",
        "rm -rf 'looks\\x5clike/x\\x5cy'": "so it is above",
        "ln -s old fresh && find fresh/ -delete": "by way of a link",
        "rm -rf none/below": "nothing is known of it",
        "rm -rf $UNKNOWN/mine": "nothing is known of it",
        "truncate -s 0 old/note.txt": "it is a file",
    }
    for cmd, why in asks.items():
        assert await outcome(safe.client, cmd=cmd) == "destructive_command", (cmd, why)
    (safe.root / "copied/owners.txt").write_text("made by somebody else\n")
    assert await outcome(safe.client, cmd="rm -rf copied") == "destructive_command"
    for cmd in ("rm -rf mine patched", "git init -q demo && rm -rf demo", "cd old && mkdir t && rm -rf t"):
        assert await outcome(safe.client, cmd=cmd) == "ran", cmd
    assert not any((safe.root / name).exists() for name in ("mine", "patched", "demo", "old/t"))
    assert (safe.root / "old/note.txt").read_text() == "the owner's\n"
    assert await outcome(safe.client, cmd=RESET + " && git clean -fdx") == "destructive_command"


@pytest.fixture
def asks_by_itself(monkeypatch):
    """A call asks what it would else be refused."""
    monkeypatch.setattr(gated_calls, "_MOST_DECLINED_OF_ONE", 3)


async def test_a_call_asks_the_owner_itself_and_once_where_its_client_has_dialogs(safe, server, era, asks_by_itself):
    """H8: one call, not three. What was permitted holds for it alone."""
    count = len(safe.records())
    dialogs = Dialogs([YES])
    patch = PATCH.format(f"asked-{era}.log")
    async with Client(server(), mode=era, elicitation_callback=dialogs) as client:
        assert await outcome(client, cmd=RESET) == "ran"
        assert await outcome(client, cmd="git clean -fd; sleep 0", timeout_ms=3_600_000) == "ran"
        assert await outcome(client, "apply_patch", patch=patch) == "ran"
    assert (safe.root / f"asked-{era}.log").exists()
    assert [
        "Permit " + gate in one.message
        for gate, one in zip(
            ("destructive_command", "destructive_command", "long_timeout", WROTE), dialogs.read, strict=True
        )
    ] == [True] * 4, [one.message for one in dialogs.read]
    assert "The agent has given no reason." in dialogs.read[0].message
    assert RESET in dialogs.read[0].message
    granted = since(safe, {"permission.granted"}, count)
    assert [one.fields["scope"] for one in granted] == ["once"] * 4


async def test_who_has_said_no_is_not_asked_by_the_same_call_again(safe, server, era, asks_by_itself):
    """H8: who is asked often enough says yes."""
    count = len(safe.records())
    dialogs = Dialogs([NO])
    fresh = server.__wrapped__()
    async with Client(fresh, mode=era, elicitation_callback=dialogs) as client:
        answer = await client.call_tool("exec_command", {"cmd": RESET})
        told = answer.structured_content
        assert (told["error"]["code"], told["error"]["retryable"]) == ("PERMISSION_REQUIRED", False)
        assert "The owner was asked, and has not permitted it" in answer.content[0].text
        for cmd in (RESET, f"{RESET} HEAD", f"{RESET} HEAD~0", f"{RESET} HEAD -q", f"{RESET} -q"):
            assert await outcome(client, cmd=cmd) == "destructive_command"
    assert len(dialogs.read) == 3
    assert since(safe, {"permission.granted", "command.admitted"}, count) == []


async def test_a_call_whose_dialog_nobody_has_read_tells_of_the_queue(safe, server, era, asks_by_itself):
    """H8: a client that gives the question back at once, as one without a person does."""
    async with Client(server.__wrapped__(), mode=era, elicitation_callback=Dialogs([DISMISS])) as client:
        answer = await client.call_tool("exec_command", {"cmd": f"{RESET} {era}"})
        told = answer.structured_content
        assert (told["error"]["code"], told["error"]["retryable"]) == ("PERMISSION_REQUIRED", True)
        (question,) = safe.engine.desk._pending.values()
        assert f"gloveport approvals approve {question.question.id}" in answer.content[0].text
        safe.engine.runs.find(question.question.run, "stdio").cancel()


async def test_a_call_that_asks_twice_and_is_refused_once_does_not_run(safe, server, asks_by_itself):
    dialogs = Dialogs([YES, NO])
    async with Client(server.__wrapped__(), mode="legacy", elicitation_callback=dialogs) as client:
        assert await outcome(client, cmd="git clean -fdx; sleep 0", timeout_ms=3_600_000) == "destructive_command"
    assert len(dialogs.read) == 2
    unreachable = Dialogs([YES])
    async with Client(server.__wrapped__(), mode="legacy", elicitation_callback=unreachable) as client:
        assert await outcome(client, cmd="curl https://nowhere.test") == "network"
        assert await outcome(client, cmd=RESET, session="new") == "destructive_command"
    assert unreachable.read == []  # nobody could permit it


COMMANDS = {
    "network": {"cmd": "curl -s https://example.org"},
    "destructive_command": {"cmd": RESET},
    "long_timeout": {"cmd": "true", "timeout_ms": 3_600_000},
    "sensitive_env": {"cmd": "true", "env": {"LD_PRELOAD": "/nonexistent"}},
    "shell_expansion": {"cmd": "echo $(date)"},
    "inline_script": {"cmd": "python3 -c 'print(1)'"},
    "privileged_executable": {"cmd": "sudo true"},
}
AT = {
    "safe": {"network", "destructive_command", "long_timeout", "sensitive_env", "privileged_executable"},
    "trusted": {"destructive_command", "sensitive_env", "privileged_executable"},
    "dangerous": set(),
}


@pytest.mark.parametrize("mode", AT)
async def test_each_mode_has_its_gates(server, mode):
    """W5. CT-G5: each gate is one to which something comes."""
    async with Client(server(mode=mode)) as client:
        met = {gate: await outcome(client, **call) for gate, call in COMMANDS.items()}
        assert met == {gate: gate if gate in AT[mode] else "ran" for gate in COMMANDS}
        changed = await outcome(client, "apply_patch", patch=PATCH.format("yarn.lock"))
        assert changed == (WROTE if mode == "safe" else "ran")


@pytest.mark.parametrize(("stance", "status"), [("ask", "granted"), ("deny", "denied"), ("allow", "granted")])
async def test_what_is_said_of_a_gate_comes_before_the_mode(server, stance, status):
    """W5: in the strictest mode and in the laxest."""
    for mode in ("safe", "dangerous"):
        altered = server(mode=mode, gates=tuple(dict.fromkeys(COMMANDS, stance).items()))
        async with Client(altered, mode="legacy", elicitation_callback=Dialogs([YES])) as client:
            for gate in ("shell_expansion", "inline_script", "destructive_command"):
                expected = "ran" if stance == "allow" else gate
                assert await outcome(client, **COMMANDS[gate]) == expected
            assert (await asked(client, "inline_script", **COMMANDS["inline_script"]))["status"] == status
            assert await outcome(client, **COMMANDS["inline_script"]) == (
                "inline_script" if stance == "deny" else "ran"
            )


CORPUS = tomllib.loads(Path(__file__).with_name("commands_at_gates.toml").read_text())
HIDDEN = [(command, gate) for gate, commands in CORPUS["hidden"].items() for command in commands]


@pytest.mark.parametrize("command", CORPUS["harmless"])
async def test_daily_work_is_at_no_gate(safe, command):
    """CT-G2, CT-U4."""
    assert (await safe.run(command))["exit_code"] == 0


@pytest.mark.parametrize(("command", "gate"), HIDDEN)
async def test_another_spelling_comes_to_the_same_gate(safe, command, gate):
    """CT-G1, CT-G6."""
    assert await outcome(safe.client, cmd=command) == gate


async def test_what_no_gate_sees_the_kernel_does_not_let_out(safe, server):
    """CT-G3, CT-G6: gates explain. Files outside and the network are not there, whatever names them."""
    secret = safe.outside / "secret"
    secret.write_text("secret")
    script = f"import os, socket; print(os.path.exists({str(secret)!r}), socket.socket().connect_ex(('127.0.0.1', 1)))"
    for how in ("python3", "python3 -"):
        told = await safe.run(how, stdin=script)
        assert told["stdout"].startswith("False ")
    assert (await safe.run(f"xxd {secret}"))["exit_code"] != 0
