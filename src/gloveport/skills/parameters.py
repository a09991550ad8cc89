"""Parameters of a skill: finds the marked constants of its program, and replaces their values for a call.

    MONTH = 11  # parameter: which month

A program with marked constants runs anywhere unchanged. Here each call replaces a literal by its own value, written as
a literal of the language: a value never becomes code.
"""

import ast
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from gloveport.errors import Denied
from gloveport.model import Language
from gloveport.model.json_value import JsonValue
from gloveport.model.skill import ParameterType, SkillParameter
from gloveport.policy.wording import join_listed, quote_sent
from gloveport.skills.frontmatter import bad_skill
from gloveport.untrusted_text import one_line

MOST_ARGUMENT_BYTES: Final = 256 * 1024

_MOST: Final = 32
_NAME_CHARACTERS: Final = 64
_LITERAL_CHARACTERS: Final = 4000
_MARKS: Final[Mapping[Language, str]] = {
    "python": "# parameter",
    "typescript": "// parameter",
    "javascript": "// parameter",
    "shell": "# parameter",
}
_HEADS: Final[Mapping[Language, re.Pattern[str]]] = {
    "python": re.compile(r"([A-Za-z][A-Za-z0-9_]*)[ \t]*(?::[^=]*)?="),
    "typescript": re.compile(r"(?:export[ \t]+)?(?:const|let|var)[ \t]+([A-Za-z][A-Za-z0-9_]*)[ \t]*(?::[^=]*)?="),
    "javascript": re.compile(r"(?:export[ \t]+)?(?:const|let|var)[ \t]+([A-Za-z][A-Za-z0-9_]*)[ \t]*="),
    "shell": re.compile(r"(?:export[ \t]+)?([A-Za-z][A-Za-z0-9_]*)="),
}
"""How a marked line begins, by language. Each is tried once, at the beginning, and reads no character twice."""

_WORDLESS: Final = re.compile(r"[^A-Za-z0-9_]")
_TYPES: Final[tuple[tuple[type, ParameterType], ...]] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list, "array"),
    (dict, "object"),
)


class ParameterLiteral(NamedTuple):
    """A parameter, and where its literal stands in the program."""

    parameter: SkillParameter
    start: int
    end: int


def find_parameters(language: Language, code: str) -> Sequence[ParameterLiteral]:
    """The parameters of a program, in order. Raises Denied if a marked line has no literal, or two have one name."""
    found: list[ParameterLiteral] = []
    at = code.find(_MARKS[language])
    while at >= 0:
        start, end = code.rfind("\n", 0, at) + 1, code.find("\n", at)
        end = len(code) if end < 0 else end
        if (marked := _read_line(language, code[start:end], start)) is not None:
            if any(one.parameter.name == marked.parameter.name for one in found):
                raise bad_skill(f"it has two parameters {marked.parameter.name}")
            found.append(marked)
            if len(found) > _MOST:
                raise bad_skill(f"it has more than {_MOST} parameters")
        at = code.find(_MARKS[language], end)
    return found


