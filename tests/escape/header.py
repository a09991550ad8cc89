"""What a hostile program says of itself in its first lines: comments of its language, one field a line.

    # expect: value "blocked"
    # proves: E9, T4
    # tries: read the host's files through /proc/1/root
    # limits: wall_seconds=2 memory_bytes=64MiB

The first line is ``expect``; ``expect``, ``proves`` and ``tries`` are always there, the others where they are needed.

expect            what must come of the program; alternatives are joined by `` or ``:
                    value JSON   it ended well, and this is its value
                    alike        it ended well, with the same value whether its sandbox was built for it or has waited
                    fresh        it ended well; its value is an object, of which no entry is that of an earlier run
                    killed LIMIT the whole sandbox was killed for this limit
                    timeout      it ran into the wall clock; ``timeout 2``, into one set to so many seconds
                    error TYPE   it failed with this exception, ``exit`` or ``signal``
                    refused      no sandbox was built
without-cgroups   the same, where the host gives us no cgroups and the documented outcome is weaker
proves            ids of requirements
tries             the attack, in a few words
limits            limits of the request, ``name=value``
mounts            ``hostile``: the far side's directory is at /mnt/hostile; ``beneath``: and something is mounted in it
runs              how often the program is run, one after the other; each run must end as expected

A program returns ``"blocked"`` only when it saw the refusal it names, so that one which fails for another reason fails
the suite; when it got through, it says so with the word ESCAPED. These names are filled in by the runner:
``@tcp@`` ``@udp@`` (ports on the host's loopback), ``@abstract@`` (a socket), ``@secret@`` (path of a readable file on
the host), ``@pid@`` (of the runner), ``@gateway@`` (of the host's network), ``@key@`` (in the kernel's keyring of the
server's user).
"""

import contextlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import pydantic_core

from gloveport.model import Language, LimitName, Narrowing, Request, Result
from gloveport.model.reading import read_value

CASES = Path(__file__).parent / "cases"
LANGUAGES: dict[str, tuple[Language, str]] = {
    ".py": ("python", "# "),
    ".ts": ("typescript", "// "),
    ".sh": ("shell", "# "),
}
_FIELD = re.compile(r"([a-z-]+): (\S.*)")
_NEEDED = ("expect", "proves", "tries")
_KNOWN = (*_NEEDED, "without-cgroups", "limits", "mounts", "runs")
_MOUNTS = ("none", "hostile", "beneath")


@dataclass(frozen=True)
class Expectation:
    """One ``expect``: words and their argument."""

    kind: str
    argument: object

    def met_by(self, result: Result | None, earlier: Sequence[Result | None]) -> bool:
        """Whether this is what came of the program, after ``earlier`` runs of it; None when no sandbox was built."""
        if result is None:
            return self.kind == "refused"
        limits, error = result.limits_hit[:1], result.error
        match self.kind:
            case "value":
                met = result.status == "ok" and result.value == self.argument
            case "alike":
                met = result.status == "ok"
            case "fresh":
                entries = _entries(result)
                met = bool(entries) and all(entries.isdisjoint(_entries(one)) for one in earlier)
            case "killed":
                met = result.status == "killed" and limits == (self.argument,)
            case "timeout":
                met = result.status == "timeout" and limits == ("wall_seconds",)
            case "error":
                met = result.status == "error" and error is not None and error.type == self.argument
            case _:
                met = False
        return met


def _entries(result: Result | None) -> set[tuple[str, str]]:
    """Keys and values of the object that a run ended well with; none, if that is not how it ended."""
    if result is None or result.status != "ok" or not isinstance(result.value, dict):
        return set()
    return {(key, repr(value)) for key, value in result.value.items()}


@dataclass(frozen=True)
class Case:
    """One hostile program."""

    name: str
    language: Language
    source: str
    expect: str
    without_cgroups: str
    proves: tuple[str, ...]
    tries: str
    limits: Narrowing
    mounts: str
    runs: int

    def request(self, source: str, *, cgroups: bool) -> Request:
        """What the program asks of an engine on this host; ``source`` is its text with the names filled in."""
        limits = self.limits
        for expected in self.expectations(cgroups=cgroups):
            if expected.kind == "timeout" and expected.argument:
                limits = limits.model_copy(update={"wall_seconds": expected.argument})
        return Request(language=self.language, code=source, limits=limits)

    def expectations(self, *, cgroups: bool) -> list[Expectation]:
        """What may come of it on this host, any of these."""
        return _expectations(self.expectation(cgroups=cgroups))

    def expectation(self, *, cgroups: bool) -> str:
        """The same as it is written."""
        return self.expect if cgroups or not self.without_cgroups else self.without_cgroups


def read(path: Path) -> Case:
    """Read one hostile program. Raises as ``parse``."""
    return parse(path.name, path.read_text())


def _quantity(text: str) -> int | float | str:
    """A number, or a size in words."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def parse(file: str, source: str) -> Case:
    """One hostile program, by its file's name and text.

    Raises:
        ValueError: Its header is missing or wrong; the text says how.
    """
    language, mark = LANGUAGES[Path(file).suffix]
    fields: dict[str, str] = {}
    for line in source.splitlines():
        found = _FIELD.fullmatch(line.removeprefix(mark)) if line.startswith(mark) else None
        if found is None:
            break
        name, text = found.groups()
        if name not in _KNOWN or name in fields or (not fields and name != "expect"):
            raise ValueError(f"{file}: the header's {name!r} is unknown, said twice, or stands before `expect`")
        fields[name] = text
    if missing := [name for name in _NEEDED if name not in fields]:
        raise ValueError(f"{file}: the header lacks {', '.join(missing)}")
    proves = tuple(fields["proves"].split(", "))
    if wrong := [name for name in proves if not re.fullmatch(r"[A-Z]{1,2}\d+", name)]:
        raise ValueError(f"{file}: {', '.join(wrong)}: not the id of a requirement")
    if fields.get("mounts", "none") not in _MOUNTS:
        raise ValueError(f"{file}: unknown mounts: {fields['mounts']}")
    for name in ("expect", "without-cgroups"):
        if name in fields:
            _expectations(fields[name])
    words = (pair.partition("=") for pair in fields.get("limits", "").split())
    return Case(
        name=file,
        language=language,
        source=source,
        expect=fields["expect"],
        without_cgroups=fields.get("without-cgroups", ""),
        proves=proves,
        tries=fields["tries"],
        limits=read_value(
            Narrowing,
            {"wall_seconds": 25, "memory_bytes": "512MiB"} | {name: _quantity(text) for name, _, text in words},
        ),
        mounts=fields.get("mounts", "none"),
        runs=int(fields.get("runs", "1")),
    )


def _expectations(text: str) -> list[Expectation]:
    """Parse an ``expect``. Raises ValueError."""
    return [_expectation(part) for part in text.split(" or ")]


def _expectation(text: str) -> Expectation:
    kind, _, argument = text.partition(" ")
    match kind:
        case "value" if argument:
            return Expectation(kind, pydantic_core.from_json(argument))
        case "killed" if argument in get_args(LimitName):
            return Expectation(kind, argument)
        case "error" if argument:
            return Expectation(kind, argument)
        case "timeout" if argument.isdigit():
            return Expectation(kind, float(argument))
        case "timeout" | "refused" | "alike" | "fresh" if not argument:
            return Expectation(kind, None)
    raise ValueError(f"not an expectation: {text!r}")
