"""The plan that a sandbox is built from: mounts, environment, limits, network; everything but the host.

``make_plan`` is pure and complete: a backend adds nothing to a plan and drops nothing from it, or refuses to start.
"""

import hashlib
import math
import socket
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import PurePosixPath
from typing import Annotated, Literal, TypeAlias

from gloveport.errors import SandboxError
from gloveport.model import (
    GUEST,
    MIB,
    OUT,
    OUT_LINKS,
    PRIVATE,
    SCRATCH,
    Grant,
    Limits,
    Mount,
    Program,
    SessionSetup,
    Symlink,
    Value,
)
from gloveport.model.constraints import Constraints
from gloveport.model.reading import CheckedValue

_SHARED_MEMORY_BYTES = 16 * MIB
"""Size of ``/dev/shm`` if no cgroup counts it: memory besides the program's own."""
_FEW_HEAPS = {"MALLOC_ARENA_MAX": "2"}
"""Without a cgroup for memory, the address space is limited: the C library would reserve 64 MiB of it for each of up to
eight heaps per processor, and Java would not start in 4 GiB.
"""
_PRIVATE_BYTES = 8 * MIB
_PROCESS_MARGIN = 16
_HOSTNAME = "gloveport"
MOST_CONNECTORS = 16
_MOST_DOORS = 253 - MOST_CONNECTORS  # descriptors in one message of the kernel's (SCM_MAX_FD)
# Of each network namespace, below /proc/sys. Memberships in multicast groups are torn down under a lock of the whole
# host. No cgroup counts data in a connection that is not accepted yet: so few connections may wait, with little data
# each. Connections that wait for their time-out are taken down one by one with their namespace.
_SYSCTLS = {
    "net/ipv4/igmp_max_memberships": "0",
    "net/core/somaxconn": "128",
    "net/ipv4/tcp_rmem": "4096 131072 262144",
    "net/ipv4/tcp_wmem": "4096 65536 262144",
    "net/ipv4/tcp_max_tw_buckets": "4096",
}

# Limits of each namespace of System V objects; only programs that write to a workspace have such objects. Bytes and
# pages of shared memory are bounded as those of /dev/shm.
_SEMAPHORES = "250 4096 100 64"  # in a set, in all, of a call, and how many sets
_MOST_SEGMENTS = 64
_PAGE_BYTES = 4096

Access: TypeAlias = Literal["read", "run", "write", "write files", "device"]


PathProtection: TypeAlias = tuple[str, Literal["pinned", "read-only"]] | tuple[str, Literal["copied"], str]
"""A protected path inside of a directory that programs may write: it can't be replaced, or not written either; or
programs see a copy in its place, with this text, one character for each byte.
"""


class Tmpfs(Value):
    """A private file system in memory, never larger than ``size`` bytes."""

    path: str
    size: int


class TextFile(Value):
    """A small generated file of the sandbox's root."""

    path: str
    text: str
    is_base64: bool = False
    """Whether the text is base64 of bytes that are no text."""


Door: TypeAlias = tuple[str, Annotated[int, Constraints(ge=1, le=65535)]]
"""IPv4 address, in its usual spelling, and TCP port."""


class Network(CheckedValue):
    """The network of a sandbox besides its own loopback. ``Network()`` has nothing."""

    hosts: Mapping[
        Annotated[str, Constraints(pattern=r"^[^\s#]+$")], Annotated[str, Constraints(pattern=r"^[0-9.]+$")]
    ] = {}
    """The loopback address of each canonical name; without the sandbox's own names."""

    doors: Annotated[tuple[Door, ...], Constraints(max_length=_MOST_DOORS)] = ()
    """Addresses where the host listens inside."""

    connectors: Annotated[tuple[int, ...], Constraints(max_length=MOST_CONNECTORS)] = ()
    """Address families of sockets by which the host connects to ports inside."""

    env: Mapping[str, str] = {}
    path: tuple[str, ...] = ()
    """Directories of commands that precede the system's."""

    files: tuple[TextFile, ...] = ()
    """Below /etc, where programs may read."""

    placeholders: tuple[str, ...] = ()
    """Environment variables with a random value in each sandbox."""


class System(Value):
    """What every sandbox takes from the host, whatever program runs in it."""

    binds: tuple[Mount, ...]
    """System directories, the guest files, and what the init process's interpreter needs."""

    packages: tuple[Mount, ...] = ()
    """Python packages besides the interpreter's own."""

    env: Mapping[str, str] = {}
    """Variables that tell programs of them."""

    symlinks: tuple[Symlink, ...]
    masked: tuple[str, ...]
    """Files below /proc that reveal the host, and are masked."""

    python: str
    """Path, inside, of the interpreter that runs the init process."""

    most_by_rlimit: Mapping[str, int]
    """What this process can give a program at most, whatever the program's limits: nobody can raise a hard limit."""

    counts_memory: bool
    """Whether a cgroup counts the memory of a whole sandbox; else each process is limited separately."""


