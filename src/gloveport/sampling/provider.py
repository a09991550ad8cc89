"""Asks the operator's language model over HTTP, by OpenAI's or Anthropic's protocol.

The operator chose the endpoint, but its answers are untrusted: they are bounded and parsed strictly. Of its errors only
a short line is passed on, as a hint, without the key. The key is sent over TLS only.
"""

import ssl
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

import anyio
import httpx2
import pydantic_core
from msgspec import Struct, field

from gloveport.errors import UpstreamError
from gloveport.forward_proxy.forward_proxy import ForwardProxy
from gloveport.forward_proxy.http_transport import BoundedReply, ForwardedTransport, UnusableReplyError, post_bounded
from gloveport.limits.untrusted_json import has_many_values
from gloveport.model.hub import Sampling
from gloveport.model.json_value import JsonValue
from gloveport.policy.hosts.authorities import is_confidential
from gloveport.policy.wording import quote_sent
from gloveport.sampling.model_question import Answer, ModelQuestion
from gloveport.secrets.scrub import Needles, scrub_text

MAX_ANSWER_BYTES: Final = 4 << 20

_ANTHROPIC_VERSION = "2023-06-01"
_MOST_TOKENS = 10_000_000
_NAME = "sampling.secret"
_OWNERS = "the owner has to check sampling.url, sampling.model and what is there"

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": "gloveport",
}


