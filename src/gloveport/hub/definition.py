"""The definition of a tool, as its server describes it."""

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property

from gloveport.late_libraries import mcp_types as wire
from gloveport.model import Value
from gloveport.model.json_value import JsonValue


class Definition(Value, dict=True):
    """A tool of one server. All texts are the server's: hostile, and shown as data."""

    server: str
    name: str
    title: str = ""
    description: str = ""
    input_schema: Mapping[str, JsonValue] = {}
    output_schema: Mapping[str, JsonValue] | None = None
    read_only: bool = False
    """Whether the server says that the tool changes nothing."""
    destructive: bool = True
    """False only if the server says that the tool destroys nothing."""

    @cached_property
    def digest(self) -> str:
        """SHA-256, in hex, of the whole definition."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, ensure_ascii=True)
        return hashlib.sha256(text.encode()).hexdigest()


def definition_of(server: str, tool: "wire.Tool") -> Definition:
    """Make a definition of a tool as a server listed it."""
    hints = tool.annotations or wire.ToolAnnotations()
    read_only = hints.read_only_hint is True
    return Definition(
        server=server,
        name=tool.name,
        title=tool.title or hints.title or "",
        description=tool.description or "",
        input_schema=tool.input_schema or {},
        output_schema=tool.output_schema,
        read_only=read_only,
        destructive=not read_only and hints.destructive_hint is not False,
    )
