"""Records which project files a person has reviewed, and refuses all others.

A ``gloveport.toml`` in the working directory may come with a hostile checkout, or be edited by the agent that works
there. It counts only with the very content that was trusted: one small file per path in the state directory, which no
sandbox sees, holds the content's SHA-256.
"""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from gloveport.atomic_file import replace_file
from gloveport.config.sources.layers import decode_text, parse_toml
from gloveport.config.sources.owned_files import read_own
from gloveport.config.toml_text import argument, printable
from gloveport.errors import ConfigError
from gloveport.model import Value
from gloveport.real_paths import real
from gloveport.user_directories import FILE_NAME, make_private_directory, state_directory


class Trusted(Value):
    """A project file that now counts, and the text that was trusted: what a person should have read."""

    path: Path
    sha256: str
    text: str


def project_file(directory: Path) -> Path:
    """Give the path of the project file of a directory, with every symbolic link above it resolved."""
    return real(directory) / FILE_NAME


def trust(path: Path, *, environ: Mapping[str, str]) -> Trusted:
    """Record that a project file counts with the content it has now. ``path`` is the file, or the directory it stands
    in.

    Raises:
        ConfigError: The file is missing, is no ``gloveport.toml``, can be written by others, or is no TOML; or the
            record can't be written.
    """
    if path.is_dir():
        file = project_file(path)
    elif path.name == FILE_NAME:
        file = project_file(path.parent)
    elif not path.exists():
        raise _missing(path)
    else:
        raise ConfigError(
            f"{printable(str(path))} is not named {FILE_NAME}, so it is no project file",
            hint="only project files need trust; any other file is named with --config",
        )
    content = read_own(file, flags=os.O_NOFOLLOW)
    if content is None:
        raise _missing(file)
    text = decode_text(file, content)
    parse_toml(file, text)
    _write(record_path(file, environ=environ), _line(file, content))
    return Trusted(path=file, sha256=hashlib.sha256(content).hexdigest(), text=text)


def _missing(path: Path) -> ConfigError:
    return ConfigError(f"{printable(str(path))} does not exist", hint="name the project's directory, or its file")


def require_trust(file: Path, content: bytes, *, environ: Mapping[str, str]) -> None:
    """Refuse a project file that nobody has trusted with this content.

    Raises:
        ConfigError: It was never trusted, or it has changed since.
    """
    record = read_own(record_path(file, environ=environ))
    if record == _line(file, content):
        return
    what = "is not trusted" if record is None else "has changed since it was trusted"
    raise ConfigError(
        f"project file {printable(str(file))} {what}",
        hint=f"review it, then run: gloveport config trust {argument(file)}; or name another file with --config",
    )


def record_path(file: Path, *, environ: Mapping[str, str]) -> Path:
    """Give the path of the record of a project file, whether there is one or not."""
    return state_directory(environ) / "trusted" / hashlib.sha256(os.fsencode(file)).hexdigest()


def _line(file: Path, content: bytes) -> bytes:
    # In the format of sha256sum, so that a person can check a record without Gloveport.
    return hashlib.sha256(content).hexdigest().encode() + b"  " + os.fsencode(file) + b"\n"


def _write(record: Path, line: bytes) -> None:
    """Write the record whole or not at all."""
    try:
        make_private_directory(record.parent)
        replace_file(record, line)
    except OSError as error:
        raise ConfigError(
            f"{printable(str(record))} can't be written: {error.strerror}",
            hint="make the state directory writable, or set GLOVEPORT_STATE to one that is",
        ) from error
