"""Renders a command line for a person to review: hides secrets, but never the program that runs.

A hostile file could make the package that a launcher fetches look like a secret. So a word is hidden only if it is
certainly a value; and after a launcher, such as ``npx`` or ``sh``, only once the program that it runs has been shown.
In doubt a secret is shown, to its owner, who has it in a file anyway.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from gloveport.import_config.loader_variables import loads_code
from gloveport.import_config.secrets import TOKEN, address_in, is_secret_name, is_switch

HIDDEN: Final = "•••"
"""Stands for a secret."""

_SHELLS = re.compile(
    r"(?:ba|da|z|k|mk|fi|c|tc|pw)?sh|busybox|toybox|cmd|powershell|su|ssh|find|xargs|parallel|make|expect"
)
_CONTAINERS = re.compile(r"docker|podman|nerdctl|finch")
_LAUNCHERS = re.compile(
    rf"{_SHELLS.pattern}|{_CONTAINERS.pattern}|npx|npm|pnpm|pnpx|yarn|bun|bunx|deno|node|nodejs|tsx|ts-node|corepack"
    r"|volta|fnm|nvm|uv|uvx|pip|pipx|pip-run|pixi|conda|mamba|micromamba|poetry|hatch|rye|pdm|python|pypy|ipython|py"
    r"|ruby|bundle|gem|perl|php|composer|lua|luajit|java|jbang|dotnet|dnx|go|cargo|rustup|nix|nix-shell|nix-run|guix"
    r"|env|sudo|doas|runuser|nice|ionice|nohup|timeout|time|setsid|stdbuf|taskset|chroot|unshare|nsenter|bwrap|firejail"
    r"|systemd-run|flatpak|snap|git|mise|rtx|asdf|direnv|dotenv|dotenvx|op|doppler|infisical|just|task|cross-env"
    r"|concurrently|watch|script|exec|eval|command|Rscript|julia|elixir|mix|swift|kubectl|osascript|awk|gawk|sed"
)
_SUBCOMMANDS = frozenset(
    {"run", "exec", "x", "dlx", "tool", "start", "create", "init", "compose", "container", "shell"}
)
_FLAGS = re.compile(
    r"-[yqitAum]|-it|-ti|--|--(?:yes|quiet|silent|rm|init|interactive|tty|module|allow-all)|-.+=.*", re.DOTALL
)
"""Options whose next word is the program that runs."""
_SCRIPTS = re.compile(r"-[A-Za-z]*[ceES]|-p|--(?:eval|print|command|call|exec|split-string)(?:=.*)?", re.DOTALL)

_ASSIGNMENT = re.compile(r"(?P<name>--?[A-Za-z][\w.-]*|[A-Za-z_]\w*)=(?P<value>[^=].*)", re.DOTALL)
_HEADER = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<colon>: *)(?P<value>(?!//).+)", re.DOTALL)
_USER = re.compile(r"(?<=://)[^\s/?#\\]*@")
_PAIR = re.compile(r"(?P<name>(?<![^?&;])[A-Za-z][\w.-]*=)(?P<value>[^\s&;\"']+)")


class _Program(Struct, kw_only=True):
    """What is known so far of the program that a command line runs.

    Attributes:
        launcher: The last launcher; empty where there was none.
        runs: Whether the program that it runs has been shown.
        scripted: Whether it runs a script, for which any following word may be a program.
    """

    launcher: str = ""
    runs: bool = True
    scripted: bool = False

    def pass_by(self, before: str, word: str) -> None:
        """Update this after a word that has been shown or hidden."""
        name = re.sub(r"(?<=[a-z])[0-9.]*(?:\.(?:exe|cmd|bat|ps1))?$", "", re.split(r"[/\\]", word)[-1].lower())
        if _LAUNCHERS.fullmatch(name):
            self.launcher, self.runs = name, False
            self.scripted = self.scripted or _SHELLS.fullmatch(name) is not None
        elif not self.runs:
            is_script = _SCRIPTS.fullmatch(word) is not None and _CONTAINERS.fullmatch(self.launcher) is None
            self.scripted = self.scripted or is_script
            self.runs = not self.scripted and _is_what_runs(before, word)


def reviewed_command(command: Sequence[str]) -> list[str]:
    """Give a command line in which certain secrets are hidden."""
    program = _Program()
    for word in command[:1]:
        program.pass_by("", word)
    shown_words = [*command[:1]]
    for before, word in pairwise(command):
        shown_words.append(_mask_word(before, word) if program.runs else _set_before(program, before, word))
        program.pass_by(before, word)
    return shown_words


def _is_what_runs(before: str, word: str) -> bool:
    if word.startswith("-") or word in _SUBCOMMANDS or _ASSIGNMENT.fullmatch(word):
        return False
    return not before.startswith("-") or _FLAGS.fullmatch(before) is not None


def _set_before(program: _Program, before: str, word: str) -> str:
    """A word before the program that runs: only the value of a variable for that program may be hidden."""
    is_option = before.startswith("-") and _FLAGS.fullmatch(before) is None
    is_variable = (
        before in {"-e", "--env"}
        if _CONTAINERS.fullmatch(program.launcher)
        else program.launcher == "env" and not is_option
    )
    found = _ASSIGNMENT.fullmatch(word)
    if found is None or program.scripted or not is_variable or found["name"].startswith("-"):
        return word
    return _render_variable(found["name"], found["value"])


def _mask_word(before: str, word: str) -> str:
    """A word after the program that runs, or after one that runs no other."""
    if before.startswith("-") and "=" not in before and not word.startswith("-"):
        if loads_code(before):
            return word
        if is_secret_name(before):
            return word if is_switch(word) else _hide(word)
    if (found := _ASSIGNMENT.fullmatch(word)) and "://" not in found["name"] and not re.search(r"[;&]", found["value"]):
        return _render_variable(found["name"], found["value"])
    if (found := _HEADER.fullmatch(word)) and is_secret_name(found["name"]):
        return f"{found['name']}{found['colon']}{HIDDEN}"
    text = _USER.sub(f"{HIDDEN}@", word)
    text = _PAIR.sub(lambda pair: f"{pair['name']}{HIDDEN}" if is_secret_name(pair["name"]) else pair[0], text)
    return TOKEN.sub(HIDDEN, text)


def _hide(value: str) -> str:
    """Hide a value, but not the host that it leads to: it may be where a program sends its credentials."""
    address = address_in(value)
    return f"{address}/{HIDDEN}" if address else HIDDEN


def _render_variable(name: str, value: str) -> str:
    if is_secret_name(name) and not loads_code(name) and not is_switch(value):
        return f"{name}={_hide(value)}"
    return f"{name}={value if loads_code(name) else _mask_word('', value)}"
