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

A program must not be pid 1, which no signal ends that it does not handle. So each pid namespace begins with a keeper:
see ``keepers.py``.

Memory is shared with the zygote until it is written to, a page at a time, and each page costs microseconds. Python
writes to whatever it looks at. So the walls are a table of calls (``walls.py``), made ready once by the zygote, and
little else runs between the fork and the program.

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
import os
import resource
import select
import sys
from _frozen_importlib_external import SourceFileLoader

HERE = os.path.dirname(os.path.abspath(__file__))

SYS_CLONE = {"x86_64": 56}
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWPID, CLONE_NEWNET = 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET  # and that of processes
REAP_MILLISECONDS = 5000
REHEARSAL_SECONDS = 0.02  # where a program is waited for less than that, nobody has the time

_libc = ctypes.PyDLL(None, use_errno=True)  # as in ``walls.py``


def load_init():
    """The module ``init.py``, by its path: isolated mode has no directory of ours on ``sys.path``, nor shall it."""
    module = type(sys)("init")
    loader = SourceFileLoader("init", os.path.join(HERE, "init.py"))
    module.__file__ = loader.path
    loader.exec_module(module)
    return module


init = load_init()
walls, keepers = (init.load(name, f"{name}.py") for name in ("walls", "keepers"))

# Descriptors of a child: the standard three, its channel, the cgroups it enters, and then two to work with. The zygote
# has none of its own below OWN, so that they can be put there.
CHANNEL, GROUPS, OWN = init.CHANNEL, walls.GROUPS, 16
MOST_GROUPS = OWN - GROUPS
SENT_BYTES = socket.CMSG_SPACE((2 + MOST_GROUPS) * 4)


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


def rehearse(profile):
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


def start_trial():
    """Fork a process that tries to make a child's namespaces; its number, or the negative one of the error."""
    try:
        pid = clone(NAMESPACES | CLONE_NEWPID)
    except OSError as error:
        return -error.errno
    if pid == 0:
        try:
            init.perform(walls.trial_calls())
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

    def __init__(self, host, profile):
        self.version, self.landlock = init.load("landlock", "landlock.py").calls(
            profile["setup"]["landlock"], *(GROUPS + profile["groups"] + more for more in (0, 1))
        )
        self.host = host
        self.profile = profile
        self.keep(())
        self.own_namespace = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self.children = {}  # number → its descriptor, the socket on which its end is told, pid 1 of its namespace
        self.events = select.poll()
        self.events.register(CHANNEL, select.POLLIN)

    def keep(self, places):
        """From now on keep these in each child; see ``walls.protect_calls``."""
        self.walls = walls.wall_calls(self.host, self.profile, self.landlock, places)

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
                    self.keep(init.receive(self.host)[0]["kept"])
                    init.send(self.host, {"kept": True})
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
        keeper = keepers.new_keeper(self.keepers)
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
            init.send_descriptors(teller, b"K", [keeper])
        except OSError:  # the host wants it no more, or too many are on their way: it is told that the child has ended
            signal.pidfd_send_signal(keeper, signal.SIGKILL)

    def become_child(self, channel, groups):
        """All of a child's life. Ends the process."""
        try:
            for number, descriptor in enumerate((channel, *groups), CHANNEL):
                os.dup2(descriptor, number, inheritable=False)
            init.perform(self.walls)
            init.send_ready(self.host, init.in_force(self.version))
            os.dup2(1, 2)
            renew()
            if self.profile["preload"]:
                init.prepare_python()
            if not select.select([self.host], [], [], REHEARSAL_SECONDS)[0]:
                rehearse(self.profile)
            init.run(self.host)
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
                is_killed = ended[1] == signal.SIGKILL  # with all that it had
                left = 0 if is_killed else keepers.count_orphans(keeper)
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
    trial = start_trial()
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
    profile["filter"] = walls.pack_filter(binascii.a2b_base64(profile["filter"]))
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
    zygote = Zygote(host, profile)
    for _ in range(32):  # until the interpreter has adapted its code: each child would have to copy what it changes
        rehearse(profile)
    gc.collect()
    gc.freeze()
    zygote.keepers = keepers.start_keepers()  # now that this memory changes little: they share what does not change
    zygote.serve()


if __name__ == "__main__":
    main()
