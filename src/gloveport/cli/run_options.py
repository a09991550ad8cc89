"""The options of ``gloveport run``, and the request that they make. Imports little, for ``run`` waits for it."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from gloveport.cli.usage import UsageError, read_words

if TYPE_CHECKING:
    from gloveport.model import Language

LONG_OPTIONS: Final = ("code=", "language=", "timeout=", "memory=", "file=", "out=", "env=", "config=", "json")
_LANGUAGES: "Final[Mapping[str, Language]]" = {
    "": "python",
    ".py": "python",
    ".ts": "typescript",
    ".mts": "typescript",
    ".js": "javascript",
    ".mjs": "javascript",
    ".sh": "shell",
    ".bash": "shell",
}
"""By the suffix of the program's file; a program without a file has none."""


class RunOptions(NamedTuple):
    """The options of a command line.

    Attributes:
        file: The file of the program; None for standard input, or if ``code`` is given.
        language: The language; None for that of the file's suffix.
        out: The directory for artifacts.
    """

    code: str | None = None
    file: Path | None = None
    language: str | None = None
    timeout: float | None = None
    memory: str | None = None
    environment: str | None = None
    config: Path | None = None
    as_json: bool = False
    files: Sequence[str] = ()
    out: Path | None = None

    def request_fields(self, code_bytes: int) -> Mapping[str, object]:
        """Make the fields of the request. Of a program that is too large, just enough is read to see that.

        Raises:
            UsageError: There is no program or more than one, or it can't be read, or does not tell its language.
        """
        if self.file is None and self.code is None and sys.stdin.isatty():
            raise UsageError("name a FILE, give -c CODE, or - to read standard input")
        if self.file is not None and self.code is not None:
            raise UsageError("give a FILE or -c CODE, not both")
        return {
            "language": self.language or language_of(self.file),
            "code": _read_program(self.file, code_bytes) if self.code is None else _require_text(self.code),
            "environment": self.environment,
            "limits": {"wall_seconds": self.timeout, "memory_bytes": self.memory},
        }


def read_run_options(words: Sequence[str]) -> RunOptions | None:
    """Read a plain command line; None if it is not plain."""
    command_line = read_words(words, LONG_OPTIONS, short="c:l:", mixed=True)
    if command_line is None or len(command_line.rest) > 1 or not command_line.is_once(except_for="file"):
        return None
    timeout = command_line.last("timeout")
    try:
        seconds = None if timeout is None else float(timeout)
    except ValueError:
        return None
    return RunOptions(
        code=command_line.last("code"),
        file=Path(command_line.rest[0]) if command_line.rest else None,
        language=command_line.last("language"),
        timeout=seconds,
        memory=command_line.last("memory"),
        environment=command_line.last("env"),
        config=command_line.path("config"),
        as_json="json" in command_line.options,
        files=command_line.options.get("file", ()),
        out=command_line.path("out"),
    )


def language_of(file: Path | None) -> "Language":
    """Tell the language of a program by its file's name; Python without a file.

    Raises:
        UsageError: The name does not tell it.
    """
    suffix = file.suffix if file else ""
    if suffix not in _LANGUAGES:
        known = ", ".join(filter(None, _LANGUAGES))
        raise UsageError(f"{Path(file or '').name!r} does not tell its language: give --language, or use {known}")
    return _LANGUAGES[suffix]


def _read_program(file: Path | None, code_bytes: int) -> str:
    name = "standard input" if file is None or str(file) == "-" else str(file)
    try:
        if name == "standard input":
            data = sys.stdin.buffer.read(code_bytes + 1)
        else:
            with Path(name).open("rb") as stream:
                data = stream.read(code_bytes + 1)
        return data.decode("utf-8-sig", "ignore" if len(data) > code_bytes else "strict")
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is no UTF-8 text: byte {error.start} is wrong") from error


def _require_text(code: str) -> str:
    """The program of ``--code``, if its bytes were UTF-8: Python makes surrogates of others. Raises UsageError."""
    try:
        code.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"CODE is no UTF-8 text: character {error.start} is wrong") from error
    return code
