"""The reply to a call about a run, independent of the SDK: text, fields, pictures."""

import base64
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from gloveport.artifacts.artifact_store import Preview
from gloveport.errors import Denied, GloveportError, find_exhaustion
from gloveport.model import Grant, Policy, Result
from gloveport.server.rendering.result_text import answer


class RunReply(Struct, frozen=True):
    """A reply.

    Attributes:
        text: The text for a model.
        is_error: Whether nothing was run.
        structured: The same as fields, for programs.
        pictures: Sent with the text, but never with structured content: see ``structured``.
    """

    text: str
    is_error: bool = False
    structured: dict[str, Any] | None = None
    pictures: Sequence[Preview] = ()

    def fields(self, *, reads_structured: bool) -> dict[str, Any]:
        """Return the result as a JSON object; structured content only if the client reads it."""
        content: list[dict[str, Any]] = [{"type": "text", "text": self.text}]
        if self.structured is not None and reads_structured:
            return {"content": content, "structuredContent": self.structured, "isError": self.is_error}
        for one in self.pictures:
            data = base64.b64encode(one.data).decode()
            content.append({"type": "image", "data": data, "mimeType": one.mime_type})
        return {"content": content, "isError": self.is_error}


def reply_result(policy: Policy, result: Result, pictures: Sequence[Preview] = ()) -> RunReply:
    """Make the reply for a result. ``policy``: the one that the tool's description states."""
    # Defaults are left out, and of the grant all but the limits that differ from those in the description.
    structured = result.model_dump(mode="json", exclude_defaults=True, exclude={"grant"})
    if limits := _lowered_limits(policy, result.grant):
        structured["grant"] = {"limits": limits}
    return RunReply(answer(result), result.status == "denied", structured, pictures)


def reply_error(*lines: str) -> RunReply:
    """The answer to a call that was not carried out."""
    return RunReply("\n".join(lines), is_error=True)


def reply_refusal(error: GloveportError) -> RunReply:
    """Make the reply to a call that was refused."""
    code = f"{error.code}: " if isinstance(error, Denied) else ""
    return reply_error(f"{code}{error.args[0]}", *([f"hint: {error.hint}"] if error.hint else []))


def reply_failure(error: Exception) -> RunReply:
    """Make the reply for a run that ended without a result.

    Raises:
        Exception: The error itself, if it is our own fault.
    """
    exhausted = find_exhaustion(error)
    if exhausted is None and not isinstance(error, GloveportError):
        raise error
    lines = [str(error)] if exhausted is None else [exhausted[0], f"hint: {exhausted[1]}"]
    return reply_error("the program was not run, or what became of it is not known", *lines)


def _lowered_limits(policy: Policy, grant: Grant) -> dict[str, Any]:
    """The limits of a run that differ from those of a call without limits."""
    usual = policy.limits.model_copy(update={"wall_seconds": policy.default_wall_seconds})
    if grant == Grant() or grant.limits == usual:  # an empty grant is that of a run that goes on, or was refused
        return {}
    usual_limits = usual.model_dump(mode="json")
    return {name: value for name, value in grant.limits.model_dump(mode="json").items() if value != usual_limits[name]}
