"""Starts and watches the processes of a session's interpreters. Standard library only."""

import contextlib
import os
import resource
import select
import signal

CHUNK_BYTES = 1 << 16
MOST_LINE_BYTES = 16 << 20


class Process:
    """An interpreter's process, awake or asleep.

    Attributes:
        is_group: Whether it leads a group of processes, which gets its signals.
    """

    def __init__(self, pid, is_group=False):  # noqa: FBT002 - of the guest's own
        self.pid = pid
        self.is_group = is_group
        self.descriptor = os.pidfd_open(pid)

    def has_ended(self):
        """Whether the process is dead."""
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def send_signal(self, number):
        """Send it a signal, unless it is dead. Its group keeps its number until it is reaped and the group is empty."""
        with contextlib.suppress(ProcessLookupError):
            if self.is_group:
                os.killpg(self.pid, number)
                return
        with contextlib.suppress(ProcessLookupError):  # a process that has just been forked leads no group yet
            signal.pidfd_send_signal(self.descriptor, number)

    def kill(self):
        """End it, and wait until it is dead."""
        self.send_signal(signal.SIGKILL)
        select.select([self.descriptor], [], [])

    def close(self):
        """Close its descriptor."""
        os.close(self.descriptor)


def signal_others(leader, number):
    """Send a signal to all of a process group but its leader."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):  # it has ended
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                group = int(file.read().rpartition(")")[2].split()[2])
            if group == leader != int(name):
                os.kill(int(name), number)


class Deaths:
    """How processes have ended.

    Attributes:
        statuses: Process number → wait status; None while the process is alive.
    """

    def __init__(self):
        self.statuses = {}

    def expect(self, process):
        """Record the wait status of this process when it ends."""
        self.statuses[process.pid] = None

    def reap(self):
        """Reap all dead processes, orphans of programs too."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self.statuses:
                    self.statuses[ended[0]] = ended[1]
        except ChildProcessError:
            pass

    def code_of(self, process):
        """Its exit code, or the negative number of the signal that ended it; None if unknown. Can be asked once."""
        self.reap()
        status = self.statuses.pop(process.pid, None)
        return None if status is None else os.waitstatus_to_exitcode(status)


def explain_end(name, code):
    """How an interpreter has ended, in words."""
    if code is None:
        return f"its {name} has died"
    if code >= 0:
        return f"its {name} has exited with {code}"
    try:
        return f"its {name} was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"its {name} was ended by signal {-code}"


def report_end(code):
    """The report on a call that has ended its interpreter."""
    code = -signal.SIGKILL if code is None else code
    report = {"value": None, "value_type": None, "value_truncated": False, "error": None}
    return {**report, "exit_code": code if code >= 0 else 128 - code, "signal": None if code >= 0 else -code}


def start(argv, variables, rlimits, descriptors):
    """Start a program as the leader of a session of its own, with an empty standard input. ``variables`` are added to
    this process's environment; ``rlimits`` are ``{name: (soft, hard)}``, ``descriptors`` its own, by number.
    """
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            for number, descriptor in descriptors.items():
                os.dup2(descriptor, number)
                os.set_inheritable(number, True)  # noqa: FBT003 - dup2 onto itself leaves it closing on exec
            set_limits(rlimits)
            for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):  # two of them Python ignores
                signal.signal(number, signal.SIG_DFL)
            os.execve(argv[0], argv, {**os.environ, **variables})
        except OSError as error:
            os.write(2, f"{argv[0]}: {error.strerror}\n".encode())
        finally:
            os._exit(127)
    return Process(pid, is_group=True)


def write_text(directory, name, text):
    """Write the text of a call to a file of this name; returns its path. Raises OSError."""
    os.makedirs(directory, mode=0o700, exist_ok=True)
    path = os.path.join(directory, name)
    with open(path, "wb") as file:
        file.write(text.encode("utf-8", "surrogatepass"))
    return path


def remove(path):
    """Remove a file, if it is there."""
    with contextlib.suppress(OSError):
        os.unlink(path)


def set_limits(rlimits):
    """Lower limits of this process."""
    for name, limit in rlimits.items():
        resource.setrlimit(getattr(resource, name), tuple(limit))


class Lines:
    """Whole lines from a pipe, as they come.

    Attributes:
        descriptor: Its reading end, which does not block.
    """

    def __init__(self, descriptor):
        self.descriptor = descriptor
        self.received = bytearray()

    def fileno(self):
        """The descriptor to wait on."""
        return self.descriptor

    def take(self):
        """The next line, without its end; None while there is none. Raises ValueError for one that is too long."""
        with contextlib.suppress(BlockingIOError):
            self.received += os.read(self.descriptor, CHUNK_BYTES)
        if len(self.received) > MOST_LINE_BYTES:
            raise ValueError(f"a line of more than {MOST_LINE_BYTES} bytes")
        line, end, rest = self.received.partition(b"\n")
        if not end:
            return None
        self.received = rest
        return bytes(line)
