"""Rules of an API that can't do what they seem to."""

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.config.checks.apis import api_faults
from gloveport.config.checks.rule_order import _spans
from gloveport.config.toml_text import spell_key
from gloveport.policy.hosts.url_paths import matches


def faults(*rules, **keys):
    return list(api_faults({"api": {"x": {"hosts": ["api.example.com"], "rules": list(rules), **keys}}}))


def rule(action, methods=(), paths=()):
    return {"action": action, "methods": list(methods), "paths": list(paths)}


ANYTHING = rule("allow")


@for_each(
    "first, second",
    [
        (ANYTHING, rule("deny", ["DELETE"])),
        (ANYTHING, rule("deny", paths=["/admin/**"])),
        (ANYTHING, ANYTHING),
        (rule("deny"), ANYTHING),
        (rule("ask", ["GET", "POST"]), rule("allow", ["POST"], ["/x"])),
        (rule("allow", paths=["/a", "/b"]), rule("deny", ["GET"], ["/b"])),
        (rule("allow", paths=["/v1/**"]), rule("deny", paths=["/v1/admin", "/v1/users/**"])),
        (rule("allow", paths=["/**"]), rule("deny", paths=["/*/admin"])),
        (rule("allow", paths=["/v1/*"]), rule("deny", paths=["/v1/admin"])),
    ],
)
def test_a_rule_that_can_never_match_is_a_fault(first, second):
    """N2, T3: what was to be denied would be allowed."""
    (fault,) = faults(first, second)
    assert spell_key(fault.keys[0]) == "api.x.rules[1]"
    assert fault.problem == "can never match: rules[0] matches all that it speaks of"
    assert "put the narrower rule first" in fault.hint


def test_the_rule_that_is_in_the_way_is_named():
    (fault,) = faults(
        rule("deny", ["PUT"]), rule("allow", ["GET"]), rule("deny", ["POST"]), rule("ask", ["GET"], ["/x"])
    )
    assert spell_key(fault.keys[0]) == "api.x.rules[3]"
    assert "rules[1]" in fault.problem


@for_each(
    "rules",
    [
        [rule("deny", ["DELETE"]), ANYTHING],
        [rule("allow", ["GET"]), rule("deny", ["GET", "POST"]), ANYTHING],
        [rule("allow", ["GET"]), rule("deny", paths=["/x"]), ANYTHING],
        [rule("allow", paths=["/v1/*"]), rule("deny", paths=["/v1/**"]), ANYTHING],
        [rule("allow", paths=["/v1/**"]), rule("deny", paths=["/v1"]), ANYTHING],
        [rule("allow", ["GET"], ["/v1/**"]), rule("deny", ["DELETE"], ["/v1/x"]), ANYTHING],
        [rule("ask")],
        [],
    ],
)
def test_rules_that_each_decide_something_are_valid(rules):
    assert faults(*rules) == []


def test_rules_that_allow_nothing_are_a_fault_of_an_active_api():
    """N2, T3"""
    denials = [rule("deny", ["DELETE"]), rule("deny", paths=["/x"])]
    (fault,) = faults(*denials)
    assert spell_key(fault.keys[0]) == "api.x.rules"
    assert fault.problem == "its rules allow nothing"
    assert fault.hint == 'add { action = "allow" } after them, or set active = false'
    assert faults(*denials, ANYTHING) == faults(*denials, active=False) == []


def test_of_rules_with_a_fault_of_shape_nobody_knows_what_they_allow():
    assert faults(rule("deny", ["DELETE"]), rule("alow")) == []


PIECES = st.sampled_from(["/", "/", "a", "b", "*", "**", "%61", "%"])
PATTERNS = st.lists(PIECES, max_size=5).map(lambda pieces: "/" + "".join(pieces))


@given(PATTERNS, PATTERNS, PATTERNS)
def test_a_pattern_that_spans_another_matches_whatever_that_matches(wide, narrow, path):
    """N2: no valid rule is refused."""
    if _spans(wide, narrow) and matches(narrow, path):
        assert matches(wide, path)
