"""Finds where this process may make cgroups: version 2 as delegated, or version 1 as found.

``detect`` finds the place or says why there is none. Each server owns one directory there, named after its process;
those of servers that died are removed by the next one.

No process is moved but ours, and none is killed: whoever shares the place with us, such as the shell that started us,
stays where it is and outlives us.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from gloveport.errors import SandboxError
from gloveport.real_paths import real
from gloveport.sandbox.cgroups.cgroup import CONTROLLERS, DISKS, CgroupTree, remove
from gloveport.sandbox.reaper.reaper import LEAF, members

_PREFIX = "gloveport-"
_ALL = " ".join(f"+{name}" for name in CONTROLLERS)
_PATIENCE_SECONDS = 2.0
_STEP_SECONDS = 0.001
_SWEEP_SECONDS = 0.5
"""For removing all that dead servers have left: killed processes are usually gone in milliseconds."""


def _keep_to_ourselves(_places: Sequence[Path]) -> None:
    """The caller of ``detect`` removes its directories."""


def detect(
    root: Path = Path("/sys/fs/cgroup"),
    *,
    own: Path = Path("/proc/self/cgroup"),
    claim: Callable[[Sequence[Path]], None] = _keep_to_ourselves,
    front: int | None = None,
) -> CgroupTree:
    """Find where this process may make groups with memory, pids and cpu limits, and make this server's directory there.

    Args:
        root: Where the hierarchies are mounted.
        own: The file that names our groups.
        claim: Called for each directory before it is made: see ``Launcher.claim``.
        front: Our parent, if it is a process of ours: it moves with us. Our children do in any case.

    Raises:
        SandboxError: There is no such place; the message says why and the hint what to do.
    """
    memberships = _memberships(own.read_text())
    failures: list[str] = []
    is_read_only = False
    for attempt in (_version_2, _version_1):
        try:
            return attempt(root, memberships, claim, front)
        except (OSError, SandboxError) as error:
            is_read_only |= isinstance(error, OSError) and error.errno == errno.EROFS
            failures.append(f"{attempt.__name__.removeprefix('_').replace('_', ' ')}: {error}")
    manager = "" if os.geteuid() == 0 else "--user "
    raise SandboxError(
        "no cgroup in which memory, processes and processor time can be limited: " + "; ".join(failures),
        hint="let the container write its /sys/fs/cgroup, as it may with --privileged"
        if is_read_only
        else "start Gloveport as root, under systemd with `systemd-run --scope -p Delegate=yes gloveport serve`, or "
        "boot the host with systemd.unified_cgroup_hierarchy=1"
        if "memory" in memberships  # then it belongs to version 1, which is not delegated to ordinary users
        else f"start Gloveport with `systemd-run {manager}--scope -p Delegate=yes gloveport serve`, "
        "with no wrapper such as uvx or a shell in between",
    )


def _version_2(
    root: Path, memberships: Mapping[str, str], claim: Callable[[Sequence[Path]], None], front: int | None
) -> CgroupTree:
    """Use the group we are in, or the one above when a server has stepped aside into its leaf before."""
    mounted = root if (root / "cgroup.controllers").exists() else root / "unified"
    if "" not in memberships:
        raise SandboxError("it is not mounted")
    base = mounted / memberships[""].lstrip("/")
    if base.name == LEAF:
        base = base.parent
    available = (base / "cgroup.controllers").read_text().split()
    if missing := [name for name in CONTROLLERS if name not in available]:
        raise SandboxError(f"{base} lacks the controllers {', '.join(missing)}")
    _sweep([base])
    _hand_on(base, f"{_ALL} +io" if "io" in available else _ALL, front)
    directory = base / _own_name()
    claim([directory])
    directory.mkdir()
    try:
        (directory / "cgroup.subtree_control").write_text(_ALL)
    except OSError:
        directory.rmdir()
        raise
    return CgroupTree(version=2, directories=dict.fromkeys(CONTROLLERS, directory))


def _hand_on(base: Path, controllers: str, front: int | None) -> None:
    """Let groups below ``base`` have the controllers; a group with processes of its own can't, so we leave it."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            (base / "cgroup.subtree_control").write_text(controllers)
        except OSError as error:
            # Busy: processes live in it. Kernels report this for a moment even after the last process has left.
            if error.errno != errno.EBUSY or time.monotonic() > deadline:
                raise
        else:
            return
        step_aside(base, front)
        time.sleep(_STEP_SECONDS)