class Provider(Struct, frozen=True, kw_only=True):
    """A client of one model provider's endpoint.

    Attributes:
        settings: The settings, with a provider and its URL.
        tls: The trusted certificate authorities.
        clean: Removes secrets other than the key from error texts, before they are shortened.
    """

    settings: Sampling
    tls: ssl.SSLContext = field(default_factory=ssl.create_default_context)
    proxy: ForwardProxy | None = None
    clean: Callable[[str], str] = str

    async def ask(self, key: str, question: ModelQuestion) -> Answer:
        """Ask, and wait for the whole answer. ``key`` is the API's, from the vault; empty if the API needs none.

        Raises:
            UpstreamError: There is no answer: ``provider_refused``, ``provider_limited``, ``provider_timeout`` or
                ``provider_failed``; or as ``ForwardedTransport``.
        """
        url = urlsplit(self.settings.url)
        if key and not is_confidential(url.scheme, url.hostname or ""):
            raise _failure("has a key, which never leaves without encryption", "write https in sampling.url")
        if not key.isascii():
            raise _failure("has a key that is not ASCII", "the owner has to check sampling.secret")
        try:
            with anyio.fail_after(self.settings.timeout_seconds):
                return await self._ask(key, question)
        except TimeoutError:
            raise UpstreamError(
                "provider_timeout",
                f"The model has not answered within {self.settings.timeout_seconds:g} s.",
                hint="Ask for less, with a smaller max_tokens.",
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _failure(f"can't be asked ({type(error).__name__})", _OWNERS) from None

    async def _ask(self, key: str, question: ModelQuestion) -> Answer:
        base, own = self.settings.url.rstrip("/"), Needles.of({_NAME: key}) if key else Needles()

        def clean(text: str) -> str:
            return self.clean(scrub_text(own, text))

        if self.settings.provider == "anthropic":
            # Anthropic's clients take a base URL without the version, OpenAI's with it.
            url = f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"
            headers = {"anthropic-version": _ANTHROPIC_VERSION, **({"x-api-key": key} if key else {})}
            reply = await self._send(url, headers, _message(question))
            return _of_message(_document(reply, clean), question)
        url, headers = f"{base}/chat/completions", {"authorization": f"Bearer {key}"} if key else {}
        # All compatible servers know the older name of the limit. Newer models of OpenAI refuse it, before any work.
        reply = await self._send(url, headers, _completion(question, "max_tokens"))
        if reply.status == 400 and b"max_completion_tokens" in reply.content:
            reply = await self._send(url, headers, _completion(question, "max_completion_tokens"))
        return _of_completion(_document(reply, clean), question)

    async def _send(self, url: str, headers: Mapping[str, str], body: Mapping[str, JsonValue]) -> BoundedReply:
        transport, content = ForwardedTransport(self.tls, self.proxy), pydantic_core.to_json(body)
        try:
            return await post_bounded(transport, url, {**_HEADERS, **headers}, content, MAX_ANSWER_BYTES)
        except UnusableReplyError as error:
            raise _failure(str(error), _OWNERS) from None


def _message(question: ModelQuestion) -> dict[str, JsonValue]:
    messages: list[JsonValue] = [message.model_dump() for message in question.messages]
    system: dict[str, JsonValue] = {"system": question.system} if question.system else {}
    return {"model": question.model, "max_tokens": question.max_tokens, "messages": messages, **system}


def _completion(question: ModelQuestion, limit: str) -> dict[str, JsonValue]:
    messages: list[JsonValue] = [message.model_dump() for message in question.messages]
    if question.system:
        messages.insert(0, {"role": "system", "content": question.system})
    return {"model": question.model, limit: question.max_tokens, "messages": messages}


def _of_message(document: Mapping[str, JsonValue], question: ModelQuestion) -> Answer:
    blocks = document.get("content")
    if not isinstance(blocks, list):
        raise _failure("answers something other than a message", _OWNERS)
    texts = [block.get("text") for block in blocks if isinstance(block, dict) and block.get("type") == "text"]
    text = "".join(text for text in texts if isinstance(text, str))
    return _answer(text, document.get("stop_reason"), document, "output_tokens", question)


def _of_completion(document: Mapping[str, JsonValue], question: ModelQuestion) -> Answer:
    match document.get("choices"):
        case [{"message": {"content": str(text)}, **choice}, *_]:
            return _answer(text, choice.get("finish_reason"), document, "completion_tokens", question)
        case [{"message": {"content": None}, **choice}, *_]:  # cut off or refused before the first token
            return _answer("", choice.get("finish_reason"), document, "completion_tokens", question)
        case _:
            raise _failure("answers something other than a completion", _OWNERS)


def _answer(
    text: str, reason: object, document: Mapping[str, JsonValue], counted: str, question: ModelQuestion
) -> Answer:
    model, usage = document.get("model"), document.get("usage")
    tokens = usage.get(counted) if isinstance(usage, dict) else None
    return Answer(
        text=text,
        model=model if isinstance(model, str) else question.model,
        stop_reason=reason if isinstance(reason, str) else "",
        tokens=min(tokens, _MOST_TOKENS) if type(tokens) is int and tokens >= 0 else question.max_tokens,
    )


def _document(reply: BoundedReply, clean: Callable[[str], str]) -> Mapping[str, JsonValue]:
    """Parse the answer. Raises UpstreamError if the answer is an error, or no JSON object."""
    if reply.status != 200:
        raise _refusal(reply, clean)
    document = _parse_json(reply.content)
    if not isinstance(document, dict):
        raise _failure("answers no JSON object", _OWNERS)
    return document


def _parse_json(content: bytes) -> JsonValue:
    if has_many_values(content):
        return None
    try:
        document: JsonValue = pydantic_core.from_json(content, allow_inf_nan=False)
    except ValueError:
        return None
    return document


def _refusal(reply: BoundedReply, clean: Callable[[str], str]) -> UpstreamError:
    words = _words(reply.content, clean)
    match reply.status:
        case 401 | 403:
            return UpstreamError(
                "provider_refused",
                f"The model's provider refuses the key, with status {reply.status}.",
                hint=f"the owner has to check sampling.secret{words}",
            )
        case 429:
            return UpstreamError(
                "provider_limited",
                "The model's provider wants to be asked less often.",
                hint=f"Ask again {_later(reply.headers)}, or for less{words}",
            )
        case status:
            redirect = ", a redirect, which is not followed" if 300 <= status < 400 else ""
            return _failure(f"answers with status {status}{redirect}", f"{_OWNERS}{words}")


def _words(content: bytes, clean: Callable[[str], str]) -> str:
    """Quote the provider's error text: bounded, printable, and scrubbed, for some providers quote keys.

    It is used only in hints, which are not written to the audit log.
    """
    match _parse_json(content):
        case {"error": {"message": str(text)}} | {"error": str(text)} | {"message": str(text)}:
            return f"; the provider says {quote_sent(clean(text))}"
        case _:
            return ""


def _later(answered: httpx2.Headers) -> str:
    seconds = answered.get("retry-after", "")
    return f"in {int(seconds)} s" if seconds.isdecimal() and len(seconds) <= 5 else "in a while"


def _failure(problem: str, hint: str) -> UpstreamError:
    return UpstreamError("provider_failed", f"The model's provider {problem}.", hint=hint)
