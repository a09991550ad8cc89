"""Fork server: an interpreter that has imported what programs import, and forks sandboxes that wait for a program.

    host → zygote   {"zygote": {"preload", "setup", "tmpfs", "masked", "doors", "connectors", "sysctls", "filter",
                             "watches"}}      a profile of all children; with the cgroups that we enter by ourselves
    host → zygote   a byte, {"kept": [[path, kind]…]}   what to keep in directories that programs may write, from now on
    zygote → host   {"kept": true}            it does
    zygote → host   {"ready": {"mounts": …}}  what lies where; carries our pid as credentials
                 or {"refused": …}            no child can be forked on this host: see ``find_refusal``
    host → zygote   a byte                    with the child's two sockets, channel and status, and its cgroups to enter
    zygote → host   a descriptor, on status:  the process of the child's pid 1; killing it kills all of the child
    child → host    descriptors               on channel, of doors and connectors, where there are some: it keeps none
    child → host    a descriptor              on channel, of its filter's listener where the host answers calls
    child → host    {"ready": …}              on channel, as ``init.py`` says it; carries the child's pid as credentials
    host → child    {"program": …}            and so on as ``init.py``
    zygote → host   a wait status, on status: a native int, when the child has ended

The zygote is uid 0 of the sandbox's user namespace, with the capabilities to make namespaces and mount in them, to
listen at any port where there are doors, and no other. It runs no program, and reads nothing but the above, which comes
from the host alone: each child closes the zygote's socket first and gets sockets of its own.

A child makes its walls itself, in this order, each step taking away what the next can do without: namespaces by
``clone``; mounts, while it may mount; doors, while it may listen at any port; a user namespace of its own, which owns
none of the others; no capability; the filter and Landlock. Only then it says that it is ready, and waits.

A program must not be pid 1, which no signal ends that it does not handle. So each pid namespace begins with a keeper,
which does nothing: it shares the memory of the process that makes it, runs no Python, and is in libc's ``pause``. The
kernel itself reaps what it is left.

Memory is shared with the zygote until it is written to, a page at a time, and each page costs microseconds. Python
writes to whatever it looks at. So the walls are a table of calls, made ready once by the zygote, and little else runs
between the fork and the program.

What a fork copies and a program might guess, the layout of the address space and the seed of ``hash``, is that of one
zygote, which is why the host replaces it after a while. Random numbers are seeded anew.
"""

import _signal as signal  # without enumerations, of which three quarters of a start would go into importing these
import _socket as socket
import _struct as struct
import binascii
import ctypes
import errno
import gc
import itertools
import mmap
import os
import resource
import select
import sys
from _frozen_importlib_external import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))

SYS_CLONE = {"x86_64": 56}
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET  # and that of processes
CLONE_VM, CLONE_FS, CLONE_FILES = 0x100, 0x200, 0x400
KEEPER = CLONE_NEWPID | CLONE_VM | CLONE_FS | CLONE_FILES
KEEPER_STACKS, KEEPER_STACK_BYTES = 256, 1 << 12  # more than there are: who shares one does the same on it, in any case
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 22, 24, 47, 4
SECCOMP_MODE_FILTER = 2
SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER = 317, 1, 8
CAPABILITIES, NO_CAPABILITIES = struct.pack("Ii", 0x20080522, 0), bytes(24)  # version 3, of this process: none
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
RAISE_LOOPBACK = struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING)  # struct ifreq
QUEUE = 64  # connections that wait at a door
INSIDE = 1000
TERMINALS = b"newinstance,ptmxmode=0666,mode=0620,max=32"  # the host has some thousand in all
REAP_MILLISECONDS = 5000
ORPHANS_BYTES = 4096  # of a list of processes, which may be long
REHEARSAL_SECONDS = 0.02  # where a program is waited for less than that, nobody has the time

# What programs can't replace, which a mount is, and what they can't write either; see ``protect_calls``.
OPENAT2, OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 437, 428, 429, 442
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
AT_EMPTY_PATH, AT_RECURSIVE, OPEN_TREE_CLONE, MOVE_MOUNT_EMPTY_PATHS = 0x1000, 0x8000, 1, 0x44
THIS_LINK = 0x100  # AT_SYMLINK_NOFOLLOW: what a path names, though that be a link
THIS_TREE = AT_EMPTY_PATH | AT_RECURSIVE  # what is open, and what is mounted below it
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
KEPT = {"pinned": 0, "read-only": MOUNT_ATTR_RDONLY, "copied": MOUNT_ATTR_RDONLY}
COPIES = "/run/gloveport/git"

