"""Looks for the words of rules anywhere in a text that is not read as commands: rather a false alarm than a miss.

The gate ``privileged_executable`` is left out: what it is for can't work here, and nobody could permit a false alarm.
"""

import re
from typing import Final

from gloveport.policy.shell_text.rulebook import CommandRule
from gloveport.policy.shell_text.words import Word, options, unescape_ansi
from gloveport.policy.wildcards import has_match

_MOST_CHARACTERS: Final = 1 << 18
_SEPARATORS = re.compile(r"[\s;&|()<>`,{}!\[\]$]+")
_QUOTES = re.compile(r"['\"\\]")
_MANY = re.compile(r"(?:^|/)\.?\*$|^(?:xargs|-exec)$")
_CUTS = re.compile(r"(?:^|[;&|:({\n]|\btrue|/dev/null|echo -n)\s*>\|?(?![>&])|['\"]>(?![>&])")
_MADE_OPTION = re.compile(r"""(?:^|\s)["']?--?["']?\$""")
_URL = re.compile(r"(?:https?|ftp|ssh|git|sftp)://(?:[^\s/@]*@)?([^\s/:?#]*)")
_HOST = re.compile(r"(?:[\w.+-]+@)?([\w-]+(?:\.[\w-]+)+|(?<=@)[\w-]+)(?::.*)?")


class ScannedText:
    """A text that is not read."""

    def __init__(self, text: str) -> None:
        self._text = text = text[:_MOST_CHARACTERS]
        forms = [_QUOTES.sub(mark, each) for each in (text, unescape_ansi(text)) for mark in ("", " ")]
        words = {word for form in forms for word in _SEPARATORS.split(form) if word}
        self.words = words.union(*(word.split("=") for word in words if "=" in word))
        self._names = self.words | {word.rpartition("/")[2] for word in self.words}
        self._options = frozenset().union(*(options([Word(word)]) for word in self.words if word != "--"))
        self._makes_options = bool(_MADE_OPTION.search(text)) or "clean.requireforce=false" in text.lower()
        if any(_CUTS.search(form) for form in (text, *forms)):
            self._names.add(">")

    def has_hit(self, rule: CommandRule) -> bool:
        """Tell whether all that a rule is known by is somewhere."""
        if rule.source:
            return bool(rule.source.search(self._text) or rule.source.search(self._text.replace("\\", "")))
        return (
            rule.gate != "privileged_executable"
            and all(any(has_match(part, name) for name in self._names) for part in rule.command)
            and all(
                self._makes_options or any(has_match(each, name) for name in self._options) for each in rule.options
            )
            and (rule.operand is None or any(rule.operand.fullmatch(word) for word in self.words))
            and (rule.lost != "operands that are many" or any(_MANY.search(word) for word in self.words))
        )

    def find_hosts(self, rule: CommandRule) -> set[str]:
        """The hosts that a rule may be about: all that looks like one. An empty one is none that the text names."""
        hosts = set(_URL.findall(self._text))
        if rule.hosts and not rule.hosts.groups:
            hosts.add("")
        elif rule.hosts_in != "arguments":
            hosts |= {found[1] for word in self.words if (found := _HOST.fullmatch(word))} or {""}
        return hosts
