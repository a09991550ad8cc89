"""The host's side of the hostile programs: what they must not reach, and what must not be left of them."""

import contextlib
import ctypes
import os
import secrets
import socket
import stat
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from gloveport.model import Mount
from gloveport.sandbox.base import Child, Sandbox
from gloveport.sandbox.cgroups import cgroup
from gloveport.sandbox.plan import Plan

CANARY = "GLOVEPORT_CANARY"
"""Environment variable of the runner whose value must be nowhere inside."""

_PR_SET_CHILD_SUBREAPER = 36
_USER_KEYRING, _KEYCTL_UNLINK = -4, 9


@dataclass(frozen=True, kw_only=True)
class FarSide:
    """Sockets and files of the host that a hostile program tries to reach."""

    listeners: dict[str, socket.socket]
    directory: Path
    """The hostile directory that some programs get as a mount."""

    victim: Path
    """An empty directory of the host, which a link in the hostile one points to."""

    secret: Path
    words: dict[str, str]
    """What the placeholders in a program stand for."""

    def reached(self) -> list[str]:
        """What has been reached since the last question, in words."""
        found = [f"something reached the host's {name} socket" for name in self.listeners if self._heard(name)]
        found += [f"{path} was made on the host" for path in self.victim.iterdir()]
        if (self.directory / "writable").read_text() != "untouched":
            found.append("the mounted file was changed")
        return found

    def _heard(self, name: str) -> bool:
        listener = self.listeners[name]
        with contextlib.suppress(BlockingIOError):
            if listener.type == socket.SOCK_STREAM:
                listener.accept()[0].close()
            else:
                listener.recv(1)
            return True
        return False


@contextlib.contextmanager
def far_side(directory: Path) -> Iterator[FarSide]:
    """Open the far side, and prove that it would notice: it is reached once by ourselves."""
    hostile, victim, secret = directory / "hostile", directory / "victim", directory / "secret"
    hostile.mkdir()
    victim.mkdir()
    secret.write_text(os.environ[CANARY])
    secret.chmod(0o644)
    abstract = f"gloveport-{secrets.token_hex(8)}"
    addresses: dict[str, tuple[int, int, object]] = {
        "tcp": (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        "udp": (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0)),
        "stream": (socket.AF_UNIX, socket.SOCK_STREAM, str(hostile / "stream")),
        "datagram": (socket.AF_UNIX, socket.SOCK_DGRAM, str(hostile / "datagram")),
        "abstract": (socket.AF_UNIX, socket.SOCK_STREAM, f"\0{abstract}"),
    }
    with contextlib.ExitStack() as stack:
        listeners = {}
        for name, (family, kind, address) in addresses.items():
            listeners[name] = stack.enter_context(socket.socket(family, kind))
            listeners[name].bind(address)
            listeners[name].settimeout(0)
            if kind == socket.SOCK_STREAM:
                listeners[name].listen()
        _plant(hostile, victim, secret)
        side = FarSide(
            listeners=listeners,
            directory=hostile,
            victim=victim,
            secret=secret,
            words={
                "tcp": str(listeners["tcp"].getsockname()[1]),
                "udp": str(listeners["udp"].getsockname()[1]),
                "abstract": abstract,
                "secret": str(secret),
                "pid": str(os.getpid()),
                "gateway": _gateway(),
                "key": stack.enter_context(_key()),
            },
        )
        for name, listener in listeners.items():
            with socket.socket(listener.family, listener.type) as probe:
                probe.connect(listener.getsockname())
                probe.send(b"x")
            if not side._heard(name):
                raise RuntimeError(f"the far side's {name} socket does not notice a connection")
        yield side