class Plan(Value, dict=True):
    """Everything about one sandbox, and nothing about the host it is built on."""

    interpreter: tuple[str, ...]
    """Command line of the interpreter that runs the first process; the backend appends one of the guest files."""

    preload: tuple[str, ...]
    """Modules that it may import before the program comes."""

    env: Mapping[str, str]
    """The whole environment."""

    binds: tuple[Mount, ...]
    writable: tuple[Mount, ...] = ()
    """Host directories that programs may write, and own inside. Only fork servers build these: they mount protected
    paths in them read-only.
    """

    symlinks: tuple[Symlink, ...]
    masked: tuple[str, ...]
    files: tuple[TextFile, ...]
    tmpfs: tuple[Tmpfs, ...]
    hostname: str
    families: frozenset[int]
    """Address families that ``socket()`` may use, wherever they lead."""

    ptrace: bool = False
    """Whether programs may trace each other."""

    landlock: tuple[tuple[str, Access], ...]
    doors: tuple[Door, ...] = ()
    """Where the host listens in the sandbox's network namespace."""

    connectors: tuple[int, ...] = ()
    """Address families of TCP sockets in that namespace by which the host connects to its ports."""

    sysctls: Mapping[str, str]
    """Settings of that namespace, and of that of System V objects: path below ``/proc/sys`` → value."""

    placeholders: tuple[str, ...] = ()
    """Environment variables with a random value in each sandbox."""

    rlimits: Mapping[str, tuple[int, int]]
    """Soft and hard limit of each process."""

    limits: Limits
    session: SessionSetup | None = None
    """The session that runs in it, if one does."""

    @property
    def mounts(self) -> tuple[Mount, ...]:
        """All mounts of the host, in the order in which their identities are reported."""
        return (*self.binds, *self.writable)

    @property
    def supervised(self) -> bool:
        """Whether programs may watch files below writable directories, and have System V objects and local sockets of
        their own: the server makes some of these calls for them.
        """
        return bool(self.writable)

    @cached_property
    def walls(self) -> str:
        """Digest of all but the session, and the limits of processes and cgroups, which can be lowered in a built
        sandbox.
        """
        return hashlib.sha256(self.model_dump_json(exclude={"rlimits", "limits", "session"}).encode()).hexdigest()


_NO_NETWORK = Network()


def make_plan(program: Program, grant: Grant, system: System, network: Network = _NO_NETWORK) -> Plan:
    """Plan the sandbox of one program under one grant. Pure. Raises SandboxError if two mounts of the plan collide."""
    limits = grant.limits
    all_binds = (*system.binds, *program.binds, *system.packages)
    shared = limits.scratch_bytes if system.counts_memory else min(_SHARED_MEMORY_BYTES, limits.scratch_bytes)
    tmpfs = (
        Tmpfs(path="/dev/shm", size=shared),  # noqa: S108 - as SCRATCH
        Tmpfs(path=SCRATCH, size=limits.scratch_bytes),
        Tmpfs(path=OUT, size=limits.out_bytes),
        Tmpfs(path=PRIVATE, size=_PRIVATE_BYTES),
    )
    # No mount point beneath anything else that is mounted: bubblewrap before 0.12 creates it through a symlink planted
    # there, on the host (CVE-2026-87766). The operator's mounts come last, and flat.
    places = tuple(bind.target for bind in all_binds)
    shares = [mount.target for mount in (*grant.mounts, *grant.writable)]
    _refuse_nesting([*places, *shares], [*(t.path for t in tmpfs), "/proc", "/dev"])
    # Ours last, so that it shadows nothing; and no link in /usr/local/bin, where an interpreter may be mounted.
    own = (str(PurePosixPath(system.python).parent), "/usr/local/bin", "/usr/bin", "/bin", f"{GUEST}/shell")
    commands = (*network.path, *program.path, *own)
    return Plan(
        # A program that runs no Python itself needs no packages: finding them takes a third of Python's own start.
        interpreter=(system.python, "-I", "-B", *(() if program.preload else ("-S",))),
        preload=program.preload,
        env={
            "PATH": ":".join(dict.fromkeys(commands)),
            "HOME": SCRATCH,
            "TMPDIR": SCRATCH,
            "LANG": "C.UTF-8",
            "USER": "agent",
            "LOGNAME": "agent",
            "SHELL": "/bin/bash",
            "TERM": "dumb",
            "NO_COLOR": "1",
            **({} if system.counts_memory else _FEW_HEAPS),
            **system.env,
            **program.env,
            **network.env,
        },
        binds=(*all_binds, *grant.mounts),
        writable=grant.writable,
        symlinks=(*system.symlinks, *program.symlinks, *_out_links([*places, *shares])),
        masked=system.masked,
        files=(
            *_etc(network.hosts),
            *(TextFile(path=f"/etc/{name}", text=text) for name, text in program.files.items()),
            *network.files,
        ),
        tmpfs=tmpfs,
        hostname=_HOSTNAME,
        families=frozenset(
            map(int, {socket.AF_INET, socket.AF_INET6} | ({socket.AF_UNIX} if grant.unix_sockets else set()))
        ),
        ptrace=grant.ptrace,
        landlock=(
            *((place, "run") for place in places),
            *((mount.target, "read") for mount in grant.mounts),
            ("/etc", "read"),
            ("/proc", "read"),
            ("/dev", "device"),
            *((t.path, "write") for t in tmpfs),
            # No socket: the host's programs could connect to it.
            *((mount.target, "write" if grant.unix_sockets else "write files") for mount in grant.writable),
        ),
        doors=network.doors,
        connectors=network.connectors,
        sysctls=_SYSCTLS | (_system_v(shared) if grant.writable else {}),
        placeholders=network.placeholders,
        rlimits=_rlimits(limits, program, system),
        limits=limits,
        session=program.session,
    )


