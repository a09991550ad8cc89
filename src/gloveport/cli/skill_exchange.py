"""Skills of other clients: found, copied from and to their directories. What was approved is not copied."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary

_PLACES = (".agents/skills", ".claude/skills", ".codex/skills")


def find_elsewhere() -> Iterator[Path]:
    """Directories of skills, here and at home, where other clients keep them."""
    for base in dict.fromkeys((Path.cwd(), Path.home())):
        for place in _PLACES:
            for path in sorted((base / place).glob("*/SKILL.md")):
                yield path.parent


def import_skill(library: "SkillLibrary", directory: Path) -> "KeptSkill":
    """Copy one, as a candidate that tells where it comes from.

    Raises:
        Denied: It is none that can be used, or there is one of its name.
        ConfigError: It can't be written.
    """
    from gloveport.skills.skill_files import parse_skill
    from gloveport.skills.skill_store import SkillStore

    skill = parse_skill(SkillStore(directory=directory.parent, origin="").read(directory.name))
    return library.save(skill.name, skill.snapshot.files, owner="", origin=f"imported from {directory}")


def export_skill(kept: "KeptSkill", directory: Path) -> None:
    """Copy one into a directory of skills.

    Raises:
        Denied: There is one of its name.
        ConfigError: It can't be written.
    """
    from gloveport.skills.skill_store import SkillStore

    SkillStore(directory=directory, origin="", writable=True).save(kept.skill.name, kept.skill.snapshot.files)
