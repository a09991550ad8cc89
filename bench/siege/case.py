"""Hostile programs, as the files of ``cases/`` tell them: data, each with a comment that says what it takes.

A header is lines ``# name: value`` at the top of a file, after the line of an interpreter if there is one:

- ``takes``: which object or lock of the kernel it takes, and how; the table of ``docs/security.md`` names the same;
- ``tool``: ``execute_code``, the default, or ``exec_command``, whose limits are wider;
- ``runs``: how many such runs go on at once, two by default: with a processor each they take a machine of two;
- ``seconds``: how long it goes on, where that is not as long as the others;
- ``needs``: ``cgroups``, where without them nothing bounds it (``docs/limitations/cgroups.md``): then it is not tried.

Python programs find ``SCALE``, ``SECONDS``, ``SEED`` and what ``prelude.py`` defines, shell programs ``SIEGE_SCALE``,
``SIEGE_SECONDS`` and ``SIEGE_SEED``.
"""

import dataclasses
import os
import re
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from gloveport.sandbox.seccomp.argument_rules import Checks, Unless, rules
from gloveport.sandbox.seccomp.tables import load_syscalls

Tool: TypeAlias = Literal["execute_code", "exec_command"]

_HERE: Final = Path(__file__).parent
_CASES: Final = _HERE / "cases"
_LANGUAGES: Final = {".py": "python", ".sh": "shell"}
_SPIN_SECONDS: Final = 4.0
_LINE: Final = re.compile(r"# (takes|tool|runs|seconds|needs): (.+)")
_GRANTED: Final = frozenset({socket.AF_INET, socket.AF_INET6})


@dataclass(frozen=True, kw_only=True)
class Case:
    """One hostile program.

    Attributes:
        takes: What it takes, for people.
        runs: How many of it go on at once.
        seconds: How long, where it says so.
        needs_cgroups: Whether it is tried only where there are cgroups.
    """

    name: str
    takes: str
    tool: Tool
    runs: int
    seconds: float | None
    needs_cgroups: bool
    language: str
    text: str

    def program(self, *, scale: float, seconds: float, seed: int) -> str:
        """The text that is run.

        Args:
            scale: How much of what it takes it takes; 1 is all that it can have.
            seconds: After these it ends by itself, if it can.
            seed: Of whatever it chooses at random.
        """
        if self.language == "shell":
            return f"SIEGE_SCALE={scale}\nSIEGE_SECONDS={seconds}\nSIEGE_SEED={seed}\n{self.text}"
        settings = f"SCALE={scale}\nSECONDS={seconds}\nSEED={seed}\n"
        return f"{settings}NUMBERS={_numbers()}\nPOOLS={_pools()}\n{(_HERE / 'prelude.py').read_text()}\n{self.text}"


def find_cases(names: Sequence[str]) -> list[Case]:
    """The cases of these names, or all.

    Raises:
        ValueError: There is no such case, or one has no proper header.
    """
    found = {path.stem: path for path in sorted(_CASES.iterdir()) if path.suffix in _LANGUAGES}
    if unknown := set(names) - set(found):
        raise ValueError(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(found)}")
    return [_read(found[name]) for name in names or found]


def spinning(case: Case) -> Case:
    """Its reference: as many runs, which use all of their share of the processors and nothing else."""
    text = "def work(index):\n    while True:\n        sum(range(1000))\n        yield\nswarm(work)\n"
    return dataclasses.replace(case, seconds=_SPIN_SECONDS, language="python", text=text)


def _read(path: Path) -> Case:
    text = path.read_text()
    header = dict(match.groups() for line in text.splitlines() if (match := _LINE.fullmatch(line)))
    tool = header.get("tool", "execute_code")
    if "takes" not in header or tool not in get_args(Tool):
        raise ValueError(f"{path}: a header says what it takes, and perhaps tool and runs")
    return Case(
        name=path.stem,
        takes=header["takes"],
        tool="exec_command" if tool == "exec_command" else "execute_code",
        runs=int(header.get("runs", "2")),
        seconds=float(header["seconds"]) if "seconds" in header else None,
        needs_cgroups=header.get("needs") == "cgroups",
        language=_LANGUAGES[path.suffix],
        text=text,
    )


def _numbers() -> dict[str, int]:
    """The system calls that the filter allows, always or by their arguments: what is allowed later joins by itself."""
    calls = load_syscalls()
    numbers = calls.numbers[os.uname().machine]
    always = [name for group in calls.allowed for name in group.names]
    return {name: numbers[name] for name in (*always, *(rule.name for rule in rules(_GRANTED)))}


def _pools() -> dict[str, dict[int, list[int]]]:
    """The numbers that the filter's rules compare arguments with, by call and argument."""
    pools: dict[str, dict[int, list[int]]] = {}
    for rule in rules(_GRANTED):
        for word, value in _compared(rule.checks):
            argument = (word - 16) // 8  # see struct seccomp_data
            pools.setdefault(rule.name, {}).setdefault(argument, []).append(value)
    return pools


def _compared(checks: Checks) -> Iterator[tuple[int, int]]:
    for check in checks:
        if isinstance(check, Unless):
            yield from ((check.word, int(value)) for value in check.values)
        else:
            yield check.word, check.value
            yield from _compared(check.checks)
