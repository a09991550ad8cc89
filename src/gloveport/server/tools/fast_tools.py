"""Tools of a workspace for the fast path: small reads and writes, and commands."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from gloveport.server.fast_path import FastAnswer, FastCall, FastTool, Work, without_nulls
from gloveport.server.rendering import workspace_text as texts
from gloveport.server.rendering.workspace_replies import refusal, reply, unforeseen
from gloveport.server.tools.command_tools import CommandTools
from gloveport.server.tools.file_tools import PROGRAM_TOOLS, FileTool, file_tools
from gloveport.server.tools.offer import with_error_shape
from gloveport.server.tools.write_tools import PatchArguments, WriteTools
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.documents import find_document
from gloveport.workspace.files.line_reader import LineRange, find_end, read_lines
from gloveport.workspace_service.command_requests import CommandArguments, make_plain_action, start_command
from gloveport.workspace_service.service import WorkspaceService

_SHORT_BYTES: Final = 1 << 18
_LONG_SECONDS, _REST_SECONDS = 0.02, 1.0
_ONE_TEXT: Final = frozenset({"path", "start_line", "end_line", "max_lines", "max_bytes", "encoding", "line_numbers"})
_LOCAL: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""Local file systems; others may wait for another host, and block the event loop."""

_ASK_AGAIN: Final = frozenset({"OUTPUT_TOO_LARGE", "PATH_OUTSIDE_WORKSPACE", "SYMLINK_ESCAPE"})
"""Refusals that the SDK's path may not repeat: for large files, and for paths in another mount."""

Parse: TypeAlias = Callable[[Mapping[str, Any]], dict[str, Any] | None]


def fast_tools(service: WorkspaceService) -> Mapping[str, FastTool]:
    """Make the tools that answer at once or need nothing of the SDK, by their names."""
    files = file_tools(service)
    names = [function.__name__ for function in PROGRAM_TOOLS]
    tools: dict[str, FastTool] = {name: _working(files[name]) for name in names}
    tools["exec_command"] = _executing(service)
    if _file_system(service.tree.root) in _LOCAL:
        tools |= {"read_file": _reading(service, files["read_file"]), "apply_patch": _patching(service)}
    return {name: _foreseen(name, tool) for name, tool in tools.items()}


def _foreseen(name: str, tool: FastTool) -> FastTool:
    """Wrap a tool, so that a fault of ours in it does not end the session."""

    def answer(call: FastCall) -> FastAnswer | Work | None:
        try:
            return tool(call)
        except Exception as error:  # noqa: BLE001 - as in ``offer``
            return FastAnswer(unforeseen(name, error))

    return answer


def _working(function: FileTool) -> FastTool:
    parse, foreseen = _parser(function), with_error_shape(function)

    def begin(call: FastCall) -> Work | None:
        arguments = parse(call.arguments)
        return None if arguments is None else partial(foreseen, **arguments)

    return begin


def _parser(function: Callable[..., Any], names: frozenset[str] | None = None) -> Parse:
    """Make the parser of a tool's arguments: it returns None for wrong ones, and for any that is not in ``names``."""
    tool = Tool.from_function(function, structured_output=False)
    named = frozenset(tool.parameters["properties"])
    known = names or named
    metadata = tool.fn_metadata
    has_aliases = any(field.alias for field in metadata.arg_model.model_fields.values())

    def parse(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
        fields = without_nulls(arguments)
        if not arguments.keys() <= named or not fields.keys() <= known:
            return None
        try:
            if has_aliases or any(map(_may_be_json, fields.values())):
                checked: dict[str, Any] = metadata.validate_arguments(fields)
                return checked
            return dict(metadata.arg_model.model_validate(fields).__dict__)
        except ValidationError:
            return None

    return parse


def _may_be_json(value: object) -> bool:
    """Whether the SDK may parse this text as JSON. Trying to parse every text would take a tenth of a call."""
    return isinstance(value, str) and ((text := value.strip())[:1] in {"[", "{"} or text == "null")


def _reading(service: WorkspaceService, function: Callable[..., Any]) -> FastTool:
    """Make ``read_file`` for a single file that is no document."""
    parse = _parser(function, _ONE_TEXT)
    tree = service.tree.within_one_mount()

    def read(call: FastCall) -> FastAnswer | None:
        arguments = parse(call.arguments)
        if arguments is None or arguments["path"] is None or find_document(arguments["path"]):
            return None
        try:
            lines = LineRange(
                start_line=arguments["start_line"],
                end_line=find_end(arguments["start_line"], arguments["end_line"], arguments["max_lines"]),
                max_bytes=arguments["max_bytes"],
                line_numbers=arguments["line_numbers"],
            )
            fields = service.clean(read_lines(tree, arguments["path"], lines, file_bytes=_SHORT_BYTES))
        except WorkspaceError as error:
            return None if error.code in _ASK_AGAIN else FastAnswer(refusal(error))
        return FastAnswer(reply(fields, texts.read_file(fields)))

    return read


def _patching(service: WorkspaceService) -> FastTool:
    """Make ``apply_patch``. For a while after a slow write it uses a thread: a write would block the event loop."""
    tools = WriteTools(service=service)
    foreseen = with_error_shape(tools.patch)
    again = 0.0

    def begin(call: FastCall) -> FastAnswer | Work | None:
        nonlocal again
        fields = without_nulls(call.arguments)
        if any(map(_may_be_json, fields.values())):
            return None
        try:
            arguments = PatchArguments.model_validate(fields)
        except ValidationError:
            return None
        started = time.monotonic()
        if started >= again and fields.keys() == {"patch"}:
            answer = tools.patch_now(call.caller, call.request, arguments.patch)
            if time.monotonic() - started > _LONG_SECONDS:
                again = time.monotonic() + _REST_SECONDS
            if answer is not None:
                return answer
        return partial(foreseen, call.caller, call.request, arguments)

    return begin


def _executing(service: WorkspaceService) -> FastTool:
    """Make ``exec_command`` for commands that meet no gate, so nobody is asked, and need no environment to be built."""
    foreseen = with_error_shape(CommandTools(service=service).execute)

    def begin(call: FastCall) -> Work | None:
        fields = without_nulls(call.arguments)
        if any(_may_be_json(value) for name, value in fields.items() if name != "cmd"):
            return None
        try:
            arguments = CommandArguments.model_validate(fields)
        except ValidationError:
            return None
        action = make_plain_action(service, arguments) if arguments.environment is None else None
        if action is None:
            return None
        start = partial(start_command, service, call.caller, arguments, plain_action=action)
        return partial(foreseen, arguments, start)

    return begin


def _file_system(root: Path) -> str:
    """Return the type of a directory's file system; empty if not known."""
    device = root.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words, _, rest = line.partition(" - ")
        if words.split()[2] == number:
            return rest.split()[0]
    return ""
