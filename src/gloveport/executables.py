"""Finds a program along a PATH, as a shell does. ``shutil`` has that too, and imports three compressors with it."""

import os


def find_executable(name: str, path: str) -> str | None:
    """The first file of this name along ``path`` that can be executed, or the path that ``name`` is; None where there
    is none. An empty directory of ``path`` is the working directory.
    """
    directories = path.split(":") if path else []
    places = [name] if "/" in name else [os.path.join(directory, name) for directory in directories]  # noqa: PTH118
    return next((one for one in places if os.access(one, os.X_OK) and not os.path.isdir(one)), None)  # noqa: PTH112
