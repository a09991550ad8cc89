"""How a client attends to a run that asks a person, in both protocol eras: E5, H8, T6."""

import contextlib
import json
import time

import anyio
import httpx2
import mcp_types as wire
import pytest
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError
from tests import forked, remembered
from tests.server.eras import both_eras
from tests.server.shop import DECLINE, DISMISS, FAR_SIDE, NO, YES, Dialogs, accept, execute, said, serving

from gloveport.approvals.store import Store
from gloveport.errors import Denied
from gloveport.model import Limits, Policy
from gloveport.server.tools import code as tools
from gloveport.server.tools import elicitation

pytestmark = pytest.mark.anyio

DESTROY = "tools.shop.destroy(name={!r})"
TRY = """
def attempt(name):
    try:
        return str(tools.shop.destroy(name=name))
    except ToolError as error:
        return error.code
"""
BOTH = """
import asyncio
async def attempt(name):
    try:
        return str(await tools.shop.destroy.aio(name=name))
    except ToolError as error:
        return error.code
await asyncio.gather(attempt("one"), attempt("two"))
"""
QUEUE, CLIENT = frozenset({"queue"}), frozenset({"client"})


@pytest.fixture
def patient(monkeypatch):
    """Whoever answers counts as somebody who has read the question."""
    monkeypatch.setattr(elicitation, "_TOO_FAST_SECONDS", 0.0)


def kinds(shop, run_id):
    return [one.kind for one in shop.records(run_id, "call")]


async def first_round(client, code, **arguments):
    """Begin a run on 2026-07-28, and come back with its first question."""
    arguments = {"language": "python", "code": code, **arguments}
    result = await client.session.call_tool("execute_code", arguments, allow_input_required=True)
    return arguments, result


async def next_round(client, arguments, asked, answers):
    return await client.session.call_tool(
        "execute_code",
        arguments,
        input_responses=answers,
        request_state=asked.request_state,
        allow_input_required=True,
    )


def answers(asked, *given):
    return dict(zip(asked.input_requests, given, strict=True))


@both_eras
async def test_a_destructive_tool_asks_and_a_person_allows_it(shop, era):
    """H8, T6: asked, admitted and ended are three records, with who has said so."""
    dialogs = Dialogs([YES])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        result = said(await execute(client, DESTROY.format(f"crate {era}")))
    assert (result["status"], result["value"]) == ("ok", f"destroyed crate {era}")
    assert shop.destroyed(f"crate {era}") == 1
    (dialog,) = dialogs.read
    assert dialog.message.startswith("May a program call 'destroy' of the server 'shop'?")
    assert dialog.message.endswith(f'"name": "crate {era}"')
    asked, admitted, ended = shop.records(result["run_id"], "call")
    assert (asked.kind, admitted.kind, ended.kind) == ("call.asked", "call.admitted", "call.ended")
    assert (admitted.fields["by"], admitted.fields["scope"], admitted.fields["tool"]) == ("client", "once", "destroy")
    assert f"crate {era}" not in json.dumps([one.fields for one in (asked, admitted, ended)])


async def test_what_only_reads_asks_nobody(shop, era):
    dialogs = Dialogs([NO])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        assert said(await execute(client, "tools.shop.look(name='crate')"))["value"] == "a crate"
    assert dialogs.read == []


@both_eras
@pytest.mark.parametrize("answer", [NO, DECLINE])
async def test_a_person_who_does_not_allow_it_is_obeyed(shop, era, answer, patient):
    """H8: the program hears of it and goes on."""
    async with shop.client(era, elicitation_callback=Dialogs([answer])) as client:
        result = said(await execute(client, f"{TRY}\nattempt('vase')"))
    assert (result["status"], result["value"]) == ("ok", "approval_denied")
    assert shop.destroyed("vase") == 0
    assert kinds(shop, result["run_id"]) == ["call.asked", "call.denied"]
    assert shop.records(result["run_id"], "call.denied")[0].fields["by"] == "client"


