"""Converts entries that name a command."""

import os
import re
import shlex
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from gloveport.config.sources.layers import Table
from gloveport.config.sources.owned_files import read_own
from gloveport.errors import ConfigError
from gloveport.import_config.drafts import ServerDraft
from gloveport.import_config.loader_variables import loads_code
from gloveport.import_config.secrets import is_harmless, is_harmless_argument
from gloveport.import_config.variables import Surroundings, VariableReference
from gloveport.secrets.scrub import MIN_SECRET_CHARS

COMMON_VARIABLES: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER"})
"""Variables that every server gets."""

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_LINE = re.compile(
    r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]{0,127})\s*=\s*"
    r"(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)'|(?P<plain>[^\s#\"'][^#]*?|))\s*(?:#.*)?"
)
"""A line of an env file."""
_OURSELVES = re.compile(r"gloveport(?:\.cli(?:\.main)?|\[[^\]]*\])?(?:[@=<>~!].*)?")
_LAUNCHERS = re.compile(r"(?:uvx|uv|pipx|pip-run|python[0-9.]*|py|env|sh|bash|cmd)(?:\.exe)?")


def command_of(table: Table, surroundings: Surroundings) -> list[str]:
    """Give the command line of an entry, in any client's form; empty where it has none.

    Raises:
        ConfigError: It has a form that no client knows, or a reference in it leads nowhere.
    """
    line = _line(table)
    if not line:
        return []
    program, *rest = (surroundings.resolve(_as_text(part, "its command line")) for part in line)
    if program.startswith("~/"):
        program = f"{surroundings.home}{program[1:]}"
    return [program, *rest]


def _line(table: Table) -> list[object]:
    """Program and arguments as written; empty where there is no command."""
    command, arguments = table.get("command"), table.get("args")
    match command:
        case {"path": program, "args": inner} | {"command": program, "args": inner}:  # Zed's form
            command, arguments = program, inner
        case _:
            pass
    if not command:
        return []
    if arguments is not None and not isinstance(arguments, list):
        raise ConfigError("its args are no list")
    return [*(command if isinstance(command, list) else [command]), *(arguments or [])]


def is_ourselves(command: list[str]) -> bool:
    """Tell whether a command starts Gloveport: it would call itself."""
    program = os.path.basename(command[0])  # noqa: PTH119 - not necessarily a path of this host
    words = [os.path.basename(word) for word in _words(command[1:])]  # noqa: PTH119
    if any(_OURSELVES.fullmatch(word) and "serve" in words[at:] for at, word in enumerate(words)):
        return True  # under any launcher
    if _OURSELVES.fullmatch(program.removesuffix(".exe")):
        return True
    return _LAUNCHERS.fullmatch(program) is not None and any(map(_OURSELVES.fullmatch, words))


def fill_local(draft: ServerDraft, table: Table, command: list[str], surroundings: Surroundings) -> None:
    """Write an entry that names a command into its draft.

    Raises:
        ConfigError: It can't be imported; the message says why.
    """
    draft.table["command"] = command
    for part in _line(table):
        _refuse_borrowed_secrets("its command line", str(part), surroundings)
    for index, argument in enumerate(command):
        if index and not is_harmless_argument(command[index - 1], argument):
            draft.note(
                f"argument {index} of its command may be a secret: it stays in the configuration, and every account of "
                "this machine can see it while the server runs"
            )
    if directory := table.get("cwd"):
        path = surroundings.resolve(_as_text(directory, "its cwd"))
        path = f"{surroundings.home}{path[1:]}" if path == "~" or path.startswith("~/") else path
        if not path.startswith("/") and surroundings.workspace is None:
            raise ConfigError("its cwd is relative to a directory that is not known here")
        draft.table["directory"] = os.path.normpath(os.path.join(surroundings.workspace or "/", path))  # noqa: PTH118
    _fill_environment(draft, table, surroundings)
    for name in draft.secrets:  # a script may run the value of a variable
        if any(argument != name and re.search(rf"\b{name}\b", argument) for argument in command):
            draft.note(f"its command line uses {name}, whose value is not shown: look at it in the file it comes from")


def _refuse_borrowed_secrets(what: str, text: str, surroundings: Surroundings) -> None:
    """Refuse to write a secret of the environment into the configuration."""
    for name, value in surroundings.variables(text).items():
        if name not in COMMON_VARIABLES and not is_harmless(name, value):
            raise ConfigError(
                f"{what} would hold what the variable {name} does, which may be a secret",
                hint="hand it over as a variable of the server's environment",
            )


