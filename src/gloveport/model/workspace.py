"""Values of the workspace: the mode of its tools, gates, and the actions of commands and writes."""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from gloveport.model.constraints import Constraints
from gloveport.model.described import Described
from gloveport.model.value import Value

Mode: TypeAlias = Literal["safe", "trusted", "dangerous"]
MODES: tuple[Mode, ...] = get_args(Mode)

Gate: TypeAlias = Literal[
    "network",
    "destructive_command",
    "long_timeout",
    "sensitive_env",
    "shell_expansion",
    "inline_script",
    "privileged_executable",
    "write_generated_or_ignored",
]
GATES: tuple[Gate, ...] = get_args(Gate)
"""The gates, in the order in which they are always listed."""

Stance: TypeAlias = Literal["allow", "ask", "deny"]
Operation: TypeAlias = Literal["create", "write", "edit", "delete", "move", "copy"]
HostPattern: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[a-z0-9*.-]{1,253}$"),
    Described(
        expected="the name of a host in small letters, in which * stands for any characters",
        hint='write it as "pypi.org" or "*.example.com"',
    ),
]
VariablePattern: TypeAlias = Annotated[
    str,
    Constraints(pattern=r"^[A-Za-z_*][A-Za-z0-9_*]{0,127}$"),
    Described(
        expected="the name of an environment variable, in which * stands for any characters",
        hint='write it as "LANG" or "LC_*"',
    ),
]

CORE_VARIABLES: tuple[VariablePattern, ...] = ("LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "TZ")


class WorkspacePolicy(Value):
    """Under which mode the tools of a workspace work. The sandbox holds in every mode; gates only ask and explain."""

    mode: Mode = "safe"
    """What happens at each gate, unless `gates` says otherwise."""
    gates: Mapping[Gate, Stance] = {}
    """What happens at single gates: `allow`, `ask` a person, or `deny`."""
    long_seconds: Annotated[float, Constraints(gt=0, le=86_400, allow_inf_nan=False)] = 600
    """A command that asks for more time than this comes to the gate `long_timeout`."""
    hosts: tuple[HostPattern, ...] = ()
    """Hosts that commands may reach, with `*` for any characters. They don't come to the gate `network`."""
    disposable: tuple[Annotated[str, Constraints(min_length=1, max_length=256)], ...] = ()
    """Names of files and directories, with `*` for any characters, that commands may delete, besides those that tools
    are known to remake, such as `node_modules`."""
    inherit: tuple[VariablePattern, ...] = CORE_VARIABLES
    """The server's own variables that commands inherit, with `*` for any characters. A pattern with `*` leaves out
    variables that look like secrets, that the sandbox sets, or that make programs run something."""


class GateHit(Value):
    """One gate that a command or a write comes to, with the reason."""

    gate: Gate
    piece: str
    """The part of the command, the name of the variable, or the path. Never the value of a variable."""
    why: str
    """One sentence for the person who is asked."""
    instead: str
    """One sentence for the model: what to do instead."""
    lost: tuple[str, ...] = ()
    """Paths of all files that would be lost, relative to the workspace; empty if not known."""


class RunCommand(Value):
    """Action: run a shell command in the workspace."""

    kind: Literal["command"] = "command"
    command: str
    workdir: str = "."
    """Working directory, relative to the workspace."""
    tty: bool = False
    stdin_bytes: int = 0
    """Bytes of the input that the call passes."""
    stdin_sha256: str = ""
    """Digest of that input; empty for none."""
    keeps_stdin: bool = False
    """Whether the input stays open, so that any input may follow."""
    variables: tuple[str, ...] = ()
    """Names of the variables that the caller sets, sorted."""
    variables_sha256: str = ""
    """Digest of their names and values; empty for none."""
    session: str = ""
    """Id of the session that the command continues; empty for a sandbox of its own, or a new session."""
    environment: str = ""
    """The environment with its packages and programs; empty for those of all commands."""
    hosts: tuple[str, ...] = ()
    """Hosts in the command's text, sorted."""
    needs: tuple[GateHit, ...] = ()
    """The gates that the command comes to, in the order of ``GATES``."""


class PathChange(Value):
    """The operation on one path."""

    operation: Operation
    path: str
    """The path relative to the workspace."""


class WriteFiles(Value):
    """Action: change files of the workspace, all or none."""

    kind: Literal["write"] = "write"
    changes: tuple[PathChange, ...]
    bytes: int = 0
    """Bytes of the patch, or of the changes as JSON."""
    sha256: str = ""
    """Digest of those bytes; empty for an undo."""
    needs: tuple[GateHit, ...] = ()
