"""Which host paths may be shown in a sandbox, and where.

The source decides what a program learns, the target what it can shadow. Both must be spelt canonically and without
symbolic links, so that what was checked and reviewed is what gets mounted.
"""

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gloveport.config.faults import Fault
from gloveport.config.places import config_directory, state_directory
from gloveport.config.schema import is_canonical
from gloveport.config.wording import printable, shown
from gloveport.errors import ConfigError

_KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))
"""Interfaces to the kernel and sockets of services: ``/proc/1/root`` is the whole host, ``/run`` has docker.sock."""

_COLLECTIONS = tuple(map(Path, ("/etc", "/root", "/home", "/var", "/var/lib", "/tmp", "/var/tmp")))  # noqa: S108
"""Directories that hold something of everybody's; what lies beneath may be shown piece by piece."""

_CREDENTIALS = frozenset(
    {".aws", ".azure", ".config", ".docker", ".git-credentials", ".gnupg", ".kube", ".mozilla", ".netrc"}
    | {".password-store", ".pgpass", ".ssh"}
)
"""Names in a home directory that hold keys and passwords."""

_SYSTEM = tuple(
    Path(path)
    for path in (
        *("/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/usr", "/bin", "/sbin", "/opt/gloveport"),  # noqa: S108
        *("/opt/data", "/lib", "/lib32", "/lib64", "/libx32", "/opt/deno", "/program.sh"),
    )
)
"""What every sandbox is made of."""


def mount_faults(mounts: Mapping[int, tuple[str | None, str | None]], *, own: Sequence[Path]) -> Iterator[Fault]:
    """Name what is wrong with mounts.

    Args:
        mounts: Source and target by their index in the configuration; None for one that is at fault already.
        own: Gloveport's own directories, which none may show.
    """
    private, homes = [*own, *map(_real, own)], _homes()
    targets: dict[int, Path] = {}
    for index, (source, target) in mounts.items():
        if source is not None and (refused := _source_refusal(source, private, homes)):
            yield _fault(index, "source", *refused)
        if target is not None:
            if refused := _target_refusal(target, targets):
                yield _fault(index, "target", *refused)
            targets[index] = Path(target)


def exposed(sources: Iterable[str], files: Iterable[Path]) -> Iterator[Path]:
    """Yield those of the files that a mount of one of the sources shows."""
    shown_paths = [_real(Path(source)) for source in sources]
    return (file for file in files if any(_overlap(_real(file), path) for path in shown_paths))


def refuse_as_workspace(root: Path, environ: Mapping[str, str]) -> None:
    """Refuse a directory that can't be a workspace: what holds more than one project, or what is Gloveport's own.

    Raises:
        ConfigError: It is such a one.
    """
    own = [_real(path) for path in (state_directory(environ), config_directory())]
    refused = _content_refusal(root, own, _homes())
    if refused is None and not root.is_dir():
        refused = f"expected a directory, found {shown(str(root))}", "name the directory of a project"
    if refused is not None:
        problem, hint = refused
        raise ConfigError(f"workspace: {problem}", hint=hint)


def _fault(index: int, key: str, problem: str, hint: str) -> Fault:
    return Fault(keys=(("policy", "mounts", index, key),), problem=problem, hint=hint)


def _source_refusal(source: str, own: Sequence[Path], homes: Sequence[Path]) -> tuple[str, str] | None:
    if not is_canonical(source):
        return _spelling(source)
    path = Path(source)
    return _content_refusal(path, own, homes) or _file_refusal(path)


def _content_refusal(path: Path, own: Sequence[Path], homes: Sequence[Path]) -> tuple[str, str] | None:
    found = shown(str(path))
    for private in own:
        if _overlap(path, private):
            return (
                f"expected nothing of Gloveport's own, found {found}, which overlaps {printable(str(private))}",
                "a program must not read secrets, the configuration, the audit log or the state: choose another place",
            )
    if any(_overlap(path, kernel) for kernel in _KERNEL):
        return f"expected ordinary files, found {found}, where the kernel or services answer", "copy what is needed"
    if path in _COLLECTIONS:
        return f"expected a directory of one purpose, found {found}", "name the directory beneath it that is needed"
    # An account of a directory service may be missing from the list of accounts.
    for home in (*homes, *([Path(*path.parts[:3])] if path.parts[1] == "home" else [])):
        if home.is_relative_to(path):
            return f"expected less than a home directory, found {found}", "name the directory beneath it that is needed"
        if path.is_relative_to(home) and path.relative_to(home).parts[0] in _CREDENTIALS:
            return f"expected no place of credentials, found {found}", "copy what is needed to a directory of its own"
    return None


def _file_refusal(path: Path) -> tuple[str, str] | None:
    found = shown(str(path))
    try:
        real = path.resolve(strict=True)
        mode = real.stat().st_mode
    except (OSError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(error, "strerror", None) or "a loop of symbolic links"
        return f"expected an existing directory or file, found {found} ({reason})", "correct the path, or create it"
    if real != path:
        # A link can be turned elsewhere after the review.
        return (
            f"expected a path without symbolic links, found {found}",
            f"write what it leads to: {printable(str(real))}",
        )
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return f"expected a directory or a regular file, found {found}", "sockets, devices and FIFOs can't be shown"
    return None


def _target_refusal(target: str, others: Mapping[int, Path]) -> tuple[str, str] | None:
    if not is_canonical(target):
        return _spelling(target)
    path = Path(target)
    for system in _SYSTEM:
        if _overlap(path, system):
            return (
                f"expected a place of its own, found {shown(target)}, which overlaps {system}",
                "choose one such as /data",
            )
    for index, other in others.items():
        # Bubblewrap before 0.12 makes a mount point through a symbolic link planted beneath another mount, on the
        # host (CVE-2026-87766).
        if _overlap(path, other):
            return (
                f"expected a place of its own, found {shown(target)}, which overlaps that of policy.mounts[{index}]",
                "mounts lie side by side: choose another target",
            )
    return None


def _spelling(path: str) -> tuple[str, str]:
    return (
        f"expected an absolute path in its one spelling, found {shown(path)}",
        'leave out ".", "..", doubled and closing slashes and control characters',
    )


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _homes() -> list[Path]:
    """Home directories of this user, of root, and of whoever has one under /home."""
    homes = {Path(user.pw_dir) for user in pwd.getpwall() if user.pw_uid in {0, os.geteuid()} or user.pw_uid >= 1000}
    # Service accounts name "/" or a directory that does not exist.
    return sorted(_real(home) for home in homes if home.is_absolute() and home != Path("/"))
