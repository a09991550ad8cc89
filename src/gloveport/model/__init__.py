"""The values that all packages share: policy, grants, actions, programs, results.

All are frozen and reject unknown fields. The configuration file is validated straight into these types, so a field
here is a key there, and its docstring is that key's documentation.
"""

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias, get_args

from pydantic import ByteSize, Field, JsonValue, PlainSerializer

from gloveport.model import hub
from gloveport.model.artifact import Artifacts
from gloveport.model.described import ABSOLUTE_PATH, PathText
from gloveport.model.egress import ApiName, Connect, Egress, Exchange, Fetch, outline
from gloveport.model.hub import CallTool, Sample, Sampling, Toolbox, ToolCall
from gloveport.model.packages import Install, PackageRules
from gloveport.model.skill import SkillRights
from gloveport.model.value import Value as Value
from gloveport.model.workspace import RunCommand, WorkspacePolicy, WriteFiles

Language: TypeAlias = Literal["python", "typescript", "javascript", "shell"]
LANGUAGES: tuple[Language, ...] = get_args(Language)

Languages: TypeAlias = Annotated[frozenset[Language], PlainSerializer(sorted)]

MIB = 1 << 20

SCRATCH = "/tmp"  # noqa: S108 - a private tmpfs of the sandbox, not the host's
"""Home and only large writable directory of a program."""

OUT = "/out"
"""Where a program leaves files that are kept when it has ended: a private tmpfs as well."""

OUT_LINKS = ("/mnt/data", "/mnt/user-data/outputs")
"""Other names of it, which models know."""

GUEST = "/opt/gloveport"
"""Where the files of ``gloveport/guest`` lie inside a sandbox."""

PRIVATE = "/run/gloveport"
"""Small tmpfs for what an interpreter must write besides the program's scratch."""

Bytes: TypeAlias = Annotated[ByteSize, Field(gt=0)]
Seconds: TypeAlias = Annotated[float, Field(gt=0, le=86_400, allow_inf_nan=False)]


class Limits(Value):
    """What one execution may use at most. Sizes are bytes, or text such as ``"64MiB"``.

    The least that each takes is what the interpreters need to start.
    """

    wall_seconds: Seconds = 300
    """Time from the start of the program to its end."""

    cpu_seconds: Seconds = 300
    """Processor time of all processes of the sandbox together."""

    cpus: Annotated[float, Field(gt=0, le=1024, allow_inf_nan=False)] = 1.0
    """Processors' worth of time that the sandbox may use at once; enforced by cgroups only."""

    memory_bytes: Annotated[Bytes, Field(ge=32 * MIB)] = ByteSize(512 * MIB)
    """Memory of the whole sandbox, its temporary files included."""

    processes: Annotated[int, Field(ge=8, le=4096)] = 64
    """Processes and threads that may exist at the same time."""

    open_files: Annotated[int, Field(ge=32, le=65_536)] = 256
    """Open descriptors of each process."""

    file_bytes: Annotated[Bytes, Field(ge=MIB)] = ByteSize(64 * MIB)
    """Size of any one file that a program writes."""

    scratch_bytes: Annotated[Bytes, Field(ge=MIB)] = ByteSize(64 * MIB)
    """Size of the private /tmp."""

    out_bytes: Annotated[Bytes, Field(ge=MIB)] = ByteSize(32 * MIB)
    """Size of /out, whose files are kept when the program has ended."""

    output_bytes: Annotated[ByteSize, Field(ge=256)] = ByteSize(32 * 1024)
    """Bytes of stdout, and as many of stderr, that an answer shows: the head and the tail. Also bounds the value."""

    stored_output_bytes: Bytes = ByteSize(16 * MIB)
    """Bytes of stdout, and as many of stderr, that are kept for reading by handle when the answer can't show all."""

    code_bytes: Bytes = ByteSize(256 * 1024)
    """Size of the program text."""

    input_bytes: Bytes = ByteSize(MIB)
    """Size of the files that come with a program, all together."""

    requests: Annotated[int, Field(ge=1)] = 10_000
    """Requests and connections through the doors; each is written to the audit log."""

    tool_calls: Annotated[int, Field(ge=1)] = 1_000
    """Calls of other servers' tools; each is written to the audit log."""

    tool_bytes: Bytes = ByteSize(64 * MIB)
    """Bytes of the arguments and the results of these calls together."""


