"""Checks mounts and toolchains: which host paths may be shown in a sandbox, and where.

The source decides what a program can read, the target what it can shadow. Both must be canonical paths without symbolic
links, so that the path that was checked and reviewed is the one that gets mounted.
"""

import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gloveport.config.schema import KeyPath
from gloveport.config.toml_text import as_toml, printable, spell_key
from gloveport.config.validation.faults import Fault
from gloveport.model import SCRATCH
from gloveport.real_paths import real
from gloveport.user_directories import is_canonical

_KERNEL = tuple(map(Path, ("/proc", "/sys", "/dev", "/run")))
"""Interfaces to the kernel and sockets of services: ``/proc/1/root`` is the whole host, ``/run`` has docker.sock."""

_COLLECTIONS = tuple(map(Path, ("/etc", "/root", "/home", "/var", "/var/lib", "/tmp", "/var/tmp")))  # noqa: S108
"""Directories with files of all users; only single entries below them may be shown."""

_CREDENTIALS = frozenset(
    {".aws", ".azure", ".config", ".docker", ".git-credentials", ".gnupg", ".kube", ".mozilla", ".netrc"}
    | {".password-store", ".pgpass", ".ssh"}
)
"""Names in a home directory that hold keys and passwords."""

_SYSTEM = (
    *map(Path, ("/proc", "/sys", "/dev", "/tmp", "/run", "/etc", "/usr", "/bin", "/sbin")),  # noqa: S108
    *map(Path, ("/lib", "/lib32", "/lib64", "/libx32", "/program.sh")),
    *(Path("/opt", name) for name in ("gloveport", "data", "python", "toolchains", "deno")),
)
"""Paths of which every sandbox consists."""

_SHOWN_PATHS = tuple(Path("/usr", name) for name in ("bin", "include", "lib", "lib32", "lib64", "libexec", "share"))
"""The parts of ``/usr`` that every sandbox of a workspace shows."""

_RESERVED_PATHS = (*_SHOWN_PATHS, *(path for path in _SYSTEM if path not in {Path("/usr"), Path(SCRATCH)}))
"""Where a toolchain, whose target is its source, can't be shown: one in ``/usr/local`` can, and one in ``/tmp`` is
shown elsewhere."""


def mount_faults(mounts: Mapping[int, tuple[str | None, str | None]], *, own: Sequence[Path]) -> Iterator[Fault]:
    """Name the faults of mounts: of source and target by their index in the configuration, None for one with another
    fault. None may show a directory of Gloveport's ``own``.
    """
    private, homes = [*own, *map(real, own)], home_directories()
    targets: dict[KeyPath, Path] = {}
    for index, (source, target) in mounts.items():
        key: KeyPath = ("policy", "mounts", index)
        if source is not None and (refused := _source_refusal(source, private, homes)):
            yield _fault((*key, "source"), *refused)
        if target is not None:
            if refused := _target_refusal(target, targets):
                yield _fault((*key, "target"), *refused)
            targets[key] = Path(target)


def toolchain_faults(
    toolchains: Mapping[int, str], mounts: Mapping[int, tuple[str | None, str | None]], *, own: Sequence[Path]
) -> Iterator[Fault]:
    """Name the faults of toolchains, which are mounts whose target is their source: of those without another fault, by
    their index in the configuration. See ``mount_faults``.
    """
    private, homes = [*own, *map(real, own)], home_directories()
    targets: dict[KeyPath, Path] = {
        ("policy", "mounts", index): Path(target) for index, (_, target) in mounts.items() if target is not None
    }
    for index, toolchain in toolchains.items():
        key: KeyPath = ("workspace", "toolchains", index)
        if refused := _source_refusal(toolchain, private, homes) or _toolchain_refusal(Path(toolchain), targets):
            yield _fault(key, *refused)
        targets[key] = Path(toolchain)


def toolchain_refusals(toolchains: Iterable[Path], own: Iterable[Path]) -> Iterator[str | None]:
    """Say for each directory why it can't be shown as a toolchain; None where it can.

    ``own``: directories that none may show.
    """
    private, homes = [place for path in own for place in (path, real(path))], home_directories()
    for toolchain in toolchains:
        refused = _source_refusal(str(toolchain), private, homes) or _toolchain_refusal(toolchain, {})
        yield None if refused is None else refused[0]


def find_exposed(sources: Iterable[str], files: Iterable[Path]) -> Iterator[Path]:
    """Yield those of the files that a mount of one of the sources shows."""
    shown_paths = [real(Path(source)) for source in sources]
    return (file for file in files if any(overlap(real(file), path) for path in shown_paths))


def _fault(key: KeyPath, problem: str, hint: str) -> Fault:
    return Fault(keys=(key,), problem=problem, hint=hint)


