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
    """What the supervisor of a session starts interpreters from. Python needs nothing: it is there."""

    first: Language
    """That of the first call: its interpreter is started at once."""

    directory: str = SCRATCH
    """What a rewind brings back."""

    file_bytes: int
    """The most bytes of it that a checkpoint keeps."""

    private: str = f"{PRIVATE}/session"
    """Where the texts of calls are."""

    rlimits: Mapping[str, tuple[int, int]] = {}
    """Limits of the processes of Python and of the shell besides those of the sandbox."""

    shell: Mapping[str, JsonValue] | None = None
    """``argv`` of bash, the path of what it reads first as ``setup``, its ``variables`` besides those of all, and the
    ``directory`` where it begins; None where there is no shell."""

    deno: Mapping[str, JsonValue] | None = None
    """``argv`` of Deno, its environment as ``variables``, and ``types``; None where there is none."""


class Program(Value):
    """A program ready to run: what a runtime makes of a source text."""

    name: str
    """What tracebacks call it."""

    source: str = ""
    """The text of a Python program, which runs inside the init process."""

    argv: tuple[str, ...] = ()
    """Command line of any other interpreter, which is looked for along the PATH where it is no path."""

    text: str = ""
    """What the interpreter reads from ``descriptor``."""

    descriptor: int = 0

    report: str = ""
    """Path of the file that the interpreter writes its report to; empty when it writes none."""

    binds: tuple[Mount, ...] = ()
    """Host files that the interpreter needs besides the system's."""

    symlinks: tuple[Symlink, ...] = ()

    files: Mapping[str, str] = {}
    """Texts of files besides the common ones, by their names below ``/etc``."""

    path: tuple[str, ...] = ()
    """Directories in which commands are looked for first."""

    env: Mapping[str, str] = {}
    """Environment besides the common one."""

    variables: Mapping[str, str] = {}
    """Environment that only the interpreter itself gets: nothing of ours starts with a caller's variables."""

    directory: str = ""
    """Where the interpreter starts; empty for the scratch."""

    terminal: tuple[int, int] | None = None
    """Rows and columns of the terminal that its streams are; None for pipes."""

    foreground: bool = False
    """Whether a person has started it: it is a job that gets their signals, and the host is told when it is stopped."""

    reserved_bytes: int = 0
    """Virtual memory that the engine reserves and hardly touches (V8); 0 for one that reserves none."""

    forked: bool = True
    """Whether sandboxes that wait for it are forked, or built: what has threads can't be forked."""

    waiting: tuple[str, ...] = ()
    """Command line of its interpreter, to be started ahead of it. That writes an ``R`` to its standard output when it
    waits: for the program, on standard input, or, where that is read from another ``descriptor``, for a line there."""

    session: SessionSetup | None = None
    """Of a session; None for a program that is run once."""

    preload: tuple[str, ...] = ()
    """Modules that it is likely to import. Where they can't be imported ahead, it imports them itself."""
