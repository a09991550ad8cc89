"""Commands through the tools: pipes and terminals, what is told of them, and how they end."""

import contextlib
import hashlib
import json
import os
import resource
import signal
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests.server.workspace.served import opened, owned

from gloveport.workspace_service.readonly_workers import ReadonlyWorkers

SLOW = "echo begun; sleep 60"


def added(path):
    """A patch that adds a file."""
    return f"*** Begin Patch\n*** Add File: {path}\n+text\n*** End Patch\n"


async def begun(served, cmd, **more):
    """Begin a command that goes on; returns its id and what it has said."""
    told = await served.told("exec_command", cmd=cmd, **{"yield_time_ms": 0, **more})
    said, deadline = told["stdout"], time.monotonic() + 30
    while not said:
        assert time.monotonic() < deadline
        told = await served.told("write_stdin", wait_for="output", command_id=told["command_id"], yield_time_ms=2000)
        said += told["stdout"]
    return told["command_id"], said


async def until(served, command_id, word, said="", chars=""):
    """Write this and poll until it has said the word; returns all that was said meanwhile, and before."""
    deadline = time.monotonic() + 30
    while chars or word not in said:
        assert time.monotonic() < deadline, said
        told = await served.told("write_stdin", command_id=command_id, chars=chars, yield_time_ms=2000)
        said, chars = said + told["stdout"], ""
        assert word in said or told["status"] == "running", told
    return said


async def ended(served, command_id, **more):
    """What is told of a command in the end, when it ends by itself, with all that it has said until then."""
    said, deadline = "", time.monotonic() + 30
    while (told := await served.told("write_stdin", command_id=command_id, **more))["status"] == "running":
        more = {}
        said += told["stdout"]
        assert time.monotonic() < deadline, said
    return told | {"stdout": said + told["stdout"]}


# -- What is told ----------------------------------------------------------------------------------------------------


async def test_an_answer_has_every_field_of_the_system_that_it_replaces(served):
    """W4, W1: section 4.9."""
    told = await served.run("echo out; echo err >&2; exit 3")
    assert (told["stdout"], told["stderr"]) == ("out\n", "err\n")
    assert (told["status"], told["operation_outcome"], told["exit_code"]) == ("exited", "exited_nonzero", 3)
    assert (told["signal"], told["timed_out"], told["truncated"]) == (None, False, False)
    assert {
        f"{stream}_{field}"
        for stream in ("stdout", "stderr")
        for field in ("truncated", "truncated_by", "output_lines", "output_bytes", "dropped_bytes", "omitted_bytes")
    } <= told.keys()
    assert 0 <= told["elapsed_ms"] < 10_000
    assert told["command_id"]


async def test_a_text_says_status_output_and_errors_once(served):
    """W4"""
    answer = await served.call("exec_command", cmd="echo out; echo err >&2; exit 3")
    (block,) = answer.content
    first, *rest = block.text.splitlines()
    assert first.startswith("Status: exited | exit code 3 | ")
    assert rest == ["out", "stderr:", "err"]


async def test_no_output_is_no_line_and_a_hundred_lines_are_a_hundred(served):
    """CT-U7"""
    assert (await served.run("true"))["stdout_output_lines"] == 0
    assert (await served.run("seq 100"))["stdout_output_lines"] == 100


