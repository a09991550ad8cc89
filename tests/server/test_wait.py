"""Runs that outlive their requests, as clients see them: E5, E6, H8, T6."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests.server.eras import both_eras
from tests.server.shop import YES, Dialogs, execute, said, serving

from gloveport.audit.log import AuditLog
from gloveport.engine.runs import running
from gloveport.model import Result
from gloveport.server.tools import progress

pytestmark = pytest.mark.anyio

GLOVEPORT = str(Path(sys.executable).with_name("gloveport"))
DESTROY = "tools.shop.destroy(name={!r})"


async def wait(client, run_id, **arguments):
    return await client.call_tool("wait_run", {"run_id": run_id, **arguments})


async def test_who_does_not_want_to_wait_gets_the_id_of_a_run(shop, era):
    """E6: at once, and the result later, as often as it is asked for."""
    async with shop.client(era) as client:
        first = await execute(client, "import time; time.sleep(0.1); 6 * 7", wait_seconds=0)
        assert said(first)["status"] == "running"
        run_id = said(first)["run_id"]
        assert first.content[0].text.endswith(f"hint: call wait_run with run_id {run_id}")
        over = [said(await wait(client, run_id)) for _ in range(2)]
    assert over[0] == over[1]
    assert (over[0]["run_id"], over[0]["status"], over[0]["value"]) == (run_id, "ok", 42)


async def test_a_wait_ends_in_time_and_the_run_goes_on(shop, era):
    """E6."""
    async with shop.client(era) as client:
        run_id = said(await execute(client, "import time; time.sleep(60)", wait_seconds=0.05))["run_id"]
        began = time.monotonic()
        assert said(await wait(client, run_id, wait_seconds=0.1))["status"] == "running"
        assert 0.1 <= time.monotonic() - began < 30
        await client.call_tool("cancel_run", {"run_id": run_id})


@both_eras
async def test_whoever_waits_is_asked(shop, era):
    """H8: a question that nobody attended to is put to the client that comes later."""
    dialogs = Dialogs([YES])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        run_id = said(await execute(client, DESTROY.format("hat"), wait_seconds=0))["run_id"]
        await shop.asked(run_id)
        assert said(await wait(client, run_id))["value"] == "destroyed hat"
    assert len(dialogs.read) == 1


@both_eras
async def test_an_approval_on_the_command_line_lets_a_run_go_on(shop, era):
    """H8, T6: `gloveport approvals` is another process; the log says who it was."""
    async with shop.client(era) as client:
        result = said(await execute(client, DESTROY.format(f"tower {era}")))
        (question,) = result["approvals"]
        async with anyio.create_task_group() as group:
            over = []

            async def look():
                over.append(said(await wait(client, result["run_id"])))

            group.start_soon(look)
            answer = ["approve", "--yes"] if era == "legacy" else ["deny"]
            command = [GLOVEPORT, "approvals", *answer, question]
            await anyio.run_process(command, env={**os.environ, **shop.environ}, stderr=subprocess.PIPE)
    allowed = era == "legacy"
    assert over[0]["status"] == ("ok" if allowed else "error")
    assert shop.destroyed(f"tower {era}") == allowed
    decided = shop.records(result["run_id"], "call.admitted" if allowed else "call.denied")
    assert decided[0].fields["by"].startswith(f"gloveport approvals (uid {os.getuid()}")


async def test_a_run_that_asks_again_tells_its_client_again(shop, era):
    """H8: whoever waits hears of each question once."""
    async with shop.client(era) as client:
        code = "tools.shop.destroy(name='a'); tools.shop.destroy(name='b')"
        result = said(await execute(client, code))
        seen = [result["approvals"]]
        shop.decide(*seen[0])
        later = said(await wait(client, result["run_id"]))
        seen.append(later["approvals"])
        assert later["status"] == "waiting"
        assert len({*seen[0], *seen[1]}) == 2
        shop.decide(*seen[1])
        assert said(await wait(client, result["run_id"]))["value"] == "destroyed b"


@pytest.mark.parametrize("tool", ["wait_run", "cancel_run"])
async def test_a_run_that_is_not_there_is_named_with_a_way_out(shop, era, tool):
    async with shop.client(era) as client:
        for run_id, why in (
            ("run-0123456789abcdef", "hint: run the program again"),
            ("run-1; rm", "run_id: String should match"),
        ):
            result = await client.call_tool(tool, {"run_id": run_id})
            assert result.is_error
            assert why in result.content[0].text


async def test_another_session_learns_nothing_of_a_run(shop):
    """E6, P27: over HTTP, where one server has many clients; nor can it end it."""
    async with serving(shop) as url, Client(url, mode="legacy") as owner, Client(url, mode="legacy") as other:
        run_id = said(await execute(owner, DESTROY.format("key")))["run_id"]
        for tool in ("wait_run", "cancel_run"):
            refused = await other.call_tool(tool, {"run_id": run_id})
            assert refused.is_error
            assert "no run" in refused.content[0].text
        over = said(await owner.call_tool("cancel_run", {"run_id": run_id}))
    assert over["status"] == "cancelled"


@both_eras
async def test_a_run_that_is_cancelled_dies_with_its_processes(shop, era, is_running, eventually):
    """E5, T6."""
    word = f"77{time.time_ns()}"
    code = f"import subprocess; subprocess.run(['sleep', '{word}'])"
    async with shop.client(era) as client:
        run_id = said(await execute(client, code, wait_seconds=0))["run_id"]
        await anyio.to_thread.run_sync(eventually, lambda: is_running(word))
        over = said(await client.call_tool("cancel_run", {"run_id": run_id}))
        assert over["status"] == "cancelled"
        assert not is_running(word)
        assert said(await wait(client, run_id))["status"] == "cancelled"
        assert said(await client.call_tool("cancel_run", {"run_id": run_id}))["status"] == "cancelled"
    assert shop.records(run_id, "execute.ended")[0].fields["status"] == "cancelled"


@both_eras
async def test_a_run_that_is_cancelled_asks_no_more(shop, era):
    """E5, H8: its question leaves the queue."""
    async with shop.client(era) as client:
        result = said(await execute(client, DESTROY.format("bell")))
        await client.call_tool("cancel_run", {"run_id": result["run_id"]})
    entry = next(one for one in shop.store.entries() if one.question.id in result["approvals"])
    assert entry.status == "cancelled"
    assert [one.kind for one in shop.records(result["run_id"], "call")] == ["call.asked", "call.ended"]


@both_eras
async def test_who_waits_hears_that_the_run_lives_and_what_it_prints(shop, era, monkeypatch):
    """E6."""
    monkeypatch.setattr(progress, "HEARTBEAT_SECONDS", 0.05)
    messages = []
    lives, printed = anyio.Event(), anyio.Event()

    async def note(_done, _total, message):
        messages.append(message)
        (lives if message.startswith("running for") else printed).set()

    code = f"{DESTROY.format('drum')}\nprint('after it', flush=True)\nimport time; time.sleep(60)"
    async with shop.client(era) as client:
        result = said(await execute(client, code))
        arguments = {"run_id": result["run_id"]}
        async with anyio.create_task_group() as group:

            async def look():
                await client.call_tool("wait_run", arguments, progress_callback=note, meta={"progressToken": 1})

            group.start_soon(look)
            with anyio.fail_after(30):
                await lives.wait()
                shop.decide(*result["approvals"])
                await printed.wait()
            await client.call_tool("cancel_run", arguments)
    assert "after it" in messages


async def test_a_run_that_can_not_be_written_down_is_told_as_such(shop, era, tmp_path):
    """T3, T6: what was allowed but could not be written down was not done."""
    audit = AuditLog.open(tmp_path / "audit", max_file_bytes=1 << 20)
    try:
        shop = shop.but(audit=audit)
        async with shop.client(era) as client:
            result = said(await execute(client, DESTROY.format("oven")))
            shutil.move(tmp_path / "audit", tmp_path / "gone")
            shop.decide(*result["approvals"])
            for _ in range(2):
                over = await wait(client, result["run_id"])
                assert over.is_error
                assert "audit log" in over.content[0].text
                assert "hint: " in over.content[0].text
    finally:
        audit.close()
    assert shop.destroyed("oven") == 0


async def test_a_result_is_kept_for_a_while_and_then_forgotten(shop, era, monkeypatch):
    """E6: also where no other run begins meanwhile."""
    async with shop.client(era) as client:
        run_id = said(await execute(client, "1", wait_seconds=0))["run_id"]
        assert said(await wait(client, run_id))["value"] == 1
        monkeypatch.setattr(shop.engine.runs._retention, "seconds", 0.0)
        assert (await wait(client, run_id)).is_error


async def test_a_result_that_was_given_at_once_is_not_kept(shop, era):
    """E6: else many short runs would drive out those that somebody waits for."""
    async with shop.client(era) as client:
        result = said(await execute(client, "1"))
        assert (await wait(client, result["run_id"])).is_error


async def test_what_has_ended_first_is_forgotten_first():
    """E6: a long run is not forgotten as soon as it ends, however many short ones came after it."""

    async def execute(run):
        if run is long:
            await released.wait()
        return Result(run_id=run.id, language="python", status="ok")

    released = anyio.Event()
    async with running() as room:
        long = None
        long = room.begin("me", "python", execute)
        await anyio.wait_all_tasks_blocked()
        for _ in range(300):
            room.begin("me", "python", execute)
            await anyio.lowlevel.checkpoint()
        await anyio.wait_all_tasks_blocked()
        released.set()
        await anyio.wait_all_tasks_blocked()
        last = room.begin("me", "python", execute)
        assert room.find(long.id, "me") is long
        assert room.find(last.id, "me") is last
        assert len(room.all()) <= 130


SLOW = "import sys, time\nprint('begun', flush=True)\nprint('!', file=sys.stderr, flush=True)\ntime.sleep(60)"


async def until_it_has_begun(client, run_id):
    with anyio.fail_after(30):
        while "stderr" not in (told := await wait(client, run_id, wait_seconds=0.05)).structured_content:
            await anyio.lowlevel.checkpoint()
    return told


async def test_a_run_that_goes_on_and_one_that_is_cancelled_tell_what_they_have_written(shop, era):
    """E2, E6: also to a client that reads the text alone."""
    async with shop.client(era) as client:
        run_id = said(await execute(client, SLOW, wait_seconds=0))["run_id"]
        running_still = await until_it_has_begun(client, run_id)
        over = await client.call_tool("cancel_run", {"run_id": run_id})
        for told, status in (
            (running_still, "running"),
            (over, "cancelled"),
            (await wait(client, run_id), "cancelled"),
        ):
            assert (said(told)["status"], said(told)["stdout"]["text"]) == (status, "begun\n")
            assert "stdout:\nbegun\nstderr:\n!" in told.content[0].text


async def test_what_a_cancelled_run_wrote_beyond_its_answer_is_kept(shop, era):
    """E2: what a run shows that goes on is little, since it is read again and again."""
    code = "import sys, time\nprint('x' * 100_000, flush=True)\nprint('!', file=sys.stderr, flush=True)\ntime.sleep(60)"
    async with shop.client(era) as client:
        run_id = said(await execute(client, code, wait_seconds=0))["run_id"]
        shown = said(await until_it_has_begun(client, run_id))["stdout"]
        assert (shown["truncated"], shown.get("handle"), len(shown["text"]) < 5000) == (True, None, True)
        kept = said(await client.call_tool("cancel_run", {"run_id": run_id}))["stdout"]
        page = await client.call_tool("read_output", {"output_ref": kept["handle"], "offset": 99_990})
    assert page.content[0].text == "x" * 10 + "\n"


async def test_null_is_not_given_when_a_client_comes_back_either(shop, era):
    """H8: on 2026-07-28 a call comes again with the same arguments and the answers."""
    nothing = dict.fromkeys(("timeout_seconds", "memory_mib", "ansi", "apis", "tools", "wait_seconds"))
    async with shop.client(era, elicitation_callback=Dialogs([YES])) as client:
        assert said(await execute(client, DESTROY.format("kite"), **nothing))["value"] == "destroyed kite"
