"""Generates docs/config.md: the prose of ``reference.md``, with a table of keys from each model it names."""

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gloveport.config.reference.docstrings import read_field_docstrings
from gloveport.config.schema import Config, ExecProgram, Hook
from gloveport.config.toml_text import toml
from gloveport.config.validation.type_descriptions import describe
from gloveport.model import Mount, Value
from gloveport.model.constraints import shape_of
from gloveport.model.egress import Api, Auth, Rule
from gloveport.model.hub import Condition, OAuthLogin, Server, ToolRule
from gloveport.model.packages import Environment
from gloveport.model.type_shapes import is_table, members
from gloveport.model.value import FieldType, fields_of

_PROSE: Final = Path(__file__).with_name("reference.md")
"""The page without what is generated: instead of that it has lines such as ``<!-- keys of Mount -->``."""

_DESCRIBED: Final = (Mount, Api, Rule, Environment, Server, ToolRule, Condition, Hook, ExecProgram)
"""The tables that prose introduces."""

_COLUMNS: Final = 100


def reference() -> str:
    """Write the reference of every configuration key, in Markdown."""
    generated = {
        "tables of Config": _tables(Config, ""),
        "kinds of Auth": (_auth(kind, table) for kind, table in members(shape_of(Auth).form).items()),
        "kind of OAuthLogin": [_auth("oauth", OAuthLogin)],
        **{f"keys of {model.__name__}": _rows(model) for model in _DESCRIBED},
    }
    parts = {f"<!-- {name} -->": "\n".join(lines).removesuffix("\n") for name, lines in generated.items()}
    return "\n".join(parts.get(line, line) for line in _PROSE.read_text("utf-8").split("\n"))


def _tables(model: type[Value], base: str) -> Iterator[str]:
    for name, field in fields_of(model).items():
        table = field.shape.form
        if is_table(table):
            yield _section(f"[{base}{name}]", table, _paragraph(read_field_docstrings(model)[name]))
            yield from _tables(table, f"{base}{name}.")


def _auth(kind: str, model: type[Value]) -> str:
    return "\n".join([f'### `kind = "{kind}"`', "", _paragraph(model.__doc__), *_rows(model, "kind"), ""])


def _section(title: str, model: type[Value], text: str) -> str:
    return "\n".join([f"## `{title}`", "", text, *_rows(model), ""])


def _rows(model: type[Value], *hidden: str) -> Iterator[str]:
    """A table of the keys that are no tables themselves."""
    yield "| Key | Takes | Default | Meaning |"
    yield "|---|---|---|---|"
    meanings = read_field_docstrings(model)
    for name, field in fields_of(model).items():
        if name not in hidden and not is_table(field.shape.form):
            expected = describe(field.shape).expected.replace("|", "\\|")
            yield f"| `{name}` | {expected} | {_default(field)} | {_plain(meanings.get(name))} |"


def _default(field: FieldType) -> str:
    if field.is_required:
        return "required"
    if field.default is None:
        return "see right"
    return f"`{toml(field.default)}`"


def _paragraph(docstring: str | None) -> str:
    return f"{textwrap.fill(_plain(docstring), _COLUMNS, break_long_words=False, break_on_hyphens=False)}\n"


def _plain(docstring: str | None) -> str:
    return " ".join((docstring or "").replace("``", "`").split())
