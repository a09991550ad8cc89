"""Questions of programs to a language model that the client answers, in both protocol eras: H7, T6."""

import anyio
import mcp_types as wire
import pytest
from mcp.shared.exceptions import MCPError
from tests.far_side.models import KEY, models
from tests.server.eras import both_eras
from tests.server.shop import YES, Dialogs, execute, said

from gloveport.engine.reach import Reach
from gloveport.model.hub import Sampling
from gloveport.model.reading import read_value
from gloveport.sampling.provider import Provider

pytestmark = pytest.mark.anyio

ASK = """
def attempt(*args, **kwargs):
    try:
        return str(llm.ask(*args, **kwargs))
    except ToolError as error:
        return error.code
"""
REFUSAL = wire.ErrorData(code=-1, message="SECRET WORDS")
REFUSAL_OF_VS_CODE = wire.ErrorData(code=-32000, message="The user has denied permission to call this method.")
FAILURE = wire.ErrorData(code=wire.INTERNAL_ERROR, message="SECRET WORDS")
PICTURE = wire.ImageContent(type="image", data="aGk=", mime_type="image/png")


def answer(text) -> wire.CreateMessageResult:
    content = wire.TextContent(type="text", text=text) if isinstance(text, str) else text
    return wire.CreateMessageResult(role="assistant", content=content, model="theirs", stop_reason="endTurn")


def under(shop, **settings):
    """The shop under other settings of ``[sampling]``."""
    reach, certificate = shop.engine.reach, shop.engine.gateway.authority.certificate
    return shop.but(
        reach=Reach(reach.egress, certificate, reach.servers, read_value(Sampling, {"enabled": True, **settings}))
    )


@both_eras
async def test_a_client_that_has_a_model_answers(shop, era):
    """H7, T6: what was asked and answered is in the log by size and digest alone."""
    model = Dialogs([answer("because")])
    code = "str(llm.ask('why?', system_prompt='Be brief.', max_tokens=70))"
    async with shop.client(era, sampling_callback=model) as client:
        result = said(await execute(client, code))
    assert result["value"] == "because"
    (params,) = model.read
    assert (params.messages[0].content.text, params.system_prompt, params.max_tokens) == ("why?", "Be brief.", 70)
    admitted, ended = shop.records(result["run_id"], "sample")
    assert (admitted.kind, ended.kind) == ("sample.admitted", "sample.ended")
    facts = {"channel": "client", "model": "theirs", "tokens": 70, "answer_bytes": 7}
    assert facts.items() <= ended.fields.items()
    assert "why?" not in str([admitted.fields, ended.fields])
    assert "because" not in str([admitted.fields, ended.fields])


@both_eras
async def test_many_questions_at_once_are_all_answered(shop, era):
    """H7: each gets its own answer."""
    model = Dialogs([lambda params: answer(params.messages[0].content.text.upper())])
    code = "import asyncio\n[str(one) for one in await asyncio.gather(*(llm.ask.aio(word) for word in 'abc'))]"
    async with shop.client(era, sampling_callback=model) as client:
        assert said(await execute(client, code))["value"] == ["A", "B", "C"]
    assert len(model.read) == 3


@both_eras
async def test_a_model_and_a_person_are_asked_by_the_same_client(shop, era):
    """H7, H8."""
    code = """
import asyncio
async def both():
    asked = asyncio.gather(llm.ask.aio("name"), tools.shop.destroy.aio(name="ship"))
    return [str(one) for one in await asked]
await both()
"""
    options = {"sampling_callback": Dialogs([answer("word")]), "elicitation_callback": Dialogs([YES])}
    async with shop.client(era, **options) as client:
        assert said(await execute(client, code))["value"] == ["word", "destroyed ship"]


