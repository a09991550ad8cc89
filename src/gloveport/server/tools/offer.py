"""Lists the tools of a workspace: titles, annotations, schemas."""

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

import mcp_types as wire
from mcp.server.mcpserver.tools import Tool
from mcp.shared.exceptions import MCPError

from gloveport.server.rendering.replies import to_wire
from gloveport.server.rendering.run_reply import RunReply
from gloveport.server.rendering.workspace_replies import unforeseen
from gloveport.server.tools.command_tools import CommandTools
from gloveport.server.tools.file_tools import file_tools, view_tool
from gloveport.server.tools.gated_calls import GatedCalls
from gloveport.server.tools.information import InformationTools
from gloveport.server.tools.lean_schema import lean
from gloveport.server.tools.permission import PermissionTool
from gloveport.server.tools.write_tools import WriteTools
from gloveport.workspace_service.service import WorkspaceService

Function: TypeAlias = Callable[..., Awaitable[RunReply | wire.CallToolResult | wire.InputRequiredResult]]
Arguments = ParamSpec("Arguments")
Reply = TypeVar("Reply")


_READS: Final = wire.ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_WRITES: Final = wire.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False
)
_RUNS: Final = wire.ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=True
)
_FEEDS: Final = wire.ToolAnnotations(
    read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False
)


_OUTPUT: Final = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
"""The common schema of all answers, errors included; their fields are those of coding-tools-mcp."""


def describe_tools(service: WorkspaceService, version: str) -> list[Tool]:
    """Describe the tools, in the order of the list."""
    names: list[str] = []
    files, writes, commands = file_tools(service), WriteTools(service=service), CommandTools(service=service)
    permission = PermissionTool(service=service)
    gated = GatedCalls(permission=permission)
    about = InformationTools(service=service, version=version, names=names)
    offered: list[tuple[Function, str, wire.ToolAnnotations]] = [
        (about.server_info, "Server info", _READS),
        (about.check_exec_environment, "Check exec environment", _READS),
        (files["read_file"], "Read file", _READS),
        (files["list_dir"], "List directory", _READS),
        (files["list_files"], "List files", _READS),
        (files["search_text"], "Search text", _READS),
        (gated.wrap("edit_file", writes.edit_file), "Edit file", _WRITES),
        (gated.wrap("apply_patch", writes.apply_patch), "Apply patch", _WRITES),
        (gated.wrap("apply_changes", writes.apply_changes), "Apply changes", _WRITES),
        (writes.undo_patch, "Undo patch", _WRITES),
        (gated.wrap("exec_command", commands.exec_command), "Execute command", _RUNS),
        (commands.write_stdin, "Write stdin", _FEEDS),
        (commands.kill_command, "Kill command", _WRITES),
        (commands.kill_session, "Kill session", _WRITES),
        (commands.read_output, "Read output", _READS),
        (files["git_status"], "Git status", _READS),
        (files["git_diff"], "Git diff", _READS),
        (files["git_log"], "Git log", _READS),
        (files["git_show"], "Git show", _READS),
        (files["git_blame"], "Git blame", _READS),
        (view_tool(service), "View image", _READS),
        (permission.request_permissions, "Request permissions", _FEEDS),
    ]
    names += [function.__name__ for function, _, _ in offered]
    return [_make_tool(*one) for one in offered]


def _make_tool(function: Function, title: str, annotations: wire.ToolAnnotations) -> Tool:
    foreseen = with_error_shape(function)

    @functools.wraps(foreseen)
    async def answer(*args: Any, **kwargs: Any) -> wire.CallToolResult | wire.InputRequiredResult:  # noqa: ANN401 - the tool's
        reply = await foreseen(*args, **kwargs)
        return to_wire(reply) if isinstance(reply, RunReply) else reply

    tool = Tool.from_function(answer, title=title, annotations=annotations, structured_output=False)
    tool.parameters = lean(tool.parameters)
    if function.__name__ != "view_image":  # an output schema would force structured content in place of the picture
        tool.fn_metadata.output_schema = _OUTPUT
    tool.description = " ".join(tool.description.split())
    return tool


def with_error_shape(
    function: Callable[Arguments, Awaitable[Reply]],
) -> Callable[Arguments, Awaitable[Reply | RunReply]]:
    """Wrap a tool, so that an unforeseen exception becomes an answer with the shape of all errors."""

    @functools.wraps(function)
    async def answer(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Reply | RunReply:
        try:
            return await function(*args, **kwargs)
        except MCPError:
            raise
        except Exception as error:  # noqa: BLE001 - the client gets an answer of the shape that it knows, the log a fault
            return unforeseen(function.__name__, error)

    answer.__dict__["__signature__"] = inspect.signature(function)  # of the bound method, without ``self``
    return answer
