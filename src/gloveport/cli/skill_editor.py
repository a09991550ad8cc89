"""Lets a person change the program of a skill, in an editor or from a file."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from gloveport.errors import ConfigError

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


def edit_text(kept_skill: "KeptSkill") -> str:
    """Have a person edit the program of a skill; return the new text. Raises ``ConfigError`` if the editor fails."""
    editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    suffix = Path(kept_skill.skill.head.metadata.get("gloveport.entry", "x.txt")).suffix
    with tempfile.TemporaryDirectory(prefix="gloveport-") as directory:
        file = Path(directory, f"{kept_skill.skill.name}{suffix}")
        file.write_text(kept_skill.skill.code, encoding="utf-8")
        try:
            subprocess.run([*editor, str(file)], check=True)  # noqa: S603 - the person's own editor
        except (OSError, subprocess.CalledProcessError) as error:
            raise ConfigError(
                f"the editor {editor[0]} has failed: {error}", hint="set EDITOR, or use --file"
            ) from error
        return read_text(file)
