"""What agents put before their model of an answer, and the answers to ten ordinary calls as each would show them.

Seen with Claude Code 2.1, Codex 0.169, Gemini CLI 0.61 and opencode 1.18, each at work with a scripted model: the first
two show nothing but structured content where there is any. Each has words of its own: Codex before an answer, Gemini
CLI around it, Claude Code and Gemini CLI beside a picture.
"""

import json
import re
import struct
import tempfile
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, ImageContent, Implementation, TextContent

from bench.measure import WrongAnswer

Show: TypeAlias = Callable[[CallToolResult], str]

_PATCH: Final = "*** Begin Patch\n*** Update File: notes.txt\n@@\n-line 3\n+line three\n*** End Patch\n"
_RUN: Final = re.compile("run-[0-9a-f]{16}")
_SAVED: Final = (
    "[Image: source: /home/me/.claude/projects/-srv-project/b7405d0e-e4ef-496e-8949-c948eb738afa/tool-results/"
    "mcp-gloveport-blob-1795419860314-o75j1d.png]"
)
"""Where Claude Code has put a picture, as it tells its model."""

_SLOW: Final = "import time\nprint('begun', flush=True)\ntime.sleep(60)"
CALLS: Final[tuple[tuple[str, str, Mapping[str, Any]], ...]] = (
    ("Python, a value", "execute_code", {"language": "python", "code": "print('hello'); {'a': [1, 2]}"}),
    ("TypeScript, a value", "execute_code", {"language": "typescript", "code": "const n: number = 6; n * 7"}),
    ("an exception", "execute_code", {"language": "python", "code": "1 / 0"}),
    ("a run that goes on", "execute_code", {"language": "python", "code": _SLOW, "wait_seconds": 2}),
    ("a run that is cancelled", "cancel_run", {}),
    ("a file of ten lines", "read_file", {"path": "notes.txt"}),
    ("a search", "search_text", {"query": "line 1"}),
    ("a patch", "apply_patch", {"patch": _PATCH}),
    ("a command", "exec_command", {"cmd": "wc -l notes.txt", "yield_time_ms": 30_000}),
    ("a picture", "view_image", {"path": "red.png"}),
)


def _blocks(answer: CallToolResult) -> str:
    return "\n".join(block.text for block in answer.content if isinstance(block, TextContent))


def _structured_first(answer: CallToolResult) -> str:
    if answer.structured_content is None:
        return _blocks(answer)
    return json.dumps(answer.structured_content, separators=(",", ":"), ensure_ascii=False)


def _claude_code(answer: CallToolResult) -> str:
    return "\n".join([*(_SAVED for _ in _pictures(answer)), _structured_first(answer)])


def _codex(answer: CallToolResult) -> str:
    return f"Wall time: 0.0103 seconds\nOutput:\n{_structured_first(answer)}"


def _gemini_cli(answer: CallToolResult) -> str:
    pictures = (
        f"[Tool 'view_image' provided the following image data with mime-type: {picture.mime_type}]"
        for picture in _pictures(answer)
    )
    return "\n".join([*pictures, "<untrusted_context>", _blocks(answer), "</untrusted_context>"])


def _pictures(answer: CallToolResult) -> list[ImageContent]:
    return [block for block in answer.content if isinstance(block, ImageContent)]


AGENTS: Final[Mapping[str, tuple[str, Show]]] = {
    "Claude Code": ("claude-code", _claude_code),
    "Codex": ("codex-mcp-client", _codex),
    "Gemini CLI": ("gemini-cli-mcp-client", _gemini_cli),
    "opencode": ("opencode", _blocks),
}
"""The name that each gives itself, and what it makes of an answer."""


async def shown(server: StdioServerParameters, agent: str) -> AsyncIterator[str]:
    """What this agent's model would read of each of the calls, in a workspace as ``prepare`` leaves it.

    Raises:
        WrongAnswer: A call came to nothing, or a picture would not be seen.
    """
    name, show = AGENTS[agent]
    info = Implementation(name=name, version="1")
    with tempfile.TemporaryFile("w") as nowhere:
        async with Client(stdio_client(server, errlog=nowhere), mode="legacy", client_info=info) as client:
            run_id = ""
            for what, tool, arguments in CALLS:
                more = {"run_id": run_id} if tool == "cancel_run" else {}
                answer = await client.call_tool(tool, {**arguments, **more})
                text = show(answer)
                if answer.is_error:
                    raise WrongAnswer(f"{agent}, {what}: {text}")
                if _pictures(answer) and answer.structured_content:
                    raise WrongAnswer(f"{agent} shows no picture beside structured content")
                run_id = next(iter(_RUN.findall(text)), "")
                yield text


def prepare(workspace: Path) -> None:
    """Make the files that the calls work on, whatever stood there."""
    (workspace / "notes.txt").write_text("".join(f"line {number}\n" for number in range(1, 11)))
    (workspace / "red.png").write_bytes(_png(40, 30))


def _png(width: int, height: int) -> bytes:
    """A red picture."""
    rows = (b"\0" + b"\xff\0\0" * width) * height
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
