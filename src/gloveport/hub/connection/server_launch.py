"""Becomes a server that speaks over its standard streams. A program of its own, which our process starts.

    python -I -S launch.py PARENT VARIABLES PATH COMMAND [ARGUMENT ...]

It asks the kernel to be killed when its parent dies, however that happens, and keeps only the environment variables
that VARIABLES names, separated by commas. Between fork and exec this could not be done: other threads may hold locks
that Python or libc need there. Standard library only; of ``signal`` the numbers alone, since to import its
enumerations takes longer than all that is done here.
"""

import _signal as signal  # type: ignore[import-not-found]
import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the server, or say on the standard error why not."""
    parent, names, path, *argv = sys.argv[1:]
    # Python ignores these signals, and exec would pass that on: programs count on SIGPIPE to end them.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # the parent died before the kernel was asked, so no signal would come
        return
    env = {name: os.environ[name] for name in names.split(",") if name in os.environ}  # Python itself may add LC_CTYPE
    try:
        os.execve(path, argv, env)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")


if __name__ == "__main__":
    main()
