"""Writes tools as Python declarations: a line for a search, a ``.pyi`` for people, models and type checkers.

Whatever a server's definition holds, the text parses: names are checked, literals quoted, prose can't end a docstring.
"""

import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from gloveport.hub.definition import Definition
from gloveport.hub.stubs.interface import Interface, prose
from gloveport.hub.stubs.shapes import (
    Alias,
    Array,
    Field,
    Named,
    Primitive,
    RecordShape,
    Shape,
    Table,
    Types,
    Union,
    Values,
    union,
)
from gloveport.untrusted_text import one_line, quote

Module: TypeAlias = Literal["typing", "builtins"]

_WORDS: Final[Mapping[str, Module]] = {
    **dict.fromkeys(("Any", "Literal", "Never", "NotRequired", "TypeAlias", "TypedDict"), "typing"),
    **dict.fromkeys(("bool", "dict", "float", "int", "list", "str"), "builtins"),
}
_PRIMITIVES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "anything": "Any",
    "nothing": "Never",
}
_SIGNATURE_PARAMETERS = 24
_SIGNATURE_CHARACTERS = 160
_LINE_CHARACTERS = 200

_PLAIN = re.compile(r"(?!__)[A-Za-z_][A-Za-z0-9_]*")


def signature(definition: Definition, exposed: str) -> str:
    """One line: ``create_issue(*, title: str, labels: list[str] = ...) -> Issue``."""
    tool, words = Interface.of(definition, exposed, _types([exposed])), _Words(frozenset())
    plain, awkward = _sorted_out(tool)
    parts = []
    if awkward:
        keys = ", ".join(quote(field.name) for field in awkward[:_SIGNATURE_PARAMETERS])
        parts = [f"{_free('arguments', plain)}: dict[Literal[{keys}], Any]{_default(awkward)}", "/"]
    first = plain[:_SIGNATURE_PARAMETERS]
    if first:
        parts += ["*", *(f"{field.name}: {_short(words.annotate(field.shape))}{_default([field])}" for field in first)]
    if tool.open or len(first) < len(plain):
        parts.append(f"**{_free('others', plain)}: Any")
    return f"{exposed}({', '.join(parts)}) -> {_short(words.annotate(tool.result))}"


def stub(definition: Definition, exposed: str) -> str:
    """The declaration of one tool, after those of the types that it needs. Only ``module`` writes imports."""
    return "\n".join(_declarations({exposed: definition}, _Words(frozenset({exposed}))))


def module(server: str, description: str, definitions: Mapping[str, Definition]) -> str:
    """A whole ``.pyi``; the server and its tools have their names in programs."""
    words = _Words(frozenset(definitions))
    head = _docstring([f"Tools of the MCP server {server}.", "", *prose(description)], "")
    return "\n".join([*head, "", *words.imports, "", *_declarations(definitions, words)])


def _types(exposed: Iterable[str]) -> Types:
    return Types({*exposed, *_WORDS, *keyword.kwlist})


def _declarations(definitions: Mapping[str, Definition], words: "_Words") -> list[str]:
    types = _types(definitions)
    functions = []
    for exposed, definition in definitions.items():
        functions += _function(Interface.of(definition, exposed, types), types, words)
    names = words.taken | _WORDS.keys() | {named.name for named in types.named}
    declared = []
    for named in types.named:
        declared += _record(named, words, names) if isinstance(named, RecordShape) else _alias(named, words)
    return [*declared, *functions]


class _Words(Struct, frozen=True):
    """Names in annotations. A name that is a tool's too is written with its module: ``builtins.list``."""

    taken: frozenset[str]

    @property
    def imports(self) -> list[str]:
        free = [word for word, home in _WORDS.items() if home == "typing" and word not in self.taken]
        homes = sorted({home for word, home in _WORDS.items() if word in self.taken})
        lines = [f"from typing import {', '.join(free)}"] if free else []
        return [*(f"import {home} as {self._module(home)}" for home in homes), *lines]

    def word(self, word: str) -> str:
        return f"{self._module(_WORDS[word])}.{word}" if word in self.taken else word

    def _module(self, home: Module) -> str:
        name = f"_{home}"
        while name in self.taken:
            name += "_"
        return name

    def annotate(self, shape: Shape) -> str:
        """The annotation for a shape."""
        match shape:
            case Primitive(kind):
                name = _PRIMITIVES[kind]
                return self.word(name) if name in _WORDS else name
            case Values(values):
                return self._literal(values)
            case Array(first, rest):  # json.loads makes a list, of an array of known length too
                below = union([*first, *([rest] if rest is not None else [])])
                return f"{self.word('list')}[{self.annotate(below)}]"
            case Table(value):
                return f"{self.word('dict')}[{self.word('str')}, {self.annotate(value)}]"
            case Union(members):
                return " | ".join(dict.fromkeys(self.annotate(member) for member in members))
            case Named(name):
                return name

    def _literal(self, values: Sequence[tuple[str, object]]) -> str:
        """Numbers with a fraction can't be literals in Python."""
        texts = [quote(value) if isinstance(value, str) else repr(value) for kind, value in values if kind != "number"]
        literal = [f"{self.word('Literal')}[{', '.join(texts)}]"] if texts else []
        return " | ".join([*literal, *([self.word("float")] if len(texts) < len(values) else [])])


