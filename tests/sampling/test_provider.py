"""The operator's model: both languages, and whatever may come back. H7."""

import gzip
import json
import ssl

import anyio
import pytest
from tests.far_side import authority as far_authority
from tests.far_side.models import KEY, models

from gloveport.errors import UpstreamError
from gloveport.model.hub import Sampling
from gloveport.sampling.model_question import Message, ModelQuestion
from gloveport.sampling.provider import MAX_ANSWER_BYTES, Provider

pytestmark = pytest.mark.anyio

QUESTION = ModelQuestion(
    messages=(Message(role="user", content="why?"), Message(role="assistant", content="Because")),
    system="Be brief.",
    max_tokens=50,
    model="small",
)


@pytest.fixture
async def far():
    async with models() as serving:
        yield serving


def provider_at(url, api="openai", seconds=10.0, **other):
    return Provider(settings=Sampling(provider=api, url=url, timeout_seconds=seconds), **other)


async def failure(far, api="openai", seconds=10.0, key=KEY):
    with pytest.raises(UpstreamError) as caught:
        await provider_at(far.url(), api, seconds).ask(key, QUESTION)
    assert KEY not in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 500
    return caught.value


async def test_an_endpoint_of_openai_is_asked_in_its_language(far):
    """H7: the instructions are its system message; the key is a bearer token."""
    answer = await provider_at(far.url()).ask(KEY, QUESTION)
    assert (answer.text, answer.model, answer.stopped, answer.tokens) == ("an answer", "small", "end_turn", 7)
    [(target, headers, body)] = far.asked
    assert target == "/v1/chat/completions"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert body == {
        "model": "small",
        "max_tokens": 50,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "why?"},
            {"role": "assistant", "content": "Because"},
        ],
    }


async def test_a_newer_model_of_openai_is_asked_in_the_newer_words(far):
    """H7: those refuse `max_tokens`, which is all that many compatible servers know."""
    far.newer = True
    assert (await provider_at(far.url()).ask(KEY, QUESTION)).text == "an answer"
    assert [sorted(body) for _, _, body in far.asked] == [
        ["max_tokens", "messages", "model"],
        ["max_completion_tokens", "messages", "model"],
    ]


async def test_who_always_wants_other_words_is_asked_twice_and_no_more(far):
    far.said = (400, {}, b'{"error": {"message": "use max_completion_tokens"}}')
    error = await failure(far)
    assert error.code == "provider_failed"
    assert len(far.asked) == 2


@pytest.mark.parametrize("suffix", ["", "/"])
async def test_an_endpoint_of_anthropic_is_asked_in_its_language(far, suffix):
    """H7: its base URL may end in the version, as OpenAI's does, or before it, as its own clients have it."""
    answer = await provider_at(far.url() + suffix, "anthropic").ask(KEY, QUESTION)
    await provider_at(far.url().removesuffix("/v1") + suffix, "anthropic").ask(KEY, QUESTION)
    assert (answer.text, answer.stopped, answer.tokens) == ("an answer", "end_turn", 7)
    (target, headers, body), (other, _, _) = far.asked
    assert target == other == "/v1/messages"
    assert headers["x-api-key"] == KEY
    assert headers["anthropic-version"] == "2023-06-01"
    assert body["system"] == "Be brief."
    assert body["messages"][0] == {"role": "user", "content": "why?"}


async def test_an_endpoint_without_a_key_is_asked_without_one(far):
    far.said = (200, {}, b'{"choices": [{"message": {"content": "free"}}]}')
    assert (await provider_at(far.url()).ask("", QUESTION)).text == "free"
    assert "authorization" not in far.asked[0][1]


async def test_a_key_that_no_header_holds_is_an_error(far):
    assert "ASCII" in (await failure(far, key="ein-Schlüssel")).args[0]


@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_a_key_that_is_refused_is_named_and_never_shown(far, api):
    """H7: the provider quotes it, and the whole head of the request."""
    far.said = (401, {}, json.dumps({"error": {"message": f"Incorrect \x1b[2J API key: {KEY}"}}).encode())
    error = await failure(far, api)
    assert error.code == "provider_refused"
    assert "sampling.secret" in error.hint
    assert "[secret sampling.secret]" in error.hint
    assert "says" not in error.args[0], "the audit log has nothing that the far side has sent"


