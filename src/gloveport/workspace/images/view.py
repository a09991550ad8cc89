"""The tool ``view_image``: a picture as its file has it, or made smaller in a sandbox, since decoders have faults."""

from typing import Annotated, Final, TypedDict

from anyio import to_thread

from gloveport.model import GUEST
from gloveport.model.constraints import Constraints
from gloveport.model.json_value import JsonValue
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.files.file_threads import HELD_FILES
from gloveport.workspace.files.tree import Tree
from gloveport.workspace.images.image_info import Picture, PictureBounds, picture_of, read_image
from gloveport.workspace.program import RunProgram
from gloveport.workspace.tool_types import Text

_RESIZE: Final = ("python3", "-I", "-B", f"{GUEST}/python/resize_image.py")
_SECONDS: Final = 10.0
_NO_PILLOW: Final = 3


class Original(TypedDict):
    """The picture as in the file."""

    bytes: int
    width: int
    height: int
    mime_type: str


class Viewed(TypedDict):
    """The answer of ``view_image``; the picture itself is returned beside it."""

    path: str
    mime_type: str
    bytes: int
    width: int
    height: int
    resized: bool
    original: Original
    warnings: list[JsonValue]


async def view_image(
    tree: Tree,
    run: RunProgram,
    path: Text,
    *,
    max_bytes: Annotated[int, Constraints(ge=1024, le=10_485_760)] = 5_242_880,
    max_width: Annotated[int, Constraints(ge=1, le=10_000)] = 2000,
    max_height: Annotated[int, Constraints(ge=1, le=10_000)] = 2000,
    auto_resize: bool = True,
    caller: str = "",
) -> tuple[Viewed, bytes]:
    """Look at a PNG, GIF, JPEG or WEBP picture.

    Where it may not be made smaller, more pixels are let through, but no more bytes.

    Returns:
        What is told of it, and its bytes.

    Raises:
        WorkspaceError: OUTPUT_TOO_LARGE where it is too large and can't be made smaller; BINARY_FILE; or as
            ``Tree.open_file``, ``RunProgram``.
    """
    bounds = PictureBounds(max_bytes, max_width, max_height)
    async with HELD_FILES.place(caller):
        picture = await to_thread.run_sync(read_image, tree, path)
        if not picture.exceeds(bounds) or (not auto_resize and len(picture.data) <= max_bytes):
            return _describe_view(picture, picture), picture.data
        if not auto_resize:
            raise _too_large(picture, "auto_resize is off")
        smaller = await _smaller(run, picture, bounds)
        return _describe_view(smaller, picture), smaller.data


async def _smaller(run: RunProgram, picture: Picture, bounds: PictureBounds) -> Picture:
    """The smaller picture from the sandbox. A decoder that was taken over writes anything, so it is checked anew."""
    argv = (*_RESIZE, *map(str, bounds))
    ran = await run(argv, stdin=picture.data, seconds=_SECONDS, most_bytes=bounds.max_bytes)
    if ran.exit_code == _NO_PILLOW:
        raise _too_large(picture, "there is no Pillow in the sandbox that could make it smaller")
    if ran.exit_code or ran.truncated:
        raise _too_large(picture, "making it smaller took too long" if ran.timed_out else "it can't be made so small")
    smaller = picture_of(picture.path, ran.stdout)
    if smaller.exceeds(bounds):
        raise _too_large(picture, "it was not made smaller")
    return smaller


def _describe_view(picture: Picture, source: Picture) -> Viewed:
    return {
        "path": source.path,
        "mime_type": picture.mime_type,
        "bytes": len(picture.data),
        "width": picture.width,
        "height": picture.height,
        "resized": picture is not source,
        "original": {
            "bytes": len(source.data),
            "width": source.width,
            "height": source.height,
            "mime_type": source.mime_type,
        },
        "warnings": [],
    }


def _too_large(picture: Picture, why: str) -> WorkspaceError:
    return WorkspaceError(
        "OUTPUT_TOO_LARGE",
        f"{picture.path} is {picture.width}x{picture.height} and {len(picture.data)} bytes, and {why}",
        hint="auto_resize=false shows it as it is, up to max_bytes; or make a smaller copy by a command",
        details={"path": picture.path},
    )
