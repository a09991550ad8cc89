"""W5, H8, A1: a permission is for what a person was shown, all of it is bound, and the log says what became of it."""

import hashlib
import inspect
from pathlib import Path

import pytest
from mcp import Client
from tests.server.shop import NO, YES, Dialogs, accept
from tests.server.workspace.served import opened, owned

from gloveport.approvals import desk
from gloveport.engine.caller import caller_over_stdio
from gloveport.server.protocol import make_server
from gloveport.server.tools import gated_calls
from gloveport.server.tools.command_tools import CommandArguments, CommandTools
from gloveport.server.tools.write_tools import WriteTools

pytestmark = pytest.mark.anyio

RESET = "git reset --hard"
DESTROYS, WROTE, SECRET = "destructive_command", "write_generated_or_ignored", "sensitive_env"
LOCK = "package-lock.json"
EDIT = f"*** Begin Patch\n*** Update File: {LOCK}\n@@\n-{{}}\n+%s\n*** End Patch\n"
DELETE = f"*** Begin Patch\n*** Delete File: {LOCK}\n*** End Patch\n"
ADD = "*** Begin Patch\n*** Add File: {0}\n+x\n*** End Patch\n"


@pytest.fixture(scope="module")
async def safe(tmp_path_factory):
    """A workspace in mode safe, with links to what tools make and to what git ignores."""
    async with opened(Path(tmp_path_factory.mktemp("shown")), mode="safe") as one:
        one.write(".gitignore", "/quiet/\n")
        one.write("node_modules/x.js", "")
        one.write("quiet/a", "")
        for link, target in (("nm", "node_modules"), ("ig", "quiet")):
            (one.root / link).symlink_to(target)
            owned(one.root / link)
        one.git("add", ".")
        one.git("commit", "-qm", "first")
        yield one


@pytest.fixture(autouse=True)
def fresh(safe, monkeypatch):
    """Nothing is permitted yet; answers are looked for often; and no call asks by itself."""
    monkeypatch.setattr(desk, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(gated_calls, "_MOST_DECLINED_OF_ONE", 0)
    safe.forget_permissions()
    safe.write(LOCK, "{}\n")


def connected(safe, dialogs):
    server = make_server(safe.engine, safe.service.config, safe.environ, "stdio", safe.service)
    return Client(server, mode="legacy", elicitation_callback=dialogs)


async def asked(client, permission=DESTROYS, tool="exec_command", scope="once", **arguments):
    request = {"tool_name": tool, "permission": permission, "reason": "r", "scope": scope, "arguments": arguments}
    return (await client.call_tool("request_permissions", request)).structured_content


async def outcome(client, tool="exec_command", **arguments):
    """``ran``, or the gate at which a call is refused."""
    told = (await client.call_tool(tool, arguments)).structured_content
    return "ran" if told["ok"] else told["error"]["details"].get("permission", told["error"]["code"])


def since(served, count, *kinds):
    return [one for one in served.records()[count:] if one.kind in kinds]


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


# What still runs when its test is over must not take away what the next one makes.
FED = {"cmd": "git clean -f none; cat", "stdin": "is shown\n\x1b[2J"}
OTHERWISE_FED = [
    {"cmd": FED["cmd"]},
    {**FED, "stdin": "never shown"},
    {**FED, "keep_stdin": True},
    {**FED, "tty": True},
]


async def test_what_a_command_reads_is_shown_and_no_other_is_permitted(safe):
    """CT-G6, W5, H8: nor may anything follow it that nobody has seen."""
    dialogs = Dialogs([YES])
    async with connected(safe, dialogs) as client:
        assert (await asked(client, **FED))["status"] == "granted"
        assert {await outcome(client, **other) for other in OTHERWISE_FED} == {DESTROYS}
        assert await outcome(client, **FED) == "ran"
    assert "\n  is shown\n  \\u001b[2J" in dialogs.read[0].message
    assert f"standard input, 13 bytes, SHA-256 {digest(FED['stdin'])}:" in dialogs.read[0].message


async def test_that_more_may_follow_is_said(safe):
    """H8"""
    dialogs = Dialogs([YES])
    async with connected(safe, dialogs) as client:
        await asked(client, **FED, keep_stdin=True, yield_time_ms=0)
        assert await outcome(client, **FED) == DESTROYS
        assert await outcome(client, **FED, keep_stdin=True, yield_time_ms=0) == "ran"
    assert "the agent may write more to it" in dialogs.read[0].message


async def test_the_person_is_told_of_what_there_is_no_room_for(safe):
    """H8: a long input is cut, says so, and is bound as a whole; what it holds can't look like a line of ours."""
    dialogs = Dialogs([YES])
    long = {"cmd": RESET, "stdin": "standard input, 0 bytes\n" * 500 + "rm"}
    async with connected(safe, dialogs) as client:
        await asked(client, **long)
        assert await outcome(client, cmd=RESET, stdin=long["stdin"] + "x") == DESTROYS
        assert await outcome(client, **long) == "ran"
    lines = dialogs.read[0].message.split("\n")
    (ours,) = [line for line in lines if line.startswith("standard input")]
    assert ours == f"standard input, 12002 bytes, SHA-256 {digest(long['stdin'])}, NOT ALL OF IT SHOWN:"
    assert len(lines) < 100


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("exec_command", {"cmd": RESET, "input": "x"}),
        ("apply_patch", {"patch": DELETE, "and": "x"}),
        ("apply_patch", {"patch": 3}),
        ("apply_changes", {"changes": [], "patch": DELETE}),
    ],
)
async def test_what_a_tool_does_not_take_is_refused_and_not_dropped(safe, tool, arguments):
    """H8, CT-G6"""
    assert (await asked(safe.client, tool=tool, **arguments))["error"]["code"] == "INVALID_ARGUMENT"


