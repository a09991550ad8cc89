"""The last step before bubblewrap that may hold privileges: in a process that ``reaper.py`` forks for each.

``launch`` takes ``{"argv", "uid", "sources", "owned", "stage"}``. ``uid`` is null for an ordinary user. For root it
makes a private mount namespace in which each source lies at ``stage/<index>``, reachable whatever the modes of the
directories above it, then becomes that unprivileged uid for good: bubblewrap never runs as host uid 0, where
``/proc/sys`` would stay writable inside and process limits would not count. With ``"network"``, ``"doors"``,
``"connectors"``, ``"sysctls"`` and ``"masked"``, it first forks a process that sets up the network from outside, and
covers what of ``/proc`` tells of the host. Standard library only, no import of ours.

A writable source is mounted with its owner mapped to that uid (an id-mapped mount), so on the host all files keep their
owner, and new files get the same owner. Files of others belong to nobody inside.
"""

import _signal  # type: ignore[import-not-found]  # see ``reaper.py``
import _socket
import ctypes
import errno
import os
import resource
import stat
import struct
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18
MASK = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
CLONE_NEWUSER, CLONE_NEWNET, NS_GET_USERNS = 0x10000000, 0x40000000, 0xB701
PR_SET_PDEATHSIG, PR_SET_NO_NEW_PRIVS = 1, 38
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
AT_FDCWD, AT_EMPTY_PATH, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH, MOUNT_ATTR_IDMAP = -100, 0x1000, 1, 4, 0x100000
# As ``guest/walls.py`` has it, with bubblewrap's modes: the host has some thousand terminals in all.
TERMINALS = b"ptmxmode=0666,mode=0620,max=32"
QUEUE, MOST_DESCRIPTORS = 64, 1 << 30

_libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    """Turn a failed libc call into an error that says which step it was."""
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def mount(source: bytes, target: str, kind: bytes | None, flags: int, data: bytes | None = None) -> None:
    """Mount, or raise the kernel's error with the target in it."""
    check(_libc.mount(source, os.fsencode(target), kind, flags, data), f"mount {target}")