@both_eras
@pytest.mark.parametrize(
    "answer",
    [DECLINE, DISMISS, accept(), accept(allow="true"), accept(allow=1)],
    ids=["declined at once", "dismissed", "empty", "text", "number"],
)
async def test_an_answer_that_no_person_gave_leaves_the_question_to_the_queue(shop, era, answer):
    """H8: the client is told once, and not asked again; a later look at the run waits for the queue."""
    dialogs = Dialogs([answer])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        result = await execute(client, DESTROY.format("lamp"))
        assert said(result)["status"] == "waiting"
        (question,) = said(result)["approvals"]
        run_id = said(result)["run_id"]
        assert f"gloveport approvals approve {question}" in result.content[0].text
        assert f"wait_run with run_id {run_id}" in result.content[0].text
        later = said(await client.call_tool("wait_run", {"run_id": run_id, "wait_seconds": 0.05}))
        assert (later["status"], later["approvals"]) == ("waiting", [question])
        shop.decide(question)
        over = said(await client.call_tool("wait_run", {"run_id": run_id}))
    assert (over["status"], over["value"], len(dialogs.read)) == ("ok", "destroyed lamp", 1)


async def test_a_client_whose_dialog_fails_leaves_the_question_to_the_queue(shop):
    """H8: in the handshake protocols; on 2026-07-28 it is the client that fails."""
    fails = Dialogs([wire.ErrorData(code=-32603, message="no")])
    async with shop.client("legacy", elicitation_callback=fails) as client:
        result = said(await execute(client, f"{TRY}\nattempt('tile')"))
        shop.decide(*result["approvals"], allowed=False)
        assert said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))["value"] == "approval_denied"


@both_eras
async def test_a_client_that_declines_by_itself_denies_nothing_however_late_it_was_asked(shop, era, monkeypatch):
    """H8: what counts is how long the dialog was open, not for how long the question has waited."""
    monkeypatch.setattr(elicitation, "_TOO_FAST_SECONDS", 1.0)
    async with shop.client(era, elicitation_callback=Dialogs([DECLINE])) as client:
        run_id = said(await execute(client, DESTROY.format("rug"), wait_seconds=0))["run_id"]
        (question,) = await shop.asked(run_id)
        await anyio.sleep(1.1)
        assert said(await client.call_tool("wait_run", {"run_id": run_id}))["approvals"] == [question.id]
        shop.decide(question.id)
        assert said(await client.call_tool("wait_run", {"run_id": run_id}))["value"] == "destroyed rug"


@both_eras
async def test_a_client_without_dialogs_is_told_at_once(shop, era):
    """H8: with the id of the approval, and no grant that it does not have."""
    async with shop.client(era) as client:
        result = said(await execute(client, DESTROY.format("cup")))
        assert result["status"] == "waiting"
        assert "grant" not in result
        shop.decide(*result["approvals"], allowed=False)
        over = said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))
    assert over["status"] == "error"
    assert "The owner has not allowed it: queue" in over["error"]["message"]


@pytest.mark.parametrize(
    ("scope", "of_one_run", "of_two"), [("once", 2, 4), ("run", 1, 2), ("session", 1, 1), (["session"], 2, 4)]
)
async def test_an_approval_holds_for_as_long_as_was_said(shop, era, scope, of_one_run, of_two):
    """H8: and what is remembered is written down as such. A scope of another shape is none."""
    dialogs = Dialogs([accept(allow=True, remember=scope)])
    shop = shop.but(desk={})
    async with shop.client(era, elicitation_callback=dialogs) as client:
        for number in (of_one_run, of_two):
            result = said(await execute(client, f"{TRY}\n[attempt('a'), attempt('b')]"))
            assert result["value"] == ["destroyed a", "destroyed b"]
            assert len(dialogs.read) == number
    if of_one_run == 1:
        assert shop.records(result["run_id"], "call.admitted")[-1].fields["by"].startswith("remembered")


@both_eras
async def test_two_calls_at_once_are_two_questions(shop, era):
    """H8."""
    dialogs = Dialogs([lambda params: YES if '"one"' in params.message else NO])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        result = said(await execute(client, BOTH))
    assert result["value"] == ["destroyed one", "approval_denied"]
    assert len(dialogs.read) == 2
    assert sorted(kinds(shop, result["run_id"])) == sorted(
        ["call.asked"] * 2 + ["call.admitted", "call.ended", "call.denied"]
    )


