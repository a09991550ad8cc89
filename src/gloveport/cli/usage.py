"""Parses plain command lines without the command line's library, whose import takes 30 ms.

Plain are options with whole names and values, as listed in tables. The library parses all other command lines.
"""

import getopt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple


class UsageError(Exception):
    """The command line is wrong, or a file that it names."""


class Words(NamedTuple):
    """A parsed command line.

    Attributes:
        options: The values of each given option, by its long name without the dashes; no values for a switch.
        rest: The words that are no options.
    """

    options: Mapping[str, Sequence[str]]
    rest: Sequence[str]

    def last(self, name: str) -> str | None:
        """Return the last value of an option; None if it is not given."""
        return self.options[name][-1] if name in self.options else None

    def path(self, name: str) -> Path | None:
        """Return the last value of an option, a path; None if it is not given."""
        text = self.last(name)
        return None if text is None else Path(text)

    def is_once(self, *, except_for: str = "") -> bool:
        """Tell whether no option is repeated, except for this one."""
        return all(len(values) == 1 for name, values in self.options.items() if name != except_for)


_SHORT: Final[Mapping[str, str]] = {"-c": "code", "-l": "language"}


def read_words(words: Sequence[str], long: Sequence[str], *, short: str = "", mixed: bool) -> Words | None:
    """Parse the words after the name of a command; None if they are not plain. Options have the form of ``getopt``:
    ``code=`` takes a value. If ``mixed``, they may follow other words.
    """
    known_options = {f"--{name.removesuffix('=')}" for name in long}
    read = getopt.gnu_getopt if mixed else getopt.getopt
    try:
        found, rest = read([*words], short, [*long])
    except getopt.GetoptError:
        return None
    looked_at = words if mixed else words[: len(words) - len(rest)]
    # getopt accepts prefixes of names, which are not plain.
    if any(word.startswith("--") and word.partition("=")[0] not in {*known_options, "--"} for word in looked_at):
        return None
    options: dict[str, list[str]] = {}
    for name, value in found:
        options.setdefault(_SHORT.get(name) or name.removeprefix("--"), []).append(value)
    return Words(options, rest)