async def test_a_command_begins_in_the_directory_it_is_told_to_begin_in(served):
    """W4: workdir and cwd are the same."""
    await served.out("mkdir -p 'a b/ü'")
    for name in ("workdir", "cwd"):
        assert (await served.out("pwd", **{name: "a b/ü"})).endswith("/a b/ü\n")
    assert (await served.refused("exec_command", cmd="pwd", workdir="a b", cwd="."))["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("name", ["new\nline", "escape\x1b[2J", "caf\udce9", "literal\\x0a"])
async def test_a_directory_of_any_name_is_named_by_its_spelling(served, name):
    """W4, P14: as list_dir tells it, on one line."""
    (served.root / name).mkdir()
    owned(served.root / name)
    answer = await served.call("list_dir", path=".")
    (line,) = (one for one in answer.content[0].text.splitlines() if one.startswith(name[:3]))
    assert line.isprintable()
    spelt = line.removesuffix(" [directory]")
    assert (await served.out("touch 'made here'; pwd | tail -c 4 | od -An -c", workdir=spelt)).strip()
    assert (served.root / name / "made here").exists()
    if name.isprintable():  # for the bash of a session it would be no text
        assert await served.out("ls", workdir=spelt, session="new") == "made here\n"
    elif "\udce9" in name:
        told = await served.refused("exec_command", cmd="ls", workdir=spelt, session="new")
        assert told["code"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"cmd": "true", "workdir": "none"}, "NOT_FOUND"),
        ({"cmd": "true", "workdir": "/etc"}, "ABSOLUTE_PATH_DENIED"),
        ({"cmd": "true", "workdir": "../outside"}, "PATH_OUTSIDE_WORKSPACE"),
        ({"cmd": "true", "workdir": "file"}, "NOT_A_DIRECTORY"),
        ({"cmd": "true", "workdir": "away"}, "SYMLINK_ESCAPE"),
        ({"cmd": "echo \0"}, "INVALID_ARGUMENT"),
        ({"cmd": "true", "env": {"A=B": "x"}}, "INVALID_ARGUMENT"),
        ({"cmd": "true", "env": {"A": "\0"}}, "INVALID_ARGUMENT"),
    ],
)
async def test_what_can_not_be_run_says_which_argument_it_was(served, arguments, code):
    """W4"""
    served.write("file", "")
    if not (served.root / "away").is_symlink():
        (served.root / "away").symlink_to(served.outside)
    answer = await served.call("exec_command", **arguments)
    assert answer.structured_content["error"]["code"] == code
    assert answer.structured_content["status"] == "failed"


@pytest.mark.parametrize(
    "arguments",
    [
        {"cmd": ""},
        {"cmd": "true", "timeout_ms": 0},
        {"cmd": "true", "yield_time_ms": 30_001},
        {"cmd": "true", "max_output_bytes": 0},
        {"cmd": "true", "max_output_bytes": (1 << 20) + 1},
        {"cmd": "true", "verbosity": "loud"},
        {"cmd": "true", "tty": True, "rows": 0},
        {"cmd": "true", "nothing": 1},
    ],
)
async def test_arguments_out_of_their_bounds_run_nothing(served, arguments):
    """W4"""
    assert (await served.refused("exec_command", **arguments))["code"] == "INVALID_ARGUMENT"


async def test_a_signal_is_told_by_name_and_as_a_negative_exit_code(served):
    """W4"""
    told = await served.run("kill -SEGV $$")
    assert (told["status"], told["operation_outcome"]) == ("terminated", "signal")
    assert (told["exit_code"], told["signal"]) == (-signal.SIGSEGV, "SIGSEGV")


async def test_a_program_that_is_not_there_is_pointed_out(served):
    """W4: section 2.3."""
    told = await served.run("no-such-program")
    assert told["exit_code"] == 127
    assert [one["code"] for one in told["diagnostics"]] == ["EXECUTABLE_NOT_FOUND"]


# -- Much output -----------------------------------------------------------------------------------------------------


async def test_output_is_cut_to_its_end_and_the_rest_is_read_where_the_answer_says(served):
    """W4: truncated by bytes, with references."""
    told = await served.run("seq 10000", max_output_bytes=100)
    assert told["stdout"].endswith("\n9999\n10000\n")
    assert len(told["stdout"]) == told["stdout_output_bytes"] == 100
    assert (told["stdout_truncated"], told["stdout_truncated_by"], told["truncated"]) == (True, "bytes", True)
    assert told["stdout_omitted_bytes"] == len("".join(f"{n}\n" for n in range(1, 10_001))) - 100
    assert told["output_ref"] == told["output_refs"]["stdout"] == f"command:{told['command_id']}:stdout"
    assert told["truncated_output_streams"] == ["stdout"]
    following, pages = told["next_action"], []
    while following:
        page = await served.told(following["tool"], **{"limit": 20_000, **following["arguments"]})
        pages.append(page["content"])
        following = page.get("next_action")
    assert "".join(pages) == "".join(f"{n}\n" for n in range(1, 10_001))


async def test_more_lines_than_anybody_reads_are_cut_by_lines(served):
    """W4"""
    told = await served.run("seq 2500")
    assert (told["stdout_truncated_by"], told["stdout_output_lines"]) == ("lines", 2000)
    assert told["stdout"].startswith("501\n")