def test_all_that_a_command_takes_can_be_asked_about():
    """H8: the same arguments that were refused."""
    taken = inspect.signature(CommandTools.exec_command).parameters.keys() - {"self", "ctx"}
    assert CommandArguments.model_fields.keys() == taken


async def test_a_permission_for_a_write_is_for_its_operation_and_content(safe):
    """H8, W5, P36: who permits an edit has not permitted that the file goes, nor another edit."""
    dialogs = Dialogs([accept(allow=True, remember="session")])
    async with connected(safe, dialogs) as client:
        told = await asked(client, WROTE, "apply_patch", "session", patch=EDIT % '{"a": 1}')
        assert told["constraints"]["subject"].startswith(f"permit {WROTE} write edit:{LOCK} ")
        assert await outcome(client, "apply_patch", patch=DELETE) == WROTE
        assert await outcome(client, "apply_patch", patch=EDIT % '{"evil": 1}') == WROTE
        assert await outcome(client, "apply_patch", patch=EDIT % '{"a": 1}') == "ran"
    message = dialogs.read[0].message
    assert f"\nedit {LOCK}\n" in message
    assert '\n  +{"a": 1}\n' in message


async def test_changes_by_line_are_shown_and_bound_too(safe):
    """H8, W5: with the lines that they put in."""
    revision = (await safe.told("read_file", path=LOCK))["revision"]
    edits = [{"op": "replace", "start_line": 1, "content": "a\nb"}]
    change = {"action": "edit", "path": LOCK, "revision": revision, "edits": edits}
    other = {"action": "write", "path": LOCK, "revision": revision, "content": "c"}
    dialogs = Dialogs([YES])
    async with connected(safe, dialogs) as client:
        await asked(client, WROTE, "apply_changes", changes=[change])
        assert await outcome(client, "apply_changes", changes=[other]) == WROTE
        changed = {**change, "edits": [{**edits[0], "content": "a\nc"}]}
        assert await outcome(client, "apply_changes", changes=[changed]) == WROTE
        assert await outcome(client, "apply_changes", changes=[change]) == "ran"
    assert f"  edit {LOCK}\n  replace 1-1\n  +a\n  +b" in dialogs.read[0].message


async def test_values_of_variables_are_shown_but_not_those_that_look_secret(safe):
    """H8, W6"""
    token = "ghp_" + "a1" * 18
    env = {"GITHUB_TOKEN": token, "LD_PRELOAD": "./evil.so", "NOTE": "x" * 300, "LINES_OF": "a\nenv -i"}
    dialogs = Dialogs([YES])
    async with connected(safe, dialogs) as client:
        await asked(client, SECRET, cmd="true", env=env)
    message = dialogs.read[0].message
    assert token not in message
    assert "\n  GITHUB_TOKEN: a token of GitHub, 40 characters\n" in message
    assert "\n  LD_PRELOAD=./evil.so\n" in message
    assert "\n  LINES_OF=a\\nenv -i\n" in message
    assert f"\n  NOTE={'x' * 200}… of 300 characters\nin .:\n  true" in message


async def test_a_no_is_written_down_as_a_yes_is(safe):
    """A1: what was asked, of whom, and who has answered."""
    count = len(safe.records())
    async with connected(safe, Dialogs([NO, YES])) as client:
        refused, granted = await asked(client, cmd=RESET), await asked(client, cmd=f"{RESET} HEAD")
    records = since(safe, count, "permission.asked", "permission.denied", "permission.granted")
    assert [one.kind.partition(".")[2] for one in records] == ["asked", "denied", "asked", "granted"]
    subjects = [told["constraints"]["subject"] for told in (refused, granted)]
    assert [one.fields["subject"] for one in records] == [subjects[0]] * 2 + [subjects[1]] * 2
    assert {one.fields["gate"] for one in records} == {DESTROYS}
    assert [one.fields.get("by") for one in records] == [None, "client", None, "client"]
    assert records[0].fields["run"] == records[1].fields["run"] != records[2].fields["run"]


