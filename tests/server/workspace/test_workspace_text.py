"""What a model reads of an answer, and a person of a question: what they need to go on is there in words."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from mcp import Client
from tests.server.shop import NO, Dialogs
from tests.server.workspace.served import opened

from gloveport.approvals import desk
from gloveport.approvals.question import Question, Verdict
from gloveport.approvals.store import Person
from gloveport.sandbox.base import Outcome
from gloveport.server.protocol import make_server
from gloveport.server.rendering import workspace_text as texts
from gloveport.workspace.commands.answers import AnswerBounds, answer, told_offsets
from gloveport.workspace.commands.command import Command

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def safe(tmp_path_factory):
    """A workspace in mode safe."""
    tables = {"api": {"example": {"hosts": ["example.org"]}}}
    async with opened(Path(tmp_path_factory.mktemp("words")), tables=tables, mode="safe") as one:
        yield one


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """Answers are looked for often."""
    monkeypatch.setattr(desk, "_POLL_SECONDS", 0.02)


def client(safe, dialogs):
    """A client that shows dialogs."""
    server = make_server(safe.engine, safe.service.config, safe.environ, "stdio", safe.service)
    return Client(server, mode="legacy", elicitation_callback=dialogs)


def remember(safe, pattern, subject):
    """Approve for good what a pattern means, as ``gloveport approvals`` does it, of a question about this subject."""
    store, now = safe.engine.desk.store, datetime.now(UTC)
    names = {"id": "apr-00000000000000aa", "run": "run", "caller": "test", "session": "", "text": "May it?"}
    store.put(Question(**names, subject=subject, asked=now, expires=now + timedelta(seconds=60)), in_queue=True)
    verdict = Verdict(allowed=True, by="queue", scope="pattern", pattern=pattern)
    store.answer(names["id"], verdict, Person(uid=os.geteuid()))


async def words(served, tool, **arguments):
    """What a tool says."""
    return (await served.call(tool, **arguments)).content[-1].text


async def test_a_refusal_at_gates_says_of_each_its_name_the_piece_why_and_another_way(safe):
    """W5: request_permissions takes the name, and a client may show a model the text alone."""
    refused = await safe.call("exec_command", cmd="git reset --hard && curl -s https://example.org")
    reasons = refused.structured_content["error"]["details"]["reasons"]
    first, *lines = refused.content[0].text.splitlines()
    assert first == "PERMISSION_REQUIRED: network, destructive_command"
    assert len(reasons) == 2
    for one, line in zip(reasons, lines, strict=False):
        assert line == f"- {one['permission']} for `{one['piece']}`: {one['why']} {one['instead']}"
    assert lines[1].startswith("- destructive_command for `git reset --hard`: 'git' throws away ")
    assert lines[2] == "Category: permission. Retryable: yes."
    assert "request_permissions asks the owner" in lines[3]


async def test_a_write_at_a_gate_says_the_path(safe):
    """W5"""
    patch = "*** Begin Patch\n*** Add File: package-lock.json\n+x\n*** End Patch\n"
    said = await words(safe, "apply_patch", patch=patch)
    assert "\n- write_generated_or_ignored for `package-lock.json`: " in said


async def test_a_flood_says_how_much_is_left_out_and_how_much_of_it_is_gone(safe):
    """W4, R1: 1,988,895 bytes, of which 512 KiB are kept."""
    flood = await safe.call("exec_command", cmd="seq 1 300000", yield_time_ms=30_000)
    told = flood.structured_content
    shown, gone = told["stdout_output_bytes"], told["stdout_dropped_bytes"]
    assert gone == 1_988_895 - 524_288
    said = flood.content[0].text
    assert f"OUTPUT_TRUNCATED: stdout: {1_988_895 - shown} bytes are left out, {gone} of them for good; " in said
    reference = told["output_ref"]
    assert said.splitlines()[1] == f"[read_output(output_ref={reference!r}) has what came before this]"
    assert said.count(reference) == 1


async def test_a_command_that_goes_on_says_for_each_stream_how_to_read_what_is_left_out(tmp_path):
    """W4: the call that it ends with waits for the command, and reads neither."""
    command = Command(id="abc", owner="me", is_terminal=False, spool=tmp_path)
    for heard in command.outputs.values():
        heard.write(b"line\n" * 1000)
    said = texts.command(answer(command, told_offsets(command), AnswerBounds(max_output_bytes=100)))
    for stream in ("stdout", "stderr"):
        assert f"[read_output(output_ref='command:abc:{stream}') has what came before this]" in said
    assert "[continue with write_stdin(" in said


async def test_what_is_left_out_and_kept_is_not_said_to_be_gone(safe):
    """W4"""
    said = await words(safe, "exec_command", cmd="seq 10000", max_output_bytes=94, yield_time_ms=30_000)
    assert "OUTPUT_TRUNCATED: stdout: 48800 bytes are left out; read_output" in said


async def test_the_limit_that_ended_a_command_is_named(safe, tmp_path):
    """W4, R1: or nobody knows what it should use less of."""
    said = await words(safe, "exec_command", cmd="sleep 30", timeout_ms=100)
    assert "COMMAND_TIMED_OUT: timeout_ms is over; give it more time" in said
    command = Command(id="abc", owner="me", is_terminal=False, spool=tmp_path)
    seen = {"report": None, "wall_seconds": 1.0, "cpu_seconds": None, "peak_memory_bytes": None, "refused_forks": None}
    command.outcome = Outcome(exit_code=None, killed_by="memory_bytes", **seen)
    command.end()
    said = texts.command(answer(command, told_offsets(command), AnswerBounds(max_output_bytes=100)))
    assert "LIMIT_REACHED: it was ended at the limit memory_bytes; let it use less" in said


async def test_a_file_without_lines_and_one_without_this_line_have_none(safe):
    """W2"""
    safe.write("empty.txt", "")
    safe.write("short.txt", "one\n")
    assert (await words(safe, "read_file", path="empty.txt")).startswith("[empty.txt: empty, revision ")
    assert (await words(safe, "read_file", path="short.txt")).startswith("[short.txt: lines 1-1 of 1, revision ")
    said = await words(safe, "read_file", path="short.txt", start_line=5)
    assert said.startswith("[short.txt: no line 5, it has 1, revision ")
    safe.write("three.txt", "one\ntwo\nthree\n")
    turned = await words(safe, "read_file", path="three.txt", start_line=3, end_line=2)
    assert turned.startswith("[three.txt: no lines from 3 to 2, it has 3, revision ")


async def test_what_an_answer_lacks_is_told_in_words_too(safe):
    """W2: part of a line, and what nobody may read."""
    safe.write("wide.txt", "x" * 100 + "\nnext\n")
    said = await words(safe, "read_file", path="wide.txt", max_bytes=10)
    assert said.startswith("[wide.txt: lines 1-1 of 2, only the beginning of line 1, revision ")
    assert "only the" not in await words(safe, "read_file", path="wide.txt", max_bytes=105)
    fields = {"matches": [], "truncated": False, "warnings": ["closed: Permission denied"]}
    assert texts.search_text(fields) == "(no matches)\nWarning: closed: Permission denied"
    fields = {"files": [], "truncated": True, "warnings": ["looking took too long"]}
    assert texts.list_files(fields).endswith("raise the limit]\nWarning: looking took too long")


async def test_lines_before_a_match_are_not_taken_for_those_of_the_file_before(safe):
    safe.write("around/a.txt", "one\nnear\n")
    safe.write("around/b.txt", "one\nnear\n")
    said = await words(safe, "search_text", query="near", path="around", context_lines=1)
    assert said == "  1: one\naround/a.txt:2:1: near\n--\n  1: one\naround/b.txt:2:1: near"


async def test_a_dialog_about_a_permission_does_not_speak_of_other_arguments(safe):
    """H8: a permission is for one very call, however long it holds."""
    dialogs = Dialogs([NO])
    request = {"tool_name": "exec_command", "permission": "destructive_command", "reason": "It is broken."}
    async with client(safe, dialogs) as one:
        await one.call_tool("request_permissions", {**request, "arguments": {"cmd": "git stash clear"}})
    (form,) = dialogs.read
    said = form.requested_schema["properties"]["remember"]["description"]
    assert "this very call" in said
    assert "whatever the arguments" not in said


async def test_what_is_appended_to_what_is_approved_for_good_is_asked_about(safe):
    """H8, W5: the attack of the review."""
    permit = "permit destructive_command command *: git%20clean*"
    safe.write("src/main.c", "")
    safe.write("loose.txt", "")
    dialogs = Dialogs([NO])
    request = {"tool_name": "exec_command", "permission": "destructive_command", "reason": "It is broken."}
    remember(safe, permit, "permit destructive_command command .: git%20clean%20-f")
    async with client(safe, dialogs) as one:
        for cmd in ("git clean -n; rm -rf src; curl x.example", "git clean -n; rm -rf src"):
            told = (
                await one.call_tool("request_permissions", {**request, "arguments": {"cmd": cmd}})
            ).structured_content
            assert told["status"] == "denied"
            assert (await safe.refused("exec_command", cmd=cmd))["code"] == "PERMISSION_REQUIRED"
        assert len(dialogs.read) == 2
        assert (safe.root / "src/main.c").exists()
        await safe.run("git clean -f loose.txt")
        assert not (safe.root / "loose.txt").exists()


async def test_a_refused_edit_says_in_words_what_the_next_call_needs(served):
    """W3: most agents show their model the text alone."""
    served.write("edited.txt", "one\ntwo\n")
    head = await words(served, "read_file", path="edited.txt")
    change = {"action": "edit", "path": "edited.txt", "edits": [{"op": "delete", "start_line": 1}]}
    stale = await words(served, "apply_changes", changes=[{**change, "revision": "0" * 12}])
    (revision,) = [line for line in stale.splitlines() if line.startswith("Revision now: ")]
    assert revision.removeprefix("Revision now: ") in head
    patch = "*** Begin Patch\n*** Update File: edited.txt\n@@\n-one\n-three\n+x\n*** End Patch"
    assert "The nearest lines: 1: one\n2: two" in await words(served, "apply_patch", patch=patch)


async def test_server_info_says_in_words_what_is_allowed(safe):
    """W5"""
    said = await words(safe, "server_info")
    for gate, stance in (await safe.call("server_info")).structured_content["permissions"].items():
        assert any(line.startswith(f"{stance}: ") and gate in line for line in said.splitlines())


async def test_a_summary_says_where_the_output_is_read(served):
    """W4"""
    said = await words(served, "exec_command", cmd="seq 3", verbosity="summary", yield_time_ms=30_000)
    reference = said.partition("read_output(output_ref='")[2].partition("'")[0]
    assert (await served.told("read_output", output_ref=reference))["content"] == "1\n2\n3\n"


async def test_null_is_not_given_in_the_tools_of_a_workspace(served):
    """Also in the arguments of a call that is asked about, and where the call is answered without the SDK."""
    served.write("null.txt", "one\n")
    nothing = {"start_line": None, "end_line": None, "max_lines": None, "max_bytes": None, "encoding": None}
    assert "one" in await words(served, "read_file", path="null.txt", **nothing)
    command = dict.fromkeys(("workdir", "cwd", "timeout_ms", "stdin", "tty", "env"))
    assert "exit code 0" in await words(served, "exec_command", cmd="true", yield_time_ms=30_000, **command)
    asked = {"tool_name": "exec_command", "permission": "network", "reason": "x", "scope": None, "ttl_seconds": None}
    said = await words(served, "request_permissions", arguments={"cmd": "true", **command}, **asked)
    assert said.startswith("granted: ")
    assert (await served.refused("read_file", path=None))["message"].endswith("path: is missing")


async def test_one_tool_reads_output_of_runs_and_of_commands(served):
    """E2, W4: with both sets of tools there is one of its name."""
    tools = [tool.name for tool in (await served.client.list_tools()).tools]
    assert tools.count("read_output") == 1
    run = await served.call("execute_code", language="python", code="print('x' * 100_000)")
    handle = run.structured_content["stdout"]["handle"]
    page = await served.told("read_output", output_ref=handle, offset=99_990, limit=5)
    assert (page["content"], page["next_offset"], page["next_action"]["tool"]) == ("xxxxx", 99_995, "read_output")
    error = await served.refused("read_output", output_ref="output://run-0/stdout")
    assert error["code"] == "NOT_FOUND"
