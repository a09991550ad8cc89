"""Finds skills of other clients, and copies skills from and to their directories, without approvals."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gloveport.errors import Denied
from gloveport.untrusted_text import one_line

if TYPE_CHECKING:
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary

_PLACES = (".agents/skills", ".claude/skills", ".codex/skills")
_PATH_CHARACTERS: Final = 300


def find_elsewhere() -> Iterator[Path]:
    """Find the skills of other clients, below the working directory and the home directory."""
    home = os.path.expanduser("~")  # noqa: PTH111 - Path.home raises where there is none
    for base in dict.fromkeys((Path.cwd(), *([Path(home)] if home != "~" else []))):
        for place in _PLACES:
            for path in sorted((base / place).glob("*/SKILL.md")):
                yield path.parent


def import_skill(library: "SkillLibrary", directory: Path) -> "KeptSkill":
    """Copy a skill, as a candidate with its origin.

    Raises:
        Denied: There is no skill, it can't be used, or its name is taken.
        ConfigError: The skill can't be written.
    """
    from gloveport.skills.skill_files import parse_skill
    from gloveport.skills.skill_store import SkillStore

    if not (directory / "SKILL.md").exists():
        hint = "Name a directory that holds a SKILL.md; without a name those that are found are printed."
        raise Denied("unknown_skill", f"There is no skill in {one_line(str(directory), _PATH_CHARACTERS)}.", hint=hint)
    skill = parse_skill(SkillStore(directory=directory.parent, origin="").read(directory.name))
    return library.save(skill.name, skill.snapshot.files, owner="", origin=f"imported from {directory}")


def export_skill(kept_skill: "KeptSkill", directory: Path) -> None:
    """Copy a skill into a directory of skills.

    Raises:
        Denied: Its name is taken there.
        ConfigError: The skill can't be written.
    """
    from gloveport.skills.skill_store import SkillStore

    skill = kept_skill.skill
    if (place := directory / skill.name).exists():
        text = f"There is {one_line(str(place), _PATH_CHARACTERS)} already."
        raise Denied("skill_exists", text, hint="Remove it, or name another directory.")
    SkillStore(directory=directory, origin="", writable=True).save(skill.name, skill.snapshot.files)