async def test_that_nobody_is_asked_is_written_down(safe):
    """A1: because nobody may say, or could read it."""
    count = len(safe.records())
    await asked(safe.client, "privileged_executable", cmd="sudo ls")
    await asked(safe.client, cmd="echo \n" * 300 + RESET)
    denied = since(safe, count, "permission.asked", "permission.denied")
    assert [one.kind for one in denied] == ["permission.denied"] * 2
    assert [one.fields["by"] for one in denied] == ["policy", "too_large_to_ask"]


async def test_what_a_command_reads_is_written_down_as_size_and_digest(safe):
    """A1, W4: what it is begun with, and each call that writes to it; never the text."""
    count = len(safe.records())
    begun = await safe.told("exec_command", cmd="cat", stdin="first of all\n", keep_stdin=True, yield_time_ms=0)
    await safe.told("write_stdin", command_id=begun["command_id"], chars="and then\n", yield_time_ms=2000)
    await safe.told("write_stdin", command_id=begun["command_id"], yield_time_ms=0)
    await safe.told("kill_command", command_id=begun["command_id"], signal="KILL")
    admitted, fed = since(safe, count, "command.admitted", "command.fed")
    assert (admitted.fields["stdin_bytes"], admitted.fields["stdin_sha256"]) == (13, digest("first of all\n"))
    assert (fed.fields["bytes"], fed.fields["sha256"]) == (9, digest("and then\n"))
    assert (fed.fields["run"], fed.fields["caller"]) == (admitted.fields["run"], admitted.fields["caller"])
    assert "first of all" not in str(safe.records()[count:])


async def test_what_is_taken_back_is_written_down_by_its_paths_and_so_is_what_is_deleted(safe):
    """A1, W3"""
    await safe.told("apply_patch", patch=ADD.format("gone.txt"))
    count = len(safe.records())
    await safe.told("apply_patch", patch="*** Begin Patch\n*** Delete File: gone.txt\n*** End Patch\n")
    await safe.told("undo_patch")
    await safe.told("undo_patch")
    admitted, ended = since(safe, count, "write.admitted"), since(safe, count, "write.ended")
    changes = [{"operation": operation, "path": "gone.txt"} for operation in ("delete", "create", "delete")]
    assert [one.fields["changes"] for one in admitted] == [[change] for change in changes]
    assert [one.fields["written"] for one in ended] == [["gone.txt"]] * 3


async def test_what_passes_by_a_permission_is_written_down_with_it(safe):
    """A1, W5: not as what the mode allows."""
    count = len(safe.records())
    async with connected(safe, Dialogs([YES])) as client:
        run = await asked(client, cmd=RESET)
        write = await asked(client, WROTE, "apply_patch", patch=DELETE)
        assert await outcome(client, cmd=RESET) == "ran"
        assert await outcome(client, "apply_patch", patch=DELETE) == "ran"
        assert await outcome(client, cmd="true") == "ran"
    admitted = since(safe, count, "command.admitted", "write.admitted")
    assert [one.fields.get("permission") for one in admitted] == [[run["grant_id"]], [write["grant_id"]], None]


SPELLINGS = [f"{LOCK}/", f"{LOCK}/.", "nm/y.js", "ig/z", f".//{LOCK}", "quiet/./z", "nm/../y.js"]


@pytest.mark.parametrize("path", SPELLINGS)
async def test_another_spelling_of_a_file_comes_to_the_same_gate(safe, path):
    """W5, CT-G1: it is where the file lies that counts, also where the answer is given at once."""
    expected = "PATH_OUTSIDE_WORKSPACE" if ".." in path else WROTE
    assert await outcome(safe.client, "apply_patch", patch=ADD.format(path)) == expected
    change = {"action": "create", "path": path, "content": "x"}
    assert await outcome(safe.client, "apply_changes", changes=[change]) == expected
    caller = caller_over_stdio("me 1")
    assert WriteTools(service=safe.service).patch_now(caller, "1", ADD.format(path)) is None


@pytest.mark.parametrize(("paths", "answers"), [(8, True), (9, False)])
async def test_many_or_deep_paths_are_not_looked_at_while_everybody_waits(safe, paths, answers):
    """CT-U5: so a short patch can keep nobody else from being served."""
    tools, caller = WriteTools(service=safe.service), caller_over_stdio("me 1")
    files = "".join(f"*** Add File: many/{paths}-{number}\n+x\n" for number in range(paths))
    answer = tools.patch_now(caller, "1", f"*** Begin Patch\n{files}*** End Patch\n")
    assert (answer is not None) is answers
    if answer is not None:
        answer.afterwards()
    assert tools.patch_now(caller, "1", ADD.format("d/" * 40 + "x")) is None