def bind_arguments(
    language: Language, code: str, parameters: Sequence[ParameterLiteral], arguments: Mapping[str, JsonValue]
) -> str:
    """The program with these values in place of the literals that ``find_parameters`` has found.

    Raises:
        Denied: It has no such parameter, or a value has another type.
    """
    if not arguments:
        return code
    marked = {one.parameter.name: one for one in parameters}
    if unknown := arguments.keys() - marked.keys():
        hint = f"It takes: {join_listed(marked)}." if marked else "It takes none."
        raise Denied(
            "invalid_arguments", f"There is no parameter {join_listed(sorted(map(quote_sent, unknown)))}.", hint=hint
        )
    try:
        size = len(json.dumps(arguments, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode())
    except (ValueError, RecursionError):
        raise Denied(
            "invalid_arguments",
            "In the arguments is a number that is infinite or none, half of a surrogate pair, or very deep nesting.",
            hint="A number such as 1e999 is read as infinity: give a smaller one, or a text.",
        ) from None
    if size > MOST_ARGUMENT_BYTES:
        raise Denied("invalid_arguments", f"The arguments have more than {MOST_ARGUMENT_BYTES} bytes.")
    bound = code
    for name, value in sorted(arguments.items(), key=lambda pair: -marked[pair[0]].start):
        parameter, start, end = marked[name]
        if not _is_of_type(value, parameter.type):
            raise Denied(
                "invalid_arguments",
                f"The parameter {name} is {quote_sent(json.dumps(value))}.",
                hint=f"It takes {parameter.type}, such as {json.dumps(parameter.default)}.",
            )
        bound = bound[:start] + _write_literal(language, value) + bound[end:]
    return bound


def schema_of(parameters: Sequence[SkillParameter]) -> dict[str, JsonValue]:
    """The JSON Schema of a call's arguments."""
    return {
        "type": "object",
        "properties": {
            one.name: {
                "type": one.type,
                "default": one.default,
                **({"description": one.description} if one.description else {}),
            }
            for one in parameters
        },
        "additionalProperties": False,
    }


def _read_line(language: Language, line: str, offset: int) -> ParameterLiteral | None:
    mark = _MARKS[language]
    before, found, about = line.rstrip("\r").rpartition(mark)
    head = _HEADS[language].match(before) if found and about[:1] in ("", ":", " ", "\t") else None
    if head is None:
        return None
    if len(head[1]) > _NAME_CHARACTERS:
        raise bad_skill(f"a parameter has a name of more than {_NAME_CHARACTERS} characters")
    text = before[head.end() :].rstrip(" \t;" if mark.startswith("/") else " \t")
    start = head.end() + len(text) - len(text.lstrip(" \t"))
    text = text.lstrip(" \t")
    try:
        value = _read_literal(language, text)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise bad_skill(
            f"the parameter {head[1]} is {quote_sent(text)}, and no literal",
            hint="Give it a number, a text, true or false, a list or an object, on one line.",
        ) from error
    parameter = SkillParameter(
        name=head[1].lower(), type=_type_of(value), default=value, description=one_line(about.lstrip(" \t:"), 200)
    )
    return ParameterLiteral(parameter, offset + start, offset + start + len(text))


def _read_literal(language: Language, text: str) -> JsonValue:
    value: JsonValue
    if not text or len(text) > _LITERAL_CHARACTERS:
        raise ValueError(text)
    if language == "python":
        value = ast.literal_eval(text)
    elif language == "shell":
        words = shlex.split(text)
        if len(words) > 1 or any(mark in text for mark in "$`;&|<>()"):
            raise ValueError(text)
        value = int(words[0]) if words and re.fullmatch(r"-?(?:0|[1-9]\d{0,17})", words[0]) else "".join(words)
    else:
        is_quoted = text[0] == text[-1] == "'" and len(text) > 1 and not {*text[1:-1]} & {*"'\\\""}
        value = text[1:-1] if is_quoted else json.loads(text)
    # A call has JSON values only: no tuple, no bytes, no half of a surrogate pair.
    if value is None or json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode()) != value:
        raise ValueError(text)
    return value


def _write_literal(language: Language, value: JsonValue) -> str:
    """The value as a literal of the language. Of the caller's text only letters, digits and ``_`` stay unescaped: so it
    can't become code, even if the marked line lies in a comment, in a longer text or in a text that is evaluated.
    """
    match language:
        case "python":
            return _write_python(value)
        case "typescript" | "javascript":
            if isinstance(value, list | dict):  # a literal with a key `__proto__` would set a prototype
                return f"JSON.parse({_write_literal(language, json.dumps(value, allow_nan=False))})"
            if isinstance(value, str):
                return f'"{_WORDLESS.sub(_escape_code_units, value)}"'
            return json.dumps(value, allow_nan=False)
        case "shell":
            plain = value if isinstance(value, str) else json.dumps(value, allow_nan=False)
            if "\x00" in plain:
                raise Denied("invalid_arguments", "A text for a shell has no NUL.")
            return f"$'{_WORDLESS.sub(_escape_bytes, plain)}'"


def _write_python(value: JsonValue) -> str:
    match value:
        case str():
            return f'"{_WORDLESS.sub(_escape_code_point, value)}"'
        case dict():
            return f"{{{', '.join(f'{_write_python(name)}: {_write_python(one)}' for name, one in value.items())}}}"
        case list():
            return f"[{', '.join(map(_write_python, value))}]"
        case _:
            return repr(value)


def _escape_bytes(match: re.Match[str]) -> str:
    return "".join(f"\\x{byte:02x}" for byte in match[0].encode("utf-8", "surrogatepass"))


def _escape_code_point(match: re.Match[str]) -> str:
    return f"\\U{ord(match[0]):08x}"


def _escape_code_units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _type_of(value: JsonValue) -> ParameterType:
    return next(name for kind, name in _TYPES if isinstance(value, kind))


def _is_of_type(value: JsonValue, expected: ParameterType) -> bool:
    if value is None:
        return False
    found = _type_of(value)
    return found == expected or (found == "integer" and expected == "number")