class Narrowing(Value):
    """Limits a request may ask for, each lowered to the operator's where that is less; ``None`` takes the default."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    memory_bytes: Annotated[Bytes, Field(ge=32 * MIB)] | None = None
    processes: Annotated[int, Field(ge=8)] | None = None
    open_files: Annotated[int, Field(ge=32)] | None = None
    file_bytes: Annotated[Bytes, Field(ge=MIB)] | None = None
    scratch_bytes: Annotated[Bytes, Field(ge=MIB)] | None = None
    output_bytes: Annotated[ByteSize, Field(ge=256)] | None = None


class Mount(Value):
    """A host directory or file shown inside the sandbox, read-only."""

    source: Annotated[str, Field(pattern=r"^/[^\x00]*$"), ABSOLUTE_PATH]
    """Absolute path on the host."""

    target: PathText
    """Absolute path inside the sandbox."""

    as_owner: bool = False
    """Show it as if it belonged to the program: so it may read what the owner of `source` alone may read. Makes a
    difference where Gloveport is started as root."""


class Policy(Value):
    """What the operator allows a caller. A request can only narrow it."""

    languages: Languages = frozenset(LANGUAGES)
    """Languages that may be run."""

    mounts: tuple[Mount, ...] = ()
    """Host directories shown read-only in every sandbox."""

    unix_sockets: bool = False
    """Let programs make AF_UNIX sockets. A mounted directory may hold a socket of the host: it becomes reachable."""

    ptrace: bool = False
    """Let programs trace processes of their own sandbox, as debuggers do (`gdb`, `strace`)."""

    default_wall_seconds: Seconds = 30
    """Wall-clock limit of a request that names none."""

    limits: Limits = Limits()
    """The most that any run gets."""


class Request(Value):
    """What a caller asks for: one program, perhaps under narrower limits."""

    language: Language
    code: str
    limits: Narrowing = Narrowing()
    ansi: Literal["strip", "keep"] = "strip"
    """Whether terminal escape sequences in the output are removed."""
    apis: tuple[ApiName, ...] | None = None
    """The APIs it uses: no other can be reached then, and their types are known. Without it, all of the policy's."""
    files: Mapping[str, bytes] = {}
    """What is in its directory when it begins: contents by relative paths."""
    session: str | None = None
    """``new`` begins a session, the id of one goes on with it; without it, nothing is kept."""
    environment: str | None = None
    """The environment whose packages it can import. Without it, what its own block asks for, or the default."""
    tools: tuple[hub.ToolPattern, ...] | None = None
    """The tools it uses, as ``server/tool`` with ``*`` for any characters. Without it, all of the policy's."""


class Variable(Value):
    """What a session's interpreter says of one of its variables: text of the program's choice."""

    name: Annotated[str, Field(max_length=200)]
    type: Annotated[str, Field(max_length=200)] = ""
    shape: Annotated[str, Field(max_length=200)] = ""
    bytes: Annotated[int, Field(ge=0, lt=1 << 63)] | None = None
    preview: Annotated[str, Field(max_length=200)] = ""


class SessionState(Value):
    """How a session stands after a call. What the call changed is its interpreter's word."""

    id: str
    expires_at: str
    """When it ends for want of calls, or of age: ISO 8601, in UTC. Empty when it is over."""

    state: Literal["kept", "rewound", "lost"] = "kept"
    """Whether its variables are as the call left them, as they were before, or gone."""

    """Of a call in a language that can't be rewound, ``lost`` are the variables of that language alone."""

    why: str = ""
    """Why it is not kept, or what else there is to say."""

    generation: int = 1
    """Grows whenever its state is another than the one that the last call left."""

    undone: int = 0
    """How many calls were undone."""

    checkpoint: str = ""
    """Why the state after this call could not be kept for a rewind; empty where it is."""

    variables: tuple[Variable, ...] = ()
    """Those that the call has made or changed."""

    removed: tuple[str, ...] = ()

    narrowed: tuple[str, ...] = ()
    """What the configuration has taken back since the session began."""


class Grant(Value):
    """What one execution may do. ``Grant()`` may do nothing, so denial has one path."""

    languages: Languages = frozenset()
    mounts: tuple[Mount, ...] = ()
    writable: tuple[Mount, ...] = ()
    """Host directories that it may write: of a workspace, and of the caches of its tools."""
    unix_sockets: bool = False
    ptrace: bool = False
    limits: Limits = Limits()
    egress: Annotated[Egress, PlainSerializer(outline)] = Egress()
    """Written out as the names of its APIs."""
    toolbox: Annotated[Toolbox, PlainSerializer(hub.outline)] = Toolbox()
    """Written out as the names of its servers."""
    sampling: Annotated[Sampling, PlainSerializer(hub.outline_of_sampling)] = Sampling()
    """Written out as what may be asked."""
    workspace: WorkspacePolicy | None = None
    """What tools of a workspace may do; without it, nothing."""
    skill: SkillRights | None = None
    """Of an approved skill: what of all this it was seen to need. It may do no more."""
    packages: Annotated[PackageRules, Field(exclude=True)] = PackageRules()
    """Which packages a program may ask for. Not written out: the whole list is the owner's business."""


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