def _source_refusal(source: str, own: Sequence[Path], homes: Sequence[Path]) -> tuple[str, str] | None:
    if not is_canonical(source):
        return _spelling(source)
    path = Path(source)
    return _own_refusal(path, own) or content_refusal(path, homes) or _file_refusal(path)


def _own_refusal(path: Path, own: Sequence[Path]) -> tuple[str, str] | None:
    if (private := _first_overlap(path, own)) is None:
        return None
    return (
        f"expected nothing of Gloveport's own, found {as_toml(str(path))}, which overlaps {printable(str(private))}",
        "a program must not read secrets, the configuration, the audit log or the state: choose another place",
    )


def content_refusal(path: Path, homes: Sequence[Path]) -> tuple[str, str] | None:
    """Say why a path can't be shown to anybody, because of its content, and what to do; None where it can."""
    found = as_toml(str(path))
    if any(overlap(path, kernel) for kernel in _KERNEL):
        return f"expected ordinary files, found {found}, where the kernel or services answer", "copy what is needed"
    if path in _COLLECTIONS:
        return f"expected a directory of one purpose, found {found}", "name the directory beneath it that is needed"
    # An account of a directory service may be missing from the list of accounts.
    for home in (*homes, *([Path(*path.parts[:3])] if path.parts[1] == "home" else [])):
        if is_within(home, path):
            return f"expected less than a home directory, found {found}", "name the directory beneath it that is needed"
        if is_within(path, home) and path.relative_to(home).parts[0] in _CREDENTIALS:
            return f"expected no place of credentials, found {found}", "copy what is needed to a directory of its own"
    return None


def _file_refusal(path: Path) -> tuple[str, str] | None:
    found = as_toml(str(path))
    try:
        resolved = real(path, strict=True)
        mode = resolved.stat().st_mode
    except OSError as error:
        problem = f"expected an existing directory or file, found {found} ({error.strerror})"
        return problem, "correct the path, or create it"
    if resolved != path:
        # A link can be redirected after the review.
        return (
            f"expected a path without symbolic links, found {found}",
            f"write what it leads to: {printable(str(resolved))}",
        )
    if not (stat.S_ISDIR(mode) or stat.S_ISREG(mode)):
        return f"expected a directory or a regular file, found {found}", "sockets, devices and FIFOs can't be shown"
    return None


def _target_refusal(target: str, others: Mapping[KeyPath, Path]) -> tuple[str, str] | None:
    if not is_canonical(target):
        return _spelling(target)
    path = Path(target)
    if (system := _first_overlap(path, _SYSTEM)) is not None:
        return (
            f"expected a place of its own, found {as_toml(target)}, which overlaps {system}",
            "choose one such as /data",
        )
    return _nesting(path, others)


def _toolchain_refusal(path: Path, others: Mapping[KeyPath, Path]) -> tuple[str, str] | None:
    if not path.is_dir():
        return f"expected a directory, found {as_toml(str(path))}", "name the directory that it is in"
    if (system := _first_overlap(path, _RESERVED_PATHS)) is not None:
        return (
            f"expected a place that no sandbox has, found {as_toml(str(path))}, which overlaps {system}",
            "leave it out if commands see it anyway; else keep it elsewhere, such as in /opt or /usr/local",
        )
    return _nesting(path, others)


def _first_overlap(path: Path, places: Sequence[Path]) -> Path | None:
    return next((place for place in places if overlap(path, place)), None)


def _nesting(path: Path, others: Mapping[KeyPath, Path]) -> tuple[str, str] | None:
    for key, other in others.items():
        # Bubblewrap before 0.12 makes a mount point through a symbolic link planted beneath another mount, on the
        # host (CVE-2026-87766).
        if overlap(path, other):
            return (
                f"expected a place of its own, found {as_toml(str(path))}, which overlaps that of {spell_key(key)}",
                "mounts lie side by side: choose another place, or leave one of them out",
            )
    return None


def _spelling(path: str) -> tuple[str, str]:
    return (
        f"expected an absolute path in its one spelling, found {as_toml(path)}",
        'leave out ".", "..", doubled and closing slashes and control characters',
    )


def overlap(one: Path, other: Path) -> bool:
    """Tell whether two paths are equal, or one is below the other. By parts: pathlib's own takes ten times as long."""
    length = min(len(one.parts), len(other.parts))
    return one.parts[:length] == other.parts[:length]


def is_within(path: Path, place: Path) -> bool:
    """Tell whether a path is this place or below it: ``overlap`` says why not by pathlib."""
    return path.parts[: len(place.parts)] == place.parts


def home_directories() -> list[Path]:
    """List the home directories of this user, of root, and of all users under /home."""
    homes = {Path(user.pw_dir) for user in pwd.getpwall() if user.pw_uid in {0, os.geteuid()} or user.pw_uid >= 1000}
    # Service accounts name "/" or a directory that does not exist.
    return sorted(real(home) for home in homes if home.is_absolute() and home != Path("/"))
