"""Opens the SQLite file of questions and answers, which several servers and ``gloveport approvals`` share.

It has a rollback journal: transactions are rare and small, no other file remains, and it works on network file systems
too. Directory and file are private to this user: whoever can write the file can approve.
"""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from gloveport.errors import ConfigError
from gloveport.late_libraries import sqlite3
from gloveport.user_directories import make_private_directory

FILE_NAME = "queue.sqlite"

_APPLICATION = 0x676C7670  # "glvp"
_VERSION = 1
_BUSY_SECONDS = 5.0
_BEGIN_ANEW = "move it away to begin anew: what was remembered is forgotten then, and nothing is approved"
_SCHEMA = f"""
CREATE TABLE questions (
    id TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    expires REAL NOT NULL,
    queue INTEGER NOT NULL,
    pid INTEGER NOT NULL,
    birth TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'pending'
        CHECK (status IN ('pending', 'allowed', 'denied', 'expired', 'cancelled')),
    verdict TEXT,
    decided TEXT,
    uid INTEGER,
    tty TEXT
) STRICT;
CREATE INDEX pending ON questions (expires) WHERE status = 'pending';
CREATE TABLE remembered (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    pattern TEXT NOT NULL,
    approved TEXT NOT NULL,
    uid INTEGER NOT NULL,
    tty TEXT NOT NULL
) STRICT;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""


def create(directory: Path) -> None:
    """Make the directory and the file, or check existing ones.

    Raises:
        ConfigError: They can't be made, or others could have written them.
    """
    try:
        make_private_directory(directory.parent)
        with contextlib.suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        with contextlib.suppress(FileExistsError):
            # Not opened: closing a descriptor of a database drops all locks that this process has on it.
            os.mknod(directory / FILE_NAME, 0o600 | stat.S_IFREG)
    except NotADirectoryError as error:
        raise unreadable_error(directory / FILE_NAME, error) from error
    except OSError as error:
        raise ConfigError(
            f"the approvals in {directory} can't be kept: {error.strerror}",
            hint="make the state directory writable, or set GLOVEPORT_STATE to one that is",
        ) from error
    with transaction(directory) as database:
        if _is_empty(database):
            for statement in _SCHEMA.split(";\n"):
                database.execute(statement)


@contextlib.contextmanager
def transaction(directory: Path) -> "Iterator[sqlite3.Connection]":
    """Read and write inside the context, all or nothing. No other process writes meanwhile.

    Raises:
        ConfigError: The file is missing, not ours or damaged, or another process has held it for too long.
    """
    path = directory / FILE_NAME
    try:
        _require_private(directory, stat.S_IFDIR)
        _require_private(path, stat.S_IFREG)
        with contextlib.closing(_connect(path)) as database:
            database.execute("PRAGMA trusted_schema = OFF")
            database.execute("PRAGMA secure_delete = ON")  # it holds arguments of calls
            database.execute("BEGIN IMMEDIATE")
            try:
                _require_ours(database, path)  # not before: another process may be creating it
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname == "SQLITE_ERROR":  # no such table, and the like
            raise _damage_error(path, error) from error
        raise ConfigError(
            f"{path} can't be used: {error}", hint="see `fuser` on it, and whether the disk is full"
        ) from error
    except (sqlite3.DatabaseError, ValueError) as error:  # a ValueError: a row has another shape
        raise _damage_error(path, error) from error
    except OSError as error:
        raise unreadable_error(path, error) from error


def unreadable_error(path: Path, error: OSError) -> ConfigError:
    """The error where the file or its directory can't be reached."""
    hint = "run as the user whose server asks the questions"
    if isinstance(error, NotADirectoryError):
        hint = "move away the file that lies where a directory belongs, or set GLOVEPORT_STATE to a directory"
    return ConfigError(f"{path} can't be opened: {error.strerror}", hint=hint)


def _connect(path: Path) -> "sqlite3.Connection":
    place = f"file:{quote(str(path))}?mode=rw"
    return sqlite3.connect(place, uri=True, timeout=_BUSY_SECONDS, isolation_level=None)


def _require_ours(database: "sqlite3.Connection", path: Path) -> None:
    """Refuse a database of another application, or of a newer version. Raises ConfigError if it is so."""
    header = (_number(database, "application_id"), _number(database, "user_version"))
    if header != (_APPLICATION, _VERSION) and (header != (0, 0) or not _is_empty(database)):
        raise ConfigError(f"{path} was not made by this version of Gloveport", hint=_BEGIN_ANEW)


def _is_empty(database: "sqlite3.Connection") -> bool:
    return database.execute("SELECT 1 FROM sqlite_schema").fetchone() is None


def _damage_error(path: Path, error: Exception) -> ConfigError:
    return ConfigError(f"{path} is damaged: {error}", hint=_BEGIN_ANEW)


def _number(database: "sqlite3.Connection", pragma: str) -> int:
    number: int = database.execute(f"PRAGMA {pragma}").fetchone()[0]
    return number


def _require_private(path: Path, kind: int) -> None:
    """Refuse a link, another kind of file, and a file that others have access to.

    Raises:
        ConfigError: It is one of these.
        OSError: It does not exist.
    """
    status = path.lstat()
    if stat.S_IFMT(status.st_mode) != kind:
        raise ConfigError(
            f"{path} is a link, or no {'directory' if kind == stat.S_IFDIR else 'file'}", hint=_BEGIN_ANEW
        )
    if status.st_uid != os.geteuid():
        raise ConfigError(
            f"{path} belongs to another user (uid {status.st_uid})",
            hint="run as that user, or set GLOVEPORT_STATE to a directory of your own",
        )
    if status.st_mode & 0o077:
        raise ConfigError(f"other users have access to {path}", hint=f"make it yours alone: chmod go= {path}")
    if kind == stat.S_IFREG and status.st_nlink != 1:
        raise ConfigError(f"{path} has another name too", hint=_BEGIN_ANEW)
