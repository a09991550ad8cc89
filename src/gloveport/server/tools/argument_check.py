"""Checks the arguments of a tool call before the tool runs, and explains faults so that a model can correct them.

An unknown argument is refused: if it were ignored, the caller would get something other than it asked for.
"""

import functools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from inspect import get_annotations, signature
from itertools import islice
from typing import Any, TypeAlias, TypeVar

import mcp_types as wire
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from gloveport.limits.untrusted_json import first_faults, has_many_values
from gloveport.model.pydantic_models import pydantic_model
from gloveport.model.value import Value
from gloveport.server.fast_path import without_nulls
from gloveport.server.rendering.replies import error_reply
from gloveport.untrusted_text import shorten

_SHOWN_CHARACTERS = 80
_SHOWN_FAULTS = 20
_MOST_VALUES_IN_TEXT = 20_000

Model = TypeVar("Model", bound=BaseModel | Value)
Reply = TypeVar("Reply")
Method: TypeAlias = Callable[[Any, Context[Any, Any], Model], Awaitable[Reply]]

Refuse: TypeAlias = Callable[[str, Sequence[str], str], wire.CallToolResult]
"""Makes an answer of a sentence about what was refused, the faults, a line each, and a hint."""


def refuse_in_words(what: str, faults: Sequence[str], hint: str) -> wire.CallToolResult:
    """Make a refusal of text alone."""
    return error_reply(what, *faults, f"hint: {hint}")


def takes(model: type[Model]) -> Callable[[Method[Model, Reply]], Callable[..., Awaitable[Reply]]]:
    """Let a tool take the fields of its last parameter, a model, as parameters; the model's own fields come first."""

    def make_tool(method: Method[Model, Reply]) -> Callable[..., Awaitable[Reply]]:
        @functools.wraps(method)
        async def tool(self: object, ctx: Context[Any, Any], **arguments: Any) -> Reply:  # noqa: ANN401 - the model checks
            return await method(self, ctx, model(**arguments))

        own = signature(method)
        named = list(own.parameters.values())[:-1]
        checked = pydantic_model(model) if issubclass(model, Value) else model
        fields = sorted(signature(checked).parameters.values(), key=lambda one: one.name not in get_annotations(model))
        tool.__dict__["__signature__"] = own.replace(parameters=[*named, *fields])
        return tool

    return make_tool


class ArgumentCheck:
    """Middleware that refuses calls with wrong arguments."""

    def __init__(self, tools: Sequence[Tool], refuse: Refuse = refuse_in_words) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._refuse = refuse

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass on valid calls, and all requests that are no calls of these tools."""
        params = ctx.params or {}
        tool = self._tools.get(str(params.get("name"))) if ctx.method == "tools/call" else None
        arguments = params.get("arguments") or {}
        if tool is None or not isinstance(arguments, Mapping):
            return await call_next(ctx)
        if faults := _faults(tool, arguments):
            hint = f"the arguments are {', '.join(_names(tool)) or 'none'}"
            return self._refuse(f"{tool.name} was not carried out", faults, hint)
        if None in arguments.values():
            ctx = replace(ctx, params={**params, "arguments": without_nulls(arguments)})
        return await call_next(ctx)


def _names(tool: Tool) -> list[str]:
    return list(tool.parameters["properties"])


def _faults(tool: Tool, arguments: Mapping[str, Any]) -> list[str]:
    """Everything that is wrong with these arguments, one line each; empty when nothing is."""
    names = _names(tool)
    faults = [
        _unknown_argument(name, names)
        for name in islice((name for name in arguments if name not in names), _SHOWN_FAULTS)
    ]
    known_arguments = {name: value for name, value in without_nulls(arguments).items() if name in names}
    if crowded := [name for name, value in known_arguments.items() if _has_many_values(tool, name, value)]:
        most = f"a text of JSON with more than {_MOST_VALUES_IN_TEXT} values is not read"
        return [*faults, *(f"- {name}: {most}" for name in crowded)]
    try:
        tool.fn_metadata.validate_arguments(known_arguments)
    except ValidationError as error:
        faults += map(_wrong, first_faults(error, _SHOWN_FAULTS))
    return faults


def _has_many_values(tool: Tool, name: str, value: object) -> bool:
    """Whether an argument is a text of very many JSON values: the SDK parses texts for parameters of other types."""
    if not isinstance(value, str) or tool.fn_metadata.arg_model.model_fields[name].annotation is str:
        return False
    return has_many_values(value.encode(errors="surrogatepass"), _MOST_VALUES_IN_TEXT)


def _unknown_argument(name: str, names: list[str]) -> str:
    near = get_close_matches(name[:_SHOWN_CHARACTERS], names, n=1)
    suggestion = f"; did you mean {near[0]}?" if near else ""
    return f"- {shorten(name, _SHOWN_CHARACTERS)}: there is no such argument{suggestion}"


def _wrong(detail: ErrorDetails) -> str:
    name = shorten(".".join(map(str, detail["loc"])), _SHOWN_CHARACTERS)
    if detail["type"] == "missing":
        return f"- {name}: is missing"
    sent = shorten(repr(detail["input"]), _SHOWN_CHARACTERS)
    fault = detail["msg"].removeprefix("Input ").replace("valid tuple", "valid list")  # JSON has no tuples
    return f"- {name}: {fault}; it was {sent}"