async def test_of_a_flood_the_head_and_the_tail_are_kept_under_their_offsets(served):
    """W4, R1: read_output goes across the gap, and says how much is gone."""
    told = await served.run("yes 123456789 | head -c 2000000", max_output_bytes=10)
    assert told["stdout_dropped_bytes"] == 2_000_000 - 524_288
    reference = told["output_ref"]
    first = await served.told("read_output", output_ref=reference, limit=1 << 20)
    assert (first["offset"], first["next_offset"]) == (0, 65_536)
    across = await served.told("read_output", output_ref=reference, offset=65_536, limit=30)
    start = 2_000_000 - 458_752
    assert (across["offset"], across["requested_offset"], across["omitted_bytes"]) == (start, 65_536, start - 65_536)
    assert across["content"] == ("123456789\n" * 4)[start % 10 :][:30]
    assert (across["evicted_gap_bytes"], across["retained_start_offset"]) == (start - 65_536, start)
    assert (across["total_stream_bytes"], across["total_retained_bytes"]) == (2_000_000, 524_288)
    last = await served.told("read_output", output_ref=reference, offset=1_999_990, limit=30)
    assert (last["content"], last["next_offset"], last["truncated"]) == ("123456789\n", None, False)
    behind = await served.told("read_output", output_ref=reference, offset=3_000_000)
    assert (behind["content"], behind["offset"]) == ("", 2_000_000)


async def test_verbosity_leaves_out_what_is_not_asked_for(served):
    """W4"""
    summary = await served.run("seq 100; exit 4", verbosity="summary")
    assert not {"stdout", "stderr", "stdout_output_lines"} & summary.keys()
    assert summary["stdout_dropped_bytes"] == 0
    assert summary["summary"].startswith("exit 4 | ")
    assert summary["summary"].endswith("100 lines | tail: '100'")
    preview = await served.run("seq 1000", verbosity="preview", preview_bytes=100)
    assert preview["preview"].startswith("--- stdout ---\n1\n2\n")
    assert preview["preview"].endswith("\n999\n1000\n")
    assert preview["preview_truncated"] is True
    assert preview["output_refs"].keys() == {"stdout", "stderr"}


async def test_bytes_that_are_no_text_are_told_as_text_and_characters_are_not_torn(served):
    """W4"""
    assert (await served.run(r"printf 'a\xff\x00b'"))["stdout"] == "a\ufffdb"
    command_id, said = await begun(served, r"printf 'a\xc3'; read; printf '\xa4\n'; read; exit 0", keep_stdin=True)
    polled = await served.told("write_stdin", command_id=command_id, yield_time_ms=300)
    assert (said + polled["stdout"], polled["status"]) == ("a", "running")
    assert (await served.told("write_stdin", command_id=command_id, chars="\n"))["stdout"] == "ä\n"
    await served.told("kill_command", command_id=command_id)


# -- Pipes -----------------------------------------------------------------------------------------------------------


async def test_standard_input_is_what_was_given_and_then_its_end(served):
    """W4"""
    assert await served.out("cat", stdin="one\nzwei ü\n") == "one\nzwei ü\n"
    assert await served.out("cat; echo end") == "end\n"


async def test_much_input_goes_to_a_command_that_reads_none_of_it(served):
    """W4: nobody waits for it, neither when it ends nor when it goes on."""
    assert (await served.run("true", stdin="x" * (1 << 20)))["exit_code"] == 0
    told = await served.told("exec_command", cmd=SLOW, stdin="x" * (1 << 20), yield_time_ms=0)
    assert told["status"] == "running"
    await served.told("kill_command", command_id=told["command_id"])


async def test_what_a_command_does_not_read_in_time_it_reads_later_and_in_order(served):
    """W4: but not without end."""
    chars = "x" * (1 << 20)
    read = f"head -c {4 * len(chars) + len('end')} | md5sum"  # an answer says that it will be read, not that it is
    command_id, _ = await begun(served, f"echo ready; until [ -e go ]; do sleep 0.02; done; {read}", keep_stdin=True)
    for number in range(4):
        told = await served.told("write_stdin", command_id=command_id, chars=f"{number}{chars}"[:-1], yield_time_ms=0)
        assert told["status"] == "running"
    error = await served.refused("write_stdin", command_id=command_id, chars=chars, yield_time_ms=0)
    assert (error["code"], error["retryable"]) == ("COMMAND_LIMIT_REACHED", True)
    served.write("go", "")
    with anyio.fail_after(30):
        while (
            taken := await served.call("write_stdin", command_id=command_id, chars="end", yield_time_ms=100)
        ).is_error:
            pass
    wanted = hashlib.md5(b"".join(b"%d" % n + b"x" * ((1 << 20) - 1) for n in range(4)) + b"end")
    said = taken.structured_content["stdout"] + (await ended(served, command_id))["stdout"]
    assert said == f"{wanted.hexdigest()}  -\n"


