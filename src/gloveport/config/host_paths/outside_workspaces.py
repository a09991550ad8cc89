"""Finds what lies outside of all workspaces: programs and settings in a workspace are not the owner's, for commands
write there.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from gloveport.config.checks.mounts import is_within
from gloveport.config.schema import Config
from gloveport.errors import ConfigError
from gloveport.real_paths import real
from gloveport.user_directories import name_workspace, workspaces_directory

_SETTINGS = ("PIP_CONFIG_FILE", "XDG_CONFIG_HOME", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG")
"""Variables that name files or directories of the settings of package managers, which say where packages come from."""

_LISTS = ("PATH", "XDG_CONFIG_DIRS")
"""Variables that list directories of programs, and of settings."""

_MOST_LINKS = 40
"""The kernel's own limit."""


def leads_through(path: Path, root: Path) -> bool:
    """Whether a path lies in a workspace, or a link on its way does: then commands decide where it leads."""
    workspace = real(root)
    return any(is_within(place, workspace) for place in find_links(Path(os.path.abspath(path))))  # noqa: PTH100


def path_outside(environ: Mapping[str, str], workspaces: Iterable[Path]) -> str:
    """The owner's ``PATH`` without entries in a workspace, such as an active environment's: commands write there. Nor
    has it entries in what has been one before, such as the working directory of ``gloveport exec``.
    """
    return _filter_entries(environ.get("PATH", os.defpath), _inside_of(environ, workspaces))


def environ_outside(config: Config, environ: Mapping[str, str]) -> Mapping[str, str]:
    """Our environment for what runs outside of a sandbox, such as another MCP server, and for what is read there: its
    ``PATH`` and ``XDG_CONFIG_DIRS`` have no entry in a workspace, and no variable names settings of package managers
    there.
    """
    roots = [*filter(None, [config.workspace.root])]
    is_inside = _inside_of(environ, roots)
    inside = {name for name in _SETTINGS if name in environ and is_inside(Path(environ[name]))}
    rest = {name: text for name, text in environ.items() if name not in inside}
    lists = {"PATH": os.defpath, **{name: rest[name] for name in _LISTS if name in rest}}
    return {**rest, **{name: _filter_entries(entries, is_inside) for name, entries in lists.items()}}


def _filter_entries(entries: str, is_inside: Callable[[Path], bool]) -> str:
    return os.pathsep.join(one for one in entries.split(os.pathsep) if not is_inside(Path(one)))


def _inside_of(environ: Mapping[str, str], workspaces: Iterable[Path]) -> Callable[[Path], bool]:
    """Make what tells whether a path leads through one of these workspaces, or through one of which there is state."""
    roots = [real(root) for root in workspaces]
    try:
        names = {one.name for one in workspaces_directory(environ).iterdir()}
    except (OSError, ConfigError):  # there is no state, and so there was no workspace
        names = set()

    def is_inside(path: Path) -> bool:
        places = [*find_links(Path(os.path.abspath(path)))]  # noqa: PTH100
        if any(is_within(place, root) for place in places for root in roots):
            return True
        return bool(names) and any(name_workspace(one) in names for place in places for one in (place, *place.parents))

    return is_inside


def find_links(path: Path) -> Iterator[Path]:
    """Yield where an absolute path leads, and each symbolic link on the way: whoever can change a link decides where it
    leads.
    """
    # Texts, not paths: this is done for dozens of paths at each start, and pathlib takes ten times as long.
    pending, current, links = list(reversed(path.parts[1:])), "/", 0
    while pending:
        if (name := pending.pop()) == "..":
            current = os.path.dirname(current)  # noqa: PTH120
            continue
        current = os.path.join(current, name)  # noqa: PTH118
        if links < _MOST_LINKS and os.path.islink(current):  # noqa: PTH114
            links += 1
            yield Path(current)
            target = os.readlink(current)  # noqa: PTH115
            pending += reversed([part for part in target.split("/") if part not in ("", ".")])
            current = "/" if target.startswith("/") else os.path.dirname(current)  # noqa: PTH120
    yield Path(current)
