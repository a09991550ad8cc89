"""The tool ``session``: what a caller does with sessions besides running code in them."""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias

import mcp_types as wire
from mcp.server.mcpserver import Context
from msgspec import Struct
from pydantic import Field, JsonValue

from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.engine.session import Session
from gloveport.errors import GloveportError
from gloveport.model import SessionState
from gloveport.sandbox.base import Outcome
from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.replies import error_reply, text_reply, to_wire
from gloveport.server.rendering.run_reply import reply_refusal
from gloveport.server.rendering.session_text import session_lines, variables_text
from gloveport.server.request_caller import caller_of

Action: TypeAlias = Literal["list", "variables", "inspect", "interrupt", "rewind", "branch", "close"]

_SHARED: Final = (
    "Both have one sandbox, and take turns: files, ports, processes, shell and TypeScript are shared, and closing the "
    "first closes both. A rewind brings back variables alone from now on."
)


class SessionTool(Struct, frozen=True, kw_only=True):
    """The tool ``session``, and what it needs."""

    engine: Engine
    transport: Transport

    async def session(  # noqa: PLR0911 - one for each action
        self,
        ctx: Context[Any, Any],
        action: Action,
        session_id: Annotated[str, Field(max_length=64)] = "",
        name: Annotated[str, Field(max_length=1000)] = "",
    ) -> wire.CallToolResult:
        """List your sessions, or variables of one; inspect a variable by `name`; interrupt the call; rewind Python to
        before the last call (variables, /tmp; not threads, processes); branch: a second session with its variables;
        close.
        """
        if missing := _find_missing(action, session_id, name):
            return error_reply("session was not carried out", *missing)
        caller, requests = caller_of(ctx, self.transport), self.engine.session_requests
        try:
            if action == "list":
                return _reply(_render_list(self.engine.sessions.list_of(caller.share)))
            session = self.engine.sessions.find(session_id, caller.share)
            if action == "close":
                await requests.close(session, caller=caller.name)
                return _reply([f"session {session.id} is closed"])
            if session.ended:
                raise session.denial()
            if action == "interrupt":
                is_interrupted = requests.interrupt(session, caller=caller.name)
                return _reply(["its call is interrupted" if is_interrupted else "no call goes on"])
            if action == "branch":
                branch = await requests.branch(session, caller=caller.name)
                return _reply([*session_lines(branch.describe()), f"It has the variables of {session.id}.", _SHARED])
            message: dict[str, JsonValue] = {"do": action}
            if action == "inspect":
                message |= {"expression": name}
            outcome, state = await requests.ask(session, message, caller=caller.name)
        except GloveportError as error:
            return to_wire(reply_refusal(error))
        return _reply([*self._render_outcome(action, outcome, state)])

    def _render_outcome(self, action: Action, outcome: Outcome, state: SessionState) -> Sequence[str]:
        if action == "variables":
            found = state.model_copy(update={"variables": ()})
            return [*session_lines(found), f"variables: {variables_text(state.variables) or 'none'}"]
        lines = session_lines(state)
        if action == "rewind":
            return lines if state.state != "kept" else [*lines, "not rewound"]
        report = outcome.report if isinstance(outcome.report, dict) else {}
        error = report.get("error")
        text = error.get("traceback") if isinstance(error, dict) else report.get("value")
        return [*lines, self.engine.clean(plain(text)) if isinstance(text, str) else "there is no answer"]


def _find_missing(action: Action, session_id: str, name: str) -> Sequence[str]:
    """The argument that this action lacks, and what to do; empty if it lacks none."""
    if action != "list" and not session_id:
        return ["- session_id: is missing", 'hint: session(action="list") lists yours']
    if action == "inspect" and not name:
        return ["- name: is missing", "hint: name a variable"]
    return []


def _render_list(sessions: Sequence[Session]) -> list[str]:
    lines = [f"{one.id}: {one.calls} calls, expires {one.expires_at}" for one in sessions]
    return lines or ["there are no sessions of yours"]


def _reply(lines: Sequence[str]) -> wire.CallToolResult:
    return text_reply("\n".join(lines))
