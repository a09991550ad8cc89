"""Starts bubblewrap for one server, and outlives the server until all is dead. Run as a program of its own.

    python -I -S reaper.py CONTROL-DESCRIPTOR

    server → reaper   a byte, and descriptors   start a launch. They are: its status socket, its standard error, its
                                                specification, what it inherits (under the numbers from FIRST on), and
                                                as many as the byte says to hold until it is dead
    server → reaper   the byte PLACES, and one  these cgroups will be the server's: a file with a path a line
    reaper → server   a native int, on status   the launch's process id
    reaper → server   a native int, on status   its wait status; all that it has started is dead or has been killed
    server → reaper   the end of status         kill the launch
    server → reaper   the end of control        the server is gone: kill everything, remove the cgroups, and end

A server may be killed at any moment, and so may bubblewrap. A process dies with its parent only after it has called
``PR_SET_PDEATHSIG``; bubblewrap's pid 1 calls it late, and before that it waits for its parent's word, if need be for
ever. But it stays in the process group of its launch, a signal to a group also reaches processes that are just being
forked, and the number of a group is not reused as long as its leader is not reaped, which only this process does.
Standard library only.
"""

import _signal  # type: ignore[import-not-found]  # these and no others: ``contextlib``, ``pathlib``, ``json`` and
import _socket  # what they import would take longer than all else of this process's start
import ctypes
import errno
import fcntl
import marshal
import os
import select
import sys
import time
from _frozen_importlib_external import SourceFileLoader
from io import FileIO
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

FIRST = 3
"""Number of the first descriptor that a launch inherits."""

PLACES = 255
STATUS = Struct("i")
GROUP = "launched"
"""The cgroup of this process and its launches, below the first of the server's cgroups."""

LEAF = "gloveport-server"
"""The cgroup of servers, below a cgroup that must not have processes of its own."""

PR_SET_CHILD_SUBREAPER = 36
MOST_DESCRIPTORS, ALL_DESCRIPTORS = 253, 1 << 30  # the kernel's SCM_MAX_FD
RIGHTS_BYTES = _socket.CMSG_LEN(MOST_DESCRIPTORS * STATUS.size)
IGNORED = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP)  # they end servers; service managers send them to all
PATIENCE_SECONDS, STEP_SECONDS = 2.0, 0.001
# Version 1 and 2. A dead group needs no quota, and tearing down its resources takes processor time.
NO_QUOTA = (("cpu.cfs_quota_us", b"-1"), ("cpu.max", b"max"))


class Launch:
    """A launch that has been started."""

    def __init__(self, status: _socket.socket, held_descriptors: "Sequence[int]") -> None:
        self.status = status
        self.held_descriptors = held_descriptors