def let_last(plan: Plan, seconds: float) -> Plan:
    """The plan of a session that may last so long: its processes' time limits must cover many calls. Pure."""
    cpu = math.ceil(seconds * plan.limits.cpus)
    return plan.model_copy(update={"rlimits": {**plan.rlimits, "RLIMIT_CPU": (cpu, cpu + 1)}})


def _system_v(shared: int) -> dict[str, str]:
    """Bounds of System V objects: as many bytes of memory as ``/dev/shm`` holds."""
    return {
        "kernel/shmmax": str(shared),
        "kernel/shmall": str(shared // _PAGE_BYTES),
        "kernel/shmmni": str(_MOST_SEGMENTS),
        "kernel/sem": _SEMAPHORES,
    }


def _out_links(used_paths: Sequence[str]) -> Iterator[Symlink]:
    """The other names of ``OUT``, except taken ones."""
    for link in OUT_LINKS:
        if not any(f"{link}/".startswith(f"{other}/") or other.startswith(f"{link}/") for other in used_paths):
            yield Symlink(path=link, target=OUT)


def _etc(hosts: Mapping[str, str]) -> tuple[TextFile, ...]:
    """The files of /etc. A sandbox's own names mean itself, even if other hosts have them too."""
    named = "".join(
        f"{address} {name}\n"
        for name, address in hosts.items()
        if name != _HOSTNAME and name.rpartition(".")[2] != "localhost"
    )
    texts = {
        "passwd": "agent:x:1000:1000:agent:/tmp:/bin/bash\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "group": "agent:x:1000:\nnogroup:x:65534:\n",
        "hosts": f"127.0.0.1 localhost {_HOSTNAME}\n::1 localhost\n{named}",
        "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }
    return tuple(TextFile(path=f"/etc/{name}", text=text) for name, text in texts.items())


def _rlimits(limits: Limits, program: Program, system: System) -> dict[str, tuple[int, int]]:
    """Per-process limits: for resources that cgroups don't count, and as a second wall for those that they do."""
    rlimits = {
        # If a cgroup counts, it shall refuse first, since it also reports; this limit stands behind it.
        "RLIMIT_NPROC": limits.processes + (_PROCESS_MARGIN if system.counts_memory else 0),
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_SIGPENDING": 1024,  # counts timers too, of all processes of an ordinary user on the host
        "RLIMIT_MEMLOCK": 64 * 1024,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_NICE": 0,
        "RLIMIT_RTPRIO": 0,
    }
    if not system.counts_memory:
        # V8 reserves many gigabytes of addresses: so its private writable memory is limited instead.
        name = "RLIMIT_DATA" if program.reserved_bytes else "RLIMIT_AS"
        rlimits[name] = limits.memory_bytes + program.reserved_bytes
    cpu = math.ceil(limits.cpu_seconds)
    # The soft limit's signal tells the cause; at the hard limit the process is killed without one.
    pairs = {name: (value, value) for name, value in rlimits.items()} | {"RLIMIT_CPU": (cpu, cpu + 1)}
    for name in pairs.keys() & system.most_by_rlimit.keys():
        soft, hard = pairs[name]
        most = system.most_by_rlimit[name]
        pairs[name] = min(soft, most), min(hard, most)
    return pairs


def _refuse_nesting(targets: Sequence[str], writable: Sequence[str]) -> None:
    """Checks each target once, since every program needs this."""
    taken, above = set[tuple[str, ...]](), dict[tuple[str, ...], str]()

    def take(path: str, parts: tuple[str, ...]) -> None:
        taken.add(parts)
        above.update((parts[:length], path) for length in range(1, len(parts)))

    for path in writable:
        take(path, PurePosixPath(path).parts)
    for target in targets:
        parts = PurePosixPath(target).parts
        outer = next((parts[:length] for length in range(1, len(parts) + 1) if parts[:length] in taken), None)
        if outer is not None or parts in above:
            other = above[parts] if outer is None else PurePosixPath(*outer)
            raise SandboxError(
                f"the mount at {target} collides with {other}",
                hint="mount targets must lie side by side; choose another target",
            )
        take(target, parts)


def same_walls(one: Plan, other: Plan) -> bool:
    """Whether two plans differ only in limits that can be lowered in a built sandbox. Pure."""
    return one.walls == other.walls
