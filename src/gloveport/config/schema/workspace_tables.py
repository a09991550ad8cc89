"""Tables about the workspace: its directory, its commands, and the programs of ``gloveport exec``."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from gloveport.config.schema.keys import AbsolutePath
from gloveport.model import MIB, Limits, Seconds, Value
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints, Parser
from gloveport.model.described import Described
from gloveport.model.egress import ApiName, PlaceholderName
from gloveport.model.packages import EnvironmentName
from gloveport.model.workspace import HostPattern, WorkspacePolicy
from gloveport.policy.decisions.protected_names import protected_part
from gloveport.user_directories import is_canonical

Author: TypeAlias = Annotated[
    str,
    Constraints(max_length=200, pattern=r"^[^<>\x00-\x1f\x7f\"\\]+ <[^<>\s\x00-\x1f\x7f\"\\]+>$"),
    Described(expected="NAME <ADDRESS>", hint="as git shows it: Jane Doe <jane@example.com>"),
]
"""A person as git writes one, without quotes, backslashes and control characters: it goes into a file of git's."""


def _parse_below(path: object) -> str:
    if not isinstance(path, str) or not is_canonical(f"/{path}") or protected_part(path):
        raise ValueError(path)
    return path


OutPath: TypeAlias = Annotated[
    str,
    Constraints(max_length=1024),
    Parser(_parse_below),
    Described(
        expected="a path below the workspace, such as results, that is not protected",
        hint="without . and .., and without a name such as .git or .vscode",
    ),
]
"""A directory of the workspace."""


class CommandLimits(Limits):
    """What one command of a workspace may use at most: builds and tests need more than a short program."""

    wall_seconds: Seconds = 3600
    """Time from the start of the command to its end. A call asks for less: five minutes, if it names none."""
    cpu_seconds: Seconds = 3600
    """Processor time of all of its processes together."""
    cpus: Annotated[float, Constraints(gt=0, le=1024, allow_inf_nan=False)] = 2.0
    """Processors' worth of time that it may use at once; enforced by cgroups only."""
    memory_bytes: Annotated[ByteSize, Constraints(ge=32 * MIB)] = ByteSize(2048 * MIB)
    """Memory of all of its processes, its temporary files included."""
    processes: Annotated[int, Constraints(ge=8, le=4096)] = 512
    """Processes and threads that may exist at the same time."""
    open_files: Annotated[int, Constraints(ge=32, le=65_536)] = 4096
    """Open descriptors of each process."""
    file_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(1024 * MIB)
    """Size of any one file that it writes."""
    scratch_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(512 * MIB)
    """Size of its private /tmp."""

    # What only programs have is no key: output of commands is kept and shown by sizes of its own.
    output_bytes: ClassVar[ByteSize] = Limits().output_bytes  # type: ignore[misc]
    stored_output_bytes: ClassVar[ByteSize] = Limits().stored_output_bytes  # type: ignore[misc]
    code_bytes: ClassVar[ByteSize] = Limits().code_bytes  # type: ignore[misc]
    input_bytes: ClassVar[ByteSize] = Limits().input_bytes  # type: ignore[misc]
    out_bytes: ClassVar[ByteSize] = ByteSize(MIB)  # type: ignore[misc]
    tool_calls: ClassVar[int] = Limits().tool_calls  # type: ignore[misc]
    tool_bytes: ClassVar[ByteSize] = Limits().tool_bytes  # type: ignore[misc]


class Hook(Value):
    """A command that runs in the sandbox after files were written by a patch or by changes."""

    files: Annotated[tuple[Annotated[str, Constraints(min_length=1, max_length=256)], ...], Constraints(min_length=1)]
    """Names or paths, with `*` for any characters, for which it runs."""

    command: Annotated[str, Constraints(min_length=1, max_length=4096)]
    """The command, for bash. The paths that were written follow as its arguments."""

    seconds: Seconds = 30
    """It is ended after so long."""


