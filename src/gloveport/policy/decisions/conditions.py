"""Tells whether the arguments of a call meet conditions: yes, no, or perhaps.

A program chooses the spelling of its arguments, and servers read leniently: ``"true"`` for true, ``1`` for ``"1"``, a
path with ``..`` in it. A value that a server may read in another way meets a condition *perhaps*; so does a list of
which only some elements meet it, and a text that might meet it once a server has trimmed it or dropped characters. The
decision takes the stricter reading. An absent argument, null and an empty list meet no condition.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum
from functools import lru_cache, partial
from ipaddress import ip_address
from itertools import chain, islice
from typing import Final, TypeAlias

from gloveport.late_libraries import jsonschema_rs
from gloveport.late_pattern import late_pattern
from gloveport.model.hub import CallTool, Condition
from gloveport.model.json_value import JsonValue
from gloveport.policy.hosts.addresses import is_global
from gloveport.policy.hosts.authorities import canonical_host, is_address
from gloveport.policy.wording import quote_sent
from gloveport.untrusted_text import is_visible


class Met(IntEnum):
    """Whether a condition is met. Several together are met as far as the least of them."""

    NO = 0
    PERHAPS = 1
    YES = 2


Addresses: TypeAlias = Mapping[str, tuple[str, ...]]

_UNREADABLE: Final = object()
"""Stands for a value that should be an object and is not: a server may find anything in it."""

_MOST_TEXT = 1 << 20
"""The longest text on which a regular expression is tried, in characters."""
_MOST_ELEMENTS = 10_000
_MOST_CHARACTERS = 1 << 20
"""The limit of all texts in one condition's values. The result for more is unknown: to examine them would block the
event loop."""
_MOST_URL = 8192
_MOST_NAME = 256
"""The characters of a name that is compared with a condition's: to normalize a long one could take minutes, in which no
other thread runs."""
_DOUBLE_BITS = 53
"""The integers of more bits are not all doubles, as which JavaScript reads numbers."""
_MOST_PATH = 8192
_EXPRESSION_BYTES = 1 << 20
"""The memory that a compiled expression, and its cache, may take."""

# Text that resolves to another directory, at least on some servers: `.`, `..` and other systems' forms of them, an
# empty segment, a home directory, another separator, escapes that are decoded too late.
_ANOTHER_PATH = late_pattern(r"/[ .]+(?:[/;]|\Z)|//|/~|[\x00-\x1f\x7f\\]|%(?:2e|2f|5c|25|00)", re.IGNORECASE)
_ASCII = late_pattern(r"[\x00-\x7f]+")
_FOLDED = late_pattern(r"[./\\~%\u2044\u2215\u29f8\u29f9\u2216\u3002]")
# Stricter than the standards, since parsers disagree: only `/` may end the host, and no user or spaces are allowed.
_URL = late_pattern(r"https?://(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?(?:/[^\x00-\x20\x7f\\]*)?")


def weigh_conditions(conditions: Mapping[str, Condition], action: CallTool, *, unknown: Met = Met.PERHAPS) -> Met:
    """Tell whether all conditions on the arguments of a call are met, each by the name of the argument. No conditions
    are always met. ``unknown`` is whether a host that was not looked up counts as public.
    """
    arguments = dict(action.arguments)
    is_public = partial(_is_public, action.addresses, unknown)
    return min((_weigh_condition(path, one, arguments, is_public) for path, one in conditions.items()), default=Met.YES)


def hosts_of(path: str, arguments: Mapping[str, JsonValue]) -> Iterator[str]:
    """The canonical host names in the URLs of an argument. An address is no name."""
    found = _few(_find_values(path, dict(arguments)))
    for value in found or ():
        for element in _elements(value):
            host = _host(element) if isinstance(element, str) else None
            if host is not None and not is_address(host):
                yield host


def in_words(condition: Condition) -> str:
    """Describe a condition in words, of bounded length."""
    operands = {
        "equal to": condition.equals,
        "one of": list(condition.one_of) or None,
        "beginning with": condition.prefix or None,
        "matching": condition.pattern or None,
        "beneath": condition.beneath or None,
        "a URL that is": condition.url or None,
    }
    return " and ".join(f"{words} {quote_sent(str(value))}" for words, value in operands.items() if value is not None)


def _weigh_condition(path: str, condition: Condition, arguments: JsonValue, is_public: Callable[[str], Met]) -> Met:
    tests = list(_tests(condition, is_public))
    found = _few(_find_values(path, arguments))
    if found is None:
        return Met.PERHAPS
    return _of_all(min((test(value) for test in tests), default=Met.PERHAPS) for value in found)


def _few(values: Iterator[object]) -> list[object] | None:
    """These values, if they are few and short enough to be examined; else None."""
    found: list[object] = []
    elements = characters = 0
    for value in values:
        found.append(value)
        elements += 1
        pending = [value]
        while pending:
            match pending.pop():
                case str() as text:
                    characters += len(text)
                case list() as members:
                    elements += len(members)
                    pending += members[:_MOST_ELEMENTS]
                case dict() as members:
                    elements += len(members)
                    pending += islice(chain(members, members.values()), 2 * _MOST_ELEMENTS)
                case _:
                    pass
            if elements > _MOST_ELEMENTS or characters > _MOST_CHARACTERS:
                return None
    return found


def _of_all(outcomes: Iterable[Met]) -> Met:
    """The outcome of an argument from those of its parts: the common one, perhaps if they differ, no for no parts."""
    different = {*outcomes} or {Met.NO}
    return different.pop() if len(different) == 1 else Met.PERHAPS


def _find_values(path: str, value: JsonValue) -> Iterator[object]:
    """The values at a path. A name may have dots in it, so all readings count; of a list, each element counts.

    Some servers ignore the case of a name, or take `filePath` for `file_path`; of two such names, the last may count.
    """
    if not path:
        yield value
    elif isinstance(value, list):
        for element in value:
            yield from _find_values(path, element)
    elif isinstance(value, dict):
        names = [name for name in _first_names(path) if name in value]
        for name in names:
            yield from _find_values(path[len(name) + 1 :], value[name])
        if _has_alike(path, value):
            yield _UNREADABLE
        elif not names:
            yield None
    else:
        yield value if value is None else _UNREADABLE


def _first_names(path: str) -> Iterator[str]:
    yield from (path[:place] for place, character in enumerate(path) if character == ".")
    yield path


def _has_alike(path: str, members: Iterable[str]) -> bool:
    """Whether a server may take a member whose name has another spelling for the one at the beginning of a path. A name
    too long to be compared counts as one.
    """
    names = {*_first_names(path)}
    folded = {*map(_fold_name, names)}
    return any(member not in names and (len(member) > _MOST_NAME or _fold_name(member) in folded) for member in members)


def _fold_name(name: str) -> str:
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", name).casefold()))


def _elements(value: object) -> Iterator[object]:
    if isinstance(value, list):
        for element in value:
            yield from _elements(element)
    else:
        yield value


def _tests(condition: Condition, is_public: Callable[[str], Met]) -> Iterator[Callable[[object], Met]]:
    if condition.equals is not None:
        yield partial(_is_one_of, (condition.equals,))
    if condition.one_of:
        yield partial(_is_one_of, condition.one_of)
    if condition.prefix:
        yield partial(_test_text, lambda text: Met.YES if text.startswith(condition.prefix) else _unlike(text))
    if condition.pattern:
        yield partial(_test_text, partial(_has_form, condition.pattern))
    if condition.beneath:
        yield partial(_test_text, partial(_is_beneath, condition.beneath))
    if condition.url:
        yield partial(_test_text, is_public)


def _test_text(test: Callable[[str], Met], value: object) -> Met:
    """Test a text, or each text of a list. Null counts as absent; a number or an object may be text to some server."""
    return _of_all(
        test(element) if isinstance(element, str) else Met.NO if element is None else Met.PERHAPS
        for element in _elements(value)
    )


def _is_one_of(expected: tuple[JsonValue, ...], value: object) -> Met:
    """JSON equality: true is not 1, and 1 is 1.0. A server may coerce a value of another type, so that is perhaps."""
    if any(_same(one, value) for one in expected):
        return Met.YES
    if isinstance(value, list):
        single = tuple(one for one in expected if not isinstance(one, list))
        return _of_all(_is_one_of(single, element) for element in value) if single else _unlike(value)
    if value is None:
        return Met.NO
    if any(_kind(one) != _kind(value) or _may_round(value, one) for one in expected):
        return Met.PERHAPS
    return _unlike(value)


def _may_round(value: object, expected: object) -> bool:
    """Whether a server may read a number as another one: as a whole number, or as the nearest double."""
    if not (isinstance(value, int | float) and isinstance(expected, int | float)):
        return False
    if isinstance(value, int) and isinstance(expected, int):
        return abs(value - expected) < max(abs(expected) >> _DOUBLE_BITS, 1)
    return expected - 1 < value < expected + 1


def _unlike(value: object) -> Met:
    """The outcome for a value other than expected: no, or perhaps if a server may clean its texts."""
    return Met.PERHAPS if any(map(_may_be_cleaned, _texts(value))) else Met.NO


def _may_be_cleaned(text: str) -> bool:
    """Whether a server may trim a text, or drop invisible characters: controls, line ends, zero-width, directional."""
    return not is_visible(text) or text != text.strip()


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
    for element in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(element)


def _same(one: object, other: object) -> bool:
    if _kind(one) != _kind(other):
        return False
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return one == other


def _kind(value: object) -> type:
    return float if type(value) is int else type(value)


def _has_form(pattern: str, text: str) -> Met:
    compiled = expression(pattern)
    if compiled is None or len(text) > _MOST_TEXT:
        return Met.PERHAPS
    try:
        return Met.YES if compiled.is_valid(text) else _unlike(text)
    except UnicodeEncodeError:  # a lone surrogate: no text to the expression, and servers read it differently
        return Met.PERHAPS


@lru_cache(maxsize=1024)
def expression(pattern: str) -> "jsonschema_rs.Draft202012Validator | None":
    """Compile a pattern for an engine that takes linear time; None for an invalid one."""
    options = jsonschema_rs.RegexOptions(size_limit=_EXPRESSION_BYTES, dfa_size_limit=_EXPRESSION_BYTES)
    try:
        # Alone first, or `a)|(?:b` would break out of the parentheses.
        jsonschema_rs.Draft202012Validator({"pattern": pattern}, pattern_options=options)
        return jsonschema_rs.Draft202012Validator({"pattern": f"^(?:{pattern})$"}, pattern_options=options)
    except ValueError:
        return None


def _is_beneath(directory: str, path: str) -> Met:
    top = directory.rstrip("/")
    if not path.startswith("/") or _is_ambiguous(path) or _ANOTHER_PATH.search(top):
        return Met.PERHAPS
    return Met.YES if path == top or path.startswith(f"{top}/") else Met.NO


def _is_ambiguous(path: str) -> bool:
    if len(path) > _MOST_PATH or _may_be_cleaned(path) or _ANOTHER_PATH.search(path):
        return True
    # Characters that some servers fold into a dot or separator: full-width stop, two-dot leader, division slash.
    beyond = _ASCII.sub("", path)
    return _FOLDED.search(unicodedata.normalize("NFKC", beyond)) is not None


def _is_public(addresses: Addresses, unknown: Met, text: str) -> Met:
    host = _host(text)
    if host is None:
        return Met.PERHAPS
    if not is_address(host) and host not in addresses:
        return unknown
    found = (host,) if is_address(host) else addresses[host]
    return _of_all(map(_is_global, found)) if found else Met.PERHAPS


def _is_global(address: str) -> Met:
    try:
        return Met.YES if is_global(ip_address(address)) else Met.NO
    except ValueError:
        return Met.PERHAPS


def _host(text: str) -> str | None:
    """The canonical host of a URL that all parsers read alike; None for any other text."""
    parts = _URL.fullmatch(text) if len(text) <= _MOST_URL else None
    try:
        return canonical_host(parts["host"]) if parts is not None else None
    except ValueError:
        return None