async def test_a_provider_that_limits_says_when_to_ask_again(far):
    far.said = (429, {"retry-after": "17"}, b"{}")
    error = await failure(far)
    assert (error.code, "in 17 s" in error.hint) == ("provider_limited", True)
    far.said = (429, {"retry-after": "9" * 400}, b"{}")
    assert "in a while" in (await failure(far)).hint


async def test_a_redirect_is_not_followed(far):
    """H7: it would take the key elsewhere."""
    async with models() as other:
        far.said = (307, {"location": other.url() + "/chat/completions"}, b"")
        error = await failure(far)
        assert error.code == "provider_failed"
        assert "redirect" in error.args[0]
        assert not other.asked


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"<html>",
        b"[]",
        b"\xff\xfe",
        b'{"choices": []}',
        b'{"choices": [1]}',
        b'{"choices": {"0": 1}}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"content": "text"}',
        b'{"x": ' + b"[" * 100_000,
        b'{"choices": [{"message": {"content": "\\ud800"}}]}',
    ],
)
@pytest.mark.parametrize("api", ["openai", "anthropic"])
async def test_what_is_no_answer_is_an_error(far, api, content):
    far.said = (200, {}, content)
    assert (await failure(far, api)).code == "provider_failed"


async def test_an_answer_of_very_many_values_is_an_error_and_stops_nobody(far):
    """P25: to parse it takes most of a second, of the only event loop, and 140 MiB."""
    rest = b"{}," * (MAX_ANSWER_BYTES // 3 - 30)
    far.said = (200, {}, b'{"choices": [{"message": {"content": "x"}}], "more": [' + rest + b"{}]}")
    assert (await failure(far)).code == "provider_failed"


@pytest.mark.parametrize("usage", [None, 7, {}, {"completion_tokens": -1}, {"completion_tokens": True}])
async def test_where_nothing_is_said_of_tokens_all_that_were_allowed_count(far, usage):
    """H7: a provider that does not count must not make a budget endless."""
    document = {"choices": [{"message": {"content": None}, "finish_reason": "length"}], "usage": usage}
    far.said = (200, {}, json.dumps(document).encode())
    answer = await provider_at(far.url()).ask(KEY, QUESTION)
    assert (answer.text, answer.stopped, answer.tokens) == ("", "max_tokens", 50)


async def test_a_huge_answer_is_an_error(far):
    far.said = (200, {}, b" " * (MAX_ANSWER_BYTES + 1))
    assert "more than" in (await failure(far)).args[0]


async def test_a_compressed_answer_is_an_error(far):
    """H7: a few bytes of it may be a gigabyte."""
    far.said = (200, {"content-encoding": "gzip"}, gzip.compress(b"{}"))
    assert "compresses" in (await failure(far)).args[0]


async def test_a_slow_answer_is_an_error(far):
    far.released = anyio.Event()
    assert (await failure(far, seconds=0.05)).code == "provider_timeout"


async def test_a_provider_that_is_not_there_is_an_error(far):
    far.place.port = 1
    error = await failure(far)
    assert (error.code, "ConnectError" in error.args[0]) == ("provider_failed", True)


async def test_an_error_whose_words_are_long_is_short(far):
    far.said = (500, {}, json.dumps({"error": "e" * 100_000}).encode())
    assert "e" * 50 in (await failure(far)).hint


async def test_a_key_leaves_over_tls_to_whom_it_is_for_alone(tmp_path):
    """H7: neither in clear text over a network, nor to a server that nobody vouches for."""
    authority = far_authority.make(tmp_path)
    with pytest.raises(UpstreamError, match="without encryption"):
        await provider_at("http://api.test/v1").ask(KEY, QUESTION)
    async with models(authority.server("127.0.0.11", protocols=("http/1.1",))) as far:
        with pytest.raises(UpstreamError, match="ConnectError"):
            await provider_at(far.url("https")).ask(KEY, QUESTION)
        assert not far.asked
        trusting = ssl.create_default_context(cafile=authority.ca_file)
        assert (await provider_at(far.url("https"), tls=trusting).ask(KEY, QUESTION)).text == "an answer"


async def test_the_environment_names_no_proxy(far, monkeypatch):
    """H7: what an operator has set for other programs does not see the key."""
    async with models() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url())
        monkeypatch.setenv("ALL_PROXY", proxy.url())
        await provider_at(far.url()).ask(KEY, QUESTION)
        assert not proxy.asked