# Descriptors of a child: the standard three, its channel, the cgroups it enters, and then two to work with. The zygote
# has none of its own below OWN, so that they can be put there.
CHANNEL, GROUPS, OWN = 3, 4, 16
MOST_GROUPS = OWN - GROUPS
SENT_BYTES = socket.CMSG_SPACE((2 + MOST_GROUPS) * 4)

# PyDLL, not CDLL: it would let go of the interpreter's lock around the call, and a child would come back without it.
_libc = ctypes.PyDLL(None, use_errno=True)


def load_init():
    """The module ``init.py``, by its path: isolated mode has no directory of ours on ``sys.path``, nor shall it."""
    module = type(sys)("init")
    loader = SourceFileLoader("init", os.path.join(HERE, "init.py"))
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


def clone(flags):
    """Fork with flags, which ``os.fork`` does not take. Raises OSError where there is no process to be had.

    What Python and libc do at a fork is for the sake of threads, of which there are none here, and of random numbers,
    for which see ``renew``. Left out, since it would write to as much memory as a short program.
    """
    pid = _libc.syscall(SYS_CLONE[os.uname().machine], flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid < 0:
        raise last_error("clone")
    return pid


def try_to(call, *arguments):
    """Make a call that may fail. ``contextlib`` would be a fifth of all that is imported here."""
    try:
        call(*arguments)
    except OSError:
        return


def last_error(what):
    """The error of the libc call that has failed just now."""
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")


# -- Keepers ---------------------------------------------------------------------------------------------------------


def start_keepers():
    """Fork the process that makes pid namespaces, with a keeper in each. Its settings of signals are theirs.

    Returns a socket: for each byte a descriptor of a keeper comes back, or the number of the error.
    """
    ours, theirs = socket.socketpair()
    if os.fork():
        theirs.close()
        return ours
    try:
        ours.close()
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # then the kernel reaps what is left to a keeper
        # With no signal handled or blocked, the kernel drops what a program sends to a keeper. Blocked, it would queue.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        memory = mmap.mmap(-1, KEEPER_STACKS * KEEPER_STACK_BYTES)  # of which only what is used is there
        stacks = (ctypes.c_char * len(memory)).from_buffer(memory)
        tops = [ctypes.addressof(stacks) + KEEPER_STACK_BYTES * (n + 1) & -16 for n in range(KEEPER_STACKS)]
        for top in itertools.cycle(tops):
            if not theirs.recv(1):
                break
            pid = _libc.clone(_libc.pause, ctypes.c_void_p(top), KEEPER | signal.SIGCHLD, None)
            if pid < 0:
                theirs.send(bytes([ctypes.get_errno()]))
                continue
            os.setpgid(pid, pid)  # what is done to its process group is done to nobody else
            try:
                keeper = os.pidfd_open(pid)
                send_descriptor(theirs, b"\0", keeper)
                os.close(keeper)
            except OSError as error:  # no descriptor is to be had, or too many are on their way
                os.kill(pid, signal.SIGKILL)
                theirs.send(bytes([error.errno]))
    finally:
        os._exit(0)


def new_keeper(keepers):
    """A descriptor of a keeper, pid 1 of a new namespace. Raises OSError where there is none to be had."""
    keepers.send(b"K")
    error, ancillary, _, _ = keepers.recvmsg(1, socket.CMSG_SPACE(4), socket.MSG_CMSG_CLOEXEC)
    if not error:
        sys.exit("zygote: the process that makes pid namespaces has died")
    if not ancillary:  # the number is 0 where we have no room for it
        raise OSError(error[0], f"no pid namespace: {os.strerror(error[0])}")
    return struct.unpack("i", ancillary[0][2][:4])[0]


def send_descriptor(connection, byte, descriptor):
    """Send a descriptor with a byte."""
    connection.sendmsg([byte], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", descriptor))])


def count_orphans(keeper):
    """How many processes that a program has left behind a keeper has been given, about; 0 where nobody can tell."""
    try:
        told = read_words(f"/proc/self/fdinfo/{keeper}")
        pid = int(told[told.index(b"Pid:") + 1])
        return len(read_words(f"/proc/{pid}/task/{pid}/children"))
    except (OSError, ValueError):
        return 0


def read_words(path):
    """The first words of a file: somebody waits for them, and ``open`` takes four times as long. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(file, ORPHANS_BYTES).split()
    finally:
        os.close(file)


# -- Walls -----------------------------------------------------------------------------------------------------------


def wall_calls(host, profile, landlock, keep):
    """The calls by which a child makes its walls, in their order, as ``init.perform`` takes them."""
    first = GROUPS + profile["groups"]
    return [
        (os.setsid, ()),  # the zygote's process group is not ours to signal
        (os.closerange, (first, 1 << 30)),
        (os.open, ("/dev/null", os.O_RDWR)),  # one of its own: locks and flags belong to what was opened
        (os.dup2, (first, 0)),
        (os.dup2, (first, 1)),
        (os.close, (first,)),
        *mount_calls(profile, first),
        *protect_calls(keep, first + 1),
        *door_calls(host, profile["doors"], profile["connectors"], first + 1),
        *user_namespace_calls(first, profile["watches"]),
        # Only now: what whoever makes a user namespace may have is what all like it together may have in the one above.
        *((resource.setrlimit, (getattr(resource, name), tuple(both))) for name, both in profile["rlimits"].items()),
        *drop_capabilities_calls(),
        *filter_calls(host, profile, first),
        *landlock,
        *(call for group in range(GROUPS, first) for call in ((os.write, (group, b"0")), (os.close, (group,)))),
    ]


def mount_calls(profile, first):
    """File systems and loopback of the new namespaces. The root and what is bound in it are the zygote's, read-only.

    Leaves ``/proc/sys`` open, as it was before it was made read-only, as ``first``.
    """
    cover = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    covered = [(b"/proc/sys", b"/proc/sys"), *((b"/dev/null", path.encode()) for path in profile["masked"])]
    before = [
        (b"none", b"/", None, MS_REC | MS_PRIVATE, None),
        *(
            (b"tmpfs", path.encode(), b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0700,size=%d" % size)
            for path, size in profile["tmpfs"]
        ),
        (b"devpts", b"/dev/pts", b"devpts", MS_NOSUID | MS_NOEXEC, TERMINALS),
        (b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None),
    ]
    after = [
        mount
        for source, path in covered
        for mount in ((source, path, None, MS_BIND, None), (b"none", path, None, cover, None))
    ]
    return [
        *((_libc.mount, mount) for mount in before),
        (os.open, ("/proc/sys", os.O_PATH | os.O_CLOEXEC)),
        *write_calls(first, ((name.encode(), value.encode()) for name, value in profile["sysctls"].items())),
        *((_libc.mount, mount) for mount in after),
        (os.chdir, (os.environ["HOME"],)),
        (_libc.socket, (socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, 0)),
        (_libc.ioctl, (first + 1, SIOCSIFFLAGS, RAISE_LOOPBACK)),
        (os.close, (first + 1,)),
    ]


def protect_calls(places, first):
    """Mount each place over itself: so it can be neither replaced nor, where it is to be read-only, written.

    ``places``: a path in a directory that programs may write, and a word of ``KEPT``; what lies above another comes
    first. The path is walked through no link, for those who write there may turn it elsewhere at any time, and what is
    mounted is what was opened. One that is not there, or not so, is an error.

    In place of what is "copied" a link is mounted, to a file of the sandbox's own with the text that is the third word:
    git writes beside what a link leads to, and renames there, which nothing does that is a mount.
    """
    root, place, cloned = first, first + 1, first + 2
    how = struct.pack("QQQ", os.O_PATH | os.O_CLOEXEC, 0, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS)
    calls = [(os.open, ("/", os.O_PATH | os.O_CLOEXEC))]
    copies, numbers = [], itertools.count()
    for path, kind, *text in places:
        source, flags = b"", THIS_TREE
        if text:
            directory = f"{COPIES}/{next(numbers)}"
            copies += copy_calls(directory, text[0].encode("latin-1"), first)
            source, flags = os.fsencode(f"{directory}/link"), THIS_LINK
        attributes = struct.pack("QQQQ", KEPT[kind] | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, 0, 0)  # mount_attr
        calls += [
            (_libc.syscall, (OPENAT2, root, os.fsencode(path.lstrip("/")), how, len(how))),
            (_libc.syscall, (OPEN_TREE, place, source, flags | OPEN_TREE_CLONE | os.O_CLOEXEC)),
            (_libc.syscall, (MOUNT_SETATTR, cloned, b"", THIS_TREE, attributes, len(attributes))),
            (_libc.syscall, (MOVE_MOUNT, cloned, b"", place, b"", MOVE_MOUNT_EMPTY_PATHS)),
            (os.close, (cloned,)),
            (os.close, (place,)),
        ]
    made = [(os.mkdir, (COPIES, 0o700)), *copies] if copies else []
    return [*made, *calls, (os.close, (root,))] if places else []


def copy_calls(directory, text, first):
    """Make a directory with a file of this text, and a link to it. ``first``: the next free descriptor."""
    file = f"{directory}/config"
    return [
        (os.mkdir, (directory, 0o700)),
        (os.open, (file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)),
        (os.write, (first, text)),
        (os.close, (first,)),
        (os.symlink, (file, f"{directory}/link")),
    ]


def door_calls(host, addresses, connectors, first):
    """Listen at these addresses, and give the host the sockets, all of them. ``first`` is the number of the first.

    It gets a socket of each family of ``connectors`` besides, which is nowhere yet: it connects here by them.
    """
    numbers = range(first, first + len(addresses) + len(connectors))
    places = [
        struct.pack("=H2s4s8x", socket.AF_INET, port.to_bytes(2, "big"), socket.inet_aton(address))  # sockaddr_in
        for address, port in addresses
    ]
    listening = [
        call
        for number, place in zip(numbers, places, strict=False)
        for call in (
            (_libc.socket, (socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)),
            (_libc.bind, (number, place, len(place))),
            (_libc.listen, (number, QUEUE)),
        )
    ]
    unused = [(_libc.socket, (family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, 0)) for family in connectors]
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack(f"{len(numbers)}i", *numbers))
    sent = [(host.sendmsg, ([b"\0"], [rights])), (os.closerange, (numbers.start, numbers.stop))]
    return [*listening, *unused, *sent] if numbers else []


def write_calls(directory, settings):
    """Write to files below an open directory, or by their whole path. The next free descriptor is used."""
    return [
        call
        for path, value in settings
        for call in (
            (_libc.openat, (directory, path, os.O_WRONLY | os.O_CLOEXEC)),
            (os.write, (directory + 1, value)),
            (os.close, (directory + 1,)),
        )
    ]


def user_namespace_calls(first, watches):
    """Enter a user namespace that owns none of the other namespaces and can have none below it.

    One of its own, since processes and pending signals are counted per user namespace: children use up their own alone.
    So are watches of files, which are bounded here, where there are any.
    """
    settings = [
        (b"/proc/self/setgroups", b"deny"),
        (b"/proc/self/uid_map", b"%d 0 1" % INSIDE),
        (b"/proc/self/gid_map", b"%d 0 1" % INSIDE),
        (b"user/max_user_namespaces", b"0"),  # below /proc/sys
        *((b"user/max_inotify_%s" % name.encode(), b"%d" % most) for name, most in (watches or {}).items()),
    ]
    return [(_libc.unshare, (CLONE_NEWUSER,)), *write_calls(first, settings), (os.close, (first,))]


def drop_capabilities_calls():
    """Drop every capability of every set."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    return [
        *((_libc.prctl, (PR_CAPBSET_DROP, capability, 0, 0, 0)) for capability in range(last + 1)),
        (_libc.prctl, (PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)),
        (_libc.capset, (CAPABILITIES, NO_CAPABILITIES)),
    ]


def filter_calls(host, profile, first):
    """Load the filter, and give the host its listener, where it has one. ``first``: the next free descriptor."""
    packed = profile["filter"][0]
    if not profile["watches"]:
        return [(_libc.prctl, (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, packed, 0, 0))]
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", first))
    return [
        (_libc.syscall, (SECCOMP, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, packed)),
        (host.sendmsg, ([b"\0"], [rights])),
        (os.close, (first,)),
    ]


def pack_filter(program):
    """A system call filter, an array of ``struct sock_filter``, as ``PR_SET_SECCOMP`` takes it, and what keeps it."""
    code = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)), code  # struct sock_fprog


