"""Parses a program's question to a language model, strictly, and makes the answer."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from gloveport.errors import Denied
from gloveport.late_libraries import pydantic
from gloveport.late_module import late_module
from gloveport.limits.untrusted_json import first_faults
from gloveport.model import Value
from gloveport.model.constraints import Constraints
from gloveport.model.egress import PlainText
from gloveport.model.reading import CheckedValue
from gloveport.policy.wording import quote_sent
from gloveport.rpc import DoorRequest

if TYPE_CHECKING:
    from gloveport.model import pydantic_models
else:
    pydantic_models = late_module("gloveport.model.pydantic_models")

MAX_PROMPT_BYTES: Final = 1 << 20
"""Most UTF-8 bytes of all messages and the instructions together."""

_MAX_MESSAGES = 256
_OF_THE_FRAME = frozenset({"id", "op"})

# The providers' names for the same reasons.
_STOP_REASONS: Mapping[str, str] = {
    "stop": "end_turn",
    "endTurn": "end_turn",
    "length": "max_tokens",
    "maxTokens": "max_tokens",
    "stopSequence": "stop_sequence",
    "content_filter": "refusal",
}

_Name: TypeAlias = Annotated[PlainText, Constraints(max_length=256)]


class Message(Value):
    """One message. There is no role for instructions: these go into ``system``, where the operator sees them."""

    role: Literal["user", "assistant"]
    content: Annotated[str, Constraints(min_length=1)]


class ModelQuestion(Value):
    """A question to a language model."""

    messages: Annotated[tuple[Message, ...], Constraints(min_length=1, max_length=_MAX_MESSAGES)]
    system: str = ""
    """Instructions; empty for none."""
    max_tokens: Annotated[int, Constraints(strict=True, ge=1, le=10_000_000)]
    """Tokens of the answer."""
    model: _Name = ""
    """The model; empty for the default one."""

    @property
    def size(self) -> int:
        """Bytes of all texts of the question."""
        texts = (self.system, *(message.content for message in self.messages))
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)


class Answer(CheckedValue):
    """The answer of a model, with untrusted texts."""

    text: str
    model: str = ""
    stop_reason: str = ""
    tokens: Annotated[int, Constraints(ge=0)]
    """Tokens of the answer by the provider's count, or the allowed number."""

    @property
    def stopped(self) -> str:
        """Why the answer ended, in the same words for every provider: ``end_turn``, ``max_tokens`` and so on."""
        return _STOP_REASONS.get(self.stop_reason, self.stop_reason)


def question_of(request: DoorRequest) -> ModelQuestion:
    """Parse the question in a program's request. Raises Denied if the question is malformed or too large."""
    try:
        question: ModelQuestion = pydantic_models.validate(
            ModelQuestion, {name: request[name] for name in request.keys() - _OF_THE_FRAME}
        )
    except pydantic.ValidationError as error:
        (fault,) = first_faults(error)
        where = ".".join(str(part) for part in fault["loc"])
        raise Denied(
            "malformed_question",
            f"A question to a model has a fault at {quote_sent(where)}: {fault['msg']}.",
            hint="Messages have a role, user or assistant, and content, a text; instructions go into system.",
        ) from None
    if question.size > MAX_PROMPT_BYTES:
        raise Denied(
            "question_too_large",
            f"The question is {question.size} bytes of UTF-8; at most {MAX_PROMPT_BYTES} are allowed.",
            hint="Ask about a part of it, and put the answers together.",
        )
    return question
