"""Converts replies to the SDK's types."""

import base64
from collections.abc import Sequence

import mcp_types as wire

from gloveport.artifacts.artifact_store import Preview
from gloveport.server.rendering.run_reply import RunReply, reply_error


def to_wire(reply: RunReply) -> wire.CallToolResult:
    """Convert a reply."""
    return wire.CallToolResult(
        is_error=reply.is_error,
        content=[wire.TextContent(type="text", text=reply.text), *picture_blocks(reply.pictures)],
        structured_content=reply.structured,
    )


def text_reply(text: str) -> wire.CallToolResult:
    """Make the answer of a text alone."""
    return to_wire(RunReply(text))


def error_reply(*lines: str) -> wire.CallToolResult:
    """Make the answer to a call that was not carried out."""
    return to_wire(reply_error(*lines))


def picture_blocks(pictures: Sequence[Preview]) -> list[wire.ImageContent]:
    """Make content blocks of pictures."""
    return [
        wire.ImageContent(type="image", data=base64.b64encode(one.data).decode(), mime_type=one.mime_type)
        for one in pictures
    ]
