"""Edits a configuration file: puts servers into it, and keeps everything else that a person has written.

The new file is loaded as a check before it replaces the old one. If that fails, nothing has changed.
"""

import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import tomlkit
from msgspec import Struct
from tomlkit.exceptions import TOMLKitError

from gloveport.atomic_file import replace_file, take_place, temporary_file
from gloveport.config.loading.load import load
from gloveport.config.sources.layers import Table, decode_text
from gloveport.config.sources.owned_files import read_own
from gloveport.config.toml_text import printable
from gloveport.errors import ConfigError
from gloveport.real_paths import real


class ServerEdit(Struct, frozen=True, kw_only=True):
    """The changes of one server's table.

    Attributes:
        set: Keys with their new values.
    """

    set: Table
    removed: tuple[str, ...] = ()


class Written(Struct, frozen=True, kw_only=True):
    """The files written. ``backup`` is None where there was no file before."""

    file: Path
    backup: Path | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Secrets:
    """Values by the file that each is to be kept in."""

    values: Mapping[Path, str] = field(repr=False)


def edit_text(path: Path, text: str, edits: Mapping[str, ServerEdit]) -> str:
    """Apply edits of servers, by name, to the text of a configuration file. A new server is put at the end.

    Raises:
        ConfigError: It is written in a way that can't be edited without a person.
    """
    before = tomllib.loads(text)
    servers = before.setdefault("servers", {})
    present = {name: edit for name, edit in edits.items() if name in servers}
    added = {name: edit for name, edit in edits.items() if name not in servers}
    with suppress(TOMLKitError, ValueError, TypeError, KeyError):
        after = _append_tables(_change_tables(text, present), added)
        for name, edit in edits.items():
            rest = {key: value for key, value in servers.get(name, {}).items() if key not in edit.removed}
            servers[name] = rest | edit.set
        if tomllib.loads(after) == before:
            return after
    raise ConfigError(
        f"{printable(str(path))} can't be edited: its servers are written in an unusual way",
        hint="write each server as a table [servers.NAME] of its own",
    )


def write(path: Path, before: bytes | None, text: str, secrets: Secrets, *, environ: Mapping[str, str]) -> Written:
    """Replace the text of a configuration file, and write secrets to the files that it names; all or nothing. For a
    symbolic link, its target is replaced. ``before`` is the content when it was read; None where there was no file.

    Raises:
        ConfigError: The text is no valid configuration, the file has changed meanwhile, or something can't be written.
            Nothing has changed then.
    """
    target = real(path)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with temporary_file(target.parent, text.encode(), suffix=".toml") as new:
            _require_valid(path, new, environ)
            with _write_secrets(secrets):
                if read_own(path) != before:
                    raise ConfigError(f"{printable(str(path))} has changed meanwhile", hint="import again")
                backup = None if before is None else _back_up(target, before)
                take_place(new, target)
    except OSError as error:
        raise ConfigError(
            f"{printable(str(error.filename or path))} can't be written: {error.strerror}",
            hint="make its directory writable for this user; nothing has changed",
        ) from error
    return Written(file=target, backup=backup)


def _change_tables(text: str, edits: Mapping[str, ServerEdit]) -> str:
    if not edits:
        return text
    document: Any = tomlkit.parse(text)  # of any type: the result is checked
    for name, edit in edits.items():
        table = document["servers"][name]
        for key in edit.removed:
            del table[key]
        for key, value in edit.set.items():
            table[key] = value
    return tomlkit.dumps(document)


def _append_tables(text: str, edits: Mapping[str, ServerEdit]) -> str:
    """Append tables at the end, so that no comment gets next to a table that it is not about."""
    if not edits:
        return text
    servers = tomlkit.table(is_super_table=True)
    for name, edit in edits.items():
        servers[name] = tomlkit.item(edit.set)
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{tomlkit.dumps({'servers': servers})}"


def _require_valid(path: Path, new: Path, environ: Mapping[str, str]) -> None:
    try:
        load(new, cwd=new.parent, environ=environ)
    except ConfigError as error:
        raise ConfigError(
            str(error.args[0]).replace(printable(str(new)), printable(str(path))),
            hint="nothing has changed: correct this, or leave the server out with --only",
        ) from error


def _back_up(target: Path, content: bytes) -> Path:
    """Copy the present content to an unused name."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    backup = target.with_name(f"{target.name}.bak-{moment}")
    with temporary_file(target.parent, content) as new:  # never half of one, as on a full disk
        new.rename(backup)
    return backup


@contextmanager
def _write_secrets(secrets: Secrets) -> Iterator[None]:
    """Write the secrets; if the context fails, restore the old files."""
    former: dict[Path, bytes | None] = {}
    try:
        for path, value in secrets.values.items():
            _make_private(path.parent.parent)
            _make_private(path.parent)
            former[path] = path.read_bytes() if path.is_file() else None
            replace_file(path, f"{value}\n".encode())
        yield
    except BaseException:
        for path, content in former.items():
            with suppress(OSError):
                if content is None:
                    path.unlink(missing_ok=True)
                else:
                    replace_file(path, content)
        raise


def _make_private(directory: Path) -> None:
    """Make a directory that only the owner can read.

    Raises:
        ConfigError: Something else has its name, or others may put files into it.
    """
    with suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    status = directory.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise ConfigError(
            f"{printable(str(directory))} is no directory that only you can look into",
            hint="run: chmod 0700 on it, or remove it",
        )


def read_text_of(path: Path) -> tuple[bytes | None, str]:
    """Read a configuration file to edit it: its content, and that as text.

    Raises:
        ConfigError: It can't be trusted, or is not UTF-8.
    """
    content = read_own(path)
    return content, "" if content is None else decode_text(path, content)
