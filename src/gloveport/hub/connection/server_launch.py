"""Becomes a server that speaks over its standard streams: run as a program of its own.

    python -I -S launch.py PARENT VARIABLES PATH COMMAND [ARGUMENT ...]

It asks the kernel to be killed when its parent dies, however that happens, and keeps no more of its environment than
the variables named, separated by commas. Between fork and exec this could not be done: other threads may hold locks
that Python or libc need there. Standard library only.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Become the server, or say on the standard error why not."""
    parent, names, path, *argv = sys.argv[1:]
    # An interpreter for which signals are ignored hands that on, and others count on being ended by a closed pipe.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it died before: nobody would tell
        return
    kept = {name: os.environ[name] for name in names.split(",") if name in os.environ}  # a locale may have come to it
    try:
        os.execve(path, argv, kept)  # noqa: S606 - no shell is what is wanted
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")


if __name__ == "__main__":
    main()
