"""Opens the skill library of a configuration."""

from collections.abc import Mapping

from gloveport.config import Config, skills_directory, state_directory
from gloveport.skills.skill_library import SkillLibrary, make_library


def open_library(config: Config, environ: Mapping[str, str]) -> SkillLibrary:
    """The library of the owner's skills, and of those in the configured workspace.

    Raises:
        ConfigError: This user has no home directory.
    """
    records = state_directory(environ) / "skill-records"
    return make_library(skills_directory(config, environ), records, config.workspace.root)
