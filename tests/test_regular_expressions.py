"""Expressions mean the same to every Python that Gloveport runs on."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # of what ``re`` makes of an expression
from re import _parser as parser

import gloveport

ROOT = Path(gloveport.__file__).parent
_PERHAPS = re.compile(r"\)(?:[*+?]|\{[0-9,]*\})\+")
_CHOICES = {codes.BRANCH, codes.MAX_REPEAT, codes.MIN_REPEAT}


def expressions() -> Iterator[tuple[str, str]]:
    """Where there may be one that repeats a group possessively, and its text."""
    for path in ROOT.rglob("*.py"):
        if _PERHAPS.search(text := path.read_text()):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                    value = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                    if _PERHAPS.search(value):
                        yield f"{path.relative_to(ROOT)}:{node.lineno}", value
    for path in ROOT.rglob("*.toml"):
        for value in texts(tomllib.loads(path.read_text())):
            if _PERHAPS.search(value):
                yield str(path.relative_to(ROOT)), value


def texts(value: object) -> Iterator[str]:
    """All texts in a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from texts(member)


def parts(parsed: object) -> Iterator[tuple[object, object]]:
    """All that an expression consists of, at any depth."""
    if isinstance(parsed, parser.SubPattern):
        for code, argument in parsed:
            yield code, argument
            yield from parts(argument)
    elif isinstance(parsed, tuple | list):
        for one in parsed:
            yield from parts(one)


def is_misread(expression: str) -> bool:
    return any(
        code is codes.POSSESSIVE_REPEAT and any(inner in _CHOICES for inner, _ in parts(argument))
        for code, argument in parts(parser.parse(expression))
    )


def test_nothing_with_a_choice_in_it_is_repeated_possessively():
    """Python before 3.11.5 matches it wrongly (gh-106052), and Debian 12 has 3.11.2. The first two are such."""
    assert is_misread(r"(?:ab?c)++")
    assert is_misread(r'"(?:[^"]|\\.)*+"')
    assert not is_misread(r'"[^"\\]*+(?:\\.[^"\\]*+)*"')
    assert not [place for place, expression in expressions() if is_misread(expression)]
