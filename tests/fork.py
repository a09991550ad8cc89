"""A command that is another process: one that is forked, at a socket, from what has imported everything.

    python -I -S fork.py SOCKET SCRIPT ARGUMENT…

See ``forked``. Standard library only: it starts quickly. The process that is forked ends with this one, and this one
ends as that one does.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence

WORDS_BYTES = 1 << 17
"""What words and environment may come to."""


def ask(
    place: str, words: Sequence[str], environ: Mapping[str, str], directory: str, standard: Sequence[int]
) -> socket.socket:
    """Have a process forked. The socket tells its number, and, when it has ended, its exit status or minus its signal.

    When the socket is closed, it is killed.
    """
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked.connect(place)
    where = os.open(directory, os.O_PATH)
    socket.send_fds(asked, [json.dumps([[*words], {**environ}]).encode()], [where, *standard])
    os.close(where)
    return asked


def main() -> None:
    """See the module."""
    place, *words = sys.argv[1:]
    asked = ask(place, words, os.environ, ".", (0, 1, 2))
    for descriptor in range(3):
        os.close(descriptor)  # else nobody would see that it has closed them
    asked.recv(32)
    status = int(asked.recv(32))
    if status < 0:
        signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)


if __name__ == "__main__":
    main()
