"""Handles one execution's questions to a language model: checks, counts, decides, and only then asks.

Known secrets and the owner's redactions are removed from questions, and secrets from answers. Tokens are reserved
before a question leaves and settled after the answer, so that concurrent questions can't exceed the budget together.
"""

import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gloveport.errors import ConfigError, Denied, UpstreamError
from gloveport.fairness import compute
from gloveport.guard import Ending, Guard
from gloveport.model.hub import Sample, Sampling
from gloveport.model.json_value import JsonValue
from gloveport.policy.wording import quote_sent
from gloveport.rpc import DoorRequest
from gloveport.sampling.model_question import Answer, ModelQuestion, question_of
from gloveport.sampling.provider import MAX_ANSWER_BYTES, Provider
from gloveport.sampling.sampling_usage import SamplingUsage
from gloveport.secrets.scrub import Needles, scrub_text
from gloveport.secrets.vault import Vault

AskClient: TypeAlias = Callable[[ModelQuestion, float], Awaitable[Answer]]
"""Asks the client's own model, and waits so many seconds. Raises ``UpstreamError`` if there is no answer, and
``Denied`` if a person has refused: then the provider is not asked either."""

_Channel: TypeAlias = Literal["client", "provider"]

_KEY = "sampling.secret"
_REDACTED = "REDACTED"
_OWNERS = "The owner of this computer has to repair it; a program can't."

_log = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Sampler:
    """Asks a language model for one execution, within its budget.

    Attributes:
        guard: The guard, whose grant has the rules for questions.
        vault: Holds the provider's key, and all secrets to scrub.
        provider: The operator's model, if there is one.
        ask_client: Asks the client's model, if the client offers one.
        usage: What the run has asked so far; skills that it calls count there too.
    """

    guard: Guard
    vault: Vault
    provider: Provider | None
    ask_client: AskClient | None
    usage: SamplingUsage = field(default_factory=SamplingUsage)
    _redacted: Needles = field(init=False)

    def __post_init__(self) -> None:
        self._redacted = Needles.literal(self.guard.grant.egress.redact, _REDACTED)

    async def sample(self, request: DoorRequest) -> JsonValue:
        """Handle the operation ``sample`` of a program: ``text``, ``model``, ``stop_reason`` and ``tokens`` of the
        answer.

        Raises:
            Denied: The question is malformed, not allowed, or over the run's budget.
            UpstreamError: Nobody answers it.
        """
        self._count()
        try:
            question = await self._outgoing(question_of(request))
            self._reserve(question.max_tokens)
        except Denied as denial:
            self.guard.deny("sample", denial, {})
            raise
        action = Sample(model=question.model, prompt_bytes=question.size, max_tokens=question.max_tokens)
        spent = 0
        try:
            async with self.guard.admit(action) as ending:
                spent = question.max_tokens  # of a failed question too: the model may have answered all the same
                answer = await self._record_answer(question, ending)
                spent = answer.tokens
        finally:
            self.usage.tokens += spent - question.max_tokens
        return {"text": answer.text, "model": answer.model, "stop_reason": answer.stopped, "tokens": answer.tokens}

    @property
    def _settings(self) -> Sampling:
        return self.guard.grant.sampling

    def _count(self) -> None:
        """Count one more question, refused ones too: nobody is to fill the log with refusals."""
        self.usage.rounds += 1
        most = self._settings.rounds
        if self.usage.rounds <= most:
            return
        denial = Denied(
            "too_many_questions",
            f"A run may ask a model {most} questions.",
            hint="Ask for more at once, or do the work in several runs.",
        )
        if self.usage.rounds == most + 1:
            self.guard.deny("sample", denial, {})
        raise denial

    def _reserve(self, tokens: int) -> None:
        most, rest = self._settings.tokens, max(0, self._settings.tokens - self.usage.tokens)
        if tokens > rest:
            raise Denied(
                "too_many_tokens",
                f"The answers of a run may have {most} tokens together; {tokens} are asked for, {rest} are left.",
                hint="Ask with a smaller max_tokens." if rest else "Do without another answer.",
            )
        self.usage.tokens += tokens

    async def _outgoing(self, question: ModelQuestion) -> ModelQuestion:
        """Scrub and redact a question, as it leaves."""
        texts = (question.system, *(message.content for message in question.messages))
        async with self.usage.turn:
            system, *contents = await self._clean(texts, self._redacted)
        messages = [
            message.model_copy(update={"content": content})
            for message, content in zip(question.messages, contents, strict=True)
        ]
        model = question.model or self._settings.model
        return question.model_copy(update={"system": system, "messages": tuple(messages), "model": model})

    async def _clean(self, texts: Sequence[str], also: Needles) -> Sequence[str]:
        """Remove secrets and these other strings from texts, which may be long."""
        return await compute(sum(map(len, texts)), _scrub, texts, (self.vault.needles, also))

    async def _record_answer(self, question: ModelQuestion, ending: Ending) -> Answer:
        """Ask, and return the scrubbed answer; facts about it go into the audit record."""
        ending.fields["prompt_sha256"] = _digest(question.model_dump_json())
        began = time.monotonic()
        try:
            channel, answer = await self._ask(question, ending)
        finally:
            ending.fields["duration_ms"] = round((time.monotonic() - began) * 1000)
        text, model, reason = await self._clean((answer.text, answer.model, answer.stop_reason), Needles())
        answer = Answer(
            text=text,
            model=quote_sent(model)[1:-1],
            stop_reason=quote_sent(reason)[1:-1],
            tokens=answer.tokens,
        )
        ending.fields |= {
            "channel": channel,
            "model": answer.model,
            "tokens": answer.tokens,
            "answer_bytes": _size(answer.text),
            "answer_sha256": _digest(answer.text),
        }
        return answer

    async def _ask(self, question: ModelQuestion, ending: Ending) -> tuple[_Channel, Answer]:
        channel = self._settings.channel
        if channel != "provider" and self.ask_client is not None:
            try:
                return "client", await self._by_client(self.ask_client, question)
            except UpstreamError as error:
                if channel == "client" or self.provider is None:
                    raise
                ending.fields["client"] = error.code
        if channel != "client" and self.provider is not None:
            return "provider", await self._by_provider(self.provider, question, ending)
        raise UpstreamError(
            "no_model",
            "There is no model to ask: the client offers none, and the owner has configured none.",
            hint="Do without, or tell the owner about the chapter [sampling] of the configuration.",
        )

    async def _by_client(self, ask: AskClient, question: ModelQuestion) -> Answer:
        answer = await ask(question, self._settings.timeout_seconds)
        if _size(answer.text) > MAX_ANSWER_BYTES:
            raise UpstreamError("client_failed", f"The client's model answers more than {MAX_ANSWER_BYTES} bytes.")
        return answer

    async def _by_provider(self, provider: Provider, question: ModelQuestion, ending: Ending) -> Answer:
        secret = provider.settings.secret
        try:
            key = await self.vault.get(_KEY, secret) if secret else ""
        except ConfigError as error:
            ending.fields["secret"] = str(error.args[0])
            _log.warning("no question to a model: %s", error)
            raise UpstreamError(
                "secret_unavailable",
                "The key of the model's provider can't be had.",
                hint=_OWNERS,
            ) from None
        try:
            return await provider.ask(key, question)
        except UpstreamError as error:
            if secret and error.code == "provider_refused":
                self.vault.forget(secret)
            raise


def _scrub(texts: Sequence[str], all_needles: tuple[Needles, ...]) -> Sequence[str]:
    for needles in all_needles:
        texts = [scrub_text(needles, text) for text in texts]
    return texts


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
