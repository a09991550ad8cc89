"""Resolves the symbolic links of paths, where links lead back to themselves too: ``Path.resolve`` raises RuntimeError
for these before Python 3.13.
"""

import os
from pathlib import Path


def real(path: Path, *, strict: bool = False) -> Path:
    """Resolve the symbolic links of a path; one that leads back to itself stays in it.

    Raises:
        OSError: ``strict``, and there is no such file, or a link leads back to itself.
    """
    return Path(os.path.realpath(path, strict=strict))