def step_aside(base: Path, front: int | None = None) -> None:
    """Move our processes, and no other, into a leaf of ``base``, where they stay: there is no way back while ``base``
    hands controllers on. Servers in the same place share the leaf; whoever removes ``base`` removes it too.

    Ours are this process, its children (the reaper, an interpreter that is asked), and its parent if that is ``front``.

    Raises:
        SandboxError: Other processes live in ``base``. We must not rearrange it: it may be the scope of a login
            session.
    """
    found = members(str(base))
    if others := {pid for pid in found if not _is_ours(pid, front)}:
        raise SandboxError(f"{base} holds other processes than Gloveport: {', '.join(map(str, sorted(others)))}")
    leaf = base / LEAF
    leaf.mkdir(exist_ok=True)
    for pid in sorted(found):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            (leaf / "cgroup.procs").write_text(str(pid))


def _version_1(
    root: Path, memberships: Mapping[str, str], claim: Callable[[Sequence[Path]], None], _front: int | None
) -> CgroupTree:
    """Use our group of each controller. Several may be one directory under several names, such as cpu and cpuacct."""
    controllers = (*CONTROLLERS, "cpuacct")
    if missing := [name for name in controllers if name not in memberships]:
        raise SandboxError(f"the controllers {', '.join(missing)} are not mounted")
    _require_delegated(root, memberships)
    bases = {name: real(root / name) / memberships[name].lstrip("/") for name in controllers}
    disks = _find_disks(root, memberships)
    _sweep([*bases.values(), *([disks] if disks else [])])
    name = _own_name()
    directories = {controller: base / name for controller, base in bases.items()}
    places = [directories["pids"], *directories.values()]  # launches live in the first
    claim(list(dict.fromkeys([*places, disks / name] if disks else places)))
    new_directories: list[Path] = []
    try:
        for directory in dict.fromkeys(directories.values()):
            directory.mkdir()
            new_directories.append(directory)
    except OSError:
        for directory in new_directories:
            directory.rmdir()
        raise
    if disks is not None:
        with contextlib.suppress(OSError):  # optional
            (disks / name).mkdir()
            directories[DISKS] = disks / name
    return CgroupTree(version=1, directories=directories)


def _find_disks(root: Path, memberships: Mapping[str, str]) -> Path | None:
    """Our group of the controller of disks, where that is mounted."""
    return real(root / DISKS) / memberships[DISKS].lstrip("/") if DISKS in memberships else None


def _require_delegated(root: Path, memberships: Mapping[str, str]) -> None:
    """Under version 1, when the controllers of a unit change, systemd moves all its processes into the unit's own
    groups, out of ours and our limits, unless it has delegated the unit. Under version 2 the kernel prevents that.
    """
    # Where systemd keeps units, and marks those it has delegated: in the hierarchy without controllers that it uses.
    places = (("unified", ""), ("systemd", "name=systemd"))
    groups = [root / directory / memberships.get(name, "").lstrip("/") for directory, name in places]
    units = [group for group in groups if group.suffix in (".service", ".scope")]
    if units and not any(_is_delegated(unit) for unit in units):
        raise SandboxError(f"systemd has not delegated {units[0].name}")


def _is_delegated(unit: Path) -> bool:
    try:
        return os.getxattr(unit, "trusted.delegate") == b"1"
    except OSError:
        return False


def _memberships(text: str) -> dict[str, str]:
    """Controller → path of our group, from /proc/self/cgroup; version 2 stands under the empty name."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        _, controllers, path = line.split(":", 2)
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _own_name() -> str:
    """Unique per server: a process id alone is reused after a while, and only counts in its pid namespace."""
    me = os.getpid()
    return f"{_PREFIX}{_pid_namespace()}-{me}-{_start_time(str(me))}-{os.urandom(4).hex()}"


def _pid_namespace() -> str:
    return str(Path("/proc/self/ns/pid").stat().st_ino)


def _start_time(pid: str) -> str:
    """Start time of a process in clock ticks since boot, or nothing when it is gone."""
    return _status(pid, 19)


def _is_ours(pid: int, front: int | None) -> bool:
    """See ``step_aside``. A process that has gone counts as ours: it is not in the way."""
    if pid == front == os.getppid():
        return True
    me = str(os.getpid())
    return pid != 0 and (str(pid) == me or _status(str(pid), 1) in {me, ""})


def _status(pid: str, field: int) -> str:
    """A field of a process's status behind its name, or nothing when it is gone."""
    try:
        return (Path("/proc") / pid / "stat").read_text().rpartition(")")[2].split()[field]
    except OSError:
        return ""


def _sweep(bases: Sequence[Path]) -> None:
    """Remove the directories of servers that died and whose reapers were killed as well, with what lives in them: those
    reapers and their sandboxes. Processes that hang in the kernel stay, and delay a start only briefly.
    """
    deadline = time.monotonic() + _SWEEP_SECONDS
    for directory in [directory for base in bases for directory in base.glob(f"{_PREFIX}*-*-*-*")]:
        namespace, pid, started = directory.name.removeprefix(_PREFIX).split("-")[:3]
        if namespace == _pid_namespace() and _start_time(pid) != started:
            with contextlib.suppress(SandboxError):
                remove(directory, deadline)
