"""The rules for commands and variables, and the examples that each of them carries."""

import pytest

from gloveport.model.reading import read_value
from gloveport.policy.decisions.command_variables import SecretRule, find_secret
from gloveport.policy.shell_text.rule_hits import load_rules
from gloveport.policy.shell_text.rulebook import RuleError, rulebook


def test_every_rule_does_what_its_examples_say():
    """W5 W6: else nothing is loaded."""
    assert load_rules() == rulebook().rules
    assert find_secret("X", "nothing") == ""


@pytest.mark.parametrize("change", ["match", "not_match"])
def test_a_rule_that_contradicts_its_examples_does_not_load(change, monkeypatch):
    """W5: a wrong rule is no rule."""
    rule = rulebook().rules[0]
    examples = {"match": ("ls",)} if change == "match" else {"not_match": (rule.match[0],), "match": (rule.match[1],)}
    broken = rulebook().model_copy(update={"rules": (rule.model_copy(update=examples),)})
    monkeypatch.setattr("gloveport.policy.shell_text.rule_hits.rulebook", lambda: broken)
    with pytest.raises(RuleError, match="wrong about its example"):
        load_rules.__wrapped__()


def test_a_rule_without_examples_is_none():
    with pytest.raises(ValueError, match="match"):
        read_value(SecretRule, {"kind": "a key", "value": "x", "match": ()})