def _record(record: RecordShape, words: _Words, names: AbstractSet[str]) -> list[str]:
    notes = [f"{record.hidden} more members are not listed here."] if record.hidden else []
    notes += ["There may be members besides."] if record.open else []
    if any(not _is_plain(field.name) or field.name in names for field in record.fields):
        # The functional syntax, for names that the class syntax can't have, or would look up in the class first.
        members = [f"    {quote(own.name)}: {_member(own, words)},{_comment(own)}" for own in record.fields]
        comments = [f"# {line}".rstrip() for line in [*prose(record.text), *notes]]
        opening = f'{record.name} = {words.word("TypedDict")}("{record.name}", {{'
        return [*comments, opening, *members, "})", ""]
    members = [f"    {field.name}: {_member(field, words)}{_comment(field)}" for field in record.fields]
    text = [*prose(record.text), *notes]
    docstring = _docstring(text, "    ") if text else []
    return [f"class {record.name}({words.word('TypedDict')}):", *docstring, *members, ""]


def _alias(alias: Alias, words: _Words) -> list[str]:
    return [f"{alias.name}: {words.word('TypeAlias')} = {words.annotate(alias.shape)}", ""]


def _member(field: Field, words: _Words) -> str:
    annotation = words.annotate(field.shape)
    return annotation if field.required else f"{words.word('NotRequired')}[{annotation}]"


def _comment(field: Field) -> str:
    text = one_line(field.text, _LINE_CHARACTERS)
    return f"  # {text}" if text else ""


def _function(tool: Interface, types: Types, words: _Words) -> list[str]:
    plain, awkward = _sorted_out(tool)
    head = [f"def {tool.exposed}("]
    if awkward:
        record = RecordShape(types.claim(f"{tool.exposed}_arguments"), "", tuple(awkward))
        types.named.append(record)
        head += [f"    {_free('arguments', plain)}: {record.name}{_default(awkward)},", "    /,"]
    if plain:
        head += ["    *,", *(f"    {field.name}: {words.annotate(field.shape)}{_default([field])}," for field in plain)]
    if tool.open:
        head.append(f"    **{_free('others', plain)}: {words.word('Any')},")
    listed = [f"    {field.name}: {one_line(field.text, _LINE_CHARACTERS)}" for field in plain if field.text.strip()]
    text = [*tool.text, *(["", "Args:", *listed] if listed else [])]
    return [*head, f") -> {words.annotate(tool.result)}:", *_docstring(text, "    "), "    ...", ""]


def _sorted_out(tool: Interface) -> tuple[list[Field], list[Field]]:
    """Split the parameters: keywords, and those whose names can't be, which go into a dict as positional argument."""
    plain = [field for field in tool.parameters if _is_plain(field.name)]
    return plain, [field for field in tool.parameters if not _is_plain(field.name)]


def _is_plain(name: str) -> bool:
    """Whether Python takes a text for a name as it is: it mangles two underscores, and normalises non-ASCII letters."""
    return _PLAIN.fullmatch(name) is not None and not keyword.iskeyword(name)


def _free(name: str, fields: Sequence[Field]) -> str:
    taken = {field.name for field in fields}
    while name in taken:
        name += "_"
    return name


def _default(fields: Sequence[Field]) -> str:
    return "" if any(field.required for field in fields) else " = ..."


def _short(annotation: str) -> str:
    return annotation if len(annotation) <= _SIGNATURE_CHARACTERS else "Any"


def _docstring(text: Sequence[str], indent: str) -> list[str]:
    """A docstring of printable lines, in which nothing ends it."""
    joined = "\n".join(text).strip().replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    if joined.endswith('"'):
        joined = f'{joined[:-1]}\\"'
    lines = [f"{indent}{line}".rstrip() for line in joined.split("\n")]
    lines[0] = f'{indent}"""{lines[0].strip()}'
    return [*lines[:-1], f'{lines[-1]}"""'] if len(lines) == 1 else [*lines, f'{indent}"""']