async def test_a_pipe_can_be_fed_later(served):
    """CT-L9"""
    command_id, _ = await begun(served, "echo ready; while read line; do echo got $line; done", keep_stdin=True)
    for word in ("one", "two"):
        told = await served.told("write_stdin", command_id=command_id, chars=f"{word}\n")
        assert told["stdout"] == f"got {word}\n"
    killed = await served.told("kill_command", command_id=command_id)
    assert killed["killed"] is True


async def test_who_writes_to_a_command_that_reads_nothing_more_is_told(served):
    """W4: COMMAND_CLOSED, and a poll still tells how it ended."""
    told = await served.run("exit 5")
    ended = await served.refused("write_stdin", command_id=told["command_id"], chars="x")
    assert ended["code"] == "COMMAND_CLOSED"
    assert "read_output" in ended["details"]["retry_hint"]
    assert (await served.told("write_stdin", command_id=told["command_id"]))["exit_code"] == 5
    command_id, _ = await begun(served, SLOW)
    running = await served.refused("write_stdin", command_id=command_id, chars="\x03")
    assert running["code"] == "COMMAND_CLOSED"
    assert "signal='INT'" in running["details"]["retry_hint"], "Ctrl-C reaches no command without a terminal"
    await served.told("kill_command", command_id=command_id)


# -- Terminals -------------------------------------------------------------------------------------------------------


async def test_a_terminal_controls_the_session_and_ctrl_c_interrupts(served):
    """CT-L10"""
    command = (
        "test -t 0 && test -t 1 && stty size; trap 'echo caught; exit 9' INT; echo ready; "
        "while :; do read -t 1 x; done"  # a trap waits until what begins just then has ended
    )
    command_id, said = await begun(served, command, tty=True)
    said = await until(served, command_id, "ready", said)
    assert said == "24 80\nready\n"
    told = await ended(served, command_id, chars="\x03")
    assert "caught" in told["stdout"]
    assert told["exit_code"] == 9


async def test_jobs_of_a_terminal_are_controlled_by_it(served):
    """CT-L10: Ctrl-Z, and the shell goes on."""
    command_id, _ = await begun(served, "exec bash --norc -i", tty=True, env={"HISTFILE": ""})
    await until(served, command_id, "BEGUN", chars="tr a-z A-Z\nbegun\n")
    await until(served, command_id, "Stopped", chars="\x1a")
    await until(served, command_id, "done", chars="echo d''one\n")
    await served.told("kill_command", command_id=command_id, signal="KILL")


async def test_a_terminal_has_the_size_it_is_given_and_is_told_of_another(served):
    """CT-L10"""
    command = "stty size; trap 'stty size; exit 7' WINCH; echo ready; while :; do read -t 1 x; done"
    command_id, said = await begun(served, command, tty=True, rows=40, columns=120)
    said = await until(served, command_id, "ready", said)
    assert said == "40 120\nready\n"
    told = await ended(served, command_id, rows=11, columns=22)
    assert (told["stdout"], told["exit_code"]) == ("11 22\n", 7)


async def test_colours_come_on_request(served):
    """W4"""
    show = "echo $TERM:$NO_COLOR"
    command_id, said = await begun(served, f"{show}; read x", tty=True, env={"NO_COLOR": ""})
    assert said == "xterm-256color:\n"
    await served.told("kill_command", command_id=command_id)
    assert (await served.out(show)).endswith(":1\n")


# -- Time ------------------------------------------------------------------------------------------------------------


async def test_a_deadline_is_kept_though_nobody_polls(served, is_running, eventually):
    """CT-L2, W4"""
    word = f"8{os.getpid()}1"
    command_id, _ = await begun(served, f"echo begun; exec sleep {word}", timeout_ms=1500)
    await anyio.to_thread.run_sync(lambda: eventually(lambda: not is_running(word)))
    told = await served.told("write_stdin", command_id=command_id)
    assert (told["status"], told["operation_outcome"], told["timed_out"]) == ("timeout", "timeout", True)
    assert told["exit_code"] is not None
    assert told["exit_code"] < 0
    assert [one["code"] for one in told["diagnostics"]] == ["COMMAND_TIMED_OUT"]


