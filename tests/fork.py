"""A command that is another process: one that is forked, at a socket, from what has imported everything.

    python -I -S fork.py SOCKET SCRIPT ARGUMENT…

See ``forked``. Of the standard library only what is written in C: its other modules would take longer than all else.
The process that is forked ends with this one, and this one ends as that one does.
"""

import _signal
import _socket
import marshal
import os
import sys

WORDS_BYTES = 1 << 17
"""What words and environment may come to."""


def ask(
    place: str, words: list[str], environ: dict[str, str], directory: str, standard: tuple[int, ...]
) -> _socket.socket:
    """Have a process forked. The socket tells its number, and, when it has ended, its exit status or minus its signal.

    When the socket is closed, it is killed.
    """
    asked = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET | _socket.SOCK_CLOEXEC)
    asked.connect(place)
    where = os.open(directory, os.O_PATH)
    descriptors = b"".join(each.to_bytes(4, sys.byteorder) for each in (where, *standard))
    rights = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, descriptors)
    asked.sendmsg([marshal.dumps((words, environ))], [rights])
    os.close(where)
    return asked


def main() -> None:
    """See the module."""
    place, *words = sys.argv[1:]
    asked = ask(place, words, dict(os.environ), ".", (0, 1, 2))
    for descriptor in range(3):
        os.close(descriptor)  # else nobody would see that it has closed them
    asked.recv(32)
    status = int(asked.recv(32))
    if status < 0:
        _signal.signal(-status, _signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
