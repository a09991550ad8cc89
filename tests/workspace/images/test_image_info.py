"""view_image: which files are pictures, and how large they say they are."""

import contextlib
import os
import struct
import tracemalloc
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.images.image_info import MAX_SOURCE_BYTES, PictureBounds, read_image

PNG = b"\x89PNG\r\n\x1a\n"
MIME_TYPES = {"PNG": "image/png", "GIF": "image/gif", "JPEG": "image/jpeg", "WEBP": "image/webp"}
USUAL = PictureBounds(5_242_880, 2000, 2000)
HEADS = [PNG, b"GIF89a", b"\xff\xd8\xff", b"RIFF\0\0\0\0WEBP", b"RIFF\0\0\0\0WEBPVP8 ", b"RIFF\0\0\0\0WEBPVP8X"]


def picture(kind: str, width: int, height: int, **options) -> bytes:
    file = BytesIO()
    Image.new("RGB", (width, height), "red").save(file, kind, **options)
    return file.getvalue()


def refusal(tree, path) -> str:
    with pytest.raises(WorkspaceError) as caught:
        read_image(tree, path)
    return caught.value.code


@pytest.mark.parametrize("kind", MIME_TYPES)
@pytest.mark.parametrize("size", [(1, 1), (300, 17), (2000, 1), (2001, 1), (1, 2001)])
def test_a_picture_is_known_by_its_bytes_and_measured(tree, root, kind, size):
    """W1: section 4.19."""
    data = picture(kind, *size)
    (root / "file.txt").write_bytes(data)
    found = read_image(tree, "file.txt")
    assert (found.data, found.mime_type) == (data, MIME_TYPES[kind])
    assert (found.width, found.height) == size
    assert found.exceeds(USUAL) == (max(size) > 2000)


@pytest.mark.parametrize(
    "options", [{"progressive": True}, {"comment": b"c" * 60_000}, {"exif": b"Exif\0\0" + b"e" * 9}]
)
def test_a_jpeg_is_measured_wherever_its_frame_is(tree, root, options):
    """W1."""
    (root / "file").write_bytes(picture("JPEG", 30, 20, **options))
    assert (read_image(tree, "file").width, read_image(tree, "file").height) == (30, 20)


@pytest.mark.parametrize(
    "options", [{"lossless": True}, {"save_all": True, "append_images": [Image.new("RGB", (30, 20))]}]
)
def test_a_webp_of_another_form_is_measured(tree, root, options):
    """W1."""
    (root / "file").write_bytes(picture("WEBP", 30, 20, **options))
    assert (read_image(tree, "file").width, read_image(tree, "file").height) == (30, 20)


def test_a_picture_of_too_many_bytes_needs_to_be_made_smaller(tree, root):
    """W1."""
    (root / "file").write_bytes(picture("PNG", 10, 10) + bytes(2000))
    assert read_image(tree, "file").exceeds(USUAL._replace(max_bytes=1024))
    assert not read_image(tree, "file").exceeds(USUAL)


def test_a_bomb_says_how_large_it_is_and_is_not_decoded(tree, root):
    """CT-R3."""
    (root / "file").write_bytes(PNG + struct.pack(">I4sII5sI", 13, b"IHDR", 65_535, 65_535, bytes(5), 0))
    assert read_image(tree, "file").exceeds(USUAL)


def test_a_huge_file_is_not_read(tree, root):
    """CT-R3."""
    with (root / "file").open("wb") as file:
        file.write(PNG)
        file.truncate(700 << 20)
    tracemalloc.start()
    try:
        assert refusal(tree, "file") == "OUTPUT_TOO_LARGE"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()
    os.truncate(root / "file", MAX_SOURCE_BYTES + 1)
    assert refusal(tree, "file") == "OUTPUT_TOO_LARGE"


@pytest.mark.parametrize("name", ["file.svg", "file.png", "file"])
@pytest.mark.parametrize("content", [b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"", b"text", b"RIFF\0\0\0\0WAVE"])
def test_what_is_no_picture_is_not_guessed_from_its_name(tree, root, name, content):
    """W1."""
    (root / name).write_bytes(content)
    assert refusal(tree, name) == "BINARY_FILE"


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(HEADS), st.binary(max_size=60))
def test_a_header_of_any_bytes_is_an_answer_or_a_refusal(tree, root, head, rest):
    """CT-R3: no other error, and no endless reading."""
    (root / "file").write_bytes(head + rest)
    with contextlib.suppress(WorkspaceError):
        found = read_image(tree, "file")
        assert found.width > 0
        assert found.height > 0


@pytest.mark.parametrize("filling", [b"\xff", b"\xff\xe0\0\2"])
def test_segments_without_end_keep_nobody_busy(tree, root, filling):
    """CT-R3."""
    (root / "file").write_bytes(b"\xff\xd8" + filling * 1_000_000)
    assert refusal(tree, "file") == "BINARY_FILE"


def test_a_fifo_and_a_link_to_outside_are_refused(tree, root):
    """CT-R5, W2."""
    os.mkfifo(root / "fifo")
    (root / "link").symlink_to("/usr/share/pixmaps/x.png")
    assert (refusal(tree, "fifo"), refusal(tree, "link")) == ("NOT_A_FILE", "SYMLINK_ESCAPE")
