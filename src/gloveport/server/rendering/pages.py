"""Reads pages of output that an answer has cut, for clients without support for resources."""

from collections.abc import Mapping
from typing import Any, Final

from gloveport.sandbox.run.capture import Archive
from gloveport.workspace.tool_types import next_action

PREFIX: Final = "output://"
"""The prefix of handles of a run's output, which distinguishes them from those of a command's."""


def read_page(archive: Archive, handle: str, owner: str, offset: int, most: int) -> Mapping[str, Any] | None:
    """Read a page of the output of this owner's run, as fields; None if the output is not kept, or no longer."""
    page = archive.page(handle, owner, offset, most)
    if page is None:
        return None
    text, following = page
    fields: dict[str, Any] = {
        "output_ref": handle,
        "stream": handle.rpartition("/")[2],
        "offset": offset,
        "content": text,
        "next_offset": following,
        "truncated": following is not None,
    }
    if following is not None:
        fields["next_action"] = next_action("read_output", output_ref=handle, offset=following)
    return fields


def page_text(page: Mapping[str, Any]) -> str:
    """Render a page for a model: the text, and a last line that says how to read on."""
    following = page["next_offset"]
    if following is None and not page["content"]:
        return f"[nothing from byte {page['offset']} on]"
    more = (
        "" if following is None else f"\n[read_output(output_ref={page['output_ref']!r}, offset={following}) goes on]"
    )
    return f"{page['content']}{more}"


def not_kept(handle: str) -> tuple[str, str]:
    """Make message and hint for output that is not kept here: a client may have two servers with this tool."""
    hint = "ask the server whose answer named it, or run the program again and print less"
    return f"{handle[:80]!a} is not kept, or no longer", hint