def write(path: str, text: str) -> None:
    """Write to a kernel file. ``pathlib`` would touch far more memory, which each launch has to copy."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def open_plain(path: str) -> int:
    """Open a path without symbolic links: the owner of a parent directory could redirect it."""
    descriptor = os.open("/", os.O_PATH | os.O_CLOEXEC)
    for part in filter(None, path.split("/")):
        following = os.open(part, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = following
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            raise OSError(errno.ELOOP, f"{path}: {part} is a symbolic link")
    return descriptor


def open_mapped(source: int, uid: int, namespaces: dict[tuple[int, int], int]) -> int:
    """A detached mount of the open directory, in which its owner is mapped to ``uid``, and other users to nobody.
    ``namespaces``: a cache by owner.
    """
    status = os.fstat(source)
    owner = status.st_uid, status.st_gid
    if owner not in namespaces:
        namespaces[owner] = open_mapping(f"{owner[0]} {uid} 1", f"{owner[1]} {uid} 1")
    namespace = namespaces[owner]
    cloned: int = _libc.syscall(OPEN_TREE, source, b"", AT_EMPTY_PATH | OPEN_TREE_CLONE | os.O_CLOEXEC)
    check(min(cloned, 0), "open_tree")
    attributes = struct.pack("QQQQ", MOUNT_ATTR_IDMAP, 0, 0, namespace)  # struct mount_attr
    check(
        _libc.syscall(MOUNT_SETATTR, cloned, b"", AT_EMPTY_PATH, attributes, len(attributes)),
        f"the file system of {os.readlink(f'/proc/self/fd/{source}')} can't show it with another owner (mount_setattr)",
    )
    return cloned


def open_mapping(uids: str, gids: str) -> int:
    """A user namespace with only these lines in its maps."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"%d" % _libc.unshare(CLONE_NEWUSER))
        os.close(writing)
        _signal.pause()
    try:
        check(int(os.read(reading, 2)), "unshare")
        write(f"/proc/{child}/uid_map", uids)
        write(f"/proc/{child}/gid_map", gids)
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.kill(child, _signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(reading)
        os.close(writing)


def stage_sources(stage: str, sources: list[str], owned: list[str], uid: int) -> None:
    """Show each source at ``stage/<index>`` in a mount namespace that only this process and its children see."""
    check(_libc.unshare(CLONE_NEWNS), "unshare")
    mount(b"none", "/", None, MS_REC | MS_PRIVATE)  # nothing below reaches the host's own mount table
    opened = [open_plain(source) for source in sources]  # before the stage can cover one
    namespaces: dict[tuple[int, int], int] = {}
    mapped = {index: open_mapped(opened[index], uid, namespaces) for index in map(sources.index, owned)}
    for namespace in namespaces.values():
        os.close(namespace)
    mount(b"tmpfs", stage, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0755,size=1m")
    for index, descriptor in enumerate(opened):
        target = f"{stage}/{index}"
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            os.mkdir(target)
        else:
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        if index in mapped:
            moved = _libc.syscall(MOVE_MOUNT, mapped[index], b"", AT_FDCWD, target.encode(), MOVE_MOUNT_F_EMPTY_PATH)
            check(moved, "move_mount")
            os.close(mapped[index])
        else:
            mount(f"/proc/self/fd/{descriptor}".encode(), target, None, MS_BIND | MS_REC)
        os.close(descriptor)


def become(uid: int) -> None:
    """Give up every privilege irrevocably, and kill processes of this uid that a dead server may have left."""
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)
    check(_libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    try:
        os.kill(1, 0)
    except PermissionError:
        pass  # as it must be: a process that may signal root's pid 1 may signal everybody
    else:
        raise OSError("privileges have outlived the change of the uid")
    try:
        os.kill(-1, _signal.SIGKILL)  # all other processes of this uid, which is leased to this process only
    except (ProcessLookupError, PermissionError):
        pass  # there is none


def prepare_network(channel: int, spec: "dict[str, Any]") -> None:
    """Wait for a process id; in its network namespace write the settings and open the listening sockets; send them, and
    end.

    ``connectors``: address families of unbound sockets that are sent too. ``masked``: paths to cover in its mount
    namespace.

    This needs the capabilities of the user namespace that owns the network namespace: its creator has them there.
    bubblewrap's processes are in a further user namespace below, so the owner is asked of the network namespace itself.
    """
    os.dup2(channel, 0)
    os.closerange(3, MOST_DESCRIPTORS)  # standard error stays open, for errors
    host = _socket.socket(fileno=0)
    number = host.recv(16)
    if not number:  # the host has given up
        return
    network, mounts = (os.open(f"/proc/{int(number)}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("net", "mnt"))
    owner = _libc.ioctl(network, NS_GET_USERNS)
    check(min(owner, 0), "NS_GET_USERNS")
    for namespace, kind in ((owner, CLONE_NEWUSER), (network, CLONE_NEWNET)):
        check(_libc.setns(namespace, kind), "setns")
    for name, value in spec["sysctls"].items():
        write(f"/proc/sys/{name}", value)  # the kernel shows each process its own namespace's
    listeners = [_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM) for _ in spec["doors"]]
    for listener, (address, port) in zip(listeners, spec["doors"], strict=True):
        listener.bind((address, port))
        listener.listen(QUEUE)
    listeners += [_socket.socket(family, _socket.SOCK_STREAM) for family in spec["connectors"]]
    rights = b"".join(listener.fileno().to_bytes(4, sys.byteorder) for listener in listeners)
    check(_libc.setns(mounts, CLONE_NEWNS), "setns")
    mount(b"devpts", "/dev/pts", None, MS_REMOUNT | MS_NOSUID | MS_NOEXEC, TERMINALS)
    for path in spec["masked"]:
        mount(b"/dev/null", path, None, MS_BIND)
        mount(b"none", path, None, MASK)
    host.sendmsg([b"\0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if listeners else [])


def leave_behind(channel: int, spec: "dict[str, Any]") -> None:
    """Fork the process that prepares the network. This process becomes bubblewrap, which reaps inherited children."""
    if os.fork():
        os.close(channel)
        return
    code = 1
    try:
        prepare_network(channel, spec)
        code = 0
    except OSError as error:
        os.write(2, f"launch: {error}\n".encode())
    finally:
        os._exit(code)


def limit_core_files() -> None:
    """Have no core dump written, and no core handler of the host started.

    One byte, not zero: with a limit of 1 the kernel refuses to start even a piped core handler of the host, with 0 it
    starts it. The seccomp filter keeps the sandbox from lowering it.
    """
    try:
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    except ValueError:
        text = "the hard limit of core files is 0, and has to be 1 or more: `ulimit -Hc 1`, or LimitCORE=1 of the unit"
        raise OSError(errno.EPERM, text) from None


def launch(spec: "dict[str, Any]", parent: int) -> None:
    """See the module. ``parent`` is the process that has forked this one."""
    umask = os.umask(0o022)
    limit_core_files()
    # And if a kernel dumps all the same (a core socket, since Linux 6.16, may ignore the limit), the dump is empty.
    write("/proc/self/coredump_filter", "0")
    # If the host runs out of memory before all sandboxes reach their limit, the kernel kills them first.
    write("/proc/self/oom_score_adj", "1000")
    if spec["uid"] is not None:
        stage_sources(spec["stage"], spec["sources"], spec["owned"], spec["uid"])
        become(spec["uid"])
    # From here on bubblewrap dies with the reaper, if that is killed; a change of uids would have undone this.
    check(_libc.prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0), "pdeathsig")
    if os.getppid() != parent:  # it has died already, and no signal would come
        return
    if "network" in spec:
        leave_behind(spec["network"], spec)
    os.umask(umask | 0o022)  # as the owner's own programs have it, but others may never write
    os.execve(spec["argv"][0], spec["argv"], {})  # noqa: S606 - a shell is the last thing wanted here
