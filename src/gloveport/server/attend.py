"""A client attends to a run: what the run asks a person, the client puts to them where it can; then comes the result.

In the handshake protocols the client is asked while its request goes on. On 2026-07-28 its request ends with the
question, and comes again with the answer; the run waits meanwhile. A client that can't ask, or says no before a person
could have read the question, gets a run id: the question is answered on the command line then.
"""

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from pydantic import BaseModel, Field

from gloveport.approvals.desk import Desk
from gloveport.approvals.question import Question, Scope, Verdict
from gloveport.engine.runs import Need, Run
from gloveport.errors import UpstreamError
from gloveport.server.sampling import answer_of, can_sample, params_of

Reply: TypeAlias = wire.CallToolResult | wire.InputRequiredResult

_BY = "client"
_APPROVE, _SAMPLE = "approve", "sample"
_TOO_FAST_SECONDS = 1.0
"""Nobody reads a question and declines it in less: it was the client that did."""


class Form(BaseModel):
    """What a person fills in."""

    allow: bool = Field(description="Whether this may be done")
    remember: Literal["once", "run", "session"] = Field(
        default="once", description="For this once, or for the same in this run or this session"
    )


@dataclass(kw_only=True)
class Attendance:
    """One request of a client about one run.

    Attributes:
        deaf: Sessions whose client has answered questions by itself.
    """

    ctx: Context[Any, Any]
    run: Run
    desk: Desk
    deaf: set[str]
    _put: set[str] = field(default_factory=set)

    async def attend(self, seconds: float) -> wire.InputRequiredResult | None:
        """Until the run is over, ``seconds`` are, or the run waits for what this client can't be asked.

        Returns:
            What the client has to answer first, where it is to be asked so.
        """
        deadline = time.monotonic() + seconds
        async with anyio.create_task_group() as tasks:
            asked = await self._until(deadline, tasks)
            tasks.cancel_scope.cancel()
        return None if asked is None else self._input_required(asked)

    def take(self) -> None:
        """Take the answer that the client has come back with, on 2026-07-28."""
        state, responses = self.ctx.request_state, self.ctx.input_responses
        responses = responses or {}
        _, _, asked = (state or "").partition(" ")
        # The state tells which question: an answer to another one, sent again, means nothing.
        for question in self._open():
            given = responses.get(_APPROVE)
            if question.id == asked and isinstance(given, wire.ElicitResult):
                self._answer(question, given)
        for need in self.run.needs:
            told = responses.get(_SAMPLE)
            if need.id == asked and isinstance(told, wire.CreateMessageResult):
                need.settle(answer_of(told, need.question))

    async def _until(self, deadline: float, tasks: TaskGroup) -> Question | Need | None:
        while not self.run.is_over:
            waiting: list[Question | Need] = [*self._open(), *(self.run.needs if can_sample(self.ctx) else ())]
            fresh = [one for one in waiting if one.id not in self._put]
            if not self._can_ask and any(isinstance(one, Question) for one in fresh):
                return None
            if fresh and not self._is_handshake:
                return fresh[0]
            for one in fresh:
                self._put.add(one.id)
                if isinstance(one, Question):
                    tasks.start_soon(self._elicit, one)
                else:
                    tasks.start_soon(self._sample, one)
            if not await self.run.stirs(deadline - time.monotonic()):
                return None
        return None

    def _open(self) -> list[Question]:
        return self.desk.pending(self.run.id)

    @property
    def _is_handshake(self) -> bool:
        return self.ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    @property
    def _can_ask(self) -> bool:
        capabilities = self.ctx.client_capabilities
        elicitation = capabilities and capabilities.elicitation
        if not elicitation or not self.desk.asks_clients or self.run.owner in self.deaf:
            return False
        return elicitation.form is not None or elicitation.url is None  # a bare {} means forms

    async def _elicit(self, question: Question) -> None:
        try:
            answer = await self.ctx.session.elicit_form(
                text_of(question), Form.model_json_schema(), related_request_id=self.ctx.request_id
            )
        except MCPError:  # it can't after all
            self._turn_deaf()
            return
        self._answer(question, answer)

    async def _sample(self, need: Need) -> None:
        params = params_of(need.question)
        request = wire.CreateMessageRequest(params=params)
        try:
            result = await self.ctx.session.send_request(
                request,
                wire.CreateMessageResult,
                metadata=ServerMessageMetadata(related_request_id=self.ctx.request_id),
            )
        except MCPError as error:
            need.settle(UpstreamError("client_failed", f"The client's model can't be asked: {error.code}."))
        else:
            need.settle(answer_of(result, need.question))

    def _answer(self, question: Question, given: wire.ElicitResult) -> None:
        content = given.content or {}
        taken = (datetime.now(UTC) - question.asked).total_seconds()
        if given.action == "accept":
            remember = content.get("remember")
            scope: Scope = remember if remember in {"run", "session"} else "once"  # type: ignore[assignment]
            self.desk.answer(question.id, Verdict(allowed=content.get("allow") is True, by=_BY, scope=scope))
        elif given.action == "decline" and taken >= _TOO_FAST_SECONDS:
            self.desk.answer(question.id, Verdict(allowed=False, by=_BY))
        else:
            self._turn_deaf()

    def _turn_deaf(self) -> None:
        self.deaf.add(self.run.owner)
        self.run.stir()

    def _input_required(self, asked: Question | Need) -> wire.InputRequiredResult:
        requests: wire.InputRequests
        if isinstance(asked, Need):
            requests = {_SAMPLE: wire.CreateMessageRequest(params=params_of(asked.question))}
        else:
            form = wire.ElicitRequestFormParams(message=text_of(asked), requested_schema=Form.model_json_schema())
            requests = {_APPROVE: wire.ElicitRequest(params=form)}
        return wire.InputRequiredResult(request_state=f"{self.run.id} {asked.id}", input_requests=requests)


def text_of(question: Question) -> str:
    """What a person reads."""
    return "\n".join(filter(None, (question.text, question.detail)))
