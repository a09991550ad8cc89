"""Matches actions against the patterns that a person has approved for good.

In a pattern for a command or a change of files, ``*`` does not stand for all characters: whoever approves
``git clean*`` has not approved ``git clean -n; rm -rf src``.
"""

import re
from typing import Final

from gloveport.late_pattern import late_pattern
from gloveport.policy.decisions.subjects import is_about
from gloveport.policy.wildcards import matches

_JOINS: Final = late_pattern(
    r"((?:%24|\$)(?:%28|%7B|%5B|[({\[])"  # `$(`, and other expansions that evaluate a text: `${x@P}`, `$[x]`
    r"|%(?:0A|23|26|3B|3C|3E|60|7C)|[\n#&;<>`|]"  # a line end, and #&;<>`|
    r"|!)",  # the digest of a text that is not shown, and may hold anything
    re.IGNORECASE,
)
"""Characters that end a command or add one, escaped as in subjects and plain."""

_COMMA: Final = late_pattern("(,)")
_WRITE: Final = late_pattern(r"((?:permit \S+ )?write )(\S+)(.*)", re.DOTALL)
_OF_THE_SHELL: Final = frozenset({"permit", "command"})


def means(pattern: str, subject: str) -> bool:
    """Tell whether a pattern matches a subject.

    ``*`` stands for any characters except those that end or add a command; of a change of several files, each has to
    match. Such characters are allowed if the pattern itself has them.
    """
    if not is_about(pattern, subject):
        return False
    if write := _WRITE.fullmatch(subject):
        begin, changes, end = write.groups()
        each = (f"{begin}{change}{end}" for change in changes.split(","))
        return _is_joined_alike(_COMMA, pattern, subject) or all(matches(pattern, one) for one in each)
    if subject.partition(" ")[0] in _OF_THE_SHELL:
        return _is_joined_alike(_JOINS, pattern, subject)
    return True


def _is_joined_alike(joins: re.Pattern[str], pattern: str, subject: str) -> bool:
    """Whether both have the same joins, in this order, and between them the pattern matches the subject.

    So no ``*`` stands for a join, nor for half of one that the pattern's next characters would complete.
    """
    ours, theirs = joins.split(pattern), joins.split(subject)
    return ours[1::2] == theirs[1::2] and all(map(matches, ours[::2], theirs[::2]))