# -- Children --------------------------------------------------------------------------------------------------------


def preload(modules):
    """Import what programs will, as far as it is there, and leave no trace but the modules."""
    # A library that starts threads at its import could not be forked.
    environment = dict(os.environ)
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    done = []
    for name in modules:
        try:
            __import__(name)
            done.append(name)
        except Exception:  # it is not there, or broken: programs hear of it
            continue
    os.environ.clear()
    os.environ.update(environment)
    alive = os.listdir("/proc/self/task")
    if len(alive) != 1:
        sys.exit(f"zygote: {len(alive)} threads after importing {', '.join(done)}: such a process can't be forked")


def rehearse(init, profile):
    """Do once what every program of this profile needs, while there is none: it starts the sooner."""
    init.rehearse()
    # Not where it is not Python that comes, nor for programs with arrays: they don't notice, and it takes a megabyte.
    if profile["preload"] and "numpy" not in sys.modules:
        program, interpreter, variables = (
            init.load(n, init.SESSION[n]) for n in ("program", "interpreter", "variables")
        )
        program.rehearse()
        interpreter.rehearse(program, variables.Variables)


def renew():
    """Seed anew what would otherwise give each child of the zygote the same numbers.

    OpenSSL has no state yet: it gathers some when it is first asked for a number.
    """
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed([*os.urandom(32)])  # by itself it would touch 100 pages to gather entropy


