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
"""An author in git's form, without quotes, backslashes and control characters: it goes into a git file."""


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
    """The limits of one command of a workspace: builds and tests need more than a short program."""

    wall_seconds: Seconds = 3600
    """Time from the start of the command to its end. A call can set less; without a time it gets five minutes."""
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

    # Limits of programs only are no keys here: the output of commands has limits of its own.
    output_bytes: ClassVar[ByteSize] = Limits().output_bytes  # type: ignore[misc]
    stored_output_bytes: ClassVar[ByteSize] = Limits().stored_output_bytes  # type: ignore[misc]
    code_bytes: ClassVar[ByteSize] = Limits().code_bytes  # type: ignore[misc]
    input_bytes: ClassVar[ByteSize] = Limits().input_bytes  # type: ignore[misc]
    out_bytes: ClassVar[ByteSize] = ByteSize(MIB)  # type: ignore[misc]
    tool_calls: ClassVar[int] = Limits().tool_calls  # type: ignore[misc]
    tool_bytes: ClassVar[ByteSize] = Limits().tool_bytes  # type: ignore[misc]


class Hook(Value):
    """A command that runs in the sandbox after a patch or changes have written files."""

    files: Annotated[tuple[Annotated[str, Constraints(min_length=1, max_length=256)], ...], Constraints(min_length=1)]
    """Names or paths, with `*` for any characters, for which it runs."""

    command: Annotated[str, Constraints(min_length=1, max_length=4096)]
    """The command, for bash. Its arguments are the written paths."""

    seconds: Seconds = 30
    """After this time it is ended."""


class Workspace(WorkspacePolicy):
    """The directory in which an agent works with the workspace tools, and what its commands may use."""

    root: AbsolutePath | None = None
    """The directory. It must hold no files that Gloveport runs, keeps or reads secrets from, and none of the system's.
    Default: that of `--workspace`; without either, the workspace tools are not offered."""

    toolsets: Annotated[tuple[Literal["code", "workspace", "skills"], ...], Constraints(min_length=1)] = (
        "code",
        "workspace",
        "skills",
    )
    """Which tools are offered: a client pays for each in tokens with every request. Without a workspace, `code` is
    always offered. `skills` needs `code`. `--toolsets` sets it on the command line."""

    exempt: tuple[Annotated[str, Constraints(min_length=1, max_length=1024)], ...] = ()
    """Names, and paths below the directory, that may be written although their content runs later, outside of the
    sandbox, such as `.envrc` or `.vscode`."""

    author: Author = "agent <agent@localhost>"
    """The author of commits by commands, as `NAME <ADDRESS>`, if the repository sets none."""

    toolchains: tuple[AbsolutePath, ...] = ()
    """Directories of compilers and interpreters besides the system's, shown read-only at their own paths. If one has a
    `bin`, commands are found there. A toolchain may not show what a mount of `policy.mounts` may not.
    One below `/tmp` is shown as `/opt/toolchains/NUMBER/NAME`."""

    auto_toolchains: bool = True
    """Whether toolchains on the owner's `PATH` are shown as well: those in `/usr/local`, `/opt` and Nix, and in a home
    those of pyenv, nvm, rustup, conda, SDKMAN, mise, asdf and the like, each alone, never its neighbours."""

    ports: bool = True
    """Whether `gloveport ports` can open a port of a command, or of its session, to a browser on this host. None is
    open until you say so there."""
    environment: EnvironmentName | None = None
    """The environment whose packages commands have: `python` and `python3` are then its interpreter, and its programs
    are found if the system has none of that name. It is built when the workspace is opened. Default: none, since a
    project brings its own packages."""

    caches: bool = True
    """Whether downloads of package managers are kept between commands, in the state directory."""

    programs: Literal["read", "write", "none"] = "read"
    """Whether programs of `execute_code` see the directory, at the same path as commands. With `write` they can write
    to it like commands: protected paths stay protected, but no gate examines what a program does."""

    out: OutPath | None = None
    """A directory below this one into which files that programs leave in `/out` are copied: whole, not executable,
    replacing files of the same name. Programs need no `write` for it, but must see the workspace. It can't be a
    protected one. Default: none."""

    out_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(1024 * MIB)
    """The most bytes that `out` may hold. Files beyond that are only kept as artifacts."""

    hooks: tuple[Hook, ...] = ()
    """Commands that format or check written files. If one fails, its output is among the answer's warnings."""

    orphan_seconds: Seconds = 900
    """How long a command runs on after the last call of the client that started it. This applies over HTTP only: over
    stdio a client lives as long as the server."""

    hosts: tuple[HostPattern, ...] = ()
    """Patterns of host names that commands may reach, with `*` for any characters. They grant nothing by themselves: a
    command may use an active `[api.NAME]`, as programs do, if they match all of its hosts. Such hosts don't come to the
    gate `network`. `@NAME` stands for the hosts of an `[api.NAME]`, or for a package registry, which programs, too, may
    then read: `@pypi`, `@npm`, `@github`, `@debian`, `@crates`, `@golang`, `@maven`."""

    limits: CommandLimits = CommandLimits()
    """The limits of each command."""


class ExecLimits(CommandLimits):
    """The limits of one program of `gloveport exec`, which a person may use all day."""

    wall_seconds: Seconds = 86_400
    """Time from its start to its end."""
    cpu_seconds: Seconds = 86_400
    """Processor time of all of its processes together."""
    memory_bytes: Annotated[ByteSize, Constraints(ge=32 * MIB)] = ByteSize(4096 * MIB)
    """Memory of all of its processes, its temporary files included."""
    processes: Annotated[int, Constraints(ge=8, le=4096)] = 1024
    """Processes and threads that may exist at the same time."""


class ExecProgram(Value):
    """Further settings for one program of `gloveport exec`."""

    home: bool = False
    """Whether it has a persistent home directory, one for each workspace, in the state directory. Else its HOME is the
    private `/tmp`."""

    apis: tuple[ApiName, ...] | None = None
    """The only APIs that it may use. Default: all active ones. `--api` selects others of them."""

    variables: Mapping[PlaceholderName, str] = {}
    """Further environment variables. Not for secrets: use an API's `stand_ins`."""


class Exec(Value):
    """Programs that a person runs in the sandbox by `gloveport exec`."""

    clipboard: bool = False
    """Whether they may write to the terminal's clipboard. They can never read it."""

    programs: Mapping[ApiName, ExecProgram] = {}
    """Settings of single programs, by the last part of the name with which they are started."""

    limits: ExecLimits = ExecLimits()
    """The limits of each program."""
