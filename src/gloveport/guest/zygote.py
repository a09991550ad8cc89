"""Fork server: an interpreter that has imported what programs import, and forks sandboxes that wait for a program.

    host → zygote   {"zygote": {"preload", "setup", "tmpfs", "masked", "filter"}}    the profile of all its children
    zygote → host   {"ready": {"mounts": …}}  what lies where; carries our pid as credentials
    host → zygote   {"fork": {}}              with the child's two sockets, channel and status
    zygote → host   a descriptor, on status:  the process of the child's pid 1; killing it kills all of the child
    child → host    {"ready": …}              on channel, as ``init.py`` says it; carries the child's pid as credentials
    host → child    {"wait": {}}              the host has put it in its cgroup, or gives descriptors of it to enter by
    child → host    {"waiting": {}}
    host → child    {"program": …}            and so on as ``init.py``
    zygote → host   a wait status, on status: a native int, when the child has ended

The zygote is uid 0 of the sandbox's user namespace, with the capabilities to make namespaces and mount in them and no
other. It runs no program, and reads nothing but the frames above, which come from the host alone: each child closes the
zygote's socket first and gets sockets of its own.

A child makes its walls itself, in this order, each step taking away what the next can do without: namespaces by
``clone``; mounts, while it may mount; a user namespace of its own, which owns none of the others; no capability; the
filter and Landlock. Only then it says that it is ready, and waits.

A program must not be pid 1, which no signal ends that it does not handle. So each pid namespace begins with a keeper,
which does nothing: the kernel itself reaps what it is left. It is forked not by the zygote but, since what a fork costs
goes by the memory of who forks, by a process that has imported nothing.

Memory is shared with the zygote until it is written to. So is what a fork copies and a program might guess: the layout
of the address space and the seed of ``hash`` are those of one zygote, which is why the host replaces it after a while.
Random numbers are seeded anew.
"""

import base64
import contextlib
import ctypes
import fcntl
import gc
import importlib
import importlib.util
import os
import select
import signal
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))

SYS_CLONE = {"x86_64": 56}
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET  # and that of processes
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 22, 24, 47, 4
SECCOMP_MODE_FILTER = 2
CAPABILITIES, NO_CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)  # version 3, of this process: none
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
RAISE_LOOPBACK = struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING)  # struct ifreq
INSIDE = 1000
REHEARSAL_SECONDS = 0.02  # where a program is waited for less than that, nobody has the time

# PyDLL, not CDLL: it would let go of the interpreter's lock around the call, and a child would come back without it.
_libc = ctypes.PyDLL(None, use_errno=True)


def check(result, what):
    """Turn a failed libc call into an error that says which step it was."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def load_init():
    """The module ``init.py``, by its path: isolated mode has no directory of ours on ``sys.path``, nor shall it."""
    spec = importlib.util.spec_from_file_location("init", os.path.join(HERE, "init.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def mount(source, target, kind, flags, data=None):
    """Mount, or raise the kernel's error with the target in it."""
    check(_libc.mount(source, target, kind, flags, data), target)


def clone(flags):
    """Fork with flags, which ``os.fork`` does not take. Returns -1 where there is no process to be had.

    What Python and libc do at a fork is for the sake of threads, of which there are none here, and of random numbers,
    for which see ``renew``. Left out, since it would write to as much memory as a short program.
    """
    return _libc.syscall(SYS_CLONE[os.uname().machine], flags | signal.SIGCHLD, 0, 0, 0, 0)


def start_keepers():
    """Fork the process that makes pid namespaces, with a keeper in each, while there is little memory to copy.

    Returns a socket: for each byte a descriptor of a keeper comes back, or the number of the error.
    """
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours
    try:
        ours.close()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the kernel reaps what is left to a keeper
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while theirs.recv(1):
            pid = clone(CLONE_NEWPID)
            if pid < 0:
                theirs.send(bytes([ctypes.get_errno()]))
                continue
            if pid == 0:
                keep()
            keeper = os.pidfd_open(pid)
            socket.send_fds(theirs, [b"\0"], [keeper])
            os.close(keeper)
    finally:
        os._exit(0)


def keep():
    """Be the pid 1 of a namespace, and nothing else, until killed. Signals are blocked."""
    check(_libc.setsid(), "setsid")  # or a program could signal our process group, and with it the zygote's
    check(_libc.capset(CAPABILITIES, NO_CAPABILITIES), "capset")
    os.closerange(0, 1 << 16)
    while True:
        _libc.pause()