def start_trial(init):
    """Fork a process that tries to make a child's namespaces; its number, or the negative one of the error."""
    try:
        pid = clone(NAMESPACES | CLONE_NEWPID)
    except OSError as error:
        return -error.errno
    if pid == 0:
        try:
            init.perform([(_libc.mount, (b"none", b"/", None, MS_REC | MS_PRIVATE, None))])
            init.perform([(_libc.unshare, (CLONE_NEWUSER,))])
            os._exit(0)
        except OSError as error:
            os._exit(error.errno)
    return pid


def find_refusal(trial):
    """What forbids us to make a child's namespaces, as ``{"error", "apparmor"}``; None where nothing does.

    It has to be tried: AppArmor may have a profile that takes every capability from whatever bubblewrap starts, and
    /proc shows them all the same. An error that may pass, such as a lack of memory, is left for a child to meet.
    """
    code = -trial if trial < 0 else os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1])
    return {"error": code, "apparmor": read_apparmor_label()} if code in (errno.EPERM, errno.EACCES) else None


def read_apparmor_label():
    """The AppArmor profiles that confine this process, as the kernel words them; empty where there is no AppArmor."""
    try:
        with open("/proc/self/attr/apparmor/current", encoding="ascii", errors="replace") as file:
            return file.read().strip("\0\n")
    except OSError:
        return ""