async def test_an_answer_comes_when_the_command_has_ended_and_on_no_grid(served):
    """CT-U13"""
    taken = [(await served.run("true"))["elapsed_ms"] for _ in range(10)]
    assert len({one % 20 for one in taken}) > 1 or min(taken) < 20


async def test_a_running_command_tells_how_to_wait_for_it(served):
    """W4: next_action."""
    told = await served.told("exec_command", cmd=SLOW, yield_time_ms=200)
    assert (told["status"], told["operation_outcome"], told["exit_code"]) == ("running", "running", None)
    assert told["next_action"]["tool"] == "write_stdin"
    following = await served.told("write_stdin", **{**told["next_action"]["arguments"], "yield_time_ms": 0})
    assert following["status"] == "running"
    await served.told("kill_command", command_id=told["command_id"])


async def test_one_call_waits_until_a_command_has_ended_whatever_it_says_meanwhile(served):
    """A loop that prints a line each moment takes one call, not one for each line."""
    told = await served.told("exec_command", cmd="for n in 1 2 3 4 5; do echo $n; sleep 0.1; done", yield_time_ms=0)
    ended = await served.told("write_stdin", command_id=told["command_id"], yield_time_ms=30_000)
    assert (ended["status"], told["stdout"] + ended["stdout"]) == ("exited", "1\n2\n3\n4\n5\n")


async def test_who_asks_for_output_hears_what_a_command_says_before_its_end(served):
    command_id, _ = await begun(served, "echo ready; read; echo said; sleep 60", keep_stdin=True)
    async with anyio.create_task_group() as tasks:

        async def listen():
            told = await served.told("write_stdin", command_id=command_id, yield_time_ms=30_000, wait_for="output")
            assert (told["status"], told["stdout"]) == ("running", "said\n")

        tasks.start_soon(listen)
        await anyio.wait_all_tasks_blocked()
        await served.service.sandboxes.commands.get(command_id, "stdio").write("\n")
    await served.told("kill_command", command_id=command_id)


async def test_the_commands_of_a_client_that_run_are_listed(served):
    """Who has lost an id finds it."""
    command_id, _ = await begun(served, "echo on; sleep 60; echo '\x1b[2Jlast'")
    (one,) = (await served.told("check_exec_environment"))["commands"]
    assert (one["command_id"], one["cmd"]) == (command_id, "echo on; sleep 60; echo '\\u001b[2Jlast'")
    await served.told("kill_command", command_id=command_id)
    assert (await served.told("check_exec_environment"))["commands"] == []


async def test_two_who_wait_at_once_get_the_same(served):
    """CT-L8: and what was told is not told again."""
    command_id, _ = await begun(served, "echo ready; read; echo news; sleep 60", keep_stdin=True)
    heard: list[str] = []

    async def poll():
        heard.append((await served.told("write_stdin", command_id=command_id, wait_for="output"))["stdout"])

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        tasks.start_soon(poll)
        await anyio.wait_all_tasks_blocked()
        command = served.service.sandboxes.commands.get(command_id, "stdio")
        await command.write("\n")
    assert heard == ["news\n", "news\n"]
    assert (await served.told("write_stdin", command_id=command_id, yield_time_ms=0))["stdout"] == ""
    await served.told("kill_command", command_id=command_id)


async def test_who_waits_keeps_nobody_else_waiting(served):
    """CT-L7"""
    command_id, _ = await begun(served, SLOW)
    waited = []

    async def wait():
        waited.append(await served.told("write_stdin", command_id=command_id, yield_time_ms=30_000))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        assert await served.out("echo quick") == "quick\n"
        assert not waited
        await served.told("kill_command", command_id=command_id, signal="KILL")


