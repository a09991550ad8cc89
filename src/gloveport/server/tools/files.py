"""The tools of files, git and pictures: they take what functions of the workspace take, and are described as those."""

import base64
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final, TypeAlias

import mcp_types as wire
from anyio import to_thread

from gloveport.fairness import compute
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.workspace_replies import Words, clean_refusal, reply
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.listing import list_dir, list_files
from gloveport.workspace.files.reading import read_file
from gloveport.workspace.git.blame import git_blame
from gloveport.workspace.git.diff import git_diff
from gloveport.workspace.git.log import git_log
from gloveport.workspace.git.show import git_show
from gloveport.workspace.git.status import git_status
from gloveport.workspace.images.view import view_image
from gloveport.workspace.search import search_text
from gloveport.workspace_service.service import Fields, WorkspaceService

FileTool: TypeAlias = Callable[..., Awaitable[wire.CallToolResult]]

PROGRAM_TOOLS: Final[Mapping[Callable[..., Awaitable[Fields]], Words]] = {
    search_text: texts.search_text,
    git_status: texts.git_status,
    git_diff: texts.git_diff,
    git_log: texts.git_log,
    git_show: texts.git_show,
    git_blame: texts.git_blame,
}
"""What has a program run, and the words of its answer."""

_FILE_TOOLS: Final[Mapping[Callable[..., Fields], Words]] = {
    read_file: texts.read_file,
    list_dir: texts.list_dir,
    list_files: texts.list_files,
}
"""What only reads files."""

_SERVERS_OWN: Final = frozenset({"tree", "run", "engine", "bounds", "file_bytes"})
"""Parameters that no client gives."""

_ENTRY_BYTES: Final = 256


def file_tools(service: WorkspaceService) -> dict[str, FileTool]:
    """The tools, by their names."""
    tools = [_make_tool(view_image, partial(_view, service))]
    tools += [_make_tool(read, partial(_read, service, read, words)) for read, words in _FILE_TOOLS.items()]
    tools += [_make_tool(look_up, partial(_run, service, look_up, words)) for look_up, words in PROGRAM_TOOLS.items()]
    return {tool.__name__: tool for tool in tools}


def _make_tool(function: Callable[..., object], answer: Callable[[Mapping[str, Any]], Any]) -> FileTool:
    """A tool with the name, the parameters and the first paragraph of a function."""

    async def tool(**arguments: Any) -> wire.CallToolResult:  # noqa: ANN401 - checked by the parameters
        result: wire.CallToolResult = await answer(arguments)
        return result

    signature = inspect.signature(function)
    parameters = [one for one in signature.parameters.values() if one.name not in _SERVERS_OWN]
    tool.__name__, tool.__doc__ = function.__name__, (inspect.getdoc(function) or "").partition("\n\n")[0]
    tool.__dict__["__signature__"] = signature.replace(parameters=parameters)
    return tool


async def _read(
    service: WorkspaceService, read: Callable[..., Fields], words: Words, arguments: Mapping[str, Any]
) -> wire.CallToolResult:
    """The answer of work on files, which may wait for a disk: a thread's, and so is its rendering."""
    try:
        return await to_thread.run_sync(lambda: _reply(service, read(service.tree, **arguments), words))
    except WorkspaceError as error:
        return clean_refusal(service, error)


async def _run(
    service: WorkspaceService, look_up: Callable[..., Awaitable[Fields]], words: Words, arguments: Mapping[str, Any]
) -> wire.CallToolResult:
    """The answer of what has a program run."""
    if look_up is search_text:
        arguments = {**arguments, "engine": service.search_engine}
    try:
        fields = await look_up(service.tree, service.sandboxes.workers.run, **arguments)
        return await compute(_size(fields), _reply, service, fields, words)
    except WorkspaceError as error:
        return clean_refusal(service, error)


async def _view(service: WorkspaceService, arguments: Mapping[str, Any]) -> wire.CallToolResult:
    try:
        fields, data = await view_image(service.tree, service.sandboxes.workers.run, **arguments)
    except WorkspaceError as error:
        return clean_refusal(service, error)
    picture = wire.ImageContent(type="image", data=base64.b64encode(data).decode(), mime_type=fields["mime_type"])
    return reply(fields, texts.view_image(fields), picture)


def _reply(service: WorkspaceService, fields: Fields, words: Words) -> wire.CallToolResult:
    clean = service.clean(fields)
    return reply(clean, words(clean))


def _size(fields: Fields) -> int:
    """About how many bytes an answer has."""
    return sum(
        len(value) if isinstance(value, str) else _ENTRY_BYTES * len(value) if isinstance(value, list) else 0
        for value in fields.values()
    )
