"""Kills a server that does not react to a signal to end: a process of its own, started by ``watchdog.py``.

Standard input is the socket in which the numbers of signals wait until the server reads them. The argument is a process
descriptor of the server. This process ends with the server. Standard library only, and of it what is written in C:
to import the other modules would take as long as all else of its start.
"""

import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import os
import select
import sys

_ENDING = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
_PATIENCE_SECONDS = 5.0
_LOOKS = 10
_NUMBERS = 4096
_SAYS = b"gloveport: a signal to end has not been heard for 5 s; the server is killed\n"


def main() -> None:
    """See the module."""
    for number in _ENDING:
        signal.signal(number, signal.SIG_IGN)  # a service manager signals all processes; this one has to end last
    signals, server = socket.socket(fileno=os.dup(0)), int(sys.argv[1])
    while not _has_ended(server, signals):
        if _goes_unheard(server, signals):
            os.write(2, _SAYS)
            signal.pidfd_send_signal(server, signal.SIGKILL)
            return


def _has_ended(server: int, signals: socket.socket) -> bool:
    """Wait until a signal comes or the server ends; tell whether it has ended."""
    ready, _, _ = select.select([server, signals.fileno()], [], [])
    return server in ready


def _goes_unheard(server: int, signals: socket.socket) -> bool:
    """Whether the server leaves a signal unread for some seconds."""
    waiting = b""
    for _ in range(_LOOKS):
        try:
            waiting = signals.recv(_NUMBERS, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        if select.select([server], [], [], _PATIENCE_SECONDS / _LOOKS)[0]:
            return False
    return not _ENDING.isdisjoint(waiting)


if __name__ == "__main__":
    main()