def furniture(profile):
    """The mounts of a child before ``/proc/sys`` is made read-only, and after: arguments of ``mount``."""
    cover = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    masks = [(b"/proc/sys", b"/proc/sys"), *((b"/dev/null", path.encode()) for path in profile["masked"])]
    first = [
        (b"none", b"/", None, MS_REC | MS_PRIVATE),
        *(
            (b"tmpfs", path.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0700,size=%d" % size)
            for path, size in profile["tmpfs"]
        ),
        (b"devpts", b"/dev/pts", b"devpts", MS_NOSUID | MS_NOEXEC, b"newinstance,ptmxmode=0666,mode=0620"),
        (b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC),
    ]
    bound = [((source, path, None, MS_BIND), (b"none", path, None, cover)) for source, path in masks]
    return first, [step for pair in bound for step in pair]


def furnish(profile):
    """File systems and loopback of the new namespaces. The root and what is bound in it are the zygote's, read-only.

    Returns a descriptor of ``/proc/sys`` as it was before it was made read-only.
    """
    first, covers = profile["furniture"]
    for step in first:
        mount(*step)
    settings = os.open("/proc/sys", os.O_PATH | os.O_CLOEXEC)
    for step in covers:
        mount(*step)
    os.chdir(profile["home"])
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, RAISE_LOOPBACK)
    return settings


def give_up_privileges(settings):
    """Enter a user namespace that owns none of the other namespaces and can have none below it, and drop everything.

    One of its own, since processes and pending signals are counted per user namespace: children use up their own alone.
    """
    check(_libc.unshare(CLONE_NEWUSER), "unshare")
    write("/proc/self/setgroups", b"deny")
    write("/proc/self/uid_map", b"%d 0 1" % INSIDE)
    write("/proc/self/gid_map", b"%d 0 1" % INSIDE)
    write("user/max_user_namespaces", b"0", dir_fd=settings)
    os.close(settings)
    give_up_capabilities()


def write(path, data, dir_fd=None):
    """Write a setting of the kernel."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC, dir_fd=dir_fd)
    os.write(descriptor, data)
    os.close(descriptor)


def give_up_capabilities():
    """Drop every capability of every set."""
    capability = 0
    while _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0:  # EINVAL after the last one; EPERM shows in the walls
        capability += 1
    check(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    check(_libc.capset(CAPABILITIES, NO_CAPABILITIES), "capset")


def compiled(program):
    """A system call filter, an array of ``struct sock_filter``, as ``PR_SET_SECCOMP`` takes it, and what keeps it."""
    code = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)), code  # struct sock_fprog


def renew():
    """Seed anew what would otherwise give each child of the zygote the same numbers.

    OpenSSL has no state yet: it gathers some when it is first asked for a number.
    """
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed([*os.urandom(32)])  # by itself it would touch 100 pages to gather entropy


def become_child(init, profile, channel):
    """All of a child's life. Ends the process."""
    os.setsid()  # the zygote's process group is not ours to signal
    os.closerange(3, channel.fileno())
    os.closerange(channel.fileno() + 1, 1 << 16)
    with open("/dev/null", "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    give_up_privileges(furnish(profile))
    check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, profile["filter"][0], 0, 0), "seccomp")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    init.send(channel, {"ready": init.confine(profile["setup"])})
    _, groups = init.receive(channel)
    for group in groups:
        os.write(group, b"0")
        os.close(group)
    init.send(channel, {"waiting": {}})
    os.dup2(1, 2)
    renew()
    if not select.select([channel], [], [], REHEARSAL_SECONDS)[0]:
        rehearse(init, profile)
    init.run(channel)


def rehearse(init, profile):
    """Do once what every program of this profile needs, while there is none: it starts the sooner."""
    init.rehearse()
    # Not where it is not Python that comes, nor for programs with arrays: they don't notice, and it takes a megabyte.
    if profile["preload"] and "numpy" not in sys.modules:
        init.load("program", "python/program.py").rehearse()


def preload(modules):
    """Import what programs will, as far as it is there, and leave no trace but the modules."""
    # A library that starts threads at its import could not be forked.
    environment = dict(os.environ)
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    done = []
    for name in modules:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
            done.append(name)
    os.environ.clear()
    os.environ.update(environment)
    alive = os.listdir("/proc/self/task")
    if len(alive) != 1:
        sys.exit(f"zygote: {len(alive)} threads after importing {', '.join(done)}: such a process can't be forked")


