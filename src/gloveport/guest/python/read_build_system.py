"""Extracts ``pyproject.toml`` from a source distribution, inside a sandbox without a door. Executes nothing of it.

    read_build_system.py SOURCE PLACE

Old source distributions have no such file; then nothing is written to ``PLACE``.
"""

import sys
import tarfile
import zipfile

MOST_BYTES = 1 << 20


def is_wanted(name):
    """Whether a member is the file in the one top-level directory."""
    return name.count("/") == 1 and name.endswith("/pyproject.toml")


def read_member(source):
    """The file's content; None where it is missing."""
    if source.endswith(".zip"):
        with zipfile.ZipFile(source) as archive:
            found = next((one for one in archive.infolist() if is_wanted(one.filename)), None)
            return found and archive.open(found).read(MOST_BYTES)
    with tarfile.open(source) as archive:
        found = next((one for one in archive if one.isreg() and is_wanted(one.name)), None)
        return found and archive.extractfile(found).read(MOST_BYTES)


def main():
    """See the module."""
    source, place = sys.argv[1:]
    content = read_member(source)
    if content is not None:
        with open(place, "xb") as file:
            file.write(content)


if __name__ == "__main__":
    main()