# -- The end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "trap", "wait", "status", "sent", "code"),
    [
        ("TERM", "", 20_000, "terminated", "SIGTERM", -15),
        ("INT", "", 20_000, "terminated", "SIGINT", -2),
        ("KILL", "", 20_000, "killed", "SIGKILL", -9),
        ("TERM", "trap 'exit 3' TERM; ", 20_000, "exited", "SIGTERM", 3),
        ("TERM", "trap '' TERM; ", 300, "killed", "SIGTERM, SIGKILL", -9),
    ],
)
async def test_a_command_is_ended_by_the_signal_that_is_asked_for_or_else_by_force(
    served, how, trap, wait, status, sent, code
):
    """W4: and what it said is not thrown away: CT-L6."""
    command_id, _ = await begun(served, f"{trap}echo begun; while :; do sleep 0.05; done")
    told = await served.told("kill_command", command_id=command_id, signal=how, wait_ms=wait)
    assert (told["killed"], told["evicted"], told["signal_sent"]) == (True, False, sent)
    assert (told["status"], told["exit_code"]) == (status, code)
    page = await served.told("read_output", output_ref=f"command:{command_id}:stdout")
    assert page["content"] == "begun\n"


async def test_whoever_ends_a_command_that_has_ended_hears_all_that_it_said(served):
    """CT-L6"""
    command_id, _ = await begun(served, "echo begun; read; echo last", keep_stdin=True)
    command = served.service.sandboxes.commands.get(command_id, "stdio")
    await command.write("\n")
    with anyio.fail_after(30):
        while not command.is_over:
            await command.wait_changed(1)
    told = await served.told("kill_command", command_id=command_id)
    assert (told["stdout"], told["status"], told["signal_sent"], told["killed"]) == ("last\n", "exited", None, False)
    assert told["exit_code"] == 0


async def test_a_command_whose_process_is_gone_already_is_ended_all_the_same(served):
    """CT-L6: its sandbox is cleared away a moment before its end is told."""
    command_id, _ = await begun(served, SLOW)
    served.service.sandboxes.commands.get(command_id, "stdio").console.process.close()
    assert (await served.told("kill_command", command_id=command_id, wait_ms=0))["killed"] is True


async def test_the_older_name_ends_a_command_too(served):
    """W4: kill_session."""
    command_id, _ = await begun(served, SLOW)
    assert (await served.told("kill_session", session_id=command_id))["killed"] is True


@pytest.mark.parametrize(
    ("tool", "arguments", "code"),
    [
        ("write_stdin", {"command_id": "none"}, "COMMAND_NOT_FOUND"),
        ("kill_command", {"command_id": "none"}, "COMMAND_NOT_FOUND"),
        ("read_output", {"output_ref": "command:none:stdout"}, "COMMAND_NOT_FOUND"),
        ("read_output", {"output_ref": "none"}, "INVALID_ARGUMENT"),
        ("read_output", {"output_ref": "command:x:stdout", "stream": "stderr"}, "INVALID_ARGUMENT"),
        ("read_output", {"output_ref": "command::stdout"}, "INVALID_ARGUMENT"),
    ],
)
async def test_nobody_knows_of_a_command_that_is_not_there(served, tool, arguments, code):
    """W4"""
    assert (await served.refused(tool, **arguments))["code"] == code


async def test_a_request_that_is_given_up_ends_its_command(served, is_running, eventually):
    """CT-L4: nobody else knows its id."""
    word = f"8{os.getpid()}2"
    with anyio.move_on_after(10) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: served.call("exec_command", cmd=f"sleep {word}", yield_time_ms=30_000))
            while not is_running(word):
                await anyio.sleep(0.02)
            scope.cancel()
    await anyio.to_thread.run_sync(lambda: eventually(lambda: not is_running(word)))


async def test_a_poll_that_is_given_up_ends_nothing(served):
    """CT-L4: its owner has the id."""
    command_id, _ = await begun(served, SLOW)
    with anyio.move_on_after(0.2):
        await served.call("write_stdin", command_id=command_id, yield_time_ms=30_000)
    assert (await served.told("write_stdin", command_id=command_id, yield_time_ms=0))["status"] == "running"
    await served.told("kill_command", command_id=command_id)


# -- Who may see which -----------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def two_clients(tmp_path):
    """A served workspace and two clients of it over HTTP."""
    async with (
        opened(tmp_path) as served,
        served.over_http() as url,
        Client(url, mode="legacy") as one,
        Client(url, mode="legacy") as other,
    ):
        yield served, one, other