class Zygote:
    """Forks children, and tells how they ended."""

    def __init__(self, init, host, profile, keepers):
        self.init = init
        self.host = host
        self.profile = profile
        self.keepers = keepers
        self.own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.children = {}  # process id → the socket on which its end is told, and the pid 1 of its namespace
        self.ended, self.wake = socket.socketpair()
        self.ended.settimeout(0)
        self.wake.settimeout(0)

    def serve(self):
        """Fork whenever the host asks, reap whenever a child ends, until the host is gone."""
        signal.set_wakeup_fd(self.wake.fileno())
        signal.signal(signal.SIGCHLD, lambda *_: None)
        events = select.poll()
        events.register(self.host, select.POLLIN)
        events.register(self.ended, select.POLLIN)
        while True:
            for descriptor, _ in events.poll():
                if descriptor == self.ended.fileno():
                    self.ended.recv(4096)
                    self.reap()
                else:
                    _, (channel, status) = self.init.receive(self.host)
                    sockets = socket.socket(fileno=channel), socket.socket(fileno=status)
                    try:
                        self.fork(*sockets)
                    except OSError as error:  # this one child is not to be had
                        os.write(2, f"zygote: {error}\n".encode())
                        for one in sockets:  # last: the host sees them closed, and reads why
                            one.close()

    def fork(self, channel, status):
        """Fork a child into a pid namespace of its own. Raises OSError when there is none to be had now."""
        keeper = self.new_keeper()
        check(_libc.setns(keeper, CLONE_NEWPID), "setns")
        pid = clone(NAMESPACES)
        if pid == 0:
            self.leave(channel, status)
        error = ctypes.get_errno()
        check(_libc.setns(self.own_namespace, CLONE_NEWPID), "setns")
        channel.close()
        if pid < 0:
            signal.pidfd_send_signal(keeper, signal.SIGKILL)
            os.close(keeper)
            raise OSError(error, f"clone: {os.strerror(error)}")
        self.children[pid] = status, keeper
        with contextlib.suppress(OSError):  # the host wants it no more: the child sees that as well, and ends
            socket.send_fds(status, [b"K"], [keeper])

    def new_keeper(self):
        """A descriptor of a keeper, pid 1 of a new namespace."""
        self.keepers.send(b"K")
        error, keepers, _, _ = socket.recv_fds(self.keepers, 1, 1)
        if not keepers:
            raise OSError(error[0], f"no pid namespace: {os.strerror(error[0])}")
        return keepers[0]

    def leave(self, channel, status):
        """In a child: let go of the zygote's sockets, and never return."""
        try:
            statuses = (one for one, _ in self.children.values())
            for own in (self.host, self.keepers, self.ended, self.wake, status, *statuses):
                own.detach()  # or what is left of it would one day close a descriptor of the program
            become_child(self.init, self.profile, channel)
        except OSError as error:
            os.write(2, f"zygote: {error}\n".encode())
        finally:
            os._exit(1)

    def reap(self):
        """End what children have left behind, and tell how they ended."""
        with contextlib.suppress(ChildProcessError):  # when none is left
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self.children:  # and not the process that makes keepers
                    status, keeper = self.children.pop(ended[0])
                    with contextlib.suppress(ProcessLookupError):
                        signal.pidfd_send_signal(keeper, signal.SIGKILL)
                    os.close(keeper)
                    with contextlib.suppress(OSError), status:
                        status.send(struct.pack("i", ended[1]))


def main():
    """See the module."""
    init = load_init()
    host = socket.socket(fileno=int(sys.argv[1]))
    host.set_inheritable(False)
    init.close_all_but(host.fileno())
    with open("/dev/null", "r+b", buffering=0) as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    keepers = start_keepers()
    profile = init.receive(host)[0]["zygote"]
    profile["filter"] = compiled(base64.b64decode(profile["filter"]))
    profile["furniture"] = furniture(profile)
    profile["home"] = os.environ["HOME"]
    for name, path in (("landlock", "landlock.py"), ("program", "python/program.py")):
        init.load(name, path)
    init.add_packages()
    preload(profile["preload"])
    init.send(host, {"ready": {"mounts": init.identities(profile["setup"].pop("mounts"))}})
    for _ in range(32):  # until the interpreter has adapted its code: each child would have to copy what it changes
        rehearse(init, profile)
    gc.collect()
    gc.freeze()
    Zygote(init, host, profile, keepers).serve()


if __name__ == "__main__":
    main()
