"""Saves shown values to ``/out``, under generated names, and remembers their descriptions. Standard library only."""

import os

OUT = "/out"
ABOUT_CHARACTERS = 600
MOST_FILES = 50
DESCRIPTIONS = []
"""Descriptions of files in ``OUT``, for the report: ``{"path", "about"}``, paths relative to ``OUT``."""

_counts = {}
_paths = []


def take_shown():
    """The descriptions of files since the last call of this."""
    descriptions = DESCRIPTIONS[:MOST_FILES]
    DESCRIPTIONS.clear()
    _paths.clear()
    return descriptions


def note(path, about):
    """Describe a file, if it lies in ``OUT``."""
    real, out = os.path.realpath(path), os.path.realpath(OUT)
    if not real.startswith(out + os.sep):
        return False
    description = {"path": real[len(out) + 1 :], "about": about[:ABOUT_CHARACTERS]}
    DESCRIPTIONS.append({name: text.encode("utf-8", "backslashreplace").decode() for name, text in description.items()})
    return True


def new_path(kind, suffix):
    """The path for the next file of a kind."""
    while True:
        _counts[kind] = _counts.get(kind, 0) + 1
        path = f"{OUT}/{kind}-{_counts[kind]}.{suffix}"
        if not os.path.lexists(path):
            return path


def keep(kind, suffix, write, about=""):
    """Have ``write`` make a file at the next path. Returns its name, or None where there are too many files.

    Raises whatever ``write`` raises; then the file does not exist.
    """
    if len(_paths) >= MOST_FILES:
        return None
    path = new_path(kind, suffix)
    try:
        write(path)
    except BaseException:
        if os.path.lexists(path):
            os.unlink(path)
        raise
    _paths.append(path)
    note(path, about() if callable(about) else about)
    return path
