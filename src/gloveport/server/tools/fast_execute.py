"""``execute_code`` for the fast path: where nothing that a run may do is asked of its client."""

from functools import partial

import pydantic_core
from pydantic import ValidationError

from gloveport.server.fast_path import FastCall, FastTool, Work, without_nulls
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.tools.progress import Progress
from gloveport.server.tools.run_calls import ExecuteArguments, RunCalls


def fast_execute(calls: RunCalls) -> FastTool:
    """The tool. A run with a door may have to ask its client, or the client's model, which the SDK does."""

    def begin(call: FastCall) -> Work | None:
        if calls.engine.reach.network.doors:
            return None
        try:
            given = ExecuteArguments.model_validate(without_nulls(call.arguments))
        except ValidationError:
            return None
        return partial(_execute, calls, given, call)

    return begin


async def _execute(calls: RunCalls, given: ExecuteArguments, call: FastCall) -> RunReply:
    run = calls.begin(given, call.caller)
    if isinstance(run, RunReply):
        return run
    return await calls.attend(run, given.wait_seconds, _progress(call))


def _progress(call: FastCall) -> Progress | None:
    if call.progress_token is None:
        return None

    async def send(seconds: float, _total: None, message: str) -> None:
        params = {"progressToken": call.progress_token, "progress": seconds, "message": message}
        notification = {"jsonrpc": "2.0", "method": "notifications/progress", "params": params}
        await call.notify(pydantic_core.to_json(notification) + b"\n")

    return Progress(send=send)