class Workspace(WorkspacePolicy):
    """The directory that an agent works in by the tools of the workspace, and what its commands may use."""

    root: AbsolutePath | None = None
    """The directory. It may hold nothing that Gloveport runs, keeps or reads secrets from, and nothing of the system's.
    Default: that of `--workspace`; without either those tools are not offered."""

    toolsets: Annotated[tuple[Literal["code", "workspace", "skills"], ...], Constraints(min_length=1)] = (
        "code",
        "workspace",
        "skills",
    )
    """Which tools are offered: a client pays for each with every request. Without a workspace `code` counts in any
    case. `skills` needs `code`. `--toolsets` says it on the command line."""

    exempt: tuple[Annotated[str, Constraints(min_length=1, max_length=1024)], ...] = ()
    """Names, and paths below the directory, that may be written though what is written there runs later, outside of the
    sandbox: `.envrc`, say, or `.vscode`."""

    author: Author = "agent <agent@localhost>"
    """As whom commands commit, as `NAME <ADDRESS>`, where the repository names nobody."""

    toolchains: tuple[AbsolutePath, ...] = ()
    """Directories of compilers and interpreters besides the system's, shown read-only at their own paths. Where one has
    a `bin`, commands are found there. What a mount of `policy.mounts` may not show, a toolchain may not either.
    One below `/tmp` is shown as `/opt/toolchains/NUMBER/NAME`."""

    auto_toolchains: bool = True
    """Whether those that the owner's `PATH` leads to are shown as well: of `/usr/local`, `/opt` and Nix, and of a home
    those of pyenv, nvm, rustup, conda, SDKMAN, mise, asdf and the like, each alone, never what lies beside it."""

    ports: bool = True
    """Whether `gloveport ports` can open a port of a command, or of its session, to a browser on this host. None is
    open until you say so there."""
    environment: EnvironmentName | None = None
    """The environment whose packages commands have: `python` and `python3` are the interpreter that it is for, and its
    own programs are found where the system has none of that name. It is built when the workspace is opened.
    Default: none, for a project brings its packages."""

    caches: bool = True
    """Whether what package managers download is kept from command to command, in the state directory."""

    programs: Literal["read", "write", "none"] = "read"
    """Whether programs of `execute_code` see the directory, under the path that commands see it at. With `write` they
    write to it as commands do: what is protected is kept from them, and no gate is asked what a program means."""

    out: OutPath | None = None
    """A directory below this one into which what programs leave in `/out` is put as well: whole, not executable, in the
    place of what has its name. Programs need not be let write for it, but must see the workspace. It is none that is
    protected. Default: none."""

    out_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(1024 * MIB)
    """The most bytes that may lie in it. What would be more is kept as an artifact alone."""

    hooks: tuple[Hook, ...] = ()
    """Commands that format or check what was written. What one says when it fails is among the answer's warnings."""

    orphan_seconds: Seconds = 900
    """A command goes on for so long after the last call of the client that began it. This counts over HTTP only: over
    stdio a client is there as long as the server is."""

    hosts: tuple[HostPattern, ...] = ()
    """Patterns of the names of hosts that commands may reach, with `*` for any characters. They grant nothing by
    themselves: a command may use an active `[api.NAME]` all of whose hosts they name, as programs do. Such hosts don't
    come to the gate `network`. `@NAME` stands for the hosts of an `[api.NAME]`, and for a registry of packages that is
    then granted to read, to programs too: `@pypi`, `@npm`, `@github`, `@debian`, `@crates`, `@golang`, `@maven`."""

    limits: CommandLimits = CommandLimits()
    """What each command may use at most."""


class ExecLimits(CommandLimits):
    """What one program of `gloveport exec` may use at most. A person may sit before it all day."""

    wall_seconds: Seconds = 86_400
    """Time from its start to its end."""
    cpu_seconds: Seconds = 86_400
    """Processor time of all of its processes together."""
    memory_bytes: Annotated[ByteSize, Constraints(ge=32 * MIB)] = ByteSize(4096 * MIB)
    """Memory of all of its processes, its temporary files included."""
    processes: Annotated[int, Constraints(ge=8, le=4096)] = 1024
    """Processes and threads that may exist at the same time."""


class ExecProgram(Value):
    """What one program of `gloveport exec` gets besides what all get."""

    home: bool = False
    """Whether it has a home directory of its own that stays, one for each workspace, in the state directory. Else its
    HOME is the private `/tmp`."""

    apis: tuple[ApiName, ...] | None = None
    """The only APIs that it may use. Default: all that are active. `--api` names others of them."""

    variables: Mapping[PlaceholderName, str] = {}
    """Its environment besides that of all. No secrets: an API's `stand_ins` are for those."""


class Exec(Value):
    """Programs that a person runs in the sandbox by `gloveport exec`."""

    clipboard: bool = False
    """Whether they may write into the clipboard of the terminal. They never read it."""

    programs: Mapping[ApiName, ExecProgram] = {}
    """What single programs get, by the last part of the name that they are called by."""

    limits: ExecLimits = ExecLimits()
    """What each may use at most."""
