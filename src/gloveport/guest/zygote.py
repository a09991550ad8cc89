"""Fork server: an interpreter that has imported what programs import, and forks sandboxes that wait for a program.

    host → zygote   {"zygote": {"preload", "setup", "tmpfs", "masked", "filter"}}    the profile of all its children
    zygote → host   {"ready": {"preloaded": [module…]}}                              carries our pid as credentials
    host → zygote   {"fork": {}}    with the child's two sockets
    child → host    {"ready": …}    as ``init.py`` says it, on the first; carries the child's pid as credentials
    host → child    {"fork": {}}    the host has put it in its cgroup
    host → worker   {"program": …}  and so on as ``init.py``, on the first socket
    child → host    the worker's wait status, a native int, on the second

The zygote is uid 0 of the sandbox's user namespace, with the capabilities to make namespaces and mount in them and no
other. It runs no program, and reads nothing but the frames above, which come from the host alone: each child closes the
zygote's socket first and gets sockets of its own.

A child makes its walls itself, in this order, each step taking away what the next can do without: namespaces by
``clone``; mounts, while it may mount; a user namespace of its own, which owns none of the others; no capability; the
filter and Landlock. Then it is pid 1, forks the worker that runs the program, and does nothing but reap.

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
import signal
import socket
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
MAX_FRAME_BYTES = 1 << 20

SYS_CLONE = {"x86_64": 56}
CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC = 0x20000, 0x2000000, 0x4000000, 0x8000000
CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET = 0x10000000, 0x20000000, 0x40000000
NAMESPACES = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = (
    1,
    2,
    4,
    8,
    32,
    4096,
    16384,
    1 << 18,
)
PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 4, 22, 24, 47, 4
SECCOMP_MODE_FILTER = 2
CAPABILITY_VERSION_3 = 0x20080522
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
INSIDE = 1000

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
    data = data and data.encode()
    check(_libc.mount(source.encode(), target.encode(), kind and kind.encode(), flags, data), f"mount {target}")


def clone():
    """Fork into new namespaces. ``os.fork`` takes no flags, and ``unshare`` would move later children, not one.

    libc's own handlers at a fork do not run. They matter to threads, of which there are none here.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    pid = _libc.syscall(SYS_CLONE[os.uname().machine], NAMESPACES | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    return check(pid, "clone")


def furnish(profile):
    """File systems and loopback of the new namespaces. The root and what is bound in it are the zygote's, read-only.

    Returns a descriptor of ``/proc/sys`` as it was before it was made read-only.
    """
    mount("none", "/", None, MS_REC | MS_PRIVATE)
    for path, size in profile["tmpfs"]:
        mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=0700,size={size}")
    mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
    mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    settings = os.open("/proc/sys", os.O_PATH | os.O_CLOEXEC)
    for source, target in (("/proc/sys", "/proc/sys"), *(("/dev/null", path) for path in profile["masked"])):
        mount(source, target, None, MS_BIND)
        mount("none", target, None, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    os.chdir(os.environ["HOME"])
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP | IFF_RUNNING))
    return settings


def give_up_privileges(settings):
    """Enter a user namespace that owns none of the other namespaces and can have none below it, and drop everything.

    Of its own, since processes and pending signals are counted per user namespace: children do not use up each other's.
    """
    check(_libc.unshare(CLONE_NEWUSER), "unshare")
    for name, text in (("setgroups", "deny"), ("uid_map", f"{INSIDE} 0 1"), ("gid_map", f"{INSIDE} 0 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)
    limit = os.open("user/max_user_namespaces", os.O_WRONLY | os.O_CLOEXEC, dir_fd=settings)
    os.write(limit, b"0")
    os.close(limit)
    os.close(settings)
    for capability in range(64):
        if _libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:  # EINVAL after the last one
            break
    check(_libc.prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0), "ambient capabilities")
    check(_libc.capset(struct.pack("Ii", CAPABILITY_VERSION_3, 0), bytes(24)), "capset")


def filter_calls(program):
    """Load the system call filter, an array of ``struct sock_filter``."""
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))  # struct sock_fprog
    check(_libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, head, 0, 0), "seccomp")


def renew():
    """Seed anew what would otherwise give each child of the zygote the same numbers. ``random`` sees to itself."""
    if "ssl" in sys.modules:  # OpenSSL knows a fork by its process id, which is the same in every pid namespace
        sys.modules["ssl"].RAND_add(os.urandom(32), 32)
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()


def become_child(init, profile, host, status):
    """All of a child's life. Ends the process."""
    with open("/dev/null", "r+b") as null:
        os.dup2(null.fileno(), 0)
        os.dup2(null.fileno(), 1)
    give_up_privileges(furnish(profile))
    filter_calls(profile["filter"])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # an inherited SIG_IGN would make every child's exit code 0
    init.send(host, {"ready": init.confine(profile["setup"])})
    init.receive(host)
    os.dup2(1, 2)
    worker = os.fork()
    if worker == 0:
        status.close()
        renew()
        init.load("program", "python/program.py").rehearse()
        init.run(host)
    host.close()
    # Nothing of pid 1 can be opened below /proc, the socket it tells the end on least of all.
    _libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    reap(worker, status)


def reap(worker, status):
    """Be the init of the pid namespace until the worker has ended; then end all that is left, tell, and end."""
    pid = how = None
    while pid != worker:
        pid, how = os.waitpid(-1, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # all but this process
    with contextlib.suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)
    status.send(struct.pack("i", how))  # so whoever reads it knows that nobody is left to write to the streams
    os._exit(0)


def preload(modules):
    """Import what programs will, as far as it is there, and leave no trace but the modules. Returns those imported."""
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
    return done


def main():
    """See the module."""
    init = load_init()
    host = socket.socket(fileno=int(sys.argv[1]))
    host.set_inheritable(False)
    init.close_all_but(host.fileno())
    profile = init.receive(host)[0]["zygote"]
    profile["filter"] = base64.b64decode(profile["filter"])
    for name, path in (("landlock", "landlock.py"), ("program", "python/program.py")):
        init.load(name, path)
    init.add_packages()
    preloaded = preload(profile["preload"])
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps; each child tells its end itself
    init.send(host, {"ready": {"preloaded": preloaded}})
    gc.collect()
    gc.freeze()
    while True:
        _, descriptors = init.receive(host)
        sockets = [socket.socket(fileno=descriptor) for descriptor in descriptors]
        if clone() == 0:
            try:
                host.close()
                become_child(init, profile, *sockets)
            except OSError as error:
                os.write(2, f"zygote: {error}\n".encode())
            finally:
                os._exit(1)  # never back into the zygote's loop
        for one in sockets:
            one.close()


if __name__ == "__main__":
    main()
