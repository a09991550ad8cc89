"""Command lines that are plain enough to be read without the library that reads all: its import takes 30 ms.

What is plain is said in tables: options by their whole names, each with its value. All else is for that library.
"""

import getopt
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple


class UsageError(Exception):
    """The command line is wrong, or something that it names."""


class Words(NamedTuple):
    """A command line, taken apart.

    Attributes:
        options: The values of each option that is there, by its long name without the dashes; none of a switch.
        rest: What is no option.
    """

    options: Mapping[str, Sequence[str]]
    rest: Sequence[str]

    def last(self, name: str) -> str | None:
        """The value of an option that counts once; None where it is not there."""
        return self.options[name][-1] if name in self.options else None


_SHORT: Final[Mapping[str, str]] = {"-c": "code", "-l": "language"}


def read_words(words: Sequence[str], long: Sequence[str], *, short: str = "", mixed: bool) -> Words | None:
    """Take a command line apart; None where it is not plain.

    Args:
        words: Without the name of the command.
        long: Options as ``getopt`` has them: ``code=`` takes a value.
        short: Short forms of those of ``run``.
        mixed: Whether options may stand behind what is none.
    """
    known = {f"--{name.removesuffix('=')}" for name in long}
    read = getopt.gnu_getopt if mixed else getopt.getopt
    try:
        found, rest = read([*words], short, [*long])
    except getopt.GetoptError:
        return None
    looked_at = words if mixed else words[: len(words) - len(rest)]
    # getopt takes the beginning of a name for the whole.
    if any(word.startswith("--") and word.partition("=")[0] not in {*known, "--"} for word in looked_at):
        return None
    options: dict[str, list[str]] = {}
    for name, value in found:
        options.setdefault(_SHORT.get(name) or name.removeprefix("--"), []).append(value)
    return Words(options, rest)
