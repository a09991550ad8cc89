"""Generates docs/config.md from the models: a table of keys for each table of the configuration."""

import textwrap
from collections.abc import Iterator

from gloveport.config.reference.docstrings import read_field_docstrings
from gloveport.config.reference.reference_text import (
    API,
    AUTH,
    CODEFORGE,
    CONDITIONS,
    ENVIRONMENTS,
    HOOKS,
    IMPORT,
    INTRODUCTION,
    MOUNTS,
    PROGRAMS,
    RULES,
    SECRETS,
    SERVER_AUTH,
    SERVERS,
    TOOL_RULES,
)
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

_COLUMNS = 100


def reference() -> str:
    """Write the reference of every configuration key, in Markdown."""
    sections = [
        INTRODUCTION,
        *_tables(Config, ""),
        _section("[[policy.mounts]]", Mount, MOUNTS),
        _section("[api.NAME]", Api, API),
        _section("[[api.NAME.rules]]", Rule, RULES),
        AUTH,
        *(_auth(kind, table) for kind, table in members(shape_of(Auth).form).items()),
        _section("[environments.NAME]", Environment, ENVIRONMENTS),
        _section("[servers.NAME]", Server, SERVERS),
        _section("[[servers.NAME.rules]]", ToolRule, TOOL_RULES),
        _section("[servers.NAME.rules.arguments]", Condition, CONDITIONS),
        SERVER_AUTH,
        _auth("oauth", OAuthLogin),
        _section("[[workspace.hooks]]", Hook, HOOKS),
        _section("[exec.programs.NAME]", ExecProgram, PROGRAMS),
        IMPORT,
        SECRETS,
        CODEFORGE,
    ]
    return "\n".join(sections)


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
