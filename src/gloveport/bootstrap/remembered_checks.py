"""Remembers that a host was found sound, so that a server which starts again need not look before its first call.

Nothing becomes weaker by it: each sandbox finds for itself what is in force, and is refused where something is not.
What is remembered says only that nothing need be looked for first. It is kept for one boot, one kernel, one bubblewrap,
one version and whatever of a configuration sandboxes are built from, in a file that nobody but its owner can have
written. Clients have configurations and workspaces of their own: some of each are remembered.
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import Final

from gloveport.atomic_file import replace_file
from gloveport.bootstrap.host_setup import Host
from gloveport.bootstrap.operator_reach import whole_grant
from gloveport.config import Config, state_directory
from gloveport.model import Value
from gloveport.model.reading import WrongShapeError, read_json, read_value
from gloveport.sandbox.detection.probe import Check
from gloveport.user_directories import is_ours

_FILE: Final = "host.json"
_MOST_BYTES: Final = 1 << 17
_MOST_KNOWN: Final = 16
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def recall_checks(host: Host, config: Config, environ: Mapping[str, str]) -> Sequence[Check] | None:
    """What was found of this very host under such a configuration; None where nothing that can be believed was.

    Args:
        host: As it was found.
        config: As it was loaded: of a workspace it does not matter which one it is.
        environ: Our environment.
    """
    try:
        return read_value(tuple[Check, ...], _read(environ)[_key(host, config)])
    except (KeyError, WrongShapeError):
        return None


def remember_checks(host: Host, config: Config, environ: Mapping[str, str], checks: Sequence[Check]) -> None:
    """Keep what was found, where nothing is missing. What can't be kept is looked for again."""
    directory = state_directory(environ)
    if any(check.state == "missing" for check in checks) or not is_ours(directory):
        return
    known = {**_read(environ), _key(host, config): [check.model_dump(mode="json") for check in checks]}
    try:
        replace_file(directory / _FILE, json.dumps(dict([*known.items()][-_MOST_KNOWN:])).encode())
    except OSError:
        return


def _read(environ: Mapping[str, str]) -> Mapping[str, object]:
    """What was found, by key, the newest last; nothing where it can't be believed."""
    try:
        descriptor = os.open(state_directory(environ) / _FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return {}
    with FileIO(descriptor) as file:
        status = os.fstat(descriptor)
        is_private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
        data = file.read(_MOST_BYTES) if is_private and is_ours(state_directory(environ)) else b""
    try:
        return read_json(dict[str, object], data)
    except WrongShapeError:
        return {}


def _key(host: Host, config: Config) -> str:
    """Digest of all that what was found depends on."""
    facts = [
        _BOOT.read_text().strip(),
        *os.uname(),
        sys.version,
        os.geteuid(),
        _identity(Path(__file__)),
        _identity(host.backend.program),
        _identity(Path(host.init.executable)),
        host.backend.tree is not None,
        host.system.model_dump(),
        dict(host.runtimes),
        dict(host.missing),
        whole_grant(config).model_dump(),
        config.sandbox.model_dump(),
        config.pool.forked > 0,
        config.workspace.root is not None and "workspace" in config.workspace.toolsets,
        config.workspace.limits.open_files,
    ]
    return hashlib.sha256(json.dumps(facts, default=_spell, sort_keys=True).encode()).hexdigest()


def _spell(value: object) -> object:
    """A value that is no JSON, so that the same is spelled the same in each process."""
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return value.model_dump() if isinstance(value, Value) else str(value)


def _identity(path: Path) -> list[object]:
    """What tells one version of a file from another."""
    try:
        status = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_uid, status.st_mode]