class Reaper:
    """Starts launches and ends them."""

    def __init__(self, control: _socket.socket, launch: "Callable[[dict[str, object], int], None]") -> None:
        self.control = control
        self.launch = launch
        self.me = os.getpid()
        self.launches: dict[int, Launch] = {}
        self.statuses: dict[int, int] = {}
        """Descriptor of a status socket → process id, until the launch ends or the server closes its end."""

        self.places: list[str] = []
        self.has_entered = False
        self.children, wakeup = _socket.socketpair()
        for end in (self.children, wakeup):
            end.settimeout(0)
        self.wakeup = wakeup  # kept open by this reference
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(wakeup.fileno(), warn_on_full_buffer=False)
        self.events = select.poll()
        for source in (control, self.children):
            self.events.register(source, select.POLLIN)

    def serve(self) -> None:
        """Serve the server's requests until it is gone."""
        while True:
            ready = dict(self.events.poll())
            if self.children.fileno() in ready:
                self.children.recv(1 << 12)
                self.reap()
            for number in ready.keys() & self.statuses.keys():
                self.events.unregister(number)
                kill_group(self.statuses.pop(number))
            if self.control.fileno() in ready and not self.take():
                return

    def take(self) -> bool:
        """Serve one request; False when the server is gone."""
        try:
            data, rights, flags, _ = self.control.recvmsg(1, RIGHTS_BYTES, _socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            return False
        descriptors = list(memoryview(rights[0][2]).cast("i")) if rights else []
        if data and not flags & _socket.MSG_CTRUNC:
            if data[0] == PLACES:
                with FileIO(descriptors.pop()) as file:
                    self.places = [line for line in file.readall().decode().split("\n") if line]
            else:
                self.start(descriptors, data[0])
        for descriptor in descriptors:
            os.close(descriptor)
        return bool(data)

    def start(self, descriptors: list[int], held_count: int) -> None:
        """Fork a launch. Descriptors that stay open here are removed from ``descriptors``."""
        if not self.has_entered:
            self.has_entered = True
            self.enter()
        error, specification, *inherited = descriptors[1 : len(descriptors) - held_count]
        try:
            spec = marshal.loads(os.read(specification, os.fstat(specification).st_size))  # noqa: S302 - the server's
            pid = os.fork()
        except OSError as fault:
            os.write(error, f"launch: {fault}\n".encode())
            return
        if pid == 0:
            self.become_launch(spec, error, inherited)
        try_to(os.setpgid, pid, pid)  # in both processes: whichever comes first
        held_descriptors = [descriptors.pop() for _ in range(held_count)]
        status = _socket.socket(fileno=descriptors.pop(0))
        self.launches[pid] = Launch(status, held_descriptors)
        self.statuses[status.fileno()] = pid
        self.events.register(status, select.POLLIN)
        tell(status, pid)

    def become_launch(self, spec: dict[str, object], error: int, inherited: list[int]) -> None:
        """The whole life of a launch: ends the process, or executes another program. Here and in ``launch.py`` as
        little of Python is used as possible: each touched page has to be copied first.
        """
        try:
            os.setpgid(0, 0)
            _signal.set_wakeup_fd(-1)
            for handled in (_signal.SIGCHLD, *IGNORED):
                _signal.signal(handled, _signal.SIG_DFL)
            os.dup2(error, 2)
            above = FIRST + len(inherited)
            for number, descriptor in enumerate([fcntl.fcntl(each, fcntl.F_DUPFD, above) for each in inherited], FIRST):
                os.dup2(descriptor, number)
            os.closerange(above, ALL_DESCRIPTORS)
            null = os.open("/dev/null", os.O_RDWR)  # opened anew: locks and flags belong to the open file
            os.dup2(null, 0)
            os.dup2(null, 1)
            os.close(null)
            self.launch(spec, self.me)
        except OSError as fault:
            os.write(2, f"launch: {fault}\n".encode())
        finally:
            os._exit(1)

    def reap(self) -> None:
        """Reap dead launches, after killing their leftover processes."""
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            launch = self.launches.pop(found.si_pid, None)
            if launch is not None:
                kill_group(found.si_pid)
            _, status = os.waitpid(found.si_pid, 0)
            if launch is not None:
                if self.statuses.pop(launch.status.fileno(), None) is not None:
                    self.events.unregister(launch.status)
                for descriptor in launch.held_descriptors:
                    os.close(descriptor)
                tell(launch.status, status)
                launch.status.close()

    def enter(self) -> None:
        """Move into a cgroup of the server: forked processes are born there, and are found there if this process
        dies.
        """
        for place in self.places[:1]:  # failures do not matter as long as this process lives
            try_to(os.mkdir, f"{place}/{GROUP}")
            try_to(move_into, f"{place}/{GROUP}")

    def end(self) -> None:
        """Kill everything and remove the server's cgroups."""
        for place in self.places:
            lift_quotas(groups_below(place))
        for pid in self.launches:
            kill_group(pid)
        children = f"/proc/self/task/{self.me}/children"
        while has_children():
            self.reap()
            if os.path.exists(children):  # orphans that were given to us; some kernels do not list them
                for pid in read_numbers(children):
                    try_to(os.kill, pid, _signal.SIGKILL)  # not reaped, so the number is still its own
            time.sleep(STEP_SECONDS)
        for place in self.places:
            leave(place)
            try_to(clear, place)  # if a process hangs in the kernel, the next server tries again


def try_to(call: "Callable[..., object]", *arguments: object) -> None:
    """Make a call whose failure does not matter."""
    try:
        call(*arguments)
    except OSError:
        return


def kill_group(leader: int) -> None:
    """Kill a launch. Its number is still its own: it has not been reaped."""
    try_to(os.killpg, leader, _signal.SIGKILL)


def has_children() -> bool:
    """Whether a child is left, dead or alive."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def lift_quotas(groups: "Iterable[str]") -> None:
    """Lift the processor quotas of cgroups."""
    for group in groups:
        for name, value in NO_QUOTA:
            try_to(write, f"{group}/{name}", value)  # the group may have no such file, or be gone


def leave(place: str) -> None:
    """Move from the server's cgroups back to the server's original one."""
    parent = os.path.dirname(place)
    for outside in (f"{parent}/{LEAF}", parent):
        try:
            move_into(outside)
        except OSError:
            continue
        return


def move_into(group: str) -> None:
    """Move this process into a cgroup: under version 1 as its one thread, see ``cgroup.Cgroup.open_entrances``.

    Raises:
        OSError: It can't move there.
    """
    name = "tasks" if os.path.exists(f"{group}/tasks") else "cgroup.procs"
    write(f"{group}/{name}", b"0")


def write(path: str, data: bytes) -> None:
    """Write to a file of the kernel's."""
    with FileIO(os.open(path, os.O_WRONLY | os.O_CLOEXEC), "w") as file:
        file.write(data)


def clear(group: str, deadline: float | None = None) -> None:
    """Kill the processes in a cgroup of sandboxes and those below, and remove these groups. It may be gone already.
    ``deadline``: how long to wait, by the monotonic clock; None for the usual time.

    Raises:
        OSError: It does not become empty: a process hangs in the kernel.
    """
    lift_quotas([group])
    if deadline is None:
        deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        try:
            for below in groups_below(group):  # each time: a thread of the server may have been making one
                clear(below, deadline)
            kill_members(group)
            os.rmdir(group)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENODEV):
                return
            # A killed process leaves its group when the kernel has torn it down: soon, but not at once.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
            time.sleep(STEP_SECONDS)
        else:
            return


