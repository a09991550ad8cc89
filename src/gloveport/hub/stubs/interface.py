"""The interface of a tool: parameters and result as shapes, with the named types that both share."""

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
    """The interface of one tool.

    Attributes:
        exposed: The tool's name in programs.
        text: The tool's description, in printable lines.
        parameters: The parameters, under the server's names, the required ones first.
        open: Whether the tool takes further arguments, or has more parameters than are listed.
    """

    exposed: str
    text: tuple[str, ...]
    parameters: tuple[Field, ...]
    open: bool
    result: Shape

    @classmethod
    def of(cls, definition: Definition, exposed: str, types: Types) -> Self:
        """Make the interface of a definition."""
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
    """Split a server's text into printable lines, as many as fit into a declaration."""
    cut = text if len(text) <= _TEXT_CHARACTERS else f"{text[: _TEXT_CHARACTERS - 1]}…"
    spaced = cut.strip().replace("\t", "    ").replace("\r\n", "\n")
    return [printable(part).rstrip() for part in spaced.split("\n")] if spaced else []