def _fill_environment(draft: ServerDraft, table: Table, surroundings: Surroundings) -> None:
    sorter = _VariableSorter(draft, surroundings)
    for name, text in (_of_file(draft, table, surroundings) | _own_variables(table)).items():
        sorter.add(name, text)
    for name in _passed_on(table):
        if name in COMMON_VARIABLES or name in sorter.plain or name in sorter.secret:
            continue
        if name in surroundings.environ:
            sorter.add(_variable(name), f"${{{name}}}")
        else:  # the client starts the server without it, so we must, too
            draft.note(f'{name} is not set here and left out; if it needs it: secret_env.{name} = "env:{name}"')
    if sorter.plain:
        draft.table["env"] = sorter.plain
    if sorter.secret:
        draft.table["secret_env"] = sorter.secret


def _own_variables(table: Table) -> dict[str, str]:
    command = table.get("command")
    inner = command.get("env") if isinstance(command, dict) else None
    found: dict[str, str] = {}
    for key in ("env", "environment", "envs"):
        variables = table.get(key) or (inner if key == "env" else None) or {}
        if not isinstance(variables, dict):
            raise ConfigError(f"its {key} is no table")
        found |= {
            _variable(name): _as_text(value, f"its variable {name}")
            for name, value in variables.items()
            if value is not None
        }
    return found


class _VariableSorter(Struct, frozen=True):
    """Sorts a server's variables into those shown in the configuration, and secrets."""

    draft: ServerDraft
    surroundings: Surroundings
    plain: dict[str, str] = field(default_factory=dict)
    secret: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        if loads_code(name):
            self._add_shown(name, text)
            return
        borrowed = self.surroundings.variables(text)
        try:
            value = self.surroundings.resolve(text)
            harmless = is_harmless(name, value) and all(is_harmless(key, found) for key, found in borrowed.items())
        except ConfigError:  # then, if it exists at all, as a secret
            value, harmless = "", False
        if harmless or (borrowed and borrowed.keys() <= COMMON_VARIABLES):
            self.plain[name] = value
        elif value and not borrowed and len(value.strip()) < MIN_SECRET_CHARS:
            self.draft.note(
                f"{name}: less than {MIN_SECRET_CHARS} characters can't be told from ordinary text, so it stands in the"
                " configuration and is not kept out of answers: change it for a longer one"
            )
            self.plain[name] = value
        else:
            self.secret[name] = self.draft.variable(name, text, self.surroundings)

    def _add_shown(self, name: str, text: str) -> None:
        """Add a variable that loads code: a literal value is shown, and never put among the secrets."""
        self.draft.note(f"{name} can make it run other code, or send elsewhere what it sends: look at the value")
        match self.surroundings.pieces(text):
            case (VariableReference(name=owners, default=None),) if owners not in COMMON_VARIABLES:
                self.secret[name] = self.draft.variable(name, text, self.surroundings)  # a reference, shown as one
            case _:
                _refuse_borrowed_secrets(f"its variable {name}", text, self.surroundings)
                self.plain[name] = self.surroundings.resolve(text)


def _of_file(draft: ServerDraft, table: Table, surroundings: Surroundings) -> dict[str, str]:
    """The variables in an entry's env file; lines that can't be read are left out, with a note."""
    named = table.get("envFile") or table.get("env_file")
    if not named:
        return {}
    path = Path(surroundings.workspace or "/", surroundings.resolve(_as_text(named, "its envFile")))
    try:
        text = (read_own(path) or b"").decode()
    except (ConfigError, UnicodeDecodeError, OSError, ValueError) as error:
        draft.note(f"its envFile is left out: {error.args[0] if isinstance(error, ConfigError) else 'it is no text'}")
        return {}
    if not text:
        draft.note(f"its envFile {path} is not there, or empty")
    found: dict[str, str] = {}
    for line in filter(None, map(_LINE.fullmatch, text.splitlines())):
        found[line["name"]] = line["double"] or line["single"] or line["plain"] or ""
    return found


def _passed_on(table: Table) -> list[str]:
    """The names of the variables that Codex passes on from its own environment."""
    names = table.get("env_vars") or []
    if not isinstance(names, list):
        raise ConfigError("its env_vars are no list")
    return [_as_text(name.get("name") if isinstance(name, dict) else name, "its env_vars") for name in names]


def _variable(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise ConfigError(f"its variable {name!r} has a name that no environment takes")
    return name


def _as_text(value: object, what: str) -> str:
    """Text unchanged, numbers and booleans in JSON's spelling."""
    match value:
        case str() if "\0" not in value:
            return value
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case _:
            raise ConfigError(f"{what} has a part that is no text")


def _words(arguments: list[str]) -> list[str]:
    """The arguments, and the words of scripts for a shell among them."""
    words = list(arguments)
    for argument in arguments:
        try:
            words += shlex.split(argument)
        except ValueError:  # an unclosed quotation
            words += argument.split()
    return words
