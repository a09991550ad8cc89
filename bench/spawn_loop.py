"""Run as a program of its own: starts a command again and again, by so many processes at once.

    python3 -I -S spawn_loop.py CALLERS LEAD-SECONDS WINDOW-SECONDS COMMAND…

prints how many ended within the window, which opens after the lead. This is the cheapest way to start programs that
needs no compiler: each caller is a process of its own that only spawns and waits, and the output goes to /dev/null.
``xargs -P`` is no faster.
"""

import os
import sys
import time


def call(command: list[str], opens: float, closes: float) -> int:
    """How many of the commands started by this process ended within the window."""
    environ = dict(os.environ)
    silent = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDWR, 0), (os.POSIX_SPAWN_DUP2, 0, 1)]
    ended = 0
    while time.monotonic() < closes:
        pid = os.posix_spawn(command[0], command, environ, file_actions=silent)
        _, status = os.waitpid(pid, 0)
        if status != 0:
            sys.exit(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
        ended += opens <= time.monotonic() < closes
    return ended


def main() -> None:
    """See the module."""
    callers, lead, window = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
    opens = time.monotonic() + lead
    reading, writing = os.pipe()
    for _ in range(callers):
        if os.fork() == 0:
            os.write(writing, b"%d\n" % call(sys.argv[4:], opens, opens + window))
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as counts:
        print(sum(int(line) for line in counts))


if __name__ == "__main__":
    main()