async def test_the_queue_may_be_faster_than_the_client(shop):
    """H8: the dialog is withdrawn while the run goes on."""
    dialogs = Dialogs([NO], held=anyio.Event())
    results = []
    async with shop.client("legacy", elicitation_callback=dialogs) as client, anyio.create_task_group() as group:

        async def call():
            results.append(said(await execute(client, f"{DESTROY.format('bed')}; tools.shop.destroy(name='sofa')")))

        group.start_soon(call)
        (first,) = await shop.asked()
        await dialogs.opened.wait()
        shop.decide(first.id)
        with anyio.fail_after(30):
            while len(dialogs.read) < 2 or not dialogs.withdrawn:
                await anyio.sleep(0.01)
        second = await shop.asked()
        assert results == []
        shop.decide(second[0].id)
    assert results[0]["value"] == "destroyed sofa"
    assert dialogs.withdrawn == 2
    assert shop.records(results[0]["run_id"], "call.admitted")[0].fields["by"] == "queue"


@both_eras
async def test_the_client_may_be_faster_than_the_queue(shop, era):
    """H8: the queue learns that it comes too late."""
    async with shop.client(era, elicitation_callback=Dialogs([NO])) as client:
        await execute(client, f"{TRY}\nattempt('desk')")
    entry = shop.store.entries()[-1]
    assert (entry.status, entry.verdict.by) == ("denied", "client")
    with pytest.raises(Denied, match="denied already"):
        shop.decide(entry.question.id)
    assert shop.destroyed("desk") == 0


async def test_an_answer_sent_again_does_not_answer_a_later_question(shop):
    """H8: nor does it under the later question's name."""
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        code = f"{TRY}\n[attempt('first'), attempt('second')]"
        arguments, one = await first_round(client, code)
        two = await next_round(client, arguments, one, answers(one, YES))
        assert two.input_requests.keys() != one.input_requests.keys()
        for replayed in (answers(one, YES), answers(two, YES)):
            again = await next_round(client, arguments, one, replayed)
            assert again.input_requests.keys() == two.input_requests.keys()
            assert (shop.destroyed("first"), shop.destroyed("second")) == (1, 0)
        last = await next_round(client, arguments, again, answers(again, NO))
    assert last.structured_content["value"] == ["destroyed first", "approval_denied"]


async def test_the_state_of_one_run_answers_no_other(shop):
    """H8: two runs of the same program, so that the SDK takes the state of either."""
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        code = f"{TRY}\nattempt('mirror')"
        arguments, one = await first_round(client, code)
        _, other = await first_round(client, code)
        told = await next_round(client, arguments, one, answers(other, YES))
        assert told.structured_content["status"] == "waiting"
        assert shop.destroyed("mirror") == 0
        over = await next_round(client, arguments, other, answers(other, NO))
        assert over.structured_content["value"] == "approval_denied"
        shop.decide(*told.structured_content["approvals"], allowed=False)


async def test_a_state_that_was_tampered_with_or_is_of_another_program_is_refused(shop):
    """H8, T3."""
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        arguments, asked = await first_round(client, DESTROY.format("clock"))
        state = asked.request_state
        flipped = state[:-2] + ("A" if state[-2] != "A" else "B") + state[-1]
        for bad, call in ((flipped, arguments), (state, {**arguments, "code": "1"}), ("run-0 0 0", arguments)):
            with pytest.raises(MCPError, match="requestState"):
                await client.session.call_tool(
                    "execute_code",
                    call,
                    input_responses=answers(asked, YES),
                    request_state=bad,
                    allow_input_required=True,
                )
        assert shop.destroyed("clock") == 0
        await next_round(client, arguments, asked, answers(asked, NO))


async def test_a_question_that_comes_back_unanswered_is_left_to_the_queue(shop):
    """H8: also where the answer is one to a model's question."""
    told_by_model = wire.CreateMessageResult(
        role="assistant", content=wire.TextContent(type="text", text="y"), model="m"
    )
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        for name, given in (("", YES), ("approve", YES), ("its own", told_by_model)):
            arguments, asked = await first_round(client, DESTROY.format("stool"))
            named = answers(asked, given) if name == "its own" else {name: given}
            result = await next_round(client, arguments, asked, named)
            assert result.structured_content["status"] == "waiting"
            await client.call_tool("cancel_run", {"run_id": result.structured_content["run_id"]})
    assert shop.destroyed("stool") == 0


async def test_a_run_with_more_questions_than_a_client_has_patience_for_is_handed_out(shop):
    """H8: clients give up after ten rounds, and with them the run would be lost."""
    code = f"{TRY}\n[attempt(str(number)) for number in range(12)]"
    dialogs = Dialogs([YES])
    async with shop.client("2026-07-28", elicitation_callback=dialogs) as client:
        result = said(await execute(client, code))
        assert (result["status"], len(dialogs.read)) == ("waiting", elicitation._MOST_ROUNDS)
        over = said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))
    assert over["value"] == [f"destroyed {number}" for number in range(12)]


