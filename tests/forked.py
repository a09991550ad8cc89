"""Processes that have nothing to import any more, for they are forked from one that has imported all of Gloveport.
It has asked the interpreter of programs, too, what it is.

``gloveport`` itself, and scripts that would import the SDK. Each has descriptors, a directory, an environment, signals
and an end of its own as if it were executed. That the installed command starts is proven where tests execute it.
``python -m tests.forked STATE LISTENER OWNER`` is what forks: a state directory for packages, and two descriptors.
"""

import atexit
import contextlib
import functools
import gc
import importlib
import inspect
import marshal
import os
import pkgutil
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests import fork, remembered

import gloveport as gloveport_package
from gloveport.config import Config
from gloveport.model.reading import read_value
from gloveport.runtimes import python
from gloveport.server.tools.code import Tools, describe

_ROOT = Path(__file__).parents[1]
_FORK = Path(__file__).with_name("fork.py")
_LATE = (
    "anyio._backends._asyncio",
    "anyio._core._sockets",
    "rich.logging",
    "typer._adapters",
    "typer._click.decorators",
)
"""What our libraries import when it is first used, as each command does."""

_PLACE = "TESTS_FORKED"
"""Variable of the environment with the socket of one that is there already."""


@dataclass(frozen=True)
class Gloveport:
    """The command, to be started with arguments.

    Attributes:
        place: The socket at which the process that forks listens.
    """

    place: Path

    def start(self, *arguments: str, **options) -> subprocess.Popen:
        """As ``subprocess.Popen`` with these options."""
        return self.start_script("gloveport", *arguments, **options)

    def start_script(self, script: Path | str, *arguments: str, **options) -> subprocess.Popen:
        """As ``subprocess.Popen`` of an interpreter with this script."""
        return _Forked([self.place, str(script), *map(str, arguments)], **options)

    def run(self, *arguments: str, **options) -> subprocess.CompletedProcess:
        """As ``subprocess.run`` with these options; output is captured as text, and there is no input but ``input``."""
        return self.run_script("gloveport", *arguments, **options)

    def run_script(self, script: Path | str, *arguments: str, timeout=30, **options) -> subprocess.CompletedProcess:
        """The same of an interpreter with this script."""
        given, pipe = options.pop("input", None), subprocess.PIPE
        options |= {"stdin": subprocess.DEVNULL if given is None else pipe, "text": True}
        with self.start_script(script, *arguments, stdout=pipe, stderr=pipe, **options) as process:
            try:
                stdout, stderr = process.communicate(given, timeout=timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess([*arguments], process.returncode, stdout, stderr)


def command(program: Path | str, *arguments: str) -> list[str]:
    """The words of a command, for whoever starts commands: ``gloveport``, or an interpreter with this script."""
    return [sys.executable, "-I", "-S", str(_FORK), str(shared().place), str(program), *arguments]


class _Forked(subprocess.Popen):
    """A process whose parent is another one, which tells us of its end."""

    def _execute_child(self, args, *others):  # the one place where a Popen makes its process
        cwd, env = others[4:6]
        reading, _, _, writing, _, complaining = pipes = others[9:15]
        given = tuple(place if pipe == -1 else pipe for place, pipe in enumerate((reading, writing, complaining)))
        place, *words = args
        self._ended = fork.ask(str(place), words, dict(env or os.environ), cwd or ".", given)
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


@functools.cache
def shared() -> Gloveport:
    """The one of all tests. What forks ends with us, or with whoever started us and has one: see ``share``."""
    if place := os.environ.get(_PLACE):
        return Gloveport(Path(place))
    context = contextlib.ExitStack()
    atexit.register(context.close)
    return context.enter_context(gloveport())


def share() -> None:
    """Have one for all processes that this one starts to run tests: each of its own would import all once more."""
    os.environ[_PLACE] = str(shared().place)


@contextlib.contextmanager
def shared_by_workers() -> Iterator[None]:
    """The same for processes that are forked from this one; it ends with the context."""
    with gloveport() as one:
        os.environ[_PLACE] = str(one.place)
        yield


@contextlib.contextmanager
def gloveport() -> Iterator[Gloveport]:
    """Start what forks; it ends with us."""
    ours, theirs = socket.socketpair()
    with tempfile.TemporaryDirectory() as directory, ours, theirs:
        place = Path(directory, "socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(str(place))
            listener.listen(128)
            passed = [listener.fileno(), theirs.fileno()]
            command = [sys.executable, "-m", "tests.forked", str(remembered.packages_state()), *map(str, passed)]
            process = subprocess.Popen(command, cwd=_ROOT, pass_fds=passed)
        theirs.close()
        try:
            yield Gloveport(place)
        except BaseException:  # Ctrl-C has ended that, too
            ours.close()
            process.wait()
            raise
        ours.close()
        assert process.wait() == 0


def _become(words: list[str], environ: dict[str, str], directory: int, *standard: int) -> None:
    """Have what an executed process has."""
    os.fchdir(directory)
    os.close(directory)
    for place, descriptor in enumerate(standard):
        os.dup2(descriptor, place)
        os.close(descriptor)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", closefd=False, errors="backslashreplace", buffering=1)  # noqa: SIM115
    sys.argv = words
    os.environ.clear()
    os.environ.update(environ)


def _serve(listener: socket.socket, owner: socket.socket) -> bool:
    """Fork for each who asks. Return True in the new processes, and False when the owner has gone.

    Who has asked is told the number of the process, and its end; when they have gone, it is killed.
    """
    kept: dict[socket.socket, tuple[int, int]] = {}
    while True:
        ends = {ended: asked for asked, (_, ended) in kept.items()}
        ready = select.select([owner, listener, *kept, *ends], [], [])[0]
        if owner in ready:
            for asked in [*kept]:
                _let_go(asked, *kept.pop(asked))
            return False
        for asked in {ends.get(one, one) for one in ready} - {listener}:
            _let_go(asked, *kept.pop(asked))
        if listener in ready:
            asked, _ = listener.accept()
            told, descriptors, *_ = socket.recv_fds(asked, fork.WORDS_BYTES, 4)
            if (process := os.fork()) == 0:
                for other in (listener, owner, *kept):
                    other.close()
                for _, ended in kept.values():
                    os.close(ended)
                _become(*marshal.loads(told), *descriptors)
                with asked, contextlib.suppress(OSError):  # not before: a signal would be lost while Python forks
                    asked.send(str(os.getpid()).encode())
                return True
            for descriptor in descriptors:
                os.close(descriptor)
            kept[asked] = process, os.pidfd_open(process)


def _let_go(asked: socket.socket, process: int, ended: int) -> None:
    """Tell the end of a process that has ended, or else end it, since nobody wants to know."""
    if not select.select([ended], [], [], 0)[0]:
        os.kill(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    os.close(ended)
    with asked, contextlib.suppress(OSError):
        asked.send(str(status).encode())


def _import_all() -> None:
    """Import Gloveport, and have it read what it reads once in each process: tables, rules, types."""
    for found in pkgutil.walk_packages(gloveport_package.__path__, "gloveport."):
        if not found.name.startswith("gloveport.guest"):
            module = importlib.import_module(found.name)
            for one in vars(module).values():
                if isinstance(one, functools._lru_cache_wrapper) and not inspect.signature(one).parameters:
                    one()
    for name in _LATE:
        importlib.import_module(name)
    read_value(Config, {}).model_dump_json()
    remembered.remember_tools()
    describe(Tools(engine=None, inspection=None, transport="stdio", transfer=None, skills=None))  # of every server


def _end_process() -> None:
    """End a script as the interpreter would, but free nothing before: it has what all of Gloveport is, and more."""
    threading._shutdown()  # waits for threads
    atexit._run_exitfuncs()
    with contextlib.suppress(OSError):  # nobody may be there to read it
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(0)


if __name__ == "__main__":
    _import_all()
    python._query = functools.cache(python._query)
    remembered.share_packages(Path(sys.argv[1]))
    remembered.leave_heap()
    python.find(None)
    gc.freeze()  # else what is shared would be copied when it is looked through
    if _serve(*(socket.socket(fileno=int(descriptor)) for descriptor in sys.argv[2:])):
        if sys.argv[0] == "gloveport":
            from gloveport.cli.main import main

            main()
        else:
            runpy.run_path(sys.argv[0], run_name="__main__")
            _end_process()
