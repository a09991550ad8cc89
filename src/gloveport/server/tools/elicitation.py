"""Passes a run's questions to a person or a model on to the client that waits for the run (MCP elicitation, sampling).

In the handshake protocols the client is asked during its request. On 2026-07-28 the request ends with the questions,
and the client repeats it with the answers; the run waits meanwhile. Questions that a client can't show, or returns
before a person could have read them, are answered on the command line: the client gets a run id, once, to wait with.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import anyio
import mcp_types as wire
from anyio.abc import TaskGroup
from mcp.server.mcpserver import Context
from mcp.shared.exceptions import MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS
from msgspec import Struct, field
from pydantic import ValidationError

from gloveport.approvals.desk import Desk
from gloveport.approvals.question import Question, Scope, Verdict
from gloveport.engine.runs import Run, SamplingRequest
from gloveport.errors import UpstreamError
from gloveport.server.tools.client_sampling import answer_of, can_sample, params_of

Reply: TypeAlias = wire.CallToolResult | wire.InputRequiredResult
_ClientRequest: TypeAlias = Question | SamplingRequest

_BY = "client"
_SAME_TOOL = "For this once, or for the same again, whatever the arguments are"
_SAME_CALL = (
    "For this once, or for this very call again, until its time is over, where a permission for the session was asked "
    "for; with `session` it is not asked about again in this session either"
)
_CAN_NOT_ASK = Verdict(allowed=False, by="the client can't ask, and there is no queue")
_TOO_FAST_SECONDS = 1.0
"""No person reads a question and declines it in less, so the client has declined it by itself."""
_REFUSED = frozenset({-1, wire.CONNECTION_CLOSED})
"""Codes of clients whose user refuses a question to the model: the specification's, and VS Code's. The SDK has the
latter for a connection that is gone, too: then nobody has allowed the question either."""
_MOST_ROUNDS = 8
"""Most times that one call is answered by questions on 2026-07-28. Clients give up after ten, and lose the run."""


class State(Struct, frozen=True, kw_only=True):
    """The state that a client on 2026-07-28 returns. The SDK seals it, and binds it to the tool and its arguments.

    Attributes:
        sent_at: When the questions were sent, by the monotonic clock.
        rounds: How many times the call has been answered by questions, this time included.
        ids: Ids of these questions. Answers to others, such as replayed ones, are ignored.
    """

    run_id: str
    sent_at: float
    rounds: int
    ids: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> "State":
        """Parse the text of a state."""
        run_id, sent_at, rounds, *ids = text.split(" ")
        return cls(run_id=run_id, sent_at=float(sent_at), rounds=int(rounds), ids=tuple(ids))

    def __str__(self) -> str:
        return " ".join((self.run_id, repr(self.sent_at), str(self.rounds), *self.ids))


class Attendance(Struct, kw_only=True):
    """One request of a client that waits for a run.

    Attributes:
        state: The state that the client has returned, if any.
    """

    ctx: Context[Any, Any]
    run: Run
    desk: Desk
    state: State | None = None
    _dialogs: dict[str, anyio.CancelScope] = field(default_factory=dict)
    _given_back: set[str] = field(default_factory=set)

    async def attend(self, seconds: float) -> wire.InputRequiredResult | None:
        """Wait until the run is over, ``seconds`` have passed, or this client has to be told of a question. On
        2026-07-28, return the questions that the client has to answer first; else None.

        If this is cancelled, a run whose id nobody else knows is cancelled too.
        """
        self._take()
        deadline = time.monotonic() + seconds
        async with anyio.create_task_group() as tasks:
            try:
                requests = await self._until(deadline, tasks)
            except BaseException:  # the request is cancelled
                if not self.run.handed_out:
                    self.run.cancel()  # before the dialogs close, which takes seconds if the client has gone
                raise
            tasks.cancel_scope.cancel()
        return self._input_required(requests) if requests else None

    def _take(self) -> None:
        if self.state is None:
            return
        responses: Mapping[str, wire.InputResponse] = self.ctx.input_responses or {}
        for one in self._open():
            response = responses.get(one.id)
            if one.id not in self.state.ids:
                continue
            if isinstance(one, Question):
                self._answer(one, response if isinstance(response, wire.ElicitResult) else None, self.state.sent_at)
            elif isinstance(response, wire.CreateMessageResult):
                one.settle(answer_of(response, one.question))
            else:
                one.refuse()

    async def _until(self, deadline: float, tasks: TaskGroup) -> Sequence[_ClientRequest]:
        while not self.run.is_over:
            waiting = self._open()
            self._withdraw({one.id for one in waiting})
            if self._hand_over([one for one in waiting if isinstance(one, Question) and not self._can_ask(one)]):
                return ()
            fresh = [one for one in waiting if self._can_ask(one) and one.id not in self._dialogs]
            if fresh and not self._is_handshake:
                return self._choose_round(fresh)
            for one in fresh:
                scope = self._dialogs[one.id] = anyio.CancelScope()
                tasks.start_soon(self._send, one, scope)
            if not await self.run.wait_changed(deadline - time.monotonic()):
                break
        return ()

    def _open(self) -> list[_ClientRequest]:
        needs = [need for need in self.run.needs if not need.is_settled]  # settled ones are removed a little later
        return [*needs, *self.desk.pending(self.run.id)]

    @property
    def _is_handshake(self) -> bool:
        return self.ctx.protocol_version in HANDSHAKE_PROTOCOL_VERSIONS

    def _can_ask(self, one: _ClientRequest) -> bool:
        if isinstance(one, SamplingRequest):
            return can_sample(self.ctx)
        if not self.desk.asks_clients or one.id in self._given_back | self.run.queued:
            return False
        return has_dialogs(self.ctx)

    def _withdraw(self, waiting: set[str]) -> None:
        """Close the dialogs of questions that somebody else has answered."""
        for request_id, dialog in self._dialogs.items():
            if request_id not in waiting:
                dialog.cancel()

    def _hand_over(self, questions: Sequence[Question]) -> bool:
        """Leave questions to the queue; return whether the client has to be told of one. Without a queue, deny them.

        The client is told of each question once: else ``wait_run`` would return at once each time.
        """
        fresh = {question.id for question in questions} - self.run.queued
        if "queue" in self.desk.channels:
            self.run.queued |= fresh
            return bool(fresh)
        for question in questions:
            self.desk.answer(question.id, _CAN_NOT_ASK)
        return False

    def _choose_round(self, fresh: Sequence[_ClientRequest]) -> Sequence[_ClientRequest]:
        """Choose what to ask next: models before people, so that no model's answer waits for a person's."""
        if self.state is not None and self.state.rounds >= _MOST_ROUNDS:
            return ()  # the client gets the run's id, and waits with that
        return [one for one in fresh if isinstance(one, SamplingRequest)] or fresh

    async def _send(self, one: _ClientRequest, dialog: anyio.CancelScope) -> None:
        """Put a question to the client, in the handshake protocols, and take the answer."""
        sent_at = time.monotonic()
        metadata = ServerMessageMetadata(related_request_id=self.ctx.request_id)
        send = self.ctx.session.send_request
        with dialog:
            try:
                if isinstance(one, SamplingRequest):
                    one.settle(
                        answer_of(await send(_sample(one), wire.CreateMessageResult, metadata=metadata), one.question)
                    )
                else:
                    self._answer(one, await send(_elicit(one), wire.ElicitResult, metadata=metadata), sent_at)
            except (MCPError, ValidationError) as error:  # the client can't ask after all, or its answer is malformed
                if not isinstance(one, SamplingRequest):
                    self._give_back(one)
                elif isinstance(error, ValidationError):
                    one.settle(_failure("a malformed answer"))
                elif error.code in _REFUSED:
                    one.refuse()
                else:
                    one.settle(_failure(f"error {error.code}"))

    def _answer(self, question: Question, result: wire.ElicitResult | None, sent_at: float) -> None:
        match result:
            case wire.ElicitResult(action="accept", content={"allow": bool(allowed), **rest}):
                scope: Scope = "once"
                if allowed and rest.get("remember") in ("run", "session"):
                    scope = "run" if rest["remember"] == "run" else "session"
                self.desk.answer(question.id, Verdict(allowed=allowed, by=_BY, scope=scope))
            case wire.ElicitResult(action="decline") if time.monotonic() - sent_at >= _TOO_FAST_SECONDS:
                self.desk.answer(question.id, Verdict(allowed=False, by=_BY))
            case _:  # dismissed, or declined faster than anybody reads
                self._give_back(question)

    def _give_back(self, question: Question) -> None:
        self._given_back.add(question.id)
        self.run.notify()

    def _input_required(self, requests: Sequence[_ClientRequest]) -> wire.InputRequiredResult:
        rounds = self.state.rounds + 1 if self.state else 1
        ids = tuple(one.id for one in requests)
        for one in requests:
            if isinstance(one, SamplingRequest):
                one.is_sent = True
        return wire.InputRequiredResult(
            request_state=str(State(run_id=self.run.id, sent_at=time.monotonic(), rounds=rounds, ids=ids)),
            input_requests={
                one.id: _sample(one) if isinstance(one, SamplingRequest) else _elicit(one) for one in requests
            },
        )


def has_dialogs(ctx: Context[Any, Any]) -> bool:
    """Whether the client says that it can put a question to a person."""
    capabilities = ctx.client_capabilities
    elicitation = None if capabilities is None else capabilities.elicitation
    return elicitation is not None and (
        elicitation.form is not None or elicitation.url is None
    )  # an empty capability means forms


def _sample(need: SamplingRequest) -> wire.CreateMessageRequest:
    return wire.CreateMessageRequest(params=params_of(need.question))


def _elicit(question: Question) -> wire.ElicitRequest:
    text = "\n".join(filter(None, (question.text, f"about: {question.subject}", question.detail)))
    return wire.ElicitRequest(params=wire.ElicitRequestFormParams(message=text, requested_schema=_form(question)))


def _form(question: Question) -> dict[str, Any]:
    scopes = ["once", "run", "session"] if question.session else ["once", "run"]
    return {
        "type": "object",
        "properties": {
            "allow": {"type": "boolean", "title": "Allow", "description": "Whether this may be done"},
            "remember": {
                "type": "string",
                "title": "Remember",
                "description": _SAME_CALL if question.is_permission else _SAME_TOOL,
                "enum": scopes,
                "default": "once",
            },
        },
        "required": ["allow"],
    }


def _failure(why: str) -> UpstreamError:
    return UpstreamError("client_failed", f"The client's model can't be asked: {why}.")