async def test_a_cancelled_request_ends_a_run_that_waits_for_its_dialog(shop):
    """E5: and the dialog is withdrawn, and the question not in the queue any more."""
    dialogs = Dialogs([YES], held=anyio.Event())
    async with shop.client("legacy", elicitation_callback=dialogs) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(execute, client, DESTROY.format("table"))
            await dialogs.opened.wait()
            group.cancel_scope.cancel()
        await shop.idle()
        run_id = shop.last_run()
        with anyio.fail_after(30):
            while not dialogs.withdrawn:
                await anyio.sleep(0.01)
    assert shop.records(run_id, "execute.ended")[0].fields["status"] == "cancelled"
    assert [one.kind for one in shop.records(run_id, "call")] == ["call.asked", "call.ended"]
    assert shop.store.entries()[-1].status == "cancelled"
    assert shop.destroyed("table") == 0


async def test_a_cancelled_request_ends_a_run_also_after_its_first_question(shop):
    """E5: on 2026-07-28 the request that is cancelled is not the one that began the run."""
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        arguments, asked = await first_round(client, f"{DESTROY.format('chair')}\nimport time; time.sleep(60)")
        async with anyio.create_task_group() as group:
            group.start_soon(next_round, client, arguments, asked, answers(asked, YES))
            with anyio.fail_after(30):
                while not shop.destroyed("chair"):
                    await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await shop.idle()
    assert shop.records(shop.last_run(), "execute.ended")[0].fields["status"] == "cancelled"


async def test_a_run_whose_client_never_comes_back_ends(shop, monkeypatch):
    """E5: on 2026-07-28 nobody is there between two requests, and nobody has its id."""
    monkeypatch.setattr(tools, "_STATE_SECONDS", 0.2)
    async with shop.client("2026-07-28", elicitation_callback=Dialogs([])) as client:
        arguments, asked = await first_round(client, DESTROY.format("door"))
        await shop.idle()
        assert shop.records(shop.last_run(), "execute.ended")[0].fields["status"] == "cancelled"
        late = await next_round(client, arguments, asked, answers(asked, YES))
    assert late.structured_content["status"] == "cancelled"
    assert shop.destroyed("door") == 0


@both_eras
@pytest.mark.parametrize("when", ["at the first question", "at the second question"])
async def test_a_connection_that_closes_ends_a_run_that_waits_on_it(shop, era, when, monkeypatch):
    """E5: over HTTP, where the request just vanishes; on 2026-07-28 between two requests too."""
    monkeypatch.setattr(tools, "_STATE_SECONDS", 0.2)
    dialogs = Dialogs([YES])
    if when == "at the first question":
        dialogs.held = anyio.Event()
    code = f"{TRY}\n[attempt('north {era}'), attempt('south {era}')]"
    async with serving(shop) as url:

        async def call():
            async with Client(url, mode=era, elicitation_callback=dialogs) as client:
                await execute(client, code)

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await dialogs.opened.wait()
            if when == "at the second question":
                dialogs.held = anyio.Event()
                with anyio.fail_after(30):
                    while len(dialogs.read) < 2:
                        await anyio.sleep(0.01)
            group.cancel_scope.cancel()
        await shop.idle()
    assert shop.records(shop.last_run(), "execute.ended")[0].fields["status"] == "cancelled"
    assert shop.destroyed(f"south {era}") == 0


async def test_a_server_whose_client_closes_its_end_leaves_no_question(tmp_path, is_running, eventually):
    """E5: over standard streams, with the server as a process of its own."""
    word = f"ledger-{time.time_ns()}"
    command = json.dumps(forked.command(FAR_SIDE, str(tmp_path / word)))
    config = tmp_path / "gloveport.toml"
    config.write_text(
        f'pool = {{forked = 0, booted = 0}}\npolicy.languages = ["python"]\nservers.shop.command = {command}\n'
    )
    config.chmod(0o600)
    environ = {"GLOVEPORT_CONFIG": str(config), "GLOVEPORT_STATE": str(tmp_path / "state")}
    command, *words = forked.command("gloveport", "serve")
    serve = StdioServerParameters(command=command, args=words, env=environ)
    dialogs = Dialogs([YES], held=anyio.Event())
    with remembered.lent(tmp_path / "state"):
        async with anyio.create_task_group() as group:

            async def call():
                async with Client(serve, mode="legacy", elicitation_callback=dialogs) as client:
                    await execute(client, DESTROY.format("roof"))

            group.start_soon(call)
            await dialogs.opened.wait()
            assert is_running(str(tmp_path / word))
            group.cancel_scope.cancel()
    await anyio.to_thread.run_sync(eventually, lambda: not is_running(str(tmp_path / word)))
    (entry,) = Store(tmp_path / "state" / "approvals").entries()
    assert entry.status == "cancelled"
    assert not (tmp_path / word).exists()


