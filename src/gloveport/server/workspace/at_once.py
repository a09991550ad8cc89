"""The tools of a workspace that can answer at once: those that read a little, from a disk of this host."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import mcp_types as wire
from mcp.server.mcpserver.tools import Tool
from pydantic import ValidationError

from gloveport.errors import WorkspaceError
from gloveport.server.shortcut import AtOnce
from gloveport.server.workspace import texts
from gloveport.server.workspace.bench import Bench
from gloveport.server.workspace.replies import refusal, reply
from gloveport.server.workspace.tools import FileTools
from gloveport.workspace.reading import read_file

_SHORT_BYTES: Final = 1 << 18
_LOCAL: Final = frozenset({"bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"})
"""File systems that answer for themselves; others may wait for another host, and everybody with them."""


def at_once(bench: Bench) -> Mapping[str, AtOnce]:
    """Those of its tools, by their names, that answer at once."""
    if _file_system(bench.tree.root) not in _LOCAL:
        return {}
    return {"read_file": _reading(bench)}


def _reading(bench: Bench) -> AtOnce:
    tool = Tool.from_function(FileTools(bench=bench).read_file, structured_output=False)
    known: frozenset[str] = frozenset(tool.parameters["properties"])
    parsed: Callable[[dict[str, Any]], dict[str, Any]] = tool.fn_metadata.validate_arguments

    def read(arguments: Mapping[str, Any]) -> wire.CallToolResult | None:
        if not arguments.keys() <= known:
            return None
        try:
            given = parsed(dict(arguments))
        except ValidationError:
            return None
        given.pop("encoding", None)
        try:
            told = bench.clean(read_file(bench.tree, **given, file_bytes=_SHORT_BYTES))
        except WorkspaceError as error:
            return None if error.code == "OUTPUT_TOO_LARGE" else refusal(error)
        return reply(told, texts.read_file(told))

    return read


def _file_system(root: Path) -> str:
    """The kind of file system that a directory lies in; empty where that is not known."""
    device = root.stat().st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words, _, rest = line.partition(" - ")
        if words.split()[2] == number:
            return rest.split()[0]
    return ""