class Zygote:
    """Forks children, and tells how they ended. Its own socket has the number of a child's channel: one object, both.

    Attributes:
        version: The ABI of Landlock that ``walls`` enforce.
    """

    def __init__(self, init, host, profile):
        self.version, self.landlock = init.load("landlock", "landlock.py").calls(
            profile["setup"]["landlock"], *(GROUPS + profile["groups"] + more for more in (0, 1))
        )
        self.init = init
        self.host = host
        self.profile = profile
        self.keep(())
        self.own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.children = {}  # number → its descriptor, the socket on which its end is told, pid 1 of its namespace
        self.events = select.poll()
        self.events.register(CHANNEL, select.POLLIN)

    def keep(self, places):
        """From now on keep these in each child; see ``protect_calls``."""
        self.walls = wall_calls(self.host, self.profile, self.landlock, places)

    def serve(self):
        """Fork whenever the host asks, reap whenever a child ends, until the host is gone."""
        while True:
            asked = CHANNEL in dict(self.events.poll(REAP_MILLISECONDS))
            self.reap()
            if asked:
                data, ancillary, flags, _ = self.host.recvmsg(1, SENT_BYTES, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    os._exit(0)
                numbers = struct.unpack(f"{len(ancillary[0][2]) // 4}i", ancillary[0][2]) if ancillary else ()
                if flags & socket.MSG_CTRUNC:  # we have no room: the host sees their other ends closed
                    for descriptor in numbers:
                        os.close(descriptor)
                    continue
                if not numbers:
                    self.keep(self.init.receive(self.host)[0]["kept"])
                    self.init.send(self.host, {"kept": True})
                    continue
                channel, status, *groups = numbers
                try:
                    self.fork(channel, status, groups)
                except OSError as error:  # this one child is not to be had
                    os.write(2, f"zygote: {error}\n".encode())
                    os.close(status)  # after that: the host sees it closed, and reads why
                for descriptor in (channel, *groups):
                    os.close(descriptor)

    def fork(self, channel, status, groups):
        """Fork a child into a pid namespace of its own, and take ``status``. Raises OSError when there is none now."""
        keeper = new_keeper(self.keepers)
        try:
            if _libc.setns(keeper, CLONE_NEWPID):
                raise last_error("setns")
            try:
                pid = clone(NAMESPACES)
                if pid == 0:
                    self.become_child(channel, groups)
            finally:
                if _libc.setns(self.own_namespace, CLONE_NEWPID):
                    os._exit(1)  # or the next child could come into a namespace of another
            child = os.pidfd_open(pid)
        except OSError:
            signal.pidfd_send_signal(keeper, signal.SIGKILL)
            os.close(keeper)
            raise
        self.events.register(child, select.POLLIN)
        teller = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, status)
        self.children[pid] = child, teller, keeper
        try:
            send_descriptor(teller, b"K", keeper)
        except OSError:  # the host wants it no more, or too many are on their way: it is told that the child has ended
            signal.pidfd_send_signal(keeper, signal.SIGKILL)

    def become_child(self, channel, groups):
        """All of a child's life. Ends the process."""
        try:
            for number, descriptor in enumerate((channel, *groups), CHANNEL):
                os.dup2(descriptor, number, inheritable=False)
            self.init.perform(self.walls)
            self.init.send_ready(self.host, self.init.in_force(self.version))
            os.dup2(1, 2)
            renew()
            if self.profile["preload"]:
                self.init.prepare_python()
            if not select.select([self.host], [], [], REHEARSAL_SECONDS)[0]:
                rehearse(self.init, self.profile)
            self.init.run(self.host)
        except (OSError, ValueError) as error:  # setrlimit raises both
            os.write(2, f"zygote: {error}\n".encode())
        finally:
            os._exit(1)

    def reap(self):
        """End what dead children have left behind, and tell how they ended. Whoever else is ours to reap is reaped."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] not in self.children:  # no child of ours: but a zombie would keep its namespace from ending
                    continue
                child, teller, keeper = self.children.pop(ended[0])
                left = 0 if ended[1] == signal.SIGKILL else count_orphans(keeper)  # it was killed with all that it had
                try_to(teller.send, struct.pack("ii", ended[1], left))  # first: somebody waits for it
                teller.close()
                self.events.unregister(child)
                os.close(child)
                try_to(signal.pidfd_send_signal, keeper, signal.SIGKILL)
                os.close(keeper)
        except ChildProcessError:  # none is left
            return


def main():
    """See the module."""
    init = load_init()
    trial = start_trial(init)
    init.import_rest()
    host = init.open_channel(int(sys.argv[1]))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # more than programs get: see ``read_most_open_files``
    null = os.open("/dev/null", os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    while os.dup(null) < OWN:
        pass
    message, groups = init.receive(host)
    profile = message["zygote"]
    if refusal := find_refusal(trial):
        init.send(host, {"refused": refusal})
        return
    profile["filter"] = pack_filter(binascii.a2b_base64(profile["filter"]))
    init.add_packages(environment=False)
    if profile["preload"]:
        init.load("program", "python/program.py").load_notebook().install()
    preload(profile["preload"])
    if profile["preload"] and init.TOOLS_DOOR in os.environ:
        init.load_tools()
    if profile["preload"]:
        init.load_session()
    for group in groups:
        os.write(group, b"0")
        os.close(group)
    init.send(host, {"ready": {"mounts": init.identities(profile["setup"].pop("mounts"))}})
    zygote = Zygote(init, host, profile)
    for _ in range(32):  # until the interpreter has adapted its code: each child would have to copy what it changes
        rehearse(init, profile)
    gc.collect()
    gc.freeze()
    zygote.keepers = start_keepers()  # now that this memory changes little: they share what does not change
    zygote.serve()


if __name__ == "__main__":
    main()