def message(method, params, **more):
    return {"jsonrpc": "2.0", "method": method, "params": params, **more}


@contextlib.asynccontextmanager
async def asked_over_http(url, code):
    """A handshake session, byte by byte: an open request whose run asks. Gives the ways to answer and to read on."""
    client = {"elicitation": {}}
    begin = {"protocolVersion": "2025-11-25", "capabilities": client, "clientInfo": {"name": "mcp", "version": "1"}}
    call = {"name": "execute_code", "arguments": {"language": "python", "code": code}}
    headers = {"accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient(timeout=60) as http:
        answer = await http.post(url, headers=headers, json=message("initialize", begin, id=1))
        headers |= {"mcp-session-id": answer.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        await http.post(url, headers=headers, json=message("notifications/initialized", {}))
        async with http.stream("POST", url, headers=headers, json=message("tools/call", call, id=2)) as stream:
            lines = (
                json.loads(line.removeprefix("data: ")) async for line in stream.aiter_lines() if "jsonrpc" in line
            )
            asked = await anext(lines)
            assert asked["method"] == "elicitation/create"

            async def reply(result):
                document = {"jsonrpc": "2.0", "id": asked["id"], "result": result}
                await http.post(url, headers=headers, json=document)
                return await anext(lines)

            yield reply


async def test_a_vanished_connection_of_a_handshake_session_ends_its_run(shop):
    """E5: no word of cancelling is sent, and the session stays open."""
    async with serving(shop) as url:
        async with asked_over_http(url, DESTROY.format("gate")):
            pass
        await shop.idle()
    assert shop.records(shop.last_run(), "execute.ended")[0].fields["status"] == "cancelled"


async def test_an_answer_that_is_no_message_leaves_the_question_to_the_queue(shop):
    """H8, T3."""
    async with serving(shop) as url, asked_over_http(url, f"{TRY}\nattempt('wall')") as reply:
        answer = await reply({"action": "perhaps", "content": {"allow": True}})
        assert answer["result"]["structuredContent"]["status"] == "waiting"
        shop.decide(*answer["result"]["structuredContent"]["approvals"], allowed=False)
    assert shop.destroyed("wall") == 0


@both_eras
async def test_a_run_whose_id_was_handed_out_outlives_its_request(shop, era):
    """E5, E6: a client that waits for it and goes away ends nothing."""
    async with shop.client(era) as client:
        run_id = said(await execute(client, DESTROY.format("tent")))["run_id"]
        with anyio.move_on_after(0.1):
            await client.call_tool("wait_run", {"run_id": run_id})
        (question,) = await shop.asked(run_id)
        shop.decide(question.id)
        assert said(await client.call_tool("wait_run", {"run_id": run_id}))["value"] == "destroyed tent"


async def test_no_argument_forges_what_a_person_reads(shop, era):
    """H8: an end of a line, an escape or a reversed text in an argument stays in its line, and visible."""
    note = "x\n\nAllowed by the owner.\r\x1b[2K\u202e\u2028\x9b\x00\x7f'"
    dialogs = Dialogs([NO])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        await execute(client, f"{TRY}\ntools.shop.destroy(name='safe\\nAllowed', note={note!r})")
    (dialog,) = dialogs.read
    question, about, name, written = dialog.message.split("\n")
    assert question.startswith("May a program call")
    assert about == "about: call shop/destroy"
    assert json.loads(name.partition(": ")[2]) == "safe\nAllowed"
    assert json.loads(written.partition(": ")[2]) == note
    assert all(character.isprintable() for line in dialog.message.split("\n") for character in line)


async def test_what_a_person_could_not_read_whole_is_denied_without_a_dialog(shop, era):
    """H8, P23: of what is longer a program would choose what is left out."""
    dialogs = Dialogs([YES])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        result = said(await execute(client, f"{TRY}\nattempt('a' * 300_000 + 'END')"))
        assert (result["value"], dialogs.read) == ("too_large_to_ask", [])
        await execute(client, f"{TRY}\nattempt('a' * 10_000 + 'END')")
    (dialog,) = dialogs.read
    assert 'END"' in dialog.message


async def test_where_only_the_queue_may_answer_no_dialog_is_opened(shop, era):
    """T5: approvals.channels."""
    shop = shop.but(desk={"channels": QUEUE})
    dialogs = Dialogs([YES])
    async with shop.client(era, elicitation_callback=dialogs) as client:
        result = said(await execute(client, f"{TRY}\nattempt('book')"))
        shop.decide(*result["approvals"], allowed=False)
        over = said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))
    assert (result["status"], over["value"], dialogs.read) == ("waiting", "approval_denied", [])


