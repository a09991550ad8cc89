"""Fork server: an interpreter with the usual modules imported, which forks sandboxes that wait for a program.

    host → zygote   {"zygote": {"preload", "setup", "tmpfs", "masked", "doors", "connectors", "sysctls", "filter",
                             "watches"}}      a profile of all children; with the cgroups that the zygote enters itself
    host → zygote   a byte, {"kept": [[path, kind]…]}   what to protect from now on in writable directories
    zygote → host   {"kept": true}            done
    zygote → host   {"ready": {"mounts": …}}  which file is mounted where; carries our pid as credentials
                 or {"refused": …}            no child can be forked on this host: see ``find_refusal``
    host → zygote   a byte                    with the child's two sockets, channel and status, and its cgroups to enter
    zygote → host   a descriptor, on status:  the process of the child's pid 1; killing it kills all of the child
    child → host    descriptors               on channel, of doors and connectors, if any: the child keeps none
    child → host    a descriptor              on channel, of its filter's listener if the host answers system calls
    child → host    {"ready": …}              on channel, as ``init.py`` says it; carries the child's pid as credentials
    host → child    {"program": …}            and so on as ``init.py``
    zygote → host   a wait status, on status: a native int, when the child has ended

The zygote is uid 0 of the sandbox's user namespace, with the capabilities to make namespaces and mount in them, to
listen at any port where there are doors, and no other. It runs no program, and reads only the messages above, which
come from the host alone: each child closes the zygote's socket first and gets sockets of its own.

A child makes its walls itself, in this order, each step dropping a right that the next does not need: namespaces by
``clone``; mounts, while it may mount; doors, while it may listen at any port; a user namespace of its own, which owns
none of the others; no capability; the filter and Landlock. Only then does it say that it is ready, and wait.

A program must not be pid 1: the kernel drops each signal that pid 1 does not handle. So each pid namespace begins with
a keeper: see ``keepers.py``.

A child shares each page of memory with the zygote until the page is written to, which costs microseconds. Python writes
even to objects that it only reads. So the walls are a table of calls (``walls.py``) that the zygote prepares once, and
little else runs between the fork and the program.

All children of a zygote have its address space layout and its seed of ``hash``, which a program might find out. So the
host replaces the zygote after a while. Random numbers are seeded anew.
"""

import _signal as signal  # without the enumerations of these modules, whose import would be three quarters of a start
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
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET  # the pid namespace comes apart
REAP_MILLISECONDS = 5000
REHEARSAL_SECONDS = 0.02  # a program that comes sooner would have to wait for the rehearsal

_libc = ctypes.PyDLL(None, use_errno=True)  # as in ``walls.py``


def load_init():
    """The module ``init.py``, by its path: isolated mode keeps our directories off ``sys.path``, as it should."""
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
    """Fork with flags, which ``os.fork`` does not take. Raises OSError where no process can be made.

    The fork handlers of Python and libc serve threads, of which there are none here, and random numbers, for which see
    ``renew``. They are skipped, since they would write to as much memory as a short program.
    """
    pid = _libc.syscall(SYS_CLONE[os.uname().machine], flags | signal.SIGCHLD, 0, 0, 0, 0)
    if pid < 0:
        raise last_error("clone")
    return pid


def try_to(call, *arguments):
    """Make a call that may fail. ``contextlib`` would be a fifth of all imports here."""
    try:
        call(*arguments)
    except OSError:
        return


def last_error(what):
    """The error of the libc call that has failed just now."""
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")


def preload(modules):
    """Import the modules that programs use, as far as they are installed, and leave no other trace."""
    # A library that starts threads at its import could not be forked.
    environment = dict(os.environ)
    os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
    done = []
    for name in modules:
        try:
            __import__(name)
            done.append(name)
        except Exception:  # it is missing or broken: a program that imports it gets the error
            continue
    os.environ.clear()
    os.environ.update(environment)
    alive = os.listdir("/proc/self/task")
    if len(alive) != 1:
        sys.exit(f"zygote: {len(alive)} threads after importing {', '.join(done)}: such a process can't be forked")


def rehearse(profile):
    """Do once what every program of this profile needs, before one comes, so that it starts sooner."""
    init.rehearse()
    # Only for Python, and not for programs with arrays: they don't notice, and it takes a megabyte.
    if profile["preload"] and "numpy" not in sys.modules:
        program, interpreter, variables = (
            init.load(n, init.SESSION[n]) for n in ("program", "interpreter", "variables")
        )
        program.rehearse()
        interpreter.rehearse(program, variables.Variables)