async def test_a_client_that_fails_is_an_error_that_says_so(shop):
    """H7: in the handshake protocols; on 2026-07-28 the client ends the call itself. Its words go nowhere."""
    async with shop.client("legacy", sampling_callback=Dialogs([FAILURE])) as client:
        result = said(await execute(client, "llm.ask('why?')"))
    assert result["status"] == "error"
    assert "The client's model can't be asked" in result["error"]["message"]
    assert "SECRET WORDS" not in str(result)
    assert shop.records(result["run_id"], "sample.ended")[0].fields["code"] == "client_failed"


@pytest.fixture
async def with_provider(shop, tmp_path):
    """Give the shop a provider, and tell what that was asked."""
    key = tmp_path / "key"
    key.write_text(KEY)
    key.chmod(0o600)
    async with models() as far:
        settings = {"provider": "openai", "url": far.url(), "model": "small", "secret": f"file:{key}"}

        def make(**more):
            provider = Provider(settings=Sampling(**settings))
            return under(shop, **settings, **more).but(provider=provider), far.asked

        yield make


@pytest.mark.parametrize("model", [{"sampling_callback": Dialogs([FAILURE])}, {}], ids=["fails", "has none"])
async def test_where_the_client_does_not_answer_the_provider_does(with_provider, model):
    """H7, T6: a client that fails is noted. On 2026-07-28 it would end the call itself."""
    shop, _ = with_provider()
    async with shop.client("legacy", **model) as client:
        result = said(await execute(client, f"{ASK}\nattempt('why?')"))
    assert result["value"] == "an answer"
    ended = shop.records(result["run_id"], "sample.ended")[0].fields
    assert (ended["channel"], ended.get("client")) == ("provider", "client_failed" if model else None)


@pytest.mark.parametrize("refusal", [REFUSAL, REFUSAL_OF_VS_CODE], ids=["specification", "VS Code"])
async def test_where_the_user_of_the_client_refuses_the_provider_is_not_asked(with_provider, refusal):
    """H7, P28: else what they have kept from one model would go to another."""
    shop, asked_of_provider = with_provider()
    async with shop.client("legacy", sampling_callback=Dialogs([refusal])) as client:
        result = said(await execute(client, f"{ASK}\nattempt('why?')"))
    assert (result["value"], asked_of_provider) == ("approval_denied", [])
    assert shop.records(result["run_id"], "sample.denied")[0].fields["code"] == "approval_denied"
    assert refusal.message not in str(result)


async def test_where_the_user_of_a_newer_client_refuses_the_provider_is_not_asked_later_either(with_provider):
    """H7, P28: on 2026-07-28 the client ends the call, and the run waits for nobody."""
    shop, asked_of_provider = with_provider(timeout_seconds=3)
    async with shop.client("2026-07-28", sampling_callback=Dialogs([REFUSAL])) as client:
        with pytest.raises(MCPError):
            await execute(client, f"{ASK}\nattempt('why?')")
        await shop.idle()
    assert asked_of_provider == []
    assert shop.records(shop.last_run(), "sample.denied")[0].fields["code"] == "approval_denied"


async def test_a_client_that_comes_back_without_an_answer_has_refused(shop):
    """H7: on 2026-07-28; an approval is no answer either."""
    arguments = {"language": "python", "code": f"{ASK}\nattempt('why?')"}
    async with shop.client("2026-07-28", sampling_callback=Dialogs([])) as client:
        for given in (None, YES):
            asked = await client.session.call_tool("execute_code", arguments, allow_input_required=True)
            (name,) = asked.input_requests
            result = await client.session.call_tool(
                "execute_code",
                arguments,
                input_responses={name: given} if given else {},
                request_state=asked.request_state,
                allow_input_required=True,
            )
            assert result.structured_content["value"] == "approval_denied"


async def test_an_answer_that_is_no_text_is_an_error(shop, era):
    """H7."""
    async with shop.client(era, sampling_callback=Dialogs([answer(PICTURE)])) as client:
        assert said(await execute(client, f"{ASK}\nattempt('why?')"))["value"] == "client_failed"


