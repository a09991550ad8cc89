"""Writes tools as TypeScript declarations: a line for a search, a ``.d.ts`` for people, models and type checkers.

A server is an interface, and its tools are methods: so a tool may have any name, ``delete`` for example. Whatever a
server's definition holds, the text parses: names are checked or quoted, literals quoted, and prose can't end a comment.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

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
)
from gloveport.untrusted_text import printable

_PRIMITIVES: Final = {
    "string": "string",
    "integer": "number",
    "number": "number",
    "boolean": "boolean",
    "null": "null",
    "anything": "unknown",
    "nothing": "never",
}
_SIGNATURE_PARAMETERS = 24
_SIGNATURE_CHARACTERS = 160

_PLAIN = re.compile(r"(?!(?:new|constructor|get|set|readonly|static)$)[A-Za-z_][A-Za-z0-9_]*")
"""Names of members that need no quotes; a method called ``new`` would be a constructor without them."""


def signature(definition: Definition, exposed: str) -> str:
    """One line: ``create_issue(args: {title: string, labels?: string[]}): Promise<Issue>``."""
    tool = Interface.of(definition, exposed, _types([exposed]))
    return f"{_name(exposed)}({parameters(tool)}): Promise<{_short(render_type(tool.result))}>"


def parameters(tool: Interface) -> str:
    """Write a tool's parameters in one line: ``args: {title: string, labels?: string[]}``; empty without parameters."""
    first = tool.parameters[:_SIGNATURE_PARAMETERS]
    parts = [f"{_key(field)}: {_short(render_type(field.shape))}" for field in first]
    if tool.open or len(first) < len(tool.parameters):
        parts.append("[name: string]: unknown")
    return f"{_args(tool)}: {{{', '.join(parts)}}}" if parts else ""


def stub(definition: Definition, exposed: str) -> str:
    """The declaration of one tool, after those of the types that it needs."""
    return "\n".join(_declarations(definition.server, {exposed: definition}))


def module(server: str, description: str, definitions: Mapping[str, Definition]) -> str:
    """A whole ``.d.ts``; the server and its tools have their names in programs."""
    head = _comment([f"Tools of the MCP server {server}.", "", *prose(description)], "")
    return "\n".join([*head, "", *_declarations(server, definitions)])


def _types(exposed: Iterable[str]) -> Types:
    return Types({*exposed, "Promise"})


def _declarations(server: str, definitions: Mapping[str, Definition]) -> list[str]:
    types = _types(())
    interface = types.claim(server)
    methods = []
    for exposed, definition in definitions.items():
        methods += _method(Interface.of(definition, exposed, types))
    declared = []
    for named in types.named:
        declared += _record(named) if isinstance(named, RecordShape) else _alias(named)
    return [*declared, f"export interface {interface} {{", *methods, "}", ""]


def _record(record: RecordShape) -> list[str]:
    notes = [f"{record.hidden} more members are not listed here."] if record.hidden else []
    return [
        *_comment([*prose(record.text), *notes], ""),
        f"export interface {record.name} {{",
        *_members(record.fields, "  "),
        *(["  [name: string]: unknown;"] if record.open else []),
        "}",
        "",
    ]


def _alias(alias: Alias) -> list[str]:
    return [f"export type {alias.name} = {render_type(alias.shape)};", ""]


def _members(fields: Sequence[Field], indent: str) -> list[str]:
    lines = []
    for field in fields:
        lines += _comment(prose(field.text), indent)
        lines.append(f"{indent}{_key(field)}: {render_type(field.shape)};")
    return lines


def _method(tool: Interface) -> list[str]:
    head = _comment(tool.text, "  ")
    result = f"): Promise<{render_type(tool.result)}>;"
    if not tool.parameters and not tool.open:
        return [*head, f"  {_name(tool.exposed)}({result}"]
    members = [*_members(tool.parameters, "    "), *(["    [name: string]: unknown;"] if tool.open else [])]
    return [*head, f"  {_name(tool.exposed)}({_args(tool)}: {{", *members, f"  }}{result}"]


def _args(tool: Interface) -> str:
    return "args" if any(field.required for field in tool.parameters) else "args?"


def render_type(shape: Shape) -> str:
    """The type for a shape."""
    match shape:
        case Primitive(kind):
            return _PRIMITIVES[kind]
        case Values(values):
            return " | ".join(
                _quote_name(value) if isinstance(value, str) else json.dumps(value) for _, value in values
            )
        case Array(first, rest):
            more = "" if rest is None else f"{_element(rest)}[]"
            return f"[{', '.join([*map(render_type, first), *([f'...{more}'] if more else [])])}]" if first else more
        case Table(value):
            return f"{{[name: string]: {render_type(value)}}}"
        case Union(members):
            return " | ".join(dict.fromkeys(map(render_type, members)))
        case Named(name):
            return name


def _element(shape: Shape) -> str:
    text = render_type(shape)
    return f"({text})" if " | " in text else text


def _key(field: Field) -> str:
    return f"{_name(field.name)}{'' if field.required else '?'}"


def _name(name: str) -> str:
    return name if _PLAIN.fullmatch(name) else _quote_name(name)


def _quote_name(text: str) -> str:
    return printable(json.dumps(text, ensure_ascii=not text.isprintable()))


def _short(text: str) -> str:
    return text if len(text) <= _SIGNATURE_CHARACTERS else "unknown"


def _comment(text: Sequence[str], indent: str) -> list[str]:
    """A comment of printable lines, in which nothing ends it."""
    lines = "\n".join(text).strip().replace("*/", "*\\/").split("\n")
    if len(lines) == 1:
        return [f"{indent}/** {lines[0]} */"] if lines[0] else []
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines), f"{indent} */"]
