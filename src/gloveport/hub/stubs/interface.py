"""The interface of a tool: what it takes and what a program gets, as shapes whose named types it shares."""

from typing import Self

from msgspec import Struct

from gloveport.hub.definition import Definition
from gloveport.hub.results import wrapped_schema
from gloveport.hub.stubs.schema_reader import record_of, shape_of
from gloveport.hub.stubs.shapes import ANYTHING, Field, RecordShape, Shape, Types
from gloveport.untrusted_text import printable

_TEXT_CHARACTERS = 4000
_UNDECLARED = "The server does not declare what the result looks like."


class Interface(Struct, frozen=True, kw_only=True):
    """One tool.

    Attributes:
        exposed: Its name in programs.
        text: What it says of itself, in printable lines.
        parameters: By the server's names; those that are required come first.
        open: Whether it takes arguments besides, or has more parameters than are listed.
        result: What a call returns.
    """

    exposed: str
    text: tuple[str, ...]
    parameters: tuple[Field, ...]
    open: bool
    result: Shape

    @classmethod
    def of(cls, definition: Definition, exposed: str, types: Types) -> Self:
        """Read what a server says of a tool."""
        schema, output = definition.input_schema, definition.output_schema
        anything = schema.get("additionalProperties", schema.get("properties") != {}) is not False
        record = record_of(schema, exposed, types) or RecordShape("", "", (), open=anything)
        text = [*prose(definition.description or definition.title)]
        if record.hidden:
            text += ["", f"It has {record.hidden} more parameters, which are not listed here."]
        if output is None:
            text += ["", _UNDECLARED] if text else [_UNDECLARED]
        wrapped = wrapped_schema(output)
        wish = f"{exposed}_result"
        return cls(
            exposed=exposed,
            text=tuple(text),
            parameters=record.fields,
            open=record.open or record.hidden > 0,
            result=ANYTHING if output is None else shape_of(wrapped or output, wish, types, root=output),
        )


def prose(text: str) -> list[str]:
    """Printable lines of a server's text, as many as a declaration has room for."""
    cut = text if len(text) <= _TEXT_CHARACTERS else f"{text[: _TEXT_CHARACTERS - 1]}…"
    spaced = cut.strip().replace("\t", "    ").replace("\r\n", "\n")
    return [printable(part).rstrip() for part in spaced.split("\n")] if spaced else []