async def test_the_commands_of_one_client_are_nothing_to_another(tmp_path):
    """W4"""
    async with two_clients(tmp_path) as (_, one, other):
        told = (await one.call_tool("exec_command", {"cmd": "echo mine"})).structured_content
        command_id = told["command_id"]
        for tool, arguments in (
            ("write_stdin", {"command_id": command_id}),
            ("kill_command", {"command_id": command_id}),
            ("read_output", {"output_ref": f"command:{command_id}:stdout"}),
        ):
            answer = await other.call_tool(tool, arguments)
            assert answer.structured_content["error"]["code"] == "COMMAND_NOT_FOUND"
            assert "mine" not in json.dumps(answer.structured_content)
            assert not (await one.call_tool(tool, arguments)).is_error


async def test_git_and_search_take_turns_by_sessions(tmp_path, monkeypatch):
    """P8: many calls of one session do not hold up another's."""
    callers, run = [], ReadonlyWorkers.run

    async def note(workers, argv, *, caller="", **more):
        callers.append(caller)
        return await run(workers, argv, caller=caller, **more)

    async with two_clients(tmp_path) as (_, one, other):
        monkeypatch.setattr(ReadonlyWorkers, "run", note)
        for client in (one, other):
            for tool, arguments in (("git_status", {}), ("search_text", {"query": "x"})):
                assert not (await client.call_tool(tool, arguments)).is_error
    assert len(set(callers)) == 2
    assert "" not in callers


async def test_lists_take_turns_by_sessions_and_reads_do_not_wait_for_them(tmp_path):
    """P8, P38: each list may take ten seconds, by hostile rules of a .gitignore."""
    async with (
        two_clients(tmp_path) as (served, one, other),
        contextlib.AsyncExitStack() as held,
        anyio.create_task_group() as tasks,
    ):
        served.write("a", "text")
        turns = served.service.list_turns
        for _ in range(turns.concurrent_runs):
            await held.enter_async_context(turns.place("greedy"))
        for client in (one, other):
            tasks.start_soon(client.call_tool, "list_dir", {})
            tasks.start_soon(client.call_tool, "list_files", {})
            tasks.start_soon(client.call_tool, "server_info", {})
        with anyio.fail_after(60):
            while turns.waiting < 6:
                assert not (await other.call_tool("read_file", {"path": "a"})).is_error
        assert [len(waiters) for waiters in turns._queues.values()] == [3, 3]
        await held.aclose()


@pytest.mark.parametrize(
    ("cmd", "said"), [("sleep 1000 & sleep 1000 & true", ["2"]), ("true & wait; echo done | cat", [])]
)
async def test_a_command_is_told_of_processes_that_ended_with_it(served, cmd, said):
    """W6: and how to keep them."""
    told = await served.run(cmd)
    pointed = [one for one in told.get("diagnostics", []) if one["code"] == "PROCESSES_ENDED"]
    assert [one["evidence"].rpartition(" ")[2] for one in pointed] == said
    assert all('session="new"' in one["suggested_fix"] for one in pointed)


@pytest.mark.parametrize(
    ("cmd", "code"),
    [
        ("rm .git/config", "WRITE_REFUSED"),
        ("echo x > .git/hooks/pre-commit", "WRITE_REFUSED"),
        ("touch /usr/x", "WRITE_REFUSED"),
    ],
)
async def test_what_can_not_be_written_is_told_with_why_and_another_way(served, cmd, code):
    """W4: of "Device or resource busy" nobody would guess it."""
    if not (served.root / ".git").exists():
        await served.out("git init -q .")
    told = await served.run(cmd)
    (pointed,) = told["diagnostics"]
    assert (told["exit_code"] != 0, pointed["code"]) == (True, code)
    assert ".git/config" in pointed["suggested_fix"]
    assert "exempt" in pointed["suggested_fix"]


TRACE = "python3 -c 'import ctypes; c = ctypes.CDLL(None); c.ptrace(0, 0, 0, 0) and c.perror(b\"ptrace\"); exit(1)'"


