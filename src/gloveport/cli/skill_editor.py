"""Lets a person change the program of a skill, in an editor or from a file."""

import contextlib
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gloveport.errors import ConfigError
from gloveport.untrusted_text import quote

if TYPE_CHECKING:
    from gloveport.skills.skill_library import KeptSkill


def read_text(file: Path) -> str:
    """Read a file that a person has named. Raises ``typer.BadParameter`` if it can't be read."""
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise typer.BadParameter(f"{file} is no UTF-8 text: byte {error.start} is wrong") from error


@contextlib.contextmanager
def edit_text(kept_skill: "KeptSkill", environ: Mapping[str, str]) -> Iterator[str]:
    """Have a person edit the program of a skill; yields the new text, whose file stays if the context fails.

    Args:
        kept_skill: The skill.
        environ: The editor's environment, without programs of a workspace on its ``PATH``.

    Raises:
        ConfigError: The editor fails, or its command can't be told.
    """
    editor = _split_editor(environ)
    suffix = Path(kept_skill.skill.head.metadata.get("gloveport.entry", "x.txt")).suffix
    directory = Path(tempfile.mkdtemp(prefix="gloveport-"))
    file = directory / f"{kept_skill.skill.name}{suffix}"
    before = kept_skill.skill.code.encode()
    file.write_bytes(before)
    is_saved = False
    try:
        try:
            subprocess.run([*editor, str(file)], check=True, env=environ)  # noqa: S603 - the person's own editor
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigError(
                f"the editor {editor[0]} has failed: {error}", hint="set EDITOR, or use --file"
            ) from error
        yield read_text(file)
        is_saved = True
    finally:
        if is_saved or (file.is_file() and file.read_bytes() == before):
            shutil.rmtree(directory)
        else:
            sys.stderr.write(f"gloveport: what you have written is still in {file}\n")


def _split_editor(environ: Mapping[str, str]) -> list[str]:
    """The words of the editor's command. Raises ConfigError if there are none, or a quotation mark stays open."""
    line = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
    with contextlib.suppress(ValueError):
        if words := shlex.split(line):
            return words
    raise ConfigError(f"VISUAL or EDITOR is {quote(line)}, which is no command", hint="set EDITOR, or use --file")
