"""Finds the directories that a configuration may put elsewhere than into the state directory."""

from collections.abc import Mapping
from pathlib import Path

from gloveport.config.schema import Config
from gloveport.user_directories import state_directory


def audit_directory(config: Config, environ: Mapping[str, str]) -> Path:
    """Find the directory of the audit log: the configured one, or ``audit`` in the state directory.

    Raises:
        ConfigError: As ``state_directory``.
    """
    return config.audit.directory or state_directory(environ) / "audit"


def skills_directory(config: Config, environ: Mapping[str, str]) -> Path:
    """Directory of the skills: the configured one, or ``skills`` in the state directory.

    Raises:
        ConfigError: As ``state_directory``.
    """
    return config.skills.directory or state_directory(environ) / "skills"