def groups_below(group: str) -> list[str]:
    """The cgroups directly below one; none if it is gone: a starting server may have removed it."""
    try:
        return [entry.path for entry in os.scandir(group) if entry.is_dir()]
    except OSError:
        return []


def members(group: str) -> set[int]:
    """The processes directly in a cgroup; 0 for each process outside of our pid namespace."""
    return set(read_numbers(f"{group}/cgroup.procs"))


def read_numbers(path: str) -> "Iterator[int]":
    """The numbers in a file of the kernel's."""
    with FileIO(path) as file:
        return map(int, file.readall().split())


def kill_members(group: str) -> None:
    """Kill the processes in a cgroup. A number read there may be reused the next moment; if it is still listed once a
    descriptor is open, the descriptor belongs to a process of the group, or to a dead one.
    """
    opened: dict[int, int] = {}
    try:
        for pid in members(group):
            try:
                opened[pid] = os.pidfd_open(pid)
            except ProcessLookupError:
                continue
        for pid in opened.keys() & members(group):
            try:
                _signal.pidfd_send_signal(opened[pid], _signal.SIGKILL)
            except ProcessLookupError:
                continue
    finally:
        for descriptor in opened.values():
            os.close(descriptor)


def tell(status: _socket.socket, number: int) -> None:
    """Tell the server, if it still listens."""
    try_to(status.send, STATUS.pack(number), _socket.MSG_NOSIGNAL | _socket.MSG_DONTWAIT)


def load_launch() -> "Callable[[dict[str, object], int], None]":
    """The function of ``launch.py``, by its path: isolated mode has no directory of ours on ``sys.path``."""
    module = type(sys)("launch")
    SourceFileLoader("launch", f"{os.path.dirname(__file__)}/launch.py").exec_module(module)
    function: Callable[[dict[str, object], int], None] = module.launch
    return function


def main() -> None:
    """See the module."""
    for number in IGNORED:
        _signal.signal(number, _signal.SIG_IGN)
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())  # programs must not inherit signals blocked by the server's parent
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    reaper = Reaper(_socket.socket(fileno=int(sys.argv[1])), load_launch())
    try:
        reaper.serve()
    finally:
        reaper.end()


if __name__ == "__main__":
    main()
    os._exit(0)  # the server waits for the end
