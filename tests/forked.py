"""``gloveport`` as a process that has nothing to import any more: forked from one that has imported all of it.

It has descriptors, a directory, an environment, signals and an end of its own as if it were executed. That the
installed command starts is proven where tests execute it. ``python -m tests.forked DESCRIPTOR`` is what forks.
"""

import contextlib
import gc
import importlib
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_MESSAGE_BYTES = 1 << 17


@dataclass(frozen=True)
class Gloveport:
    """The command, to be started with arguments.

    Attributes:
        requests: Leads to the process that forks.
    """

    requests: socket.socket

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        """As ``subprocess.Popen`` with these options."""
        return _Forked([self.requests, *map(str, arguments)], **options)

    def run(self, *arguments: str, timeout=30, **options) -> subprocess.CompletedProcess:
        """As ``subprocess.run`` with these options; output is captured as text, and there is no input but ``input``."""
        given, pipe = options.pop("input", None), subprocess.PIPE
        options |= {"stdin": subprocess.DEVNULL if given is None else pipe, "text": True}
        with self.start(*arguments, stdout=pipe, stderr=pipe, **options) as process:
            try:
                stdout, stderr = process.communicate(given, timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess([*arguments], process.returncode, stdout, stderr)


class _Forked(subprocess.Popen):
    """A process whose parent is another one, which tells us of its end."""

    def _execute_child(self, args, *others):  # the one place where a Popen makes its process
        cwd, env = others[4:6]
        reading, _, _, writing, _, complaining = pipes = others[9:15]
        given = [place if pipe == -1 else pipe for place, pipe in enumerate((reading, writing, complaining))]
        requests, *arguments = args
        self._ended, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = json.dumps([arguments, dict(env or os.environ)]).encode()
        directory = os.open(cwd or ".", os.O_PATH)
        with theirs:
            socket.send_fds(requests, [program], [theirs.fileno(), directory, *given])
        os.close(directory)
        self.pid = int(self._ended.recv(32))
        self._close_pipe_fds(*pipes)

    def wait(self, timeout=None):
        if self.returncode is None:
            self._ended.settimeout(timeout)
            try:
                self.returncode = int(self._ended.recv(32))
            except (TimeoutError, BlockingIOError) as error:
                raise subprocess.TimeoutExpired(self.args, timeout) from error
            self._ended.close()
        return self.returncode

    def poll(self):
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode


@contextlib.contextmanager
def gloveport() -> Iterator[Gloveport]:
    """Start what forks; it ends with us."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", "tests.forked", str(theirs.fileno())]
    with ours, theirs, subprocess.Popen(command, cwd=_ROOT, pass_fds=[theirs.fileno()]) as process:
        theirs.close()
        yield Gloveport(ours)
        ours.close()
        assert process.wait() == 0


def _keep(ended: socket.socket) -> bool:
    """Fork; in the new process return True, in this one tell its number and its end and exit."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if (process := os.fork()) == 0:
        ended.close()
        return True
    for descriptor in range(3):
        os.close(descriptor)
    with contextlib.suppress(OSError):  # nobody may want to know
        ended.send(str(process).encode())
        ended.send(str(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])).encode())
    os._exit(0)


def _become(arguments: list[str], environ: dict[str, str], directory: int, *standard: int) -> None:
    """Have what an executed process has."""
    os.fchdir(directory)
    os.close(directory)
    for place, descriptor in enumerate(standard):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.argv = ["gloveport", *arguments]
    os.environ.clear()
    os.environ.update(environ)


def _serve(requests: socket.socket) -> bool:
    """Fork for each request. Return True in the new processes, and False when there are no more requests."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        told, descriptors, *_ = socket.recv_fds(requests, _MESSAGE_BYTES, 5)
        if not told:
            return False
        if os.fork() == 0:
            requests.close()
            ended, *others = descriptors
            if _keep(socket.socket(fileno=ended)):
                _become(*json.loads(told), *others)
                return True
        for descriptor in descriptors:
            os.close(descriptor)


if __name__ == "__main__":
    import gloveport as package

    for module in pkgutil.walk_packages(package.__path__, "gloveport."):
        if not module.name.startswith("gloveport.guest"):
            importlib.import_module(module.name)
    gc.freeze()  # else what is shared would be copied when it is looked through
    if _serve(socket.socket(fileno=int(sys.argv[1]))):
        from gloveport.cli.main import main

        main()
