"""A plan as bubblewrap's arguments. Pure: the same plan gives the same arguments, and tests assert all of them."""

from collections.abc import Mapping
from typing import NamedTuple

from gloveport.sandbox.base import Plan


class Descriptors(NamedTuple):
    """Numbers of the descriptors that bubblewrap inherits."""

    seccomp: int
    info: int
    control: int
    files: tuple[int, ...]


def arguments(plan: Plan, descriptors: Descriptors, sources: Mapping[str, str]) -> list[str]:
    """All options that build ``plan``; the command to run in it is ``plan.init``.

    Args:
        plan: What to build.
        descriptors: What is open under which number; ``files`` in the order of ``plan.files``.
        sources: Where each bind's source is found; the source itself where it is missing.

    The order matters. The root is an empty tmpfs, filled while it is still writable and then made read-only, so that
    no mount destination ever lies beneath something the sandbox can write. ``/dev`` is an unsized tmpfs until it is
    made read-only, after ``/dev/shm`` got a size of its own. The filter is read to its end by each start, so its
    descriptor is never shared.
    """
    line = ["--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup"]
    line += ["--disable-userns", "--assert-userns-disabled", "--die-with-parent", "--new-session"]
    line += ["--cap-drop", "ALL", "--uid", "1000", "--gid", "1000", "--hostname", plan.hostname]
    line += ["--clearenv"]
    for name, value in sorted(plan.env.items()):
        line += ["--setenv", name, value]
    for file, descriptor in zip(plan.files, descriptors.files, strict=True):
        line += ["--perms", "0444", "--file", str(descriptor), file.path]
    for bind in plan.binds:
        line += ["--ro-bind", sources.get(bind.source, bind.source), bind.target]
    for link in plan.symlinks:
        line += ["--symlink", link.target, link.path]
    line += ["--proc", "/proc"]
    for path in plan.masked:
        line += ["--ro-bind", "/dev/null", path]
    line += ["--dev", "/dev"]
    for tmpfs in plan.tmpfs:
        line += ["--perms", "0700", "--size", str(tmpfs.size), "--tmpfs", tmpfs.path]
    line += ["--remount-ro", "/dev", "--remount-ro", "/", "--chdir", plan.env["HOME"]]
    return [*line, "--add-seccomp-fd", str(descriptors.seccomp), "--info-fd", str(descriptors.info)]
