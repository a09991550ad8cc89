"""The tool ``read_artifact`` and the resources ``artifact://``: files that the caller's programs have left."""

from collections.abc import Iterator
from typing import Annotated, Any, Final

import mcp_types as wire
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ResourceNotFoundError
from msgspec import Struct
from pydantic import Field
from starlette.requests import Request

from gloveport.artifacts.artifact_store import PREFIX, ArtifactStore, Found
from gloveport.artifacts.media_types import HEAD_BYTES, is_text
from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.engine.previews import is_picture, picture_of
from gloveport.errors import GloveportError
from gloveport.fairness import compute
from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.artifact_text import describe_artifact
from gloveport.server.rendering.replies import error_reply, picture_blocks, text_reply, to_wire
from gloveport.server.rendering.run_reply import reply_refusal
from gloveport.server.request_caller import caller_of, share_of
from gloveport.server.transports.file_transfer import LINK_SECONDS, FileTransfer

_PAGE_BYTES: Final = 32 * 1024
_LONGEST_LINE: Final = 4096
_SCAN_BYTES: Final = 1 << 18
_RESOURCE_BYTES: Final = 700_000
"""Most bytes of a file as a resource; base64 has a third more."""

_MOST_LISTED: Final = 200


class ArtifactListing(Struct, frozen=True, kw_only=True):
    """Middleware that lists the caller's artifacts as resources, the newest if there are very many.

    Clients are not notified of changes, which come with each run: each answer names the run's own artifacts.
    """

    store: ArtifactStore
    transport: Transport

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Pass everything on."""
        result = await call_next(ctx)
        if ctx.method != "resources/list" or not isinstance(result, dict):
            return result
        files = self.store.list_files(share_of(ctx, self.transport))[:_MOST_LISTED]
        listed = [
            wire.Resource(
                uri=one.uri,
                name=one.path,
                description=one.about or None,
                mime_type="application/octet-stream",  # as the resource has it; the path tells what it is
                size=one.bytes,
            ).model_dump(by_alias=True, mode="json", exclude_none=True)
            for one in files
        ]
        return {**result, "resources": [*result["resources"], *listed]}


class ArtifactTool(Struct, frozen=True, kw_only=True):
    """The tool, and what it needs.

    Attributes:
        transfer: Makes links to files; None without HTTP.
    """

    engine: Engine
    transport: Transport
    transfer: FileTransfer | None = None

    async def read_artifact(
        self,
        ctx: Context[Any, Any],
        uri: Annotated[str, Field(max_length=128)],
        line: Annotated[int, Field(ge=1)] = 1,
        limit: Annotated[int, Field(ge=1, le=5000)] = 500,
    ) -> wire.CallToolResult:
        """Read a file that a program left in /out: text by lines, a picture as an image."""
        share = caller_of(ctx, self.transport).share
        found = self.engine.artifacts.find(uri, share)
        if found is None:
            return error_reply(*not_kept(uri))
        one = found.artifact
        link = self._link(ctx, found)
        if is_picture(one):
            return await self._show(found, share, link)
        if not is_text(found.read(0, HEAD_BYTES)):
            return text_reply(f"{describe_artifact(one)}\nno text: {_how_to_get(one.bytes)}{link}")
        text = await compute(one.bytes, read_lines, found, line, limit)
        return text_reply(self.engine.clean(text) + (link if line == 1 else ""))

    def _link(self, ctx: Context[Any, Any], found: Found) -> str:
        """Write a line with a link for a person to download the file; empty without HTTP."""
        request = ctx.request_context.request
        if self.transfer is None or not isinstance(request, Request):
            return ""
        return f"\n[to download, for {LINK_SECONDS // 60} min: {self.transfer.link(found, request)}]"

    async def _show(self, found: Found, share: str, link: str) -> wire.CallToolResult:
        if picture_of(found) is None:
            try:
                await self.engine.show_picture(found, share)
            except GloveportError as error:
                return to_wire(reply_refusal(error))
        picture = picture_of(found)
        text = wire.TextContent(type="text", text=describe_artifact(found.artifact) + link)
        return wire.CallToolResult(content=[text, *picture_blocks([picture] if picture else [])])

    async def artifact(self, ctx: Context[Any, Any], bundle: str, number: str) -> str | bytes:
        """A file that a program left in /out."""
        uri = f"{PREFIX}{bundle}/{number}"
        found = self.engine.artifacts.find(uri, caller_of(ctx, self.transport).share)
        if found is None:
            raise ResourceNotFoundError(": ".join(not_kept(uri)))
        if found.artifact.bytes > _RESOURCE_BYTES:
            raise ResourceNotFoundError(f"{uri} has {found.artifact.bytes} bytes: {_how_to_get(found.artifact.bytes)}")
        data = found.read(0, _RESOURCE_BYTES)
        return data.decode() if is_text(data) and not is_picture(found.artifact) else data


def read_lines(found: Found, first: int, count: int) -> str:
    """Render lines of a text file, as many as fit on a page, and say how to read on."""
    offset, number = _find_line(found, first)
    if offset == found.artifact.bytes and first > 1:
        has_end = offset == 0 or found.read(offset - 1, 1) == b"\n"
        return f"[{found.artifact.path} has {number - has_end} lines]"
    lines: list[str] = []
    size = 0
    for text in map(_show_line, _lines_from(found, offset)):
        if len(lines) == count or size + len(text) > _PAGE_BYTES:
            going_on = f"[read_artifact(uri={found.artifact.uri!r}, line={number + len(lines)}) goes on]"
            return "\n".join([*lines, going_on])
        lines.append(text)
        size += len(text.encode()) + 1
    return "\n".join(lines)


def _find_line(found: Found, wanted: int) -> tuple[int, int]:
    """The offset of a line, and its number; if there are fewer, the file's end and the number of its ends of lines + 1.

    The lines before are only counted: a file may have as many as bytes.
    """
    offset, number = 0, 1
    while number < wanted and (data := found.read(offset, _SCAN_BYTES)):
        ends = data.count(b"\n")
        if number + ends >= wanted:
            place = 0
            for _ in range(wanted - number):
                place = data.index(b"\n", place) + 1
            return offset + place, wanted
        number += ends
        offset += len(data)
    return offset, number


def _lines_from(found: Found, offset: int) -> Iterator[bytes]:
    """The file's lines from an offset on; of a very long one the beginning."""
    rest = b""
    while data := found.read(offset, _SCAN_BYTES):
        offset += len(data)
        *whole, rest = (rest + data).split(b"\n")
        yield from whole
        rest = rest[:_SCAN_BYTES]
    if rest:
        yield rest


def _show_line(data: bytes) -> str:
    text = plain(data[: 4 * _LONGEST_LINE].decode(errors="replace").rstrip("\r")).replace("\n", " ")
    return text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}[… {len(data)} bytes in this line]"


def _how_to_get(size: int) -> str:
    resource = "read it as a resource, or " if size <= _RESOURCE_BYTES else ""
    return f"{resource}have a program read it and print what you need"


def not_kept(uri: str) -> tuple[str, str]:
    """Make message and hint for a file that does not exist, or is another caller's."""
    hint = "hint: a uri ends in the number that the answer gives a file: artifact://ID/2; else run the program again"
    return f"{uri[:80]!a} is not kept, or no longer", hint