def _plant(hostile: Path, victim: Path, secret: Path) -> None:
    """Fill the directory that is mounted: links that lead out, sockets, and as root a device and a setuid program."""
    (hostile / "writable").write_text("untouched")
    (hostile / "writable").chmod(0o666)
    (hostile / "secret").symlink_to(secret)
    (hostile / "up").symlink_to("../../../../../../../..")
    (hostile / "old").symlink_to(f"/oldroot{secret}")
    (hostile / "link").symlink_to(f"/oldroot{victim}")
    os.mkfifo(hostile / "pipe")
    for name in ("stream", "datagram"):
        (hostile / name).chmod(0o777)
    program = hostile / "setuid"
    program.write_bytes(Path("/usr/bin/id").read_bytes())
    program.chmod(0o6755)
    if os.geteuid() == 0:
        os.mknod(hostile / "device", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    for path in (hostile, victim):
        path.chmod(0o777)


@contextlib.contextmanager
def _key() -> Iterator[str]:
    """The name of a key in this user's keyring of the kernel."""
    name = f"gloveport-{secrets.token_hex(8)}"
    libc = ctypes.CDLL(None)
    number = libc.syscall(248, b"user", name.encode(), b"secret", 6, _USER_KEYRING)
    try:
        yield name
    finally:
        libc.syscall(250, _KEYCTL_UNLINK, number, _USER_KEYRING)


def _gateway() -> str:
    """The host's default gateway, or an address that stands for it."""
    for line in Path("/proc/net/route").read_text().splitlines()[1:]:
        _, destination, gateway, *_ = line.split()
        if destination == "00000000":
            return socket.inet_ntoa(bytes.fromhex(gateway)[::-1])
    return "10.0.0.1"


def mounts(name: str, side: FarSide) -> tuple[Mount, ...]:
    """The operator's mounts of a policy that is called ``name`` in a header."""
    hostile = Mount(source=str(side.directory), target="/mnt/hostile")
    beneath = Mount(source="/usr/share", target="/mnt/hostile/link/deep")
    return {"none": (), "hostile": (hostile,), "beneath": (hostile, beneath)}[name]


@dataclass(frozen=True)
class Remains:
    """What identifies a sandbox after it has ended."""

    namespace: int
    groups: frozenset[Path]


@dataclass
class Witness:
    """A sandbox backend that looks at each sandbox that it hands on, and afterwards whether anything is left of it."""

    sandbox: Sandbox
    faults: list[str] = field(default_factory=list)
    ended: list[Remains] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``."""
        async with self.sandbox.start(plan) as child:
            init = _pid(child.inner.fileno())
            namespace = os.open(f"/proc/{init}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
            paths = {} if child.group is None else child.group.paths
            groups = frozenset(map(Path, paths.values()))
            shared = {Path(path) for name, path in paths.items() if name == cgroup.DISKS}  # by all of a server
            self.ended.append(Remains(namespace, groups - shared))
            members = set(_members(os.fstat(namespace).st_ino))
            if not members:
                self.faults.append("the witness sees nothing of the sandbox")
            for path in groups:  # all but the init, which is bubblewrap's where bubblewrap has built it for one program
                outside = members - {init} - set((path / "cgroup.procs").read_text().split())
                if outside:  # who has ended meanwhile is in no group
                    outside &= set(_members(os.fstat(namespace).st_ino))
                if outside:  # who was only just forked is in none for a moment
                    outside -= set((path / "cgroup.procs").read_text().split())
                if outside:
                    self.faults.append(f"before the program comes, {outside} are not in {path}")
            yield child

    def found(self) -> list[str]:
        """What was wrong, and what is left now that all has been cleared away."""
        for remains in self.ended:
            # While it is open, no other namespace gets its number.
            self.faults += [f"process {pid} is left" for pid in _members(os.fstat(remains.namespace).st_ino)]
            self.faults += [f"{path} is left" for path in remains.groups if path.exists()]
            os.close(remains.namespace)
        self.ended.clear()
        return self.faults


def _pid(descriptor: int) -> str:
    """The process of a process descriptor."""
    lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
    return next(line for line in lines if line.startswith("Pid:")).split()[1]


def _members(namespace: int) -> list[str]:
    """Processes that live in a pid namespace. Its dead init may wait for whoever adopted it to reap it."""
    found = []
    for process in _processes():
        with contextlib.suppress(OSError):
            if os.stat(f"{process}/ns/pid").st_ino == namespace and _status(process)[0] != "Z":  # noqa: PTH116 - slow
                found.append(process.rpartition("/")[2])
    return found


def _processes() -> list[str]:
    """Directories of all processes of the host. No objects of paths: they are gone through for each program."""
    return [entry.path for entry in os.scandir("/proc") if entry.name.isdigit()]


def _status(process: str) -> list[str]:
    """State, parent and so on of a process."""
    return Path(f"{process}/stat").read_text().rpartition(")")[2].split()


def adopt_orphans() -> None:
    """Become the parent of whatever loses its own: what leaves a sandbox is then our child."""
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError("PR_SET_CHILD_SUBREAPER")


def _files(directory: Path) -> Iterator[str]:
    """All that is in a directory but for an engine's state, which has thousands of packages."""
    for place, directories, files in os.walk(directory):
        if "audit" in directories:
            directories.remove("audit")
        yield from (f"{place}/{name}" for name in (*directories, *files))


def traces(directory: Path, groups: list[Path]) -> dict[str, object]:
    """What must be the same before and after, when no program is running.

    Numbers where names are new each time: a sandbox that waited is followed by another one.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    me = str(os.getpid())
    children = 0
    for process in _processes():
        with contextlib.suppress(OSError):
            children += _status(process)[1] == me
    return {
        "children": children,
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "cgroups": sum(path.is_dir() for group in groups for path in group.iterdir()),
        "files": sorted(_files(directory)),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
    }
