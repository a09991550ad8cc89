"""Keeps what is shown in ``/out``, under names of its own, and remembers what is said of it. Standard library only."""

import os

OUT = "/out"
ABOUT_CHARACTERS = 600
MOST_FILES = 50
SHOWN = []
"""What was said of files of ``OUT``, for the report: ``{"path", "about"}``, paths relative to it."""

_counts = {}
_made = []


def take_shown():
    """What was said of files since the last time."""
    shown = SHOWN[:MOST_FILES]
    SHOWN.clear()
    _made.clear()
    return shown


def note(path, about):
    """Say something of a file, if it lies in ``OUT``."""
    real, out = os.path.realpath(path), os.path.realpath(OUT)
    if not real.startswith(out + os.sep):
        return False
    told = {"path": real[len(out) + 1 :], "about": about[:ABOUT_CHARACTERS]}
    SHOWN.append({name: text.encode("utf-8", "backslashreplace").decode() for name, text in told.items()})
    return True


def new_path(kind, suffix):
    """Where the next file of a kind is put."""
    while True:
        _counts[kind] = _counts.get(kind, 0) + 1
        path = f"{OUT}/{kind}-{_counts[kind]}.{suffix}"
        if not os.path.lexists(path):
            return path


def keep(kind, suffix, write, about=""):
    """Have ``write`` make a file of the next name, from its path. Its name, or None where there are too many.

    Raises whatever it raises, and then there is no such file.
    """
    if len(_made) >= MOST_FILES:
        return None
    path = new_path(kind, suffix)
    try:
        write(path)
    except BaseException:
        if os.path.lexists(path):
            os.unlink(path)
        raise
    _made.append(path)
    note(path, about() if callable(about) else about)
    return path
