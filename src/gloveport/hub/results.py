"""Turns a tool's result into the value that a program gets. Every string in it is scrubbed.

The value is the structured content; else, of a single text that is a JSON object or array, that; else, if all blocks
are texts, their texts; else nothing, and the program reads the blocks. A text like ``1`` or ``null`` stays a text: else
the type of a file's content would depend on the content.

Many servers can't answer with a plain value, and wrap it as ``{"result": …}``. It is unwrapped if the tool's output
schema has this one member and no other, so that the stubs know about it too.
"""

import json
import math
from collections.abc import Callable, Mapping
from typing import Final

import pydantic_core

from gloveport.errors import UpstreamError
from gloveport.hub.definition import Definition
from gloveport.late_libraries import mcp_types as wire
from gloveport.limits.untrusted_json import has_many_values
from gloveport.model.json_value import JsonValue, iterate_levels
from gloveport.policy.wording import quote_sent
from gloveport.secrets.scrub import scrub_value

MOST_DEPTH: Final = 100
"""Most levels of a value. A deeper one stays text, for not every interpreter could parse it."""

_WRAPPED = "result"


def result_of(
    result: "wire.CallToolResult", definition: Definition, scrub: Callable[[str], str]
) -> dict[str, JsonValue]:
    """The answer to the operation ``call`` that has not failed: ``{"kind", "value", "blocks"}``. ``scrub`` removes the
    secrets from a text, in base64 too: so images and other binary data go through it as well.

    Raises:
        UpstreamError: ``bad_answer``: the result has nothing that can be given to the program.
    """
    blocks = [
        scrub_value(block.model_dump(mode="json", by_alias=True, exclude_none=True), scrub) for block in result.content
    ]
    if result.structured_content is not None and not result.content and not _is_json(result.structured_content):
        raise UpstreamError(
            "bad_answer",
            f"The tool {quote_sent(definition.name)} has answered with structured content that is no JSON, "
            f"for there is NaN or infinity in it, or that nests more than {MOST_DEPTH} levels, and with nothing else.",
            hint="The call may have had an effect.",
        )
    kind, value = _value(result, wrapped_schema(definition.output_schema) is not None, scrub)
    return {"kind": kind, "value": value, "blocks": blocks}


def error_text(result: "wire.CallToolResult") -> str:
    """Return a tool's error message, not scrubbed and of any length."""
    texts = [block.text for block in result.content if isinstance(block, wire.TextContent)]
    if not texts and result.structured_content is not None and _is_json(result.structured_content):
        texts = [json.dumps(result.structured_content, ensure_ascii=False)]
    return "\n".join(texts) or "the tool has failed and does not say why"


def wrapped_schema(output_schema: Mapping[str, JsonValue] | None) -> JsonValue:
    """Return the schema of a value that is wrapped as ``{"result": …}``; None if it is not wrapped or not known."""
    properties = output_schema.get("properties") if output_schema is not None else None
    return properties[_WRAPPED] if isinstance(properties, dict) and [*properties] == [_WRAPPED] else None


def _value(result: "wire.CallToolResult", wraps: bool, scrub: Callable[[str], str]) -> tuple[str, JsonValue]:  # noqa: FBT001
    structured: JsonValue = result.structured_content
    if structured is not None and _is_json(structured):
        if wraps and isinstance(structured, dict) and [*structured] == [_WRAPPED]:
            structured = structured[_WRAPPED]
        return "structured", scrub_value(structured, scrub)
    texts = [scrub(block.text) for block in result.content if isinstance(block, wire.TextContent)]
    if len(texts) < len(result.content):
        return "blocks", None
    document = _document(texts[0]) if len(texts) == 1 else None
    if document is not None:
        return "json", scrub_value(document, scrub)  # once more: JSON escapes may have hidden a secret
    return "text", "\n".join(texts)


def _document(text: str) -> JsonValue:
    """Parse a text that is a JSON object or array; None if it is neither, too deep, or has too many values."""
    if not text.lstrip().startswith(("{", "[")) or has_many_values(text.encode(errors="replace")):
        return None
    try:
        document: JsonValue = pydantic_core.from_json(text, allow_inf_nan=False)
    except ValueError:
        return None
    return document if _is_json(document) else None


def _is_json(value: JsonValue) -> bool:
    """Whether a value is JSON, and not too deep."""
    for depth, level in enumerate(iterate_levels(value)):
        if depth > MOST_DEPTH or any(isinstance(member, float) and not math.isfinite(member) for member in level):
            return False
    return True