@pytest.mark.parametrize(
    ("cmd", "code", "remedy"),
    [
        (TRACE, "TRACING_REFUSED", "ptrace = true"),
        ("unshare -U true", "SANDBOX_REFUSED", "--no-sandbox"),
        ("echo 'Cannot connect to the Docker daemon' >&2; exit 1", "CONTAINERS_REFUSED", "as a process"),
        ("echo 'uv_interface_addresses returned Unknown' >&2; exit 1", "INTERFACES_REFUSED", "-H 127.0.0.1"),
        ('echo "==2==… Perhaps you\'re using ulimit -v" >&2; exit 1', "ADDRESSES_LIMITED", "gloveport doctor"),
        ("echo 'Out of memory: Cannot allocate Wasm memory' >&2; exit 1", "ADDRESSES_LIMITED", "memory_bytes"),
    ],
)
async def test_what_is_refused_whatever_the_file_is_told_with_what_to_do(served, cmd, code, remedy):
    """W4: which key there is, or how to do without."""
    told = await served.run(cmd)
    (pointed,) = [one for one in told["diagnostics"] if one["code"] == code]
    assert remedy in pointed["suggested_fix"]


async def test_words_that_a_command_only_prints_are_no_refusal(served):
    told = await served.run("echo 'cp: Read-only file system'")
    assert "diagnostics" not in told


async def test_an_audit_log_that_can_not_be_written_is_told_with_its_remedy(tmp_path):
    """As on a full disk: it is no fault of ours, and goes on by itself."""
    async with opened(tmp_path) as served:
        audit = Path(served.environ["GLOVEPORT_STATE"]) / "audit"
        audit.chmod(0o777)
        error = await served.refused("exec_command", cmd="true")
        assert (error["code"], error["retryable"]) == ("RUNTIME_DIR_UNWRITABLE", True)
        assert error["details"]["retry_hint"] == "make it yours alone: chmod go-w"
        audit.chmod(0o700)
        assert await served.out("echo on") == "on\n"


async def test_a_command_whose_end_can_not_be_recorded_is_told_as_it_ended_and_why_that_counts(tmp_path):
    """A1: it ran to its end, and nothing killed it."""
    async with opened(tmp_path) as served:
        audit = Path(served.environ["GLOVEPORT_STATE"]) / "audit"
        command_id, _ = await begun(served, "echo ready; until [ -e go ]; do sleep 0.02; done; echo done")
        audit.chmod(0o777)
        served.write("go", "")
        told = await ended(served, command_id, yield_time_ms=30_000)
        assert (told["status"], told["exit_code"], told["stdout"]) == ("exited", 0, "done\n")
        (fault,) = told["diagnostics"]
        assert fault["code"] == "SERVER_FAULT"
        assert fault["evidence"].startswith("what it has done stands, but how it ended can't be recorded")
        assert "chmod go-w" in fault["suggested_fix"]


async def test_what_a_command_has_made_is_told_and_recorded_where_it_can_not_be_saved(tmp_path):
    """W4: on a full disk of the state; until there is room, no other command makes more of it."""
    async with opened(tmp_path) as served:
        await served.run("true")
        saved = served.service.sandboxes.state / "protected.json"
        saved.unlink()
        saved.mkdir()
        told = await served.run("git init -q sub && echo done")
        assert (told["exit_code"], told["stdout"]) == (0, "done\n")
        assert told["warnings"][0].startswith("sub/.git/config is new")
        assert "can't be saved" in told["warnings"][-1]
        assert served.records()[-1].fields["appeared"] == told["warnings"]
        error = await served.refused("exec_command", cmd="true")
        assert (error["code"], error["retryable"]) == ("RUNTIME_DIR_UNWRITABLE", True)
        answer = await served.call("exec_command", cmd="true", session="new")
        assert "can't be saved" in answer.content[0].text
        saved.rmdir()
        assert await served.out("echo on") == "on\n"
        assert '"sub/.git/config"' in saved.read_text()


async def test_a_change_whose_end_can_not_be_recorded_is_not_told_as_if_nothing_had_been_done(tmp_path):
    """A1: whoever took it for refused would do it twice."""
    async with opened(tmp_path) as served:
        await served.told("apply_patch", patch=added("a"))
        log = Path(served.environ["GLOVEPORT_STATE"]) / "audit/audit-000001.jsonl"
        admitted, ended = log.read_bytes().splitlines(keepends=True)[-2:]
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (log.stat().st_size + len(admitted) + len(ended) // 2, hard))
        try:  # the kernel refuses what goes beyond, as a full disk does
            error = await served.refused("apply_patch", patch=added("b"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert (served.root / "b").read_text() == "text\n"
        assert (error["code"], error["retryable"]) == ("RUNTIME_DIR_UNWRITABLE", False)
        assert "what it has done stands" in error["message"]
        assert error["details"]["retry_hint"].startswith("see what it has done before you repeat it")
