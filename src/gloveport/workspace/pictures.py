"""A picture as a client gets it: as its file has it, or made smaller, in a sandbox, for decoders have faults."""

import json
from typing import Final, NotRequired, TypedDict

from anyio import to_thread
from pydantic import JsonValue

from gloveport.errors import WorkspaceError
from gloveport.model import GUEST
from gloveport.workspace.images import Picture, read_image
from gloveport.workspace.running import Run
from gloveport.workspace.tree import Tree

_RESIZE: Final = ("python3", "-I", "-B", f"{GUEST}/python/resize_image.py")
_SECONDS: Final = 10.0
_NO_PILLOW: Final = 3


class Original(TypedDict):
    """What the file has."""

    bytes: int
    width: int
    height: int
    mime_type: str


class Viewed(TypedDict):
    """The answer of ``view_image``; the picture itself goes beside it."""

    path: str
    mime_type: str
    bytes: int
    width: int
    height: int
    resized: bool
    original: NotRequired[Original]
    warnings: list[JsonValue]


async def view(tree: Tree, run: Run, path: str, *, most: tuple[int, int, int], resizes: bool) -> tuple[Viewed, bytes]:
    """A picture, and what is told of it.

    Args:
        tree: The workspace.
        run: Runs what makes it smaller.
        path: Of a regular file.
        most: Bytes, width and height.
        resizes: Whether it may be made smaller.

    Raises:
        WorkspaceError: OUTPUT_TOO_LARGE where it is too large and can't be made smaller; BINARY_FILE; or as
            ``Tree.file``, ``Run``.
    """
    max_bytes, max_width, max_height = most
    picture = await to_thread.run_sync(
        lambda: read_image(tree, path, max_bytes=max_bytes, max_width=max_width, max_height=max_height)
    )
    told: Viewed = {
        "path": picture.path,
        "mime_type": picture.mime_type,
        "bytes": len(picture.data),
        "width": picture.width,
        "height": picture.height,
        "resized": False,
        "warnings": [],
    }
    if not picture.needs_resize:
        return told, picture.data
    if not resizes:
        raise _too_large(picture, "auto_resize is off")
    original: Original = {
        "bytes": len(picture.data),
        "width": picture.width,
        "height": picture.height,
        "mime_type": picture.mime_type,
    }
    smaller, data = await _smaller(run, picture, most)
    return {**told, **smaller, "resized": True, "original": original}, data


async def _smaller(run: Run, picture: Picture, most: tuple[int, int, int]) -> tuple[Viewed, bytes]:
    """What the sandbox has made of it: a line of JSON, then the picture, which is looked at like any other."""
    ran = await run((*_RESIZE, *map(str, most)), stdin=picture.data, seconds=_SECONDS, most_bytes=most[0] + (1 << 10))
    if ran.exit_code == _NO_PILLOW:
        raise _too_large(picture, "there is no Pillow in the sandbox that could make it smaller")
    head, _, data = ran.stdout.partition(b"\n")
    if ran.exit_code or not data or len(data) > most[0]:
        why = "it can't be made so small" if ran.exit_code == 0 or not ran.timed_out else "it took too long"
        raise _too_large(picture, why)
    told: Viewed = json.loads(head)
    return told, data


def _too_large(picture: Picture, why: str) -> WorkspaceError:
    return WorkspaceError(
        "OUTPUT_TOO_LARGE",
        f"{picture.path} is {picture.width}x{picture.height} and {len(picture.data)} bytes, and {why}",
        hint="raise max_bytes, max_width or max_height, or make a smaller copy by a command",
    )
