"""Finds the owner's compilers and interpreters on PATH, which commands of a workspace are shown.

They are shown read-only at their own paths, each as one directory with nothing else in it. Of a home directory only
known toolchains are shown, never their neighbours: configuration, credentials, scripts of the owner's.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from gloveport.config.checks.mounts import is_within, overlap, toolchain_refusals
from gloveport.config.host_paths.outside_workspaces import path_outside
from gloveport.config.host_paths.workspace_root import private_paths
from gloveport.config.schema import Config
from gloveport.late_libraries import tomllib
from gloveport.real_paths import real

_LOCAL, _NIX, _OPT = Path("/usr/local"), Path("/nix/store"), Path("/opt")
_LOCAL_NAMES: Final = frozenset({"bin", "include", "lib", "lib64", "libexec", "share"})
_ALONE: Final = frozenset({".bun/bin", ".deno/bin", "go/bin"})
"""Directories of a home that are shown without their parents, which hold more than programs."""

# Files of system programs outside of /usr: the targets of links in their directories, files that launchers read.
_SETTINGS: Final = (
    *("java-*-openjdk", "maven", "openssl.cnf", "php/*", "python3*", "ssl/openssl.cnf"),
    *("chromium.d", "mime.types", "protocols", "services"),
)


class Toolchains(Struct, frozen=True):
    """The toolchains that commands are shown.

    Attributes:
        shown_paths: Directories and files, none of them below another.
        path: The directories with commands in them, in this order.
    """

    shown_paths: tuple[Path, ...] = ()
    path: tuple[Path, ...] = ()


def find_toolchains(config: Config, environ: Mapping[str, str], reserved_paths: Sequence[Path] = ()) -> Toolchains:
    """Find the configured toolchains, or those on the owner's ``PATH``; and files that the system's toolchains need.
    Sandboxes have something of their own at ``reserved_paths``.
    """
    shown_paths: list[Path] = []
    path: list[Path] = []

    def show(directory: Path, *bins: Path) -> None:
        if directory not in shown_paths:
            if any(overlap(directory, other) for other in (*shown_paths, *reserved_paths)):
                return
            shown_paths.append(directory)
        path.extend(one for one in bins if one not in path)

    for one in config.workspace.toolchains:
        show(one, one / "bin" if (one / "bin").is_dir() else one)
    if config.workspace.auto_toolchains:
        found = [*_find_owners(environ, config.workspace.root)]
        refusals = toolchain_refusals((directory for directory, *_ in found), private_paths(config, environ))
        for (directory, *bins), refusal in zip(found, refusals, strict=True):
            if refusal is None:
                show(directory, *bins)
    for one in _find_settings():
        show(one)
    return Toolchains(tuple(shown_paths), tuple(path))


def _find_owners(environ: Mapping[str, str], workspace: Path | None) -> Iterator[tuple[Path, ...]]:
    """Directories of toolchains, each with its directories of commands, as PATH names them. An entry in the workspace,
    such as an active environment's, names none: a command may have made it a link to any directory.
    """
    home, own = real(Path(environ.get("HOME") or "/nonexistent")), real(Path(sys.prefix))
    for entry in dict.fromkeys(path_outside(environ, filter(None, [workspace])).split(":")):
        if not entry.startswith("/"):
            continue
        named, place = Path(entry), real(Path(entry))
        if sys.prefix != sys.base_prefix and is_within(place, own):
            continue  # no command has the packages of Gloveport's own environment
        if is_within(named, home) or is_within(place, home):
            yield from _find_in_home(home, named, place)
        elif is_within(place, _OPT) and len(place.parts) > 2 and place.is_dir():
            yield Path(*place.parts[:3]), place
        elif is_within(place, _NIX):
            yield _NIX, place
    for one in sorted(_LOCAL.iterdir()) if _LOCAL.is_dir() else ():
        bins = [place for place in (one, one / "bin") if place.name == "bin" and place.is_dir()]
        if one.is_dir() and not one.is_symlink() and (bins or one.name in _LOCAL_NAMES):
            yield one, *bins


def _find_in_home(home: Path, named: Path, place: Path) -> Iterator[tuple[Path, ...]]:
    relative = (named if is_within(named, home) else place).relative_to(home)
    if relative.parts[:1] == (".pyenv",) and relative.name in ("bin", "shims"):
        yield from _find_chosen(home / ".pyenv/versions", _first_line(home / ".pyenv/version"))
    elif str(relative) == ".cargo/bin":
        yield from _find_chosen(home / ".rustup/toolchains", _rust_toolchain(home / ".rustup/settings.toml"))
    elif str(relative) in _ALONE and place.is_dir():
        yield place, place
    elif place.name == "bin" and place.is_dir() and is_within(place, home):
        root = place.parent
        deep = len(root.relative_to(home).parts) > 1 and root.name != ".local"
        if deep or (root / "conda-meta").is_dir():
            yield root, place


def _find_chosen(versions: Path, name: str) -> Iterator[tuple[Path, ...]]:
    """The directory of a version, if there is one of this name."""
    place = versions / name
    if name and "/" not in name and name not in (".", "..") and (place / "bin").is_dir():
        place = real(place)
        yield place, place / "bin"


def _first_line(file: Path) -> str:
    try:
        return file.read_text("utf-8").partition("\n")[0].strip()
    except (OSError, UnicodeDecodeError):
        return ""


def _rust_toolchain(file: Path) -> str:
    try:
        chosen = tomllib.loads(file.read_text("utf-8")).get("default_toolchain")
    except (OSError, ValueError):
        return ""
    return chosen if isinstance(chosen, str) else ""


def _find_settings() -> Iterator[Path]:
    for pattern in _SETTINGS:
        yield from (one for one in sorted(Path("/etc").glob(pattern)) if not one.is_symlink())