async def test_an_answer_beyond_its_bounds_is_an_error(shop, era):
    """H7, T3: nothing that a client sends fills our memory or the program's."""
    async with shop.client(era, sampling_callback=Dialogs([answer("x" * (9 << 20))])) as client:
        assert said(await execute(client, f"{ASK}\nattempt('why?')"))["value"] == "client_failed"


async def test_without_any_model_the_program_hears_so(shop, era):
    """H7."""
    async with shop.client(era) as client:
        assert said(await execute(client, f"{ASK}\nattempt('why?')"))["value"] == "no_model"


@both_eras
async def test_where_only_the_provider_may_answer_the_client_is_not_asked(shop, era):
    """T5: sampling.channel."""
    model = Dialogs([answer("because")])
    async with under(shop, channel="provider").client(era, sampling_callback=model) as client:
        assert said(await execute(client, f"{ASK}\nattempt('why?')"))["value"] == "no_model"
    assert model.read == []


async def test_where_programs_may_not_ask_the_client_is_not_asked(shop, era):
    """T5, T6: sampling.enabled. The tools have the same door, so the program hears why."""
    model = Dialogs([answer("because")])
    async with under(shop, enabled=False).client(era, sampling_callback=model) as client:
        result = said(await execute(client, f"{ASK}\nattempt('why?')"))
    assert (result["value"], model.read) == ("sampling_not_enabled", [])
    assert [one.kind for one in shop.records(result["run_id"], "sample")] == ["sample.denied"]


async def test_the_budget_of_a_run_holds_for_a_client_that_counts_nothing(shop, era):
    """H7, T5: sampling.tokens and sampling.rounds. An answer counts as long as it was allowed to be."""
    model = Dialogs([answer("because")])
    code = (
        f"{ASK}\n[attempt('a', max_tokens=60), attempt('b', max_tokens=60), attempt('c', max_tokens=40), attempt('d')]"
    )
    async with under(shop, tokens=100, rounds=3).client(era, sampling_callback=model) as client:
        value = said(await execute(client, code))["value"]
    assert value == ["because", "too_many_tokens", "because", "too_many_questions"]
    assert len(model.read) == 2


async def test_a_model_that_does_not_answer_in_time_is_asked_no_longer(shop):
    """H7, T5: sampling.timeout_seconds. The client is told that nobody waits."""
    model = Dialogs([answer("late")], held=anyio.Event())
    async with under(shop, timeout_seconds=0.2).client("legacy", sampling_callback=model) as client:
        result = said(await execute(client, f"{ASK}\nvalue = attempt('why?')\nimport time; time.sleep(0.2)\nvalue"))
        with anyio.fail_after(30):
            while not model.withdrawn:
                await anyio.sleep(0.01)
    assert result["value"] == "client_timeout"


async def test_a_cancelled_request_ends_a_run_that_waits_for_a_model(shop):
    """E5."""
    model = Dialogs([answer("late")], held=anyio.Event())
    async with shop.client("legacy", sampling_callback=model) as client:
        async with anyio.create_task_group() as group:
            group.start_soon(execute, client, "llm.ask('why?')")
            await model.opened.wait()
            group.cancel_scope.cancel()
        await shop.idle()
    assert shop.records(shop.last_run(), "execute.ended")[0].fields["status"] == "cancelled"
    assert shop.records(shop.last_run(), "sample.ended")[0].fields["status"] == "cancelled"


@both_eras
async def test_a_run_that_nobody_attends_to_asks_the_model_of_whoever_comes(shop, era):
    """E6, H7."""
    async with shop.client(era, sampling_callback=Dialogs([answer("here")])) as client:
        run_id = said(await execute(client, "str(llm.ask('why?'))", wait_seconds=0))["run_id"]
        assert said(await client.call_tool("wait_run", {"run_id": run_id}))["value"] == "here"
