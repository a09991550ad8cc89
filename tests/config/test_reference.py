"""docs/config.md is made from the models."""

import re
from pathlib import Path

from gloveport.config import Config, leaves, load
from gloveport.config.checks.mounts import _COLLECTIONS, _KERNEL, _SYSTEM
from gloveport.config.reference.docstrings import read_field_docstrings
from gloveport.config.reference.document import reference
from gloveport.config.toml_text import spell_key
from gloveport.config.validation.type_descriptions import is_secret
from gloveport.model.constraints import shape_of
from gloveport.model.egress import Api, Auth, Bearer, Rule, secrets_of
from gloveport.model.hub import Condition, Server, ServerAuth, ToolRule
from gloveport.model.type_shapes import is_table, members
from gloveport.model.value import fields_of

REPOSITORY = Path(__file__).parents[2]


def fields(model):
    meanings = read_field_docstrings(model)
    for name, field in fields_of(model).items():
        yield field, meanings.get(name)
        if is_table(field.shape.form):
            yield from fields(field.shape.form)


KINDS = members(shape_of(Auth).form) | members(shape_of(ServerAuth).form)
TABLES = (Config, Api, Rule, Server, ToolRule, Condition)


def test_the_reference_is_current():
    """T5: a key is a documented line. To write it anew: make docs."""
    assert (REPOSITORY / "docs/config.md").read_text() == reference()


def test_every_key_and_table_is_in_the_reference():
    text = reference()
    for key, _ in leaves(Config()):
        *table, name = key
        table = spell_key(table)
        assert f"| `{name}` |" in text.split(f"## `[{table}]`")[1].split("\n## ")[0]


def test_every_key_has_a_meaning_and_says_a_default_that_is_computed():
    keys = [key for table in (*TABLES, *KINDS.values()) for key in fields(table) if not is_kind(key[0])]
    for field, meaning in keys:
        assert meaning
        assert field.default is not None or "Default: " in meaning
        assert field.factory is None or "Default: " in meaning


def test_the_paths_that_mounts_may_not_have_are_all_named():
    section = reference().split("[[policy.mounts]]")[1]
    for path in (*_KERNEL, *_COLLECTIONS, *_SYSTEM):
        assert f"`{path}`" in section


def is_kind(field):
    return field.annotation in {fields_of(table)["kind"].annotation for table in KINDS.values()}


def test_every_key_of_an_api_a_server_their_rules_and_each_kind_of_auth_is_in_the_reference():
    """T5"""
    text = reference()
    titles = {"## `[api.NAME]`": Api, "## `[[api.NAME.rules]]`": Rule}
    titles |= {"## `[servers.NAME]`": Server, "## `[[servers.NAME.rules]]`": ToolRule}
    titles |= {"## `[servers.NAME.rules.arguments]`": Condition}
    titles |= {f'### `kind = "{kind}"`': table for kind, table in KINDS.items()}
    for title, table in titles.items():
        section = text.split(f"{title}\n")[1].split("\n##")[0]
        assert [name for name in fields_of(table) if name != "kind" and f"| `{name}` |" not in section] == []


def test_the_examples_are_valid(tmp_path):
    examples = re.findall(r"```toml\n(.*?)```", reference(), re.DOTALL)
    (tmp_path / "x.toml").write_text("".join(examples))
    config = load(tmp_path / "x.toml", cwd=tmp_path, environ={"GLOVEPORT_STATE": "/nonexistent"}).config
    assert config.api["github"].auth
    assert config.api["orders"].auth[0].databases == ("orders",)
    assert config.servers["github"].rules[1].arguments == {"owner": Condition(equals="our-team")}


def test_each_way_to_name_a_secret_is_explained_by_one_that_is_valid():
    examples = re.findall(r'^\| `"(\w+:.*?)"` \|', reference(), re.MULTILINE)
    assert [example.partition(":")[0] for example in examples] == ["env", "file", "json", "command", "keyring"]
    for example in examples:
        Bearer(kind="bearer", secret=example)


def test_every_secret_of_a_credential_is_known_as_one():
    """N5: what ``doctor`` tries, and what is fetched anew; a new kind of credential needs no line for it."""
    for kind, table in KINDS.items():
        written = {name: f"env:{name.upper()}" for name in fields_of(table)}
        names = [name for name, field in fields_of(table).items() if is_secret(field.shape)]
        assert secrets_of(table(**written)) == [written[name] for name in names], kind
        assert names, kind
