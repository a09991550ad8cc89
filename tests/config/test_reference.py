"""docs/config.md is made from the models."""

from pathlib import Path

from gloveport.config import Config, leaves
from gloveport.config.mounts import _COLLECTIONS, _KERNEL, _SYSTEM
from gloveport.config.reference import reference
from gloveport.model import Value

REPOSITORY = Path(__file__).parents[2]


def fields(model):
    for field in model.model_fields.values():
        yield field
        if isinstance(field.annotation, type) and issubclass(field.annotation, Value):
            yield from fields(field.annotation)


def test_the_reference_is_current():
    """T5: a key is a documented line. To write it anew: make docs."""
    assert (REPOSITORY / "docs/config.md").read_text() == reference()


def test_every_key_and_table_is_in_the_reference():
    text = reference()
    for key, _ in leaves(Config()):
        table, _, name = key.rpartition(".")
        assert f"| `{name}` |" in text.split(f"## `[{table}]`")[1].split("\n## ")[0]


def test_every_key_has_a_meaning_and_says_a_default_that_is_computed():
    for field in fields(Config):
        assert field.description
        assert field.default is not None or "Default: " in field.description
        assert field.default_factory is None or "Default: " in field.description


def test_the_paths_that_mounts_may_not_have_are_all_named():
    section = reference().split("[[policy.mounts]]")[1]
    for path in (*_KERNEL, *_COLLECTIONS, *_SYSTEM):
        assert f"`{path}`" in section
