"""Asks the owner within a call that a gate has refused, if the client has dialogs: one call instead of three.

The question, and the effect of its answer, are those of ``request_permissions``. If the owner says no, the same call
does not ask again.
"""

import functools
import hashlib
import inspect
import json
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias, cast

import mcp_types as wire
from mcp.server.mcpserver import Context
from msgspec import Struct, field
from msgspec.structs import replace

from gloveport.model.json_value import JsonValue
from gloveport.model.workspace import GATES, Gate
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.elicitation import has_dialogs
from gloveport.server.tools.permission import PermissionTool, Target

Reply: TypeAlias = RunReply | wire.InputRequiredResult

_MOST_DECLINED: Final = 256
_MOST_DECLINED_OF_ONE: Final = 3
"""A person who is asked often enough says yes; after so many denials a client has to call ``request_permissions``."""
_DECLINED: Final = "The owner was asked, and has not permitted it: do it another way."


class GatedCalls(Struct, frozen=True, kw_only=True):
    """Wraps tools, so that they ask through ``permission``."""

    permission: PermissionTool
    _declined: OrderedDict[tuple[str, str], None] = field(default_factory=OrderedDict)
    """Callers and digests of calls that the owner has declined."""

    def wrap(self, name: Target, function: Callable[..., Awaitable[RunReply]]) -> Callable[..., Any]:
        """Wrap a tool: where a gate would refuse a call, the owner is asked."""

        @functools.wraps(function)
        async def call(ctx: Context[Any, Any], **arguments: Any) -> Reply:  # noqa: ANN401 - the tool checks them
            answer = await function(ctx, **arguments)
            gates = _gates_of(answer)
            if not gates or not self._can_ask(ctx):
                return answer
            for gate in gates:
                outcome = await self._ask(ctx, name, gate, arguments)
                if isinstance(outcome, wire.InputRequiredResult):
                    return outcome
                if not outcome.is_granted:
                    return _say(answer, outcome)
            return await function(ctx, **arguments)

        call.__dict__["__signature__"] = inspect.signature(function)
        return call

    def _can_ask(self, ctx: Context[Any, Any]) -> bool:
        return self.permission.service.permissions.desk.asks_clients and has_dialogs(ctx)

    async def _ask(
        self, ctx: Context[Any, Any], name: Target, gate: Gate, arguments: dict[str, Any]
    ) -> "_Outcome | wire.InputRequiredResult":
        """Ask, and return the outcome."""
        share = caller_of(ctx, self.permission.service.transport).share
        values = {key: value for key, value in arguments.items() if value is not None}
        call = (share, _digest(name, gate, values))
        if call in self._declined or sum(one == share for one, _ in self._declined) >= _MOST_DECLINED_OF_ONE:
            return _Outcome()
        answer = await self.permission.ask(ctx, name, gate, values)
        if isinstance(answer, wire.InputRequiredResult):
            return answer
        fields = answer.structured or {}
        if fields.get("status") == "waiting":  # in the queue; the message says how the owner answers there
            return _Outcome(words=str(fields["message"]), is_open=True)
        if fields.get("status") == "denied":
            self._declined[call] = None
            if len(self._declined) > _MOST_DECLINED:
                self._declined.popitem(last=False)
            return _Outcome(words=_DECLINED)
        return _Outcome(is_granted=fields.get("status") == "granted")


class _Outcome(Struct, frozen=True, kw_only=True):
    """The outcome of a question: words for the caller, and whether an answer may still come."""

    is_granted: bool = False
    words: str = ""
    is_open: bool = False


def _digest(name: Target, gate: Gate, arguments: dict[str, Any]) -> str:
    text = json.dumps([name, gate, arguments], sort_keys=True, default=str)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _gates_of(answer: RunReply) -> list[Gate]:
    """List the gates that refused a call, but that the owner may permit."""
    error = (answer.structured or {}).get("error") if answer.is_error else None
    if not isinstance(error, dict) or error["code"] != "PERMISSION_REQUIRED" or not error["retryable"]:
        return []
    return [gate for gate in GATES if gate in error["details"].get("permissions", ())]


def _say(answer: RunReply, outcome: _Outcome) -> RunReply:
    """Put the outcome of the question in place of a refusal's hint."""
    if not outcome.words:
        return answer
    error: dict[str, JsonValue] = (answer.structured or {})["error"]
    error["retryable"] = outcome.is_open
    error["details"] = {**cast("dict[str, JsonValue]", error["details"]), "retry_hint": outcome.words}
    lines = [line for line in answer.text.split("\n") if not line.startswith(("Hint: ", "Category: "))]
    return replace(answer, text="\n".join([*lines, outcome.words]))
