"""Make a picture smaller: ``resize_image.py BYTES WIDTH HEIGHT`` reads one and writes another.

Runs in a sandbox: decoders of pictures have faults. Exit code 3: there is no Pillow; 4: it can't be made so small.
"""

import io
import sys

QUALITIES = 85, 75, 65, 55
PACKAGES = "/opt/data"


def main():
    """See the module."""
    most, width, height = map(int, sys.argv[1:])
    sys.path.append(PACKAGES)
    try:
        from PIL import Image
    except ImportError:
        sys.exit(3)
    Image.MAX_IMAGE_PIXELS = None  # memory and time are the sandbox's to bound
    picture = Image.open(io.BytesIO(sys.stdin.buffer.read()))
    kind = picture.format
    picture.thumbnail((width, height))
    for form, options in attempts(kind):
        made = io.BytesIO()
        opaque = form == "JPEG" and picture.mode not in {"RGB", "L"}
        (picture.convert("RGB") if opaque else picture).save(made, form, **options)
        if made.tell() <= most:
            sys.stdout.buffer.write(made.getvalue())
            return
    sys.exit(4)


def attempts(kind):
    """Forms to try, the best first."""
    if kind == "PNG":
        yield "PNG", {"optimize": True}
    form = "JPEG" if kind == "JPEG" else "WEBP"
    for quality in QUALITIES:
        yield form, {"quality": quality}


if __name__ == "__main__":
    main()