@both_eras
@pytest.mark.parametrize("options", [{}, {"elicitation_callback": Dialogs([DISMISS])}], ids=["can't", "dismisses"])
async def test_where_only_the_client_may_answer_one_that_does_not_means_no_at_once(shop, era, options):
    """T5: approvals.channels. Nobody else would ever answer."""
    shop = shop.but(desk={"channels": CLIENT})
    async with shop.client(era, **options) as client:
        result = said(await execute(client, f"{TRY}\nattempt('pen')"))
    assert (result["status"], result["value"]) == ("ok", "approval_denied")
    assert "there is no queue" in shop.records(result["run_id"], "call.denied")[0].fields["by"]


async def test_where_nobody_may_answer_the_answer_is_no(shop):
    """T5: approvals.channels."""
    shop = shop.but(desk={"channels": frozenset()})
    async with shop.client("legacy", elicitation_callback=Dialogs([YES])) as client:
        result = said(await execute(client, f"{TRY}\nattempt('ink')"))
    assert result["value"] == "approval_denied"
    assert shop.records(result["run_id"], "call.denied")[0].fields["by"] == "nobody to ask"


@both_eras
async def test_no_answer_in_time_is_a_no(shop, era):
    """H8, T5: approvals.timeout_seconds. A dialog that is still open is withdrawn."""
    shop = shop.but(desk={"timeout_seconds": 0.2})
    dialogs = Dialogs([YES], held=anyio.Event())
    code = f"{TRY}\nattempt('leaf')"
    async with shop.client(era, elicitation_callback=dialogs) as client:
        if era == "legacy":
            result = said(await execute(client, code))
        else:
            arguments, asked = await first_round(client, code)
            await shop.idle()
            result = (await next_round(client, arguments, asked, answers(asked, YES))).structured_content
        with anyio.fail_after(30):
            while len(dialogs.read) != dialogs.withdrawn:
                await anyio.sleep(0.01)
    assert result["value"] == "approval_denied"
    assert shop.destroyed("leaf") == 0
    assert shop.records(result["run_id"], "call.denied")[0].fields["by"] == "timeout"


@both_eras
async def test_the_wall_clock_of_a_run_that_waits_for_a_person_stands(shop, era):
    """H8, E4: it waits for longer than it may run."""
    async with shop.client(era) as client:
        began = time.monotonic()
        result = said(await execute(client, DESTROY.format("moon"), timeout_seconds=1))
        await anyio.sleep(1.1)
        shop.decide(*result["approvals"])
        over = said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))
    assert (over["status"], over["value"]) == ("ok", "destroyed moon")
    assert over["usage"]["wall_ms"] < 1000 < (time.monotonic() - began) * 1000


async def test_processor_time_counts_while_a_run_waits_for_a_person(shop):
    """H8, E4: to ask is no way to work for longer."""
    shop = shop.but(policy=Policy(limits=Limits(cpu_seconds=0.5)))
    busy = "import threading\nthreading.Thread(target=exec, args=('while True: pass',), daemon=True).start()\n"
    code = busy + DESTROY.format("sun")
    async with shop.client("legacy") as client:
        result = said(await execute(client, code))
        assert result["status"] == "waiting"
        over = said(await client.call_tool("wait_run", {"run_id": result["run_id"]}))
    assert over["limits_hit"] == ["cpu_seconds"]
    assert shop.destroyed("sun") == 0
