"""Refuses directories that can't be a workspace: those with more than a project, or with files that the host trusts.

Commands can write everything in a workspace. So it must hold nothing that Gloveport itself runs or keeps: its own code,
its state, and the programs and secrets that the configuration names.
"""

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

import gloveport
from gloveport.config.checks.mounts import content_refusal, home_directories, is_within
from gloveport.config.checks.secret_places import secret_commands, secret_files
from gloveport.config.host_paths.outside_workspaces import find_links, path_outside
from gloveport.config.schema import Config
from gloveport.config.toml_text import as_toml, printable, spell_key
from gloveport.errors import ConfigError
from gloveport.executables import find_executable
from gloveport.late_pattern import late_pattern
from gloveport.real_paths import real
from gloveport.user_directories import config_directory, named_state_directory

_SYSTEM = (
    *map(Path, ("/usr", "/etc", "/boot", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")),
    *map(Path, ("/var/lib", "/var/spool")),  # the latter has the crontabs
)
"""Programs that this host runs, and files that tell it what to run."""

_OF_A_HOME = ("bin", ".local")
"""Names in a home directory under which its owner's programs are."""

_BROAD = tuple(map(Path, ("/", "/home", "/media", "/mnt", "/opt", "/srv", "/tmp", "/var", "/var/tmp")))  # noqa: S108
"""If a server is given one of these, or a home, not everything below belongs to the server."""

_CODE = "install Gloveport elsewhere; to work on Gloveport itself, open another clone than the one that serves"
_PYTHON = "take it out of PYTHONPATH, and start `gloveport` rather than `python -m gloveport`"

_CODE_OF_PROGRAMS = frozenset(
    {".cjs", ".js", ".jar", ".mjs", ".mts", ".php", ".pl", ".py", ".pyz", ".rb", ".sh", ".ts", ".tsx", ".wasm"}
)
"""Suffixes of files that interpreters run."""

_CODE_VARIABLES = frozenset(
    {"BASH_ENV", "CLASSPATH", "ENV", "LD_LIBRARY_PATH", "LD_PRELOAD", "NODE_OPTIONS", "NODE_PATH", "PERL5LIB"}
    | {"PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP", "RUBYLIB", "RUBYOPT"}
)
"""Variables that name files and directories from which a server runs code. ``PATH`` is filtered instead."""

_ABSOLUTE = late_pattern(r"/[^\s:\"']+")
_SURROGATE = late_pattern(r"[\ud800-\udfff]")


class _Belonging(Struct, frozen=True, kw_only=True):
    """A path that Gloveport runs or keeps: where it is, what it is, and how to free the place for a workspace."""

    path: Path
    what: str
    remedy: str
    broad: bool = False
    """Whether it may be a home or the like, of which not everything below belongs to it."""


def refuse_as_workspace(root: Path, config: Config, environ: Mapping[str, str], believed: Iterable[Path]) -> None:
    """Refuse a directory that can't be a workspace: one with more than one project, or with files of Gloveport's own,
    or with one ``believed``, which the configuration was read from.

    This is checked once, at the start. If a configuration that is reloaded later names another secret or file, that is
    only checked at the next start.

    Raises:
        ConfigError: It can't be a workspace.
    """
    homes = home_directories()
    refused = (
        _own_refusal(root, homes, _belongings(config, environ, believed))
        or _system_refusal(real(root), homes)
        or content_refusal(real(root), homes)
        or _mount_refusal(real(root), config)
    )
    if refused is None and not root.is_dir():
        refused = f"expected a directory, found {as_toml(str(root))}", "name the directory of a project"
    if refused is None and _SURROGATE.search(str(real(root))):
        refused = f"expected a path in UTF-8, found {as_toml(str(root))}", "rename what is not, or name another"
    if refused is not None:
        problem, hint = refused
        raise ConfigError(f"workspace: {problem}", hint=hint)


def private_paths(config: Config, environ: Mapping[str, str]) -> Iterator[Path]:
    """List the paths that no sandbox may read: state, directory of the configuration, audit log, secrets."""
    yield from (one.path for one in _list_belongings(config, environ, ()))
    yield from secret_files(config.secret_tables)


def _own_refusal(root: Path, homes: Sequence[Path], belongings: Iterable[_Belonging]) -> tuple[str, str] | None:
    directory, broad = real(root), {*_BROAD, *homes}
    for belonging in belongings:
        for path in find_links(belonging.path):
            below = is_within(directory, path) and not (belonging.broad and path in broad)
            if below or is_within(path, directory):
                whose = f"{printable(str(path))} ({belonging.what})"
                return (
                    (
                        f"expected nothing that Gloveport runs or keeps, "
                        f"found {as_toml(str(root))}, which overlaps {whose}"
                    ),
                    f"commands could read and change it: {belonging.remedy}",
                )
    return None


def _system_refusal(root: Path, homes: Sequence[Path]) -> tuple[str, str] | None:
    # An account of a directory service may be missing from the list of accounts.
    places = [*homes, *([Path(*root.parts[:3])] if root.is_relative_to("/home") else [])]
    for path in (*_SYSTEM, *(home / name for home in places for name in _OF_A_HOME)):
        if is_within(root, path) or is_within(root, real(path)):
            return (
                (
                    f"expected a directory of a project, found {as_toml(str(root))}, "
                    f"which belongs to {printable(str(path))}"
                ),
                "what lies there is run by whoever uses this host: name a directory elsewhere, such as below /srv",
            )
    return None


def _mount_refusal(root: Path, config: Config) -> tuple[str, str] | None:
    """Refuse a mount of a path below: commands could put a link there, and the next sandbox would show its target.

    When the configuration was loaded, no path of a mount or toolchain led through a link.
    """
    sources = {
        "policy.mounts": [Path(mount.source) for mount in config.policy.mounts],
        "workspace.toolchains": config.workspace.toolchains,
    }
    for key, paths in sources.items():
        for source in paths:
            if root in source.parents:
                problem = f"expected no mount of what lies in it, found {as_toml(str(source))} among {key}"
                hint = "leave it out, for programs see the workspace, or move it"
                return problem, f"commands could replace that by a link to anything: {hint}"
    return None


def _belongings(config: Config, environ: Mapping[str, str], believed: Iterable[Path]) -> Iterator[_Belonging]:
    yield from _list_belongings(config, environ, believed)
    yield from _run(config, environ)
    yield from _of_secrets(config, environ)
    yield from _of_servers(config, environ)


def _list_belongings(config: Config, environ: Mapping[str, str], believed: Iterable[Path]) -> Iterator[_Belonging]:
    elsewhere = "name another directory as the workspace"
    yield _Belonging(path=named_state_directory(environ), what="the state directory", remedy=elsewhere)
    yield _Belonging(path=config_directory(), what="the directory of the configuration", remedy=elsewhere)
    for path in believed:
        yield _Belonging(path=path, what="the configuration", remedy="keep the configuration elsewhere")
    if config.audit.directory is not None:
        yield _Belonging(path=config.audit.directory, what="audit.directory", remedy="keep the audit log elsewhere")
    if config.skills.directory is not None:
        yield _Belonging(path=config.skills.directory, what="skills.directory", remedy="keep the skills elsewhere")
    files = [(("api", name, "ca_file"), api.ca_file) for name, api in config.api.items()]
    files += [(("servers", name, "ca_file"), server.ca_file) for name, server in config.servers.items()]
    for key, file in files:
        if file is not None:
            yield _Belonging(path=Path(file), what=spell_key(key), remedy="keep the file elsewhere")


def _run(config: Config, environ: Mapping[str, str]) -> Iterator[_Belonging]:
    for path in (Path(gloveport.__file__).parent, Path(sys.prefix), Path(sys.base_prefix)):
        yield _Belonging(path=path, what="Gloveport's own code", remedy=_CODE)
    for entry in sys.path:  # an empty one is the working directory
        path = Path(os.path.abspath(entry))  # noqa: PTH100
        yield _Belonging(path=path, what="a directory that Python imports from", remedy=_PYTHON, broad=True)
    places = path_outside(environ, filter(None, [config.workspace.root]))
    interpreter = find_executable("python3", f"/usr/bin{os.pathsep}{places}")
    programs = {
        "sandbox.bubblewrap": config.sandbox.bubblewrap,
        "runtimes.python": config.runtimes.python or (interpreter and Path(interpreter)),
        "runtimes.deno": config.runtimes.deno,
        "runtimes.bash": config.runtimes.bash,
    }
    for key, program in programs.items():
        if program:
            yield _Belonging(path=program, what=key, remedy=f"install the program elsewhere, and name that as {key}")


def _of_secrets(config: Config, environ: Mapping[str, str]) -> Iterator[_Belonging]:
    written = config.secret_tables
    for file in secret_files(written):
        yield _Belonging(path=file, what="the file of a secret", remedy="keep the secret elsewhere")
    for line in secret_commands(written):
        for path in _find_executables(_words(line), Path("/"), environ):
            what, remedy = "the command of a secret", "keep the command elsewhere"
            yield _Belonging(path=path, what=what, remedy=remedy, broad=True)


def _of_servers(config: Config, environ: Mapping[str, str]) -> Iterator[_Belonging]:
    for name, server in config.servers.items():
        key, remedy = ("servers", name), "keep what the server is elsewhere, or name another directory as the workspace"
        if server.directory:
            what = spell_key((*key, "directory"))
            yield _Belonging(path=Path(server.directory), what=what, remedy=remedy, broad=True)
        directory = Path(server.directory or environ.get("HOME", "/"))
        for path in _find_executables(server.command, directory, {**environ, **server.env}):
            yield _Belonging(path=path, what=spell_key((*key, "command")), remedy=remedy, broad=True)
        for variable in _CODE_VARIABLES & server.env.keys():
            for text in _ABSOLUTE.findall(server.env[variable]):
                what = spell_key((*key, "env", variable))
                yield _Belonging(path=Path(text), what=what, remedy=remedy, broad=True)


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # reported when the secret is fetched
        return []


def _find_executables(command: Sequence[str], directory: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the paths in a command line from which something runs: its program, its first argument (``node DIR``),
    files that are programs, and values of options that may be directories (``--directory DIR``). Other paths are data,
    which may be in a project.
    """
    for program in command[:1]:
        found = program if "/" in program else find_executable(program, environ.get("PATH", os.defpath))
        yield from [directory / found] if found else []
    for number, argument in enumerate(command[1:]):
        is_option = argument.startswith("-")
        value = argument.partition("=")[2] if is_option else argument
        path = directory / value
        if not value.startswith("/") and not path.is_file():
            continue
        is_of_option = is_option or command[number].startswith("-")
        if number == 0 or _is_program(path) or (is_of_option and (path.is_dir() or not path.suffix)):
            yield path


def _is_program(path: Path) -> bool:
    return path.suffix in _CODE_OF_PROGRAMS or (path.is_file() and os.access(path, os.X_OK))
