"""Looks for the words of rules anywhere in a text that is not read as commands: rather a false alarm than a miss.

The gate ``privileged_executable`` is left out: what it is for can't work here, and nobody could permit a false alarm.
"""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final

from gloveport.policy.shell_text.rulebook import CommandRule
from gloveport.policy.shell_text.words import Word, options, unescape_ansi
from gloveport.policy.wildcards import matches

_MOST_CHARACTERS: Final = 1 << 18
_SEPARATORS = re.compile(r"[\s;&|()<>`,{}!\[\]$]+")
_QUOTES = re.compile(r"['\"\\]")
_MANY = re.compile(r"(?:^|/)\.?\*$|^(?:xargs|-exec)$")
_CUTS = re.compile(r"(?:^|[;&|:({\n]|\btrue|/dev/null|echo -n)\s*>\|?(?![>&])|['\"]>(?![>&])")
_MADE_OPTION = re.compile(r"""(?:^|\s)["']?--?["']?\$""")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|(?<=@)[\w-]+)(?::.*)?")


class ScannedText:
    """A text that is not read."""

    def __init__(self, text: str) -> None:
        text = text[:_MOST_CHARACTERS]
        forms = [_QUOTES.sub(mark, each) for each in (text, unescape_ansi(text)) for mark in ("", " ")]
        words = {word for form in forms for word in _SEPARATORS.split(form) if word}
        self.words = frozenset(words.union(*(word.split("=") for word in words if "=" in word)))
        self._names = self.words | {word.rpartition("/")[2] for word in self.words}
        self._options = frozenset().union(*(options([Word(word)]) for word in self.words if word != "--"))
        self._makes_options = bool(_MADE_OPTION.search(text)) or "clean.requireforce=false" in text.lower()
        if any(_CUTS.search(form) for form in (text, *forms)):
            self._names |= {">"}

    def has_hit(self, rule: CommandRule) -> bool:
        """Tell whether all that a rule is known by is somewhere."""
        return (
            rule.gate != "privileged_executable"
            and bool(rule.command)
            and all(_has_any(part, self._names) for part in rule.command)
            and all(self._makes_options or _has_any(each, self._options) for each in rule.options)
            and (rule.operand is None or any(rule.operand.fullmatch(word) for word in self.words))
            and (rule.lost != "operands that are many" or any(_MANY.search(word) for word in self.words))
        )

    def find_hosts(self) -> Iterator[str]:
        """What looks like the name of a host."""
        yield from (found[1] for word in self.words if (found := _HOST.fullmatch(word)))


def _has_any(patterns: AbstractSet[str], texts: AbstractSet[str]) -> bool:
    starred = [pattern for pattern in patterns if "*" in pattern]
    return bool(patterns & texts) or any(matches(pattern, text) for pattern in starred for text in texts)
