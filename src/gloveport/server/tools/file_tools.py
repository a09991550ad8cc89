"""Tools for files, git and pictures, made from functions of the workspace, with their parameters and docstrings."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import mcp_types as wire
from mcp.server.mcpserver import Context

from gloveport.artifacts.artifact_store import Preview
from gloveport.fairness import compute
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.replies import picture_blocks, to_wire
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import Words, clean_refusal, reply
from gloveport.server.request_caller import caller_of
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_contents import read_file
from gloveport.workspace.files.file_listing import list_dir, list_files
from gloveport.workspace.git.blame import git_blame
from gloveport.workspace.git.diff import git_diff
from gloveport.workspace.git.log import git_log
from gloveport.workspace.git.show import git_show
from gloveport.workspace.git.status import git_status
from gloveport.workspace.images.view import Viewed, view_image
from gloveport.workspace.search import search_text
from gloveport.workspace_service.service import Fields, WorkspaceService

FileTool: TypeAlias = Callable[..., Awaitable[RunReply]]
Reply = TypeVar("Reply")

PROGRAM_TOOLS: Final[Mapping[Callable[..., Awaitable[Fields]], Words]] = {
    read_file: texts.read_file,
    search_text: texts.search_text,
    git_status: texts.git_status,
    git_diff: texts.git_diff,
    git_log: texts.git_log,
    git_show: texts.git_show,
    git_blame: texts.git_blame,
}
"""Tools that run a program, or may do so, and the renderers of their answers."""

_LIST_TOOLS: Final[Mapping[Callable[..., Fields], Words]] = {
    list_dir: texts.list_dir,
    list_files: texts.list_files,
}
"""Tools that walk directories, and the renderers of their answers."""

_SERVERS_OWN: Final = frozenset({"tree", "run", "engine", "bounds", "caller"})
"""Parameters that the server passes, not the client."""

_ENTRY_BYTES: Final = 256


def file_tools(service: WorkspaceService) -> dict[str, FileTool]:
    """The tools whose answers are texts, by their names."""
    tools = [_make_tool(service, read, partial(_list, service, words)) for read, words in _LIST_TOOLS.items()]
    tools += [_make_tool(service, look_up, partial(_run, service, words)) for look_up, words in PROGRAM_TOOLS.items()]
    return {tool.__name__: tool for tool in tools}


def view_tool(service: WorkspaceService) -> Callable[..., Awaitable[wire.CallToolResult | RunReply]]:
    """``view_image``, which answers with the picture first."""
    return _make_tool(service, view_image, _view)


def _make_tool(
    service: WorkspaceService,
    function: Callable[..., Any],
    answer: Callable[[str, Callable[[], Any]], Awaitable[Reply]],
) -> Callable[..., Awaitable[Reply | RunReply]]:
    """Make a tool with a function's name, parameters and first paragraph; what clients don't give is passed here."""
    signature = inspect.signature(function)
    parameters = [one for name, one in signature.parameters.items() if name not in _SERVERS_OWN]

    async def tool(
        ctx: Context[Any, Any] | None = None,
        **arguments: Any,  # noqa: ANN401 - checked by the parameters
    ) -> Reply | RunReply:
        caller = "" if ctx is None else caller_of(ctx, service.transport).share  # over stdio there is one caller
        run = partial(service.sandboxes.workers.run, caller=caller)
        ours = {"tree": service.tree, "run": run, "engine": service.search_engine, "caller": caller}
        dependencies = {name: value for name, value in ours.items() if name in signature.parameters}
        if isinstance(path := arguments.get("path"), str):
            arguments["path"] = service.tree.make_relative(path)
        if isinstance(paths := arguments.get("paths"), list):
            arguments["paths"] = [service.tree.make_relative(one) for one in paths]
        try:
            return await answer(caller, partial(function, **dependencies, **arguments))
        except WorkspaceError as error:
            return clean_refusal(service, error)

    tool.__name__, tool.__doc__ = function.__name__, (inspect.getdoc(function) or "").partition("\n\n")[0]
    tool.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return tool


async def _list(service: WorkspaceService, words: Words, caller: str, work: Callable[[], Fields]) -> RunReply:
    """List names and render the answer, both in a thread, when it is the caller's turn."""
    return await service.list_in_turn(caller, lambda: _reply(service, work(), words))


async def _run(
    service: WorkspaceService, words: Words, _caller: str, work: Callable[[], Awaitable[Fields]]
) -> RunReply:
    fields = await work()
    return await compute(_size(fields), _reply, service, fields, words)


async def _view(_caller: str, work: Callable[[], Awaitable[tuple[Viewed, bytes]]]) -> wire.CallToolResult:
    fields, data = await work()
    answer = to_wire(reply(fields, texts.view_image(fields)))
    answer.content[:0] = picture_blocks([Preview(mime_type=fields["mime_type"], data=data)])
    return answer


def _reply(service: WorkspaceService, fields: Fields, words: Words) -> RunReply:
    clean = service.clean(fields)
    return reply(clean, words(clean))


def _size(fields: Fields) -> int:
    """Estimate the bytes of an answer."""
    return int(fields.get("output_bytes", 0)) + sum(
        len(value) if isinstance(value, str) else _ENTRY_BYTES * len(value) if isinstance(value, list) else 0
        for value in fields.values()
    )
