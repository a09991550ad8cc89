"""Makes the reply to a call about a run: text for a model, and the same as fields for programs."""

from collections.abc import Sequence
from typing import Any

import mcp_types as wire

from gloveport.artifacts.artifact_store import Preview
from gloveport.errors import GloveportError, find_exhaustion
from gloveport.model import Grant, Policy, Result
from gloveport.server.rendering.artifact_text import picture_blocks
from gloveport.server.rendering.result_text import answer


def result_reply(policy: Policy, result: Result, pictures: Sequence[Preview] = ()) -> wire.CallToolResult:
    """The answer that tells a result.

    Args:
        policy: What the tool's description tells.
        result: What to tell.
        pictures: Shown beside it. Nobody gets them beside structured content: see ``structured``.
    """
    # What has its default is left out. So is the grant, which the description tells, but for what it does not.
    structured = result.model_dump(mode="json", exclude_defaults=True, exclude={"grant"})
    if limits := _lowered_limits(policy, result.grant):
        structured["grant"] = {"limits": limits}
    return wire.CallToolResult(
        is_error=result.status == "denied",
        content=[wire.TextContent(type="text", text=answer(result)), *picture_blocks(pictures)],
        structured_content=structured,
    )


def error_reply(*lines: str) -> wire.CallToolResult:
    """The answer to a call that was not carried out."""
    return wire.CallToolResult(is_error=True, content=[wire.TextContent(type="text", text="\n".join(lines))])


def failure_reply(error: Exception) -> wire.CallToolResult:
    """The answer where a run came to nothing.

    Raises:
        Exception: The error itself, where it is a fault of ours.
    """
    exhausted = find_exhaustion(error)
    if exhausted is None and not isinstance(error, GloveportError):
        raise error
    told = [str(error)] if exhausted is None else [exhausted[0], f"hint: {exhausted[1]}"]
    return error_reply("the program was not run, or what became of it is not known", *told)


def _lowered_limits(policy: Policy, grant: Grant) -> dict[str, Any]:
    """The limits of a run that are not those of a call which names none."""
    usual = policy.limits.model_copy(update={"wall_seconds": policy.default_wall_seconds})
    if grant == Grant() or grant.limits == usual:  # the former of one that is not over, or was refused
        return {}
    known = usual.model_dump(mode="json")
    return {name: value for name, value in grant.limits.model_dump(mode="json").items() if value != known[name]}
