"""The reply to a call about a run, before it is put into words of the protocol: text, fields, pictures."""

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
        text: For a model.
        is_error: Whether nothing was run.
        structured: The same as fields, for programs.
        pictures: Shown beside the text. Nobody gets them beside structured content: see ``structured``.
    """

    text: str
    is_error: bool = False
    structured: dict[str, Any] | None = None
    pictures: Sequence[Preview] = ()

    def fields(self, *, reads_structured: bool) -> dict[str, Any]:
        """The result of a request, as JSON has it, for a client that reads structured content or does not."""
        content: list[dict[str, Any]] = [{"type": "text", "text": self.text}]
        if self.structured is not None and reads_structured:
            return {"content": content, "structuredContent": self.structured, "isError": self.is_error}
        for one in self.pictures:
            data = base64.b64encode(one.data).decode()
            content.append({"type": "image", "data": data, "mimeType": one.mime_type})
        return {"content": content, "isError": self.is_error}


def reply_result(policy: Policy, result: Result, pictures: Sequence[Preview] = ()) -> RunReply:
    """The answer that tells a result. ``policy``: what the tool's description tells."""
    # What has its default is left out. So is the grant, which the description tells, but for what it does not.
    structured = result.model_dump(mode="json", exclude_defaults=True, exclude={"grant"})
    if limits := _lowered_limits(policy, result.grant):
        structured["grant"] = {"limits": limits}
    return RunReply(answer(result), result.status == "denied", structured, pictures)


def reply_error(*lines: str) -> RunReply:
    """The answer to a call that was not carried out."""
    return RunReply("\n".join(lines), is_error=True)


def reply_refusal(error: GloveportError) -> RunReply:
    """The answer to a call that was refused."""
    code = f"{error.code}: " if isinstance(error, Denied) else ""
    return reply_error(f"{code}{error.args[0]}", *([f"hint: {error.hint}"] if error.hint else []))


def reply_failure(error: Exception) -> RunReply:
    """The answer where a run came to nothing.

    Raises:
        Exception: The error itself, where it is a fault of ours.
    """
    exhausted = find_exhaustion(error)
    if exhausted is None and not isinstance(error, GloveportError):
        raise error
    told = [str(error)] if exhausted is None else [exhausted[0], f"hint: {exhausted[1]}"]
    return reply_error("the program was not run, or what became of it is not known", *told)


def _lowered_limits(policy: Policy, grant: Grant) -> dict[str, Any]:
    """The limits of a run that are not those of a call which names none."""
    usual = policy.limits.model_copy(update={"wall_seconds": policy.default_wall_seconds})
    if grant == Grant() or grant.limits == usual:  # the former of one that is not over, or was refused
        return {}
    known = usual.model_dump(mode="json")
    return {name: value for name, value in grant.limits.model_dump(mode="json").items() if value != known[name]}
