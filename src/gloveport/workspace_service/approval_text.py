"""Renders a command or a write for the approver: all of it, or with a note of how much is left out."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gloveport.errors import Denied
from gloveport.model.workspace import Gate, RunCommand, WriteFiles
from gloveport.policy.decisions.command_variables import find_secret
from gloveport.policy.decisions.subjects import MOST_CHARACTERS, MOST_LINES
from gloveport.untrusted_text import printable

_MOST_LINES: Final = 80
_MOST_CHARACTERS: Final = 6000
"""How much is shown of a text that is bound by its digest; the approver is told how much is left out."""
_MOST_VALUE: Final = 200


def question_text(gates: Iterable[Gate], action: RunCommand | WriteFiles, reason: str) -> str:
    """The question to an approver."""
    why = " ".join(dict.fromkeys(need.why for need in action.needs if need.gate in {*gates}))
    says = f"The agent says: {reason}" if reason else "The agent has given no reason."
    return printable(f"Permit {', '.join(gates)}? {why} {says}")


def command_detail(action: RunCommand, variables: Mapping[str, str], stdin: str) -> str:
    """What exactly would be run, in lines: indented text is the agent's.

    A command is never cut, for the agent could choose what is left out. Its input may be cut, with a note that it was.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    if len(action.command) > MOST_CHARACTERS:  # before it is written out
        raise _too_large(f"a command of {len(action.command)} characters")
    packages = f", with the environment {printable(action.environment)}" if action.environment else ""
    where = f"in {printable(action.workdir)}{packages}:"
    values = [f"  {printable(name)}{_variable(name, value)}" for name, value in sorted(variables.items())]
    head = ["with these variables:", *values, where] if variables else [f"with no variables, {where}"]
    open_ended = ["its input stays open: the agent may write more to it"] if action.keeps_stdin else []
    read = _bound_text("standard input", stdin, action.stdin_bytes, action.stdin_sha256) if stdin else []
    return _join([*head, *_indent(action.command), *open_ended, *read])


def write_detail(action: WriteFiles, content: str) -> str:
    """What exactly would be done with which file, and the patch or changes, in lines.

    Raises:
        Denied: It is more than a person can be asked to read.
    """
    changes = [f"{change.operation} {printable(change.path)}" for change in action.changes]
    return _join([*changes, *_bound_text("how", content, action.bytes, action.sha256)])


def measure(text: str) -> tuple[int, str]:
    """Size and SHA-256 of a text that a permission is bound to; an empty text has no digest."""
    data = text.encode("utf-8", "surrogatepass")
    return len(data), hashlib.sha256(data).hexdigest() if data else ""


def _variable(name: str, value: str) -> str:
    if kind := find_secret(name, value):
        return f": {kind}, {len(value)} characters"
    more = f"… of {len(value)} characters" if len(value) > _MOST_VALUE else ""
    return f"={printable(value[:_MOST_VALUE])}{more}"


def _bound_text(what: str, text: str, size: int, digest: str) -> list[str]:
    """As much as there is room for of a text whose digest is in the permission."""
    lines = _indent(text[:_MOST_CHARACTERS])
    cut = len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS
    head = f"{what}, {size} bytes, SHA-256 {digest}{', NOT ALL OF IT SHOWN' if cut else ''}:"
    return [head, *lines[:_MOST_LINES]]


def _indent(text: str) -> list[str]:
    return [f"  {printable(line)}" for line in text.removesuffix("\n").split("\n")]


def _join(lines: Sequence[str]) -> str:
    characters = sum(map(len, lines))
    if len(lines) > MOST_LINES or characters > MOST_CHARACTERS:
        raise _too_large(f"{len(lines)} lines of {characters} characters")
    return "\n".join(lines)


def _too_large(what: str) -> Denied:
    return Denied(
        "too_large_to_ask",
        f"A person has to permit this, and can't be shown {what}.",
        hint="Put what is long into a file, or do it in several calls.",
    )
