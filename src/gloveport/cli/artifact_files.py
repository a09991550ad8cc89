"""Reads the input files of ``--file``, and writes a program's artifacts to the directory of ``--out``."""

import contextlib
import errno
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gloveport.cli.usage import UsageError
from gloveport.file_descriptors import CREATE, LIST, closing

if TYPE_CHECKING:
    from gloveport.artifacts.artifact_store import ArtifactStore, Found
    from gloveport.model.artifact import Artifact

_PIECE_BYTES: Final = 1 << 18


def read_inputs(named: Sequence[str], most: int) -> Mapping[str, bytes]:
    """Read the contents of files, by their names in the sandbox: the last name of ``PATH``, or ``PATH=NAME``.

    Raises:
        UsageError: A file can't be read, or all together are too large.
    """
    files: dict[str, bytes] = {}
    for one in named:
        path, _, name = one.partition("=")
        try:
            with Path(path).open("rb") as file:
                data = file.read(most + 1)
        except OSError as error:
            raise UsageError(f"--file {path}: {error.strerror}") from error
        files[name or Path(path).name] = data
        if sum(map(len, files.values())) > most:
            raise UsageError(f"--file: all together have more than {most} bytes (policy.limits.input_bytes)")
    return files


def make_out(directory: Path) -> None:
    """Make the directory of ``--out``, so that a program whose files can't be written there does not run.

    Raises:
        UsageError: It can't be made, or not be written.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--out {directory}: {error.strerror}") from error
    if not os.access(directory, os.W_OK | os.X_OK):
        raise UsageError(f"--out {directory}: {os.strerror(errno.EACCES)}")


def write_artifacts(
    store: "ArtifactStore", owner: str, files: "Sequence[Artifact]", directory: Path
) -> Mapping[str, str | OSError]:
    """Write a program's artifacts below a directory of the caller's, and replace files of the same names; return for
    each path why it is not written, an empty text where it is. One that can't be written keeps no other from it.

    The program has chosen the paths: ``..`` was refused before, no link below the directory is followed, and nothing is
    written that would run later, such as git's configuration, or settings in a home directory.

    Raises:
        OSError: The directory can't be opened.
    """
    faults: dict[str, str | OSError] = {}
    place = os.path.realpath(directory)
    with closing(os.open(directory, LIST & ~os.O_NOFOLLOW)) as root:
        for one in files:
            content, names = store.find(one.uri, owner), one.path.split("/")[2:]
            faults[one.path] = "it would run something later"
            if content is not None and names and not _would_run(names, place):
                try:
                    if _write_file(root, names, content, one.bytes):
                        faults[one.path] = ""
                except OSError as error:
                    faults[one.path] = error
    return faults


def _write_file(root: int, names: Sequence[str], content: "Found", size: int) -> bool:
    """Write a file whole or not at all; not into what git would take for a repository: tells whether it is written.

    Raises:
        OSError: It can't be written.
    """
    from gloveport.workspace.protected.git_directory import is_git

    with contextlib.ExitStack() as stack:
        below = root
        for name in names[:-1]:
            if is_git(below):
                return False
            with contextlib.suppress(FileExistsError):
                os.mkdir(name, 0o755, dir_fd=below)
            below = stack.enter_context(closing(os.open(name, LIST, dir_fd=below)))
        if is_git(below):
            return False
        temporary = f".gloveport-{os.urandom(8).hex()}"
        try:
            with os.fdopen(os.open(temporary, CREATE, 0o644, dir_fd=below), "wb") as file:
                for offset in range(0, size, _PIECE_BYTES):
                    file.write(content.read(offset, _PIECE_BYTES))
            os.replace(temporary, names[-1], src_dir_fd=below, dst_dir_fd=below)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=below)
            raise
        return True


def _would_run(names: Sequence[str], place: str) -> bool:
    """Whether the caller's own programs would run something because of a file of this path, or take its directory for
    one of git. ``place``: the directory that it is put into, which the caller has chosen.
    """
    from gloveport.policy.decisions.protected_names import makes_git_directory, protected_part

    path, above = "/".join(names), os.path.basename(place)  # noqa: PTH119 - of the root there is none
    part = protected_part(path) or (protected_part(f"{above}/{path}") if above and not protected_part(above) else None)
    return part is not None or makes_git_directory(names[-1]) or _is_setting(path, place)


def _is_setting(path: str, place: str) -> bool:
    """Whether a path is hidden in a home directory, whose desktop and programs run what is named there: autostart,
    units, sessions, plugins. Not if the caller has chosen a hidden directory.
    """
    from gloveport.config.checks.mounts import home_directories

    ours = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - Path.home raises where there is none
    for home in (ours, *map(str, home_directories())):
        hidden = os.path.join(home, ".")  # noqa: PTH118 - Path drops the dot
        if os.path.join(place, path).startswith(hidden) and not place.startswith(hidden):  # noqa: PTH118
            return True
    return False
