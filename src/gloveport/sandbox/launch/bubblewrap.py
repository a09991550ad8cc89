"""Turns a plan into bubblewrap's arguments. Pure: the same plan gives the same arguments, and tests assert all of
them.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gloveport.sandbox.plan import Plan


class Descriptors(NamedTuple):
    """Numbers of the descriptors that bubblewrap inherits."""

    info: int
    control: int
    files: tuple[int, ...]
    seccomp: int | None = None
    """The seccomp filter of a sandbox for one program."""

    network: int | None = None
    """The socket of the process that prepares the network, which stays behind; bubblewrap itself does not get it."""


def arguments(plan: Plan, descriptors: Descriptors, sources: Mapping[str, str]) -> list[str]:
    """All options that build ``plan`` for one program. The command to run in it is the init. ``sources`` has the staged
    path of a bind's source; without an entry, it is the source itself. Descriptors of ``files`` are in the order of
    ``plan.files``.

    Each start reads the filter to its end, so its descriptor is never shared. Masked files are covered from outside
    (``reaper/launch.py``): bubblewrap reads the mount table once for each bind.
    """
    return [
        *_NAMESPACES,
        *("--disable-userns", "--assert-userns-disabled", "--cap-drop", "ALL", "--uid", "1000", "--gid", "1000"),
        *_root(plan, descriptors, sources),
        *("--add-seccomp-fd", str(descriptors.seccomp), "--info-fd", str(descriptors.info)),
    ]


def arguments_of_zygote(plan: Plan, descriptors: Descriptors, sources: Mapping[str, str]) -> list[str]:
    """All options that build the sandbox in which a fork server makes sandboxes of ``plan``. Arguments as above.

    Each child does the missing steps itself (``guest/zygote.py``): the kernel mounts a new ``/proc`` only if nothing of
    the present one is covered, a new ``/dev/pts`` only in a namespace with a uid 0, and makes a user namespace only
    where they are not disabled.
    """
    return [
        *_NAMESPACES,
        *("--cap-drop", "ALL", "--uid", "0", "--gid", "0"),
        *(word for name in _ZYGOTE_CAPABILITIES for word in ("--cap-add", name)),
        *(("--cap-add", "CAP_NET_BIND_SERVICE") if plan.doors else ()),
        *_root(plan, descriptors, sources),
        *("--info-fd", str(descriptors.info)),
    ]


_NAMESPACES = (
    *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"),
    *("--die-with-parent", "--new-session"),
)

# Namespaces and mounts; the loopback interface; the last only to map its own uid 0 into a child's user namespace.
_ZYGOTE_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_SETFCAP")


def _root(plan: Plan, descriptors: Descriptors, sources: Mapping[str, str]) -> Iterator[str]:
    """Environment and files.

    The order matters. The root is an empty tmpfs, filled while it is still writable and then made read-only, so that
    no mount destination ever lies beneath something the sandbox can write. ``/dev`` is an unsized tmpfs until it is
    made read-only, after ``/dev/shm`` got a size of its own.
    """
    yield from ("--hostname", plan.hostname, "--clearenv")
    for name, value in sorted(plan.env.items()):
        yield from ("--setenv", name, value)
    for file, descriptor in zip(plan.files, descriptors.files, strict=True):
        yield from ("--perms", "0444", "--file", str(descriptor), file.path)
    for bind in plan.binds:
        yield from ("--ro-bind", sources.get(bind.source, bind.source), bind.target)
    for link in plan.symlinks:
        yield from ("--symlink", link.target, link.path)
    yield from ("--proc", "/proc")
    yield from ("--dev", "/dev")
    for tmpfs in plan.tmpfs:
        yield from ("--perms", "0700", "--size", str(tmpfs.size), "--tmpfs", tmpfs.path)
    for mount in plan.writable:
        yield from ("--bind", sources.get(mount.source, mount.source), mount.target)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", plan.env["HOME"])
