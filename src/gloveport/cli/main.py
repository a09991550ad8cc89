"""Runs the command of a command line, and ends the process with its exit code."""

import _signal  # type: ignore[import-not-found]  # ``signal`` makes enumerations, which takes longer
import atexit
import contextlib
import errno
import io
import os
import sys
import threading
from typing import TYPE_CHECKING

from gloveport.cli.direct import find_direct
from gloveport.cli.exit_codes import of_error, of_unwritten
from gloveport.cli.garbage import collect_later
from gloveport.cli.usage import UsageError
from gloveport.errors import MORE_FILES, GloveportError
from gloveport.untrusted_text import printable_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

_NO_THREAD = "can't start new thread"
"""The text by which alone the ``RuntimeError`` is known."""
_MORE_THREADS = "raise its limit of processes (ulimit -u, TasksMax= or --pids-limit), or update an old container engine"


def main() -> None:
    """Run the command line. Exit code 2: usage or configuration; 3: denied; 4: no sandbox can be built here."""
    try:
        _run_command()
    except SystemExit as ended:
        _end_process(ended.code)
        raise


def _run_command() -> None:
    try:
        _fill_standard_streams()
        collect_later()
        # Any installed package could be a pydantic plugin and see all validated data, secrets too. To look takes 10 ms.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        _reset_signals()
        words = sys.argv[1:]
        if words[:1] == ["run"]:
            from gloveport.cli.run_client import run_by_server

            if (code := run_by_server(words[1:], os.environ)) is not None:
                sys.exit(code)
        # Here Ctrl-C can end this import; inside of that of msgspec it would be lost, and crash the process later.
        import datetime as dt  # noqa: F401

        from gloveport.cli import logs

        logs.set_up()
        if (run := find_direct(words)) is not None:
            sys.exit(run())
        from gloveport.cli.commands import run_command

        run_command()
    except UsageError as error:
        sys.stderr.write(f"gloveport: {printable_lines(str(error))}\nhint: gloveport {sys.argv[1]} --help\n")
        sys.exit(2)
    except GloveportError as error:
        # A message may quote a file that somebody else wrote.
        sys.stderr.write(f"gloveport: {printable_lines(str(error))}\n")
        sys.exit(of_error(error))
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        from gloveport.task_group import flatten_group

        if (unwritten := _find_unwritten(error)) is not None:
            sys.exit(of_unwritten(unwritten))
        if not (text := _describe_shortage(flatten_group(error))):
            raise
        sys.stderr.write(f"gloveport: {text}\n")
        sys.exit(4)


def _describe_shortage(errors: "Sequence[BaseException]") -> str:
    """What this process has too few of, if that is the cause of all these errors, with a hint; else empty."""
    if {str(error) for error in errors} == {_NO_THREAD}:
        return f"this host lets us start no thread\nhint: {_MORE_THREADS}"
    if {getattr(error, "errno", None) for error in errors} == {errno.EMFILE}:
        return f"this process may open too few files: {errors[0]}\nhint: {MORE_FILES}"
    return ""


def _reset_signals() -> None:
    """Undo what the parent has set. Where it ignores SIGCHLD, the kernel reaps our children, and a process id that we
    signal could be another's by then; signals that it blocks would never arrive.
    """
    _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _end_process(code: object) -> None:
    """Exit as the interpreter would, but without freeing objects: the kernel frees all memory at once.

    That saves a quarter of the CPU time of a short run. Returns if the interpreter has more to do: it waits for
    threads, and reports output that could not be written.
    """
    others = set(threading.enumerate()) - {threading.main_thread()}
    if not isinstance(code, int) or any(not thread.daemon for thread in others):
        return
    with contextlib.suppress(OSError):
        atexit._run_exitfuncs()  # noqa: SLF001 - there is no other name for it
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _fill_standard_streams() -> None:
    """Open closed standard streams: else the next opened file would get such a descriptor, and a program's output. Put
    ``_Output`` below those that are written.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is getattr(sys, f"__{name}__") and isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _Output.below(stream, drops=name == "stderr"))


class _Output(io.FileIO):
    """The descriptor of a standard stream, such as a file on a disk that is full.

    Attributes:
        drops: Whether what can't be written is dropped, as messages are: that is no reason to end.
        failure: Why something could not be written.
    """

    drops = False
    failure: OSError | None = None

    @classmethod
    def below(cls, stream: io.TextIOWrapper, *, drops: bool) -> io.TextIOWrapper:
        """Make a stream like this one."""
        output = cls(stream.fileno(), "w", closefd=False)
        output.drops = drops
        return io.TextIOWrapper(
            output if stream.write_through else io.BufferedWriter(output),
            stream.encoding,
            stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )

    def write(self, data: "Buffer") -> int:
        try:
            return super().write(data)
        except OSError as error:
            self.failure = error
            if not self.drops:
                raise
        return memoryview(data).nbytes


def _find_unwritten(error: Exception) -> OSError | None:
    """The error, if standard output has raised it; what is still to be written there is dropped then."""
    buffer = getattr(sys.stdout, "buffer", None)
    output = getattr(buffer, "raw", buffer)
    if not isinstance(output, _Output) or output.failure is not error:
        return None
    output.drops = True
    return output.failure
