"""Caches successful checks of a host, so that a restarted server need not repeat them before its first call.

This weakens nothing: each sandbox checks for itself which walls are in force, and is refused if one is not. The cache
only says that no check is needed first. Its key is the boot, the kernel, bubblewrap, our version and the configuration
that sandboxes are built from; its file can only have been written by its owner. Clients have configurations and
workspaces of their own: several of each are remembered.
"""

import hashlib
import json
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gloveport.atomic_file import replace_file
from gloveport.bootstrap.host_setup import Host
from gloveport.bootstrap.operator_reach import whole_grant
from gloveport.config import Config, state_directory
from gloveport.file_descriptors import READ, closing
from gloveport.model import Value
from gloveport.model.reading import WrongShapeError, read_json, read_value
from gloveport.sandbox.detection.probe import Check
from gloveport.user_directories import is_ours

_FILE: Final = "host.json"
_MOST_BYTES: Final = 1 << 17
_MOST_KNOWN: Final = 16
_BOOT: Final = Path("/proc/sys/kernel/random/boot_id")


def recall_checks(host: Host, config: Config, environ: Mapping[str, str]) -> Sequence[Check] | None:
    """The checks of this very host under such a configuration, whichever directory is the workspace; None without
    trustworthy ones.
    """
    try:
        return read_value(tuple[Check, ...], _read(environ)[_key(host, config)])
    except (KeyError, WrongShapeError):
        return None


def remember_checks(host: Host, config: Config, environ: Mapping[str, str], checks: Sequence[Check]) -> None:
    """Keep the checks, if nothing is missing. If they can't be kept, they are made again."""
    directory = state_directory(environ)
    if any(check.state == "missing" for check in checks) or not is_ours(directory):
        return
    entries = {**_read(environ), _key(host, config): [check.model_dump(mode="json") for check in checks]}
    try:
        replace_file(directory / _FILE, json.dumps(dict([*entries.items()][-_MOST_KNOWN:])).encode())
    except OSError:
        return


def _read(environ: Mapping[str, str]) -> Mapping[str, object]:
    """The kept checks by key, the newest last; empty if the file can't be trusted."""
    try:
        with closing(os.open(state_directory(environ) / _FILE, READ)) as file:
            status = os.fstat(file)
            is_private = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
            data = os.read(file, _MOST_BYTES) if is_private and is_ours(state_directory(environ)) else b""
        return read_json(dict[str, object], data)
    except (OSError, WrongShapeError):
        return {}


def _key(host: Host, config: Config) -> str:
    """Digest of all that the checks depend on."""
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
    """JSON for a non-JSON value: equal values are spelled alike in each process."""
    if isinstance(value, set | frozenset):
        return sorted(map(str, value))
    return value.model_dump() if isinstance(value, Value) else str(value)


def _identity(path: Path) -> list[object]:
    """Identifies one version of a file."""
    try:
        status = path.stat()
    except OSError:
        return [str(path)]
    return [str(path), status.st_ino, status.st_size, status.st_mtime_ns, status.st_uid, status.st_mode]
