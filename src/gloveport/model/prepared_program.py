"""A program as a sandbox starts it."""

from collections.abc import Mapping

from gloveport.model.json_value import JsonValue
from gloveport.model.languages import PRIVATE, SCRATCH, Language
from gloveport.model.run_policy import Mount
from gloveport.model.value import Value


class Symlink(Value):
    """A symbolic link of a sandbox's root: ``path`` points to ``target``."""

    path: str
    target: str


class SessionSetup(Value):
    """Settings with which the supervisor of a session starts interpreters; Python needs none, for it is forked."""

    first: Language
    """The language of the first call, whose interpreter is started at once."""

    directory: str = SCRATCH
    """The directory that a rewind restores."""

    file_bytes: int
    """The most bytes of files in a checkpoint."""

    private: str = f"{PRIVATE}/session"
    """The directory of the texts of calls."""

    rlimits: Mapping[str, tuple[int, int]] = {}
    """Resource limits of the Python and shell processes, besides the sandbox's."""

    shell: Mapping[str, JsonValue] | None = None
    """``argv`` of bash, the path of its start-up script as ``setup``, its own ``variables``, and the ``directory``
    where it starts; None without a shell."""

    deno: Mapping[str, JsonValue] | None = None
    """``argv`` of Deno, its environment as ``variables``, and ``types``; None without Deno."""


class Program(Value):
    """A program ready to run, which a runtime has prepared from a source text."""

    name: str
    """The program's name in tracebacks."""

    source: str = ""
    """The text of a Python program, which runs inside the init process."""

    argv: tuple[str, ...] = ()
    """Command line of another interpreter; a name without a slash is searched along PATH."""

    text: str = ""
    """The text that the interpreter reads from ``descriptor``."""

    descriptor: int = 0

    report: str = ""
    """Path of the file that the interpreter writes its report to; empty when it writes none."""

    binds: tuple[Mount, ...] = ()
    """Host files that the interpreter needs besides the system's."""

    symlinks: tuple[Symlink, ...] = ()

    files: Mapping[str, str] = {}
    """Texts of further files below ``/etc``, by their names."""

    path: tuple[str, ...] = ()
    """Directories at the beginning of PATH."""

    env: Mapping[str, str] = {}
    """Further environment variables."""

    variables: Mapping[str, str] = {}
    """Environment variables for the interpreter alone: no program of ours starts with a caller's variables."""

    directory: str = ""
    """The interpreter's working directory; empty for the scratch directory."""

    terminal: tuple[int, int] | None = None
    """Rows and columns of the terminal for its streams; None for pipes."""

    foreground: bool = False
    """Whether a person has started the program: it is a job that gets their signals, and reports when it is stopped."""

    reserved_bytes: int = 0
    """Virtual memory that the interpreter reserves and hardly touches, as V8 does; 0 for none."""

    forked: bool = True
    """Whether waiting sandboxes for it are forked, or built: a process with threads can't be forked."""

    waiting: tuple[str, ...] = ()
    """Command line to start the interpreter ahead of the program. The interpreter writes ``R`` to its output when it
    waits: for the program on standard input, or, if it reads the program from ``descriptor``, for a line there."""

    session: SessionSetup | None = None
    """The setup of a session; None for a single program."""

    preload: tuple[str, ...] = ()
    """Modules that the program is likely to import, and that may be imported before it has come."""
