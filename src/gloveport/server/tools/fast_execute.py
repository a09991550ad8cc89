"""``execute_code`` and ``run_skill`` for the fast path: for runs that can't have a question for their client."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import pydantic_core

from gloveport.engine.caller import Caller
from gloveport.engine.runs import Run
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.server.fast_path import FastCall, FastTool, Work, without_nulls
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.tools.progress import Progress
from gloveport.server.tools.run_calls import ExecuteArguments, RunCalls, RunSkillArguments

Arguments = TypeVar("Arguments", ExecuteArguments, RunSkillArguments)


def fast_execute(calls: RunCalls) -> FastTool:
    """``execute_code``."""
    return _running(calls, ExecuteArguments, calls.begin)


def fast_run_skill(calls: RunCalls) -> FastTool:
    """``run_skill``."""
    return _running(calls, RunSkillArguments, calls.begin_skill)


def _running(
    calls: RunCalls, model: type[Arguments], begin: Callable[[Arguments, Caller], Awaitable[Run | RunReply]]
) -> FastTool:
    """Make a tool of the fast path. It leaves runs with a way out to the SDK: they may have to ask the client."""

    async def run(arguments: Arguments, call: FastCall) -> RunReply:
        answer = await begin(arguments, call.caller)
        return (
            answer
            if isinstance(answer, RunReply)
            else await calls.attend(answer, arguments.wait_seconds, _progress(call))
        )

    def answer(call: FastCall) -> Work | None:
        if calls.engine.reach.way_out.doors or calls.engine.reach.has_tools:
            return None
        try:
            arguments = read_value(model, without_nulls(call.arguments))
        except WrongShapeError:  # the SDK's path explains the fault
            return None
        return partial(run, arguments, call)

    return answer


def _progress(call: FastCall) -> Progress | None:
    if call.progress_token is None:
        return None

    async def send(seconds: float, _total: None, message: str) -> None:
        params = {"progressToken": call.progress_token, "progress": seconds, "message": message}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await call.notify(pydantic_core.to_json(notification) + b"\n")

    return Progress(send=send)
