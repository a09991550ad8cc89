"""Takes secrets out of JSON values: out of every text in them, names and numbers too."""

from collections.abc import Callable, Iterator, Sequence

from pydantic import JsonValue

from gloveport.secrets.scrub import MIN_SECRET_CHARS

_BETWEEN = "\n\x00\n"


def scrub_value(value: JsonValue, clean: Callable[[str], str]) -> JsonValue:
    """The value, each text in it without secrets, be it a name; the same value where nothing was in it.

    All texts are looked at in one go first: there may be hundreds of thousands, and hardly ever a secret in one.

    Args:
        value: No deeper than the stack allows; a tuple counts as a list.
        clean: Takes the secrets out of a text.
    """
    whole = _BETWEEN.join(_texts(value))
    return value if clean(whole) == whole else _scrub(value, clean)


def _texts(value: JsonValue) -> Iterator[str]:
    level: Sequence[JsonValue] = [value]
    while level:
        below: list[JsonValue] = []
        for member in level:
            if isinstance(member, str):
                yield member
            elif isinstance(member, dict):
                yield from map(str, member)
                below += member.values()
            elif isinstance(member, list | tuple):
                below += member
            elif isinstance(member, int | float):
                yield str(member)
        level = below


def _scrub(value: JsonValue, clean: Callable[[str], str]) -> JsonValue:
    match value:
        case str():
            return clean(value)
        case dict():
            return {clean(str(name)): _scrub(member, clean) for name, member in value.items()}
        case list() | tuple():
            return [_scrub(member, clean) for member in value]
        case bool():
            return value
        case int() | float():  # a secret may be a number
            told = str(value)
            return value if len(told) < MIN_SECRET_CHARS or (scrubbed := clean(told)) == told else scrubbed
        case _:
            return value