def renew():
    """Seed the random generators anew, which would otherwise give each child of the zygote the same numbers.

    OpenSSL is not seeded yet: it seeds itself when it is first asked for a number.
    """
    if "random" in sys.modules:
        sys.modules["random"].seed()
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed([*os.urandom(32)])  # by itself it would touch 100 pages to gather entropy


def start_trial():
    """Fork a process that tries to make a child's namespaces; returns its pid, or the negative errno."""
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

    Only a trial tells: an AppArmor profile may take every capability from all that bubblewrap starts, while /proc still
    shows them. An error that may pass, such as a lack of memory, is no refusal: a child may still meet it.
    """
    code = -trial if trial < 0 else os.waitstatus_to_exitcode(os.waitpid(trial, 0)[1])
    return {"error": code, "apparmor": read_apparmor_label()} if code in (errno.EPERM, errno.EACCES) else None


def read_apparmor_label():
    """The AppArmor label of this process, in the kernel's words; empty where there is no AppArmor."""
    try:
        with open("/proc/self/attr/apparmor/current", encoding="ascii", errors="replace") as file:
            return file.read().strip("\0\n")
    except OSError:
        return ""


class Zygote:
    """Forks children, and tells how they ended.

    Its own socket has the number of a child's channel, so that one object serves as both.

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
        self.children = {}  # pid → its pidfd, its status socket, the pidfd of its keeper
        self.events = select.poll()
        self.events.register(CHANNEL, select.POLLIN)

    def keep(self, places):
        """From now on protect these paths in each child; see ``walls.protect_calls``."""
        self.walls = walls.wall_calls(self.host, self.profile, self.landlock, places)

    def start_keepers(self):
        """Start the process that makes pid namespaces; when it dies, this process ends, and the host starts another."""
        self.maker, self.keepers = keepers.start_keepers()
        self.events.register(os.pidfd_open(self.maker), select.POLLIN)

    def serve(self):
        """Fork whenever the host asks, reap whenever a child ends, until the host is gone."""
        while True:
            has_request = CHANNEL in dict(self.events.poll(REAP_MILLISECONDS))
            self.reap()
            if has_request:
                data, ancillary, flags, _ = self.host.recvmsg(1, SENT_BYTES, socket.MSG_CMSG_CLOEXEC)
                if not data:
                    os._exit(0)
                numbers = struct.unpack(f"{len(ancillary[0][2]) // 4}i", ancillary[0][2]) if ancillary else ()
                if flags & socket.MSG_CTRUNC:  # no free descriptors: the host sees their other ends closed
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
                except OSError as error:  # only this one child failed
                    os.write(2, f"zygote: {error}\n".encode())
                    os.close(status)  # after the message: the host sees the socket closed, and reads why
                for descriptor in (channel, *groups):
                    os.close(descriptor)

    def fork(self, channel, status, groups):
        """Fork a child into a pid namespace of its own, and own ``status``. Raises OSError where that fails."""
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
                    os._exit(1)  # or the next child could get into the namespace of this one
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
        except OSError:  # the host has given it up, or too many descriptors are in flight: it hears of the child's end
            signal.pidfd_send_signal(keeper, signal.SIGKILL)

    def become_child(self, channel, groups):
        """Run as a child until its end. Never returns."""
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
        """Reap all dead processes, end what dead children have left behind, and tell how they ended."""
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] == self.maker:
                    sys.exit("zygote: the process that makes pid namespaces has died")
                if ended[0] not in self.children:  # reaped all the same: a zombie would keep its namespace from ending
                    continue
                child, teller, keeper = self.children.pop(ended[0])
                is_killed = ended[1] == signal.SIGKILL  # together with all its processes
                orphans = 0 if is_killed else keepers.count_orphans(keeper)
                try_to(teller.send, struct.pack("ii", ended[1], orphans))  # first: the host waits for it
                teller.close()
                self.events.unregister(child)
                os.close(child)
                try_to(signal.pidfd_send_signal, keeper, signal.SIGKILL)
                os.close(keeper)
        except ChildProcessError:  # no child is left
            return


def main():
    """See the module."""
    trial = start_trial()
    init.import_rest()
    host = init.open_channel(int(sys.argv[1]))
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # more than programs get: see ``read_most_by_rlimit``
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
    for _ in range(32):  # until the interpreter has specialized its code: else each child would copy the pages changed
        rehearse(profile)
    gc.collect()
    gc.freeze()
    zygote.start_keepers()  # now that this memory changes little: they share all unchanged pages
    zygote.serve()


if __name__ == "__main__":
    main()
