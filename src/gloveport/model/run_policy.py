"""Values of the policy: the operator's limits and permissions, and the grant of one execution."""

from typing import Annotated, TypeAlias

from gloveport.model import hub
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints, Excluded, Serializer
from gloveport.model.described import ABSOLUTE_PATH, PathText
from gloveport.model.egress import Egress, outline
from gloveport.model.hub import Sampling, Toolbox
from gloveport.model.languages import LANGUAGES, Languages
from gloveport.model.packages import PackageRules
from gloveport.model.reading import CheckedValue
from gloveport.model.skill import SkillRights
from gloveport.model.value import Value
from gloveport.model.workspace import WorkspacePolicy

MIB = 1 << 20

Bytes: TypeAlias = Annotated[ByteSize, Constraints(gt=0)]
Seconds: TypeAlias = Annotated[float, Constraints(gt=0, le=86_400, allow_inf_nan=False)]


class Limits(Value):
    """The limits of one execution. Sizes are bytes, or text such as ``"64MiB"``.

    The minimum of each is what the interpreters need to start.
    """

    wall_seconds: Seconds = 300
    """Time from the start of the program to its end."""

    cpu_seconds: Seconds = 300
    """Processor time of all processes of the sandbox together."""

    cpus: Annotated[float, Constraints(gt=0, le=1024, allow_inf_nan=False)] = 1.0
    """Processors' worth of time that the sandbox may use at once; enforced by cgroups only."""

    memory_bytes: Annotated[Bytes, Constraints(ge=32 * MIB)] = ByteSize(512 * MIB)
    """Memory of the whole sandbox, its temporary files included."""

    processes: Annotated[int, Constraints(ge=8, le=4096)] = 64
    """Processes and threads that may exist at the same time."""

    open_files: Annotated[int, Constraints(ge=32, le=65_536)] = 256
    """Open descriptors of each process."""

    file_bytes: Annotated[Bytes, Constraints(ge=MIB)] = ByteSize(64 * MIB)
    """Size of any one file that a program writes."""

    scratch_bytes: Annotated[Bytes, Constraints(ge=MIB)] = ByteSize(64 * MIB)
    """Size of the private /tmp."""

    out_bytes: Annotated[Bytes, Constraints(ge=MIB)] = ByteSize(32 * MIB)
    """Size of /out, whose files are kept when the program has ended."""

    output_bytes: Annotated[ByteSize, Constraints(ge=256)] = ByteSize(32 * 1024)
    """Bytes of stdout, and as many of stderr, that an answer shows: the head and the tail. Also bounds the value."""

    stored_output_bytes: Bytes = ByteSize(16 * MIB)
    """Bytes of stdout, and as many of stderr, that are kept for reading by handle when the answer can't show all."""

    code_bytes: Bytes = ByteSize(256 * 1024)
    """Size of the program text."""

    input_bytes: Bytes = ByteSize(MIB)
    """Size of the files that come with a program, all together."""

    requests: Annotated[int, Constraints(ge=1)] = 10_000
    """Requests and connections through the doors; each is written to the audit log."""

    tool_calls: Annotated[int, Constraints(ge=1)] = 1_000
    """Calls of other servers' tools; each is written to the audit log."""

    tool_bytes: Bytes = ByteSize(64 * MIB)
    """Bytes of the arguments and the results of these calls together."""


class Narrowing(Value):
    """Limits a request may ask for, each lowered to the operator's where that is less; ``None`` takes the default."""

    wall_seconds: Seconds | None = None
    cpu_seconds: Seconds | None = None
    memory_bytes: Annotated[Bytes, Constraints(ge=32 * MIB)] | None = None
    processes: Annotated[int, Constraints(ge=8)] | None = None
    open_files: Annotated[int, Constraints(ge=32)] | None = None
    file_bytes: Annotated[Bytes, Constraints(ge=MIB)] | None = None
    scratch_bytes: Annotated[Bytes, Constraints(ge=MIB)] | None = None
    output_bytes: Annotated[ByteSize, Constraints(ge=256)] | None = None


class Mount(CheckedValue):
    """A host directory or file shown inside the sandbox, read-only."""

    source: Annotated[str, Constraints(pattern=r"^/[^\x00]*$"), ABSOLUTE_PATH]
    """Absolute path on the host."""

    target: PathText
    """Absolute path inside the sandbox."""

    as_owner: bool = False
    """Show it as if it belonged to the program, which may then read files that only the owner of `source` may read.
    Only matters if Gloveport is started as root."""


class Policy(Value):
    """What the operator allows a caller. A request can only narrow it."""

    languages: Languages = frozenset(LANGUAGES)
    """Languages that may be run."""

    mounts: tuple[Mount, ...] = ()
    """Host directories shown read-only in every sandbox."""

    unix_sockets: bool = False
    """Let programs make AF_UNIX sockets. If a mounted directory holds a socket of the host, programs can then reach
    it."""

    ptrace: bool = False
    """Let programs trace processes of their own sandbox, as debuggers do (`gdb`, `strace`)."""

    default_wall_seconds: Seconds = 30
    """Wall-clock limit of a request that names none."""

    limits: Limits = Limits()
    """The maximum limits of any run."""


class Grant(Value):
    """What one execution may do. ``Grant()`` may do nothing, so denial has one path."""

    languages: Languages = frozenset()
    mounts: tuple[Mount, ...] = ()
    writable: tuple[Mount, ...] = ()
    """Host directories that it may write: of a workspace, and of the caches of its tools."""
    unix_sockets: bool = False
    ptrace: bool = False
    limits: Limits = Limits()
    egress: Annotated[Egress, Serializer(outline)] = Egress()
    """Written out as the names of its APIs."""
    toolbox: Annotated[Toolbox, Serializer(hub.outline)] = Toolbox()
    """Written out as the names of its servers."""
    sampling: Annotated[Sampling, Serializer(hub.outline_of_sampling)] = Sampling()
    """Written out as what may be asked."""
    workspace: WorkspacePolicy | None = None
    """What tools of a workspace may do; without it, nothing."""
    skills: bool = False
    """Whether its program may call skills."""
    skill: SkillRights | None = None
    """Of an approved skill: what of all this it was seen to need. It may do no more."""
    callers: tuple[SkillRights, ...] = ()
    """Of the approved skills whose programs wait for it: it may do no more than any of them."""
    packages: Annotated[PackageRules, Excluded()] = PackageRules()
    """Which packages a program may ask for. Not written out: the whole list is the owner's business."""
