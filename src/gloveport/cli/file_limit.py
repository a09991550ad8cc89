"""The limit of open files of this process: raised as far as it may, and refused where no sandbox fits in it."""

import resource

from gloveport.errors import MORE_FILES, SandboxError

_FEWEST = 40
"""What it takes to build one sandbox. With fewer, whatever fails first would be blamed, such as the interpreter."""


def raise_file_limit() -> None:
    """Raise the soft limit to the hard one. Raises SandboxError if that is too low.

    Each waiting sandbox takes a dozen descriptors; the usual soft limit is for the sake of programs with ``select()``.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if most in range(_FEWEST):
        text = f"this process may open {most} files at once, and a sandbox needs more"
        raise SandboxError(text, hint=MORE_FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
