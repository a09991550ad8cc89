"""Selects the configuration files that count: a named one, or the operator's with the project's over it.

A file that is named counts alone. Otherwise the operator's own file counts, with the project file of the working
directory laid over it. Beside either, but never beside a project file, the directory ``apis`` counts as well.
"""

from collections.abc import Mapping
from pathlib import Path

from gloveport.config.sources.trust import project_file
from gloveport.model import Value
from gloveport.real_paths import real
from gloveport.user_directories import FILE_NAME, config_directory


class ConfigSources(Value):
    """The files that count where they exist."""

    operator: Path
    """The file that is named, or the operator's own."""

    named: bool
    """Whether it is named: then it has to exist."""

    project: Path | None
    """The file of the working directory, which counts if a person has trusted its content."""

    @property
    def apis(self) -> Path:
        """The directory of APIs in files of their own."""
        return self.operator.parent / "apis"


def sources(config_path: Path | None, *, cwd: Path, environ: Mapping[str, str]) -> ConfigSources:
    """Find the files that count.

    Args:
        config_path: The file that counts alone; without it ``GLOVEPORT_CONFIG`` may name one.
        cwd: Where a project file is searched for; relative file names are relative to it.
        environ: Where ``GLOVEPORT_CONFIG`` is looked up.

    Raises:
        ConfigError: This user has no home directory.
    """
    if config_path is None and (name := environ.get("GLOVEPORT_CONFIG")):
        config_path = Path(name)
    if config_path is not None:
        return ConfigSources(operator=cwd / config_path, named=True, project=None)
    operator, project = config_directory() / FILE_NAME, project_file(cwd)
    # In the operator's own directory the project file is the operator's own.
    own = project.parent == real(operator.parent)
    return ConfigSources(operator=operator, named=False, project=None if own else project)
