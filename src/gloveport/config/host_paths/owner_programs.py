"""Finds a named program along its owner's PATH, and the directory that a sandbox must show so that it can run.

A package manager puts the program in a package, and a link to it in a directory on PATH: the sandbox shows only the
package to which the link leads.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gloveport.config.checks.mounts import toolchain_refusals
from gloveport.config.host_paths.outside_workspaces import leads_through, path_outside
from gloveport.config.host_paths.workspace_root import private_paths
from gloveport.config.schema import Config
from gloveport.config.toml_text import printable
from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.real_paths import real

_PACKAGES: Final = "node_modules"
_SHARED: Final = (".local", "share")
"""Where programs have directories of their own in a home."""


def find_program(name: str, environ: Mapping[str, str], workspace: Path) -> Path | None:
    """Find the program of this name along the owner's ``PATH`` (in ``environ``), if any. What the workspace has under
    this name is none of the owner's: it may be a link to any file.
    """
    if "/" in name and not name.startswith("/"):
        return None
    found = find_executable(name, path_outside(environ, [workspace]))
    return None if found is None or leads_through(Path(found), workspace) else real(Path(found))


def find_package(program: Path, config: Config, environ: Mapping[str, str], shown_paths: Sequence[Path]) -> Path | None:
    """Find the directory to show for a program; None if a shown directory has it already.

    Raises:
        ConfigError: No directory can be shown that has only this program.
    """
    if any(program.is_relative_to(one) for one in shown_paths):
        return None
    package = _npm_package(program) or _program_directory(program, real(Path(environ.get("HOME") or "/nonexistent")))
    why = "it is no package by itself"
    if package is not None:
        refusal = next(toolchain_refusals([package], private_paths(config, environ)))
        if refusal is None:
            return package
        why = refusal
    raise ConfigError(
        f"{printable(str(program))} is not shown in the sandbox: {why}",
        hint="add the directory that it needs to workspace.toolchains",
    )


def _npm_package(program: Path) -> Path | None:
    parts = program.parts
    if _PACKAGES not in parts[:-2]:
        return None
    at = parts.index(_PACKAGES) + 1
    length = at + (2 if parts[at].startswith("@") else 1)
    return Path(*parts[:length]) if length < len(parts) else None


def _program_directory(program: Path, home: Path) -> Path | None:
    place = home.joinpath(*_SHARED)
    if not program.is_relative_to(place) or len(program.relative_to(place).parts) < 2:
        return None
    return place / program.relative_to(place).parts[0]