class Execute(Value):
    """Action: start a program. ``code_sha256`` is the hex digest of its UTF-8 bytes; ``files`` has theirs."""

    kind: Literal["execute"] = "execute"
    language: Language
    code_bytes: int
    code_sha256: str
    files: Mapping[str, str] = {}
    files_bytes: int = 0
    """Of all of them."""
    skill: str = ""
    """Name of the skill that it is; empty where it is none."""
    skill_sha256: str = ""
    """Digest of all of that skill's files."""
    approved: bool = False
    """Whether it runs under the rights of that skill."""


Action: TypeAlias = Execute | Fetch | Connect | CallTool | Sample | RunCommand | WriteFiles | Install


class Allow(Value):
    """Decision: yes, by this rule."""

    rule: str


class Ask(Value):
    """Decision: a person has to say. ``question`` is written for them."""

    rule: str
    question: str


class Deny(Value):
    """Decision: no. ``reason`` and ``hint`` are written for the model that reads the answer."""

    code: str
    reason: str
    hint: str


Decision: TypeAlias = Allow | Ask | Deny

Status: TypeAlias = Literal["ok", "error", "timeout", "cancelled", "killed", "denied", "running", "waiting"]
LimitName: TypeAlias = Literal[
    "wall_seconds",
    "cpu_seconds",
    "memory_bytes",
    "processes",
    "open_files",
    "file_bytes",
    "scratch_bytes",
    "out_bytes",
    "output_bytes",
    "stored_output_bytes",
    "code_bytes",
    "input_bytes",
    "requests",
    "tool_calls",
    "tool_bytes",
    "concurrent_runs",
    "queue_length",
    "queue_seconds",
]


class Output(Value):
    """One stream of a program as the answer shows it."""

    text: str = ""
    """Head and tail, with a line between them that says how much is missing."""

    total_bytes: int = 0
    """Bytes the program wrote."""

    truncated: bool = False
    """True when ``text`` is not all of it."""

    handle: str | None = None
    """Resource URI to read the rest from, when there is a rest."""


class Failure(Value):
    """How a program failed, in its own words: what the language's interpreter would have printed."""

    type: str
    """Class of the exception, or ``exit`` for a non-zero exit code, or ``signal``."""

    message: str
    traceback: str = ""
    """Frames of the caller's own lines only."""


class Usage(Value):
    """What a run used."""

    wall_ms: int = 0
    cpu_ms: int | None = None
    """Processor time of the whole sandbox; null where no cgroup counts it."""
    peak_memory_bytes: int | None = None
    """Most memory the whole sandbox held; null where no cgroup counts it."""


class Result(Value):
    """What happened. A failing program is a result, not an exception."""

    run_id: str
    language: Language
    status: Status
    value: JsonValue = None
    """Value of the last expression or of ``return``; for shell, standard output where it is one JSON document."""

    value_type: str | None = None
    """Type name of a value that is no JSON, whose ``repr`` stands in ``value``; null for JSON."""

    stdout: Output = Output()
    stderr: Output = Output()
    error: Failure | None = None
    exit_code: int | None = None
    limits_hit: tuple[LimitName, ...] = ()
    """Limits the program ran into; with status ``killed``, ``timeout`` or ``denied`` the first is the cause."""

    hint: str = ""
    """What the caller can do about a status that is not ``ok``."""

    requests: tuple[Exchange, ...] = ()
    """The requests that it made, in the order in which they ended; the first of them where there are many."""

    requests_total: int = 0
    """How many there were."""

    tool_calls: tuple[ToolCall, ...] = ()
    """The tools that it called, in the order in which the calls ended; the first of them where there are many."""

    tool_calls_total: int = 0
    """How many calls there were."""

    approvals: tuple[str, ...] = ()
    """With status ``waiting``: the ids of the approvals that it waits for."""

    artifacts: Artifacts = Artifacts()
    """Files that it has left."""

    session: SessionState | None = None
    usage: Usage = Usage()
    environment: str = ""
    """The environment that it ran in: its name, or `inline`, with the digest of its lock. Empty for none."""
    grant: Grant = Grant()
    """The effective grant: operator policy ∩ request."""
