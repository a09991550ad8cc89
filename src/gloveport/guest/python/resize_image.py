"""Makes a picture smaller: ``resize_image.py BYTES WIDTH HEIGHT`` reads one and writes another.

Runs in a sandbox: image decoders have bugs. Exit code 3: there is no Pillow; 4: it can't be made so small.
"""

import io
import sys

QUALITIES = 85, 75, 65, 55
PARTS = 1, 2, 4  # divisors of the requested edges, for a picture of too many bytes at any quality
PACKAGES = "/opt/data"


def main():
    """See the module."""
    most, width, height = map(int, sys.argv[1:])
    sys.path.append(PACKAGES)
    try:
        import PIL  # noqa: F401 - to tell it from other faults
    except ImportError:
        sys.exit(3)
    picture = shrink(sys.stdin.buffer.read(), most, width, height)
    if picture is None:
        sys.exit(4)
    sys.stdout.buffer.write(picture)


def resize_file(source, target, most, width, height):
    """Read a picture from one path, and write it to another if it can be made so small."""
    with open(source, "rb") as file:
        picture = shrink(file.read(), most, width, height)
    if picture is not None:
        with open(target, "wb") as file:
            file.write(picture)


def shrink(data, most, width, height):
    """A picture of at most so many bytes and pixels; None where it can't be made so small."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # the sandbox limits memory and time
    picture = Image.open(io.BytesIO(data))
    kind = picture.format
    for part in PARTS:
        picture.thumbnail((width // part, height // part))
        for form, options in attempts(kind):
            output = io.BytesIO()
            opaque = form == "JPEG" and picture.mode not in {"RGB", "L"}
            (picture.convert("RGB") if opaque else picture).save(output, form, **options)
            if output.tell() <= most:
                return output.getvalue()
    return None


def attempts(kind):
    """Formats to try, the best first."""
    if kind == "PNG":
        yield "PNG", {"optimize": True}
    form = "JPEG" if kind == "JPEG" else "WEBP"
    for quality in QUALITIES:
        yield form, {"quality": quality}


if __name__ == "__main__":
    main()
