"""The calls by which a child of the fork server makes its walls: mounts, doors, a user namespace, the filter.

They are a table, prepared once for all children, so that little runs between a fork and its program. In a child the
first descriptors are the standard three, its channel, and from ``GROUPS`` on the cgroups that it enters; the calls use
the numbers after those. Standard library only.
"""

import _socket as socket
import _struct as struct
import ctypes
import itertools
import os
import resource

CLONE_NEWUSER = 0x10000000
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
GROUPS = 4

# Programs can replace no mount, and some they can't write either; see ``protect_calls``.
OPENAT2, OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 437, 428, 429, 442
RESOLVE_NO_MAGICLINKS, RESOLVE_NO_SYMLINKS, RESOLVE_BENEATH = 0x02, 0x04, 0x08
AT_EMPTY_PATH, AT_RECURSIVE, OPEN_TREE_CLONE, MOVE_MOUNT_EMPTY_PATHS = 0x1000, 0x8000, 1, 0x44
THIS_LINK = 0x100  # AT_SYMLINK_NOFOLLOW: the link itself, where a path names one
THIS_TREE = AT_EMPTY_PATH | AT_RECURSIVE  # the open file or directory, and the mounts below it
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV = 1, 2, 4
KIND_FLAGS = {"pinned": 0, "read-only": MOUNT_ATTR_RDONLY, "copied": MOUNT_ATTR_RDONLY}
COPIES = "/run/gloveport/git"

# PyDLL, not CDLL, which would release the interpreter's lock around the call: a child would return without it.
_libc = ctypes.PyDLL(None, use_errno=True)


def wall_calls(host, profile, landlock, keep):
    """The calls by which a child makes its walls, in their order, as ``init.perform`` takes them."""
    first = GROUPS + profile["groups"]
    return [
        (os.setsid, ()),  # the zygote's process group is not ours to signal
        (os.closerange, (first, 1 << 30)),
        (os.open, ("/dev/null", os.O_RDWR)),  # opened anew: locks and flags belong to the open file
        (os.dup2, (first, 0)),
        (os.dup2, (first, 1)),
        (os.close, (first,)),
        *mount_calls(profile, first),
        *protect_calls(keep, first + 1),
        *door_calls(host, profile["doors"], profile["connectors"], first + 1),
        *user_namespace_calls(first, profile["watches"]),
        # Only now: at its creation, the creator's limits would bound all such namespaces together in the parent.
        *((resource.setrlimit, (getattr(resource, name), tuple(both))) for name, both in profile["rlimits"].items()),
        *drop_capabilities_calls(),
        *filter_calls(host, profile, first),
        *landlock,
        *(call for group in range(GROUPS, first) for call in ((os.write, (group, b"0")), (os.close, (group,)))),
    ]


def trial_calls():
    """Those of the calls that a host may forbid."""
    return [(_libc.mount, (b"none", b"/", None, MS_REC | MS_PRIVATE, None)), (_libc.unshare, (CLONE_NEWUSER,))]


def mount_calls(profile, first):
    """File systems and loopback of the new namespaces. The root and its bind mounts are the zygote's, read-only.

    Leaves descriptor ``first`` open: ``/proc/sys``, still writable.
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
    """Mount each path over itself: so it can be neither replaced nor, if it is to be read-only, written.

    ``places``: a path in a directory that programs may write, and a word of ``KIND_FLAGS``; parents come before
    children. The path is resolved through no link, since others who write there may redirect one at any time, and the
    file that was opened is the one mounted. A path that is missing, or has a link in it, is an error.

    Over a "copied" path a link is mounted, to a file of the sandbox's own with the text in the third word: git writes
    beside a link's target and renames over that, which it can't do with a mount.
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
        attributes = struct.pack("QQQQ", KIND_FLAGS[kind] | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, 0, 0, 0)  # mount_attr
        calls += [
            (_libc.syscall, (OPENAT2, root, os.fsencode(path.lstrip("/")), how, len(how))),
            (_libc.syscall, (OPEN_TREE, place, source, flags | OPEN_TREE_CLONE | os.O_CLOEXEC)),
            (_libc.syscall, (MOUNT_SETATTR, cloned, b"", THIS_TREE, attributes, len(attributes))),
            (_libc.syscall, (MOVE_MOUNT, cloned, b"", place, b"", MOVE_MOUNT_EMPTY_PATHS)),
            (os.close, (cloned,)),
            (os.close, (place,)),
        ]
    first_calls = [(os.mkdir, (COPIES, 0o700)), *copies] if copies else []
    return [*first_calls, *calls, (os.close, (root,))] if places else []


def copy_calls(directory, text, first):
    """Make a directory with a file of this text, and a link to the file. ``first``: the next free descriptor."""
    file = f"{directory}/config"
    return [
        (os.mkdir, (directory, 0o700)),
        (os.open, (file, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o644)),
        (os.write, (first, text)),
        (os.close, (first,)),
        (os.symlink, (file, f"{directory}/link")),
    ]


def door_calls(host, addresses, connectors, first):
    """Listen at these addresses, and give all the sockets to the host. ``first`` is the number of the first.

    The host also gets an unconnected socket for each family in ``connectors``: by them it connects into the sandbox.
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
    """Write to files below an open directory, or by absolute path. Uses the next free descriptor."""
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

    Each child has its own, since processes and pending signals are counted per user namespace: it uses up only its own.
    So are inotify watches, which are limited here if ``watches`` says so.
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
    """Load the filter, and give the host its listener, if it has one. ``first``: the next free descriptor."""
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
    """A filter (an array of ``struct sock_filter``) as ``PR_SET_SECCOMP`` takes it, and the buffer to keep alive."""
    code = ctypes.create_string_buffer(program, len(program))
    return struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code)), code  # struct sock_fprog
