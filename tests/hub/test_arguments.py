"""Arguments are checked before the call, in words that teach; no schema makes the check dangerous. H6."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.schemas import GENERATED, HOSTILE, OBJECTS, SCHEMAS, definition, doubling

from gloveport.hub import arguments as checks
from gloveport.hub.arguments import describe_parameters

ISSUE = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "Title of the issue"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "state": {"enum": ["open", "closed"]},
        "count": {"type": "integer", "maximum": 100},
        "draft": {"type": "boolean"},
        "author": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "either": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "required": ["title"],
}


def faults(tool, arguments):
    return checks.faults(tool, arguments, json.dumps(arguments).encode())


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ({}, "title: is missing (string: Title of the issue)"),
        ({"title": 5}, 'title: expected string, got integer; try "5"'),
        ({"title": "a", "labels": "bug"}, 'labels: expected array, got string; try ["bug"]'),
        ({"title": "a", "labels": '["bug"]'}, "labels: expected array, got string; pass it as it is, not as text"),
        ({"title": "a", "labels": [1]}, 'labels[0]: expected string, got integer; try "1"'),
        ({"title": "a", "count": "7"}, "count: expected integer, got string; try 7"),
        ({"title": "a", "count": 500}, "count: 500 is greater than the maximum of 100"),
        ({"title": "a", "draft": "true"}, "draft: expected boolean, got string; try true"),
        ({"title": "a", "draft": None}, "draft: expected boolean, got null; leave it out"),
        ({"title": "a", "state": "opened"}, 'state: "opened" is none of "open", "closed"; did you mean "open"?'),
        ({"title": "a", "author": {}}, "author.name: is missing (string)"),
        ({"title": "a", "either": 1}, "either: expected string | string[], got integer"),
        ({"title": "a", "lables": []}, "lables: there is no such argument; did you mean labels?"),
    ],
)
def test_a_fault_is_named_with_what_to_do(arguments, fault):
    """H6."""
    first, *_, last = faults(definition(ISSUE, name="issue"), arguments)
    assert first == fault
    assert last.startswith("the parameters are {title: string, labels?: string[], ")


def test_what_is_right_has_no_fault():
    assert faults(definition(ISSUE), {"title": "a", "labels": ["b"], "author": {"name": "c"}}) == []


def test_an_argument_that_is_forbidden_is_refused_and_one_that_is_not_forbidden_and_like_none_is_let_through():
    """H6: a typing error must not become another call than was meant; an open schema stays open."""
    assert faults(definition(ISSUE), {"title": "a", "whatever": 1}) == []
    closed = definition({**ISSUE, "additionalProperties": False})
    assert faults(closed, {"title": "a", "whatever": 1})[0] == "whatever: there is no such argument"
    assert faults(closed, {"titel": "a"})[:2] == [
        "titel: there is no such argument; did you mean title?",
        "title: is missing (string: Title of the issue)",
    ]
    assert faults(definition({**ISSUE, "additionalProperties": {}}), {"title": "a", "lables": 1}) == []


def test_the_parameters_are_told_in_a_line():
    line = describe_parameters(definition({"properties": {"a": {"type": "integer"}}}))
    assert line == "the parameters are {a?: number}"
    assert describe_parameters(definition({"type": "object", "properties": {}})) == "it takes no parameters"


@pytest.mark.parametrize("name", SCHEMAS)
def test_no_schema_makes_the_check_slow_loud_or_fail(name):
    """H6: schemas are other servers'."""
    tool = definition(SCHEMAS[name])
    for arguments in ({}, {"value": "x"}, {"a": [HOSTILE] * 100, HOSTILE: HOSTILE}, {f"p{n}": n for n in range(5000)}):
        began = time.thread_time()
        told = faults(tool, arguments)
        assert time.thread_time() - began < 2
        assert len(told) <= 14
        assert len("\n".join(told)) < 12_000
        assert all(line.isprintable() for line in told)


@given(
    GENERATED | OBJECTS,
    st.dictionaries(
        st.sampled_from(["a", "b", "list", HOSTILE]),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=4),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
            max_leaves=6,
        ),
    ),
)
def test_whatever_is_sent_to_whatever_tool_gets_an_answer(schema, arguments):
    told = faults(definition(schema if isinstance(schema, dict) else {}), arguments)
    assert all(line.isprintable() for line in told)


def deep(levels):
    value = "x"
    for _ in range(levels):
        value = [value]
    return value


LISTS = {"anyOf": [{"items": {"$ref": "#/$defs/l"}}, {"items": {"$ref": "#/$defs/l"}}, {"type": "integer"}]}
EVALUATED = {"properties": {"a": {}}}
for _ in range(24):
    EVALUATED = {"allOf": [EVALUATED], "unevaluatedProperties": False}


@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (doubling(30), {"value": "x"}),
        (doubling(60, "anyOf"), {"value": "x"}),
        *(
            ({**doubling(30), "properties": {name: doubling(30)["properties"]["value"]}}, {name: "x"})
            for name in ("definitions", "$defs")
        ),
        ({"$defs": {"l": LISTS}, "properties": {"value": {"$ref": "#/$defs/l"}}}, {"value": deep(60)}),
        (EVALUATED, {"a": 1}),
        ({"allOf": [{"type": "string"}] * 5000}, {"value": ["x" * 1000] * 1000}),
        ({"properties": {"value": {"items": {"enum": list(range(2000))}}}}, {"value": [-1] * 2000}),
        ({"properties": {"value": {"pattern": "^[01]*1[01]{3000}$"}}}, {"value": "01" * 100_000}),
        ({"properties": {"value": {"pattern": "^(a+)+$"}}}, {"value": "a" * 1000 + "b"}),
        ({"properties": {str(n): {"pattern": f"\\w{{{n}}}"} for n in range(1, 2000)}}, {"value": "x"}),
        ({"propertyNames": {"pattern": "^[01]*1[01]{3000}$"}}, {"01" * 100_000: 1}),
        ({"$id": "https://a.example/", "$defs": {"b": {"$id": "b", "$ref": "#"}}, "$ref": "b"}, {"value": 1}),
        ({"properties": {"value": {"$ref": "file:///etc/passwd"}}}, {"value": 1}),
        ({"$schema": "http://127.0.0.1:9/schema", "properties": {"value": {"type": "string"}}}, {"value": 1}),
    ],
    ids=str,
)
def test_a_schema_that_is_made_to_stop_us_does_not(schema, arguments):
    """H6, P25: exponential references, copies of what is wrong, regular expressions, the network."""
    began = time.thread_time()
    faults(definition(schema), arguments)
    assert time.thread_time() - began < 1.5


def test_names_that_are_made_to_be_compared_for_long_are_not():
    """P25: of so few parts that each comparison takes a millisecond, in arguments of two kilobytes."""
    known = {f"ab{number:05}cd" * 14: {} for number in range(200)}
    began = time.thread_time()
    assert faults(definition({"properties": known}), {f"cd{number:05}ab" * 14: 1 for number in range(12)}) == []
    many = {f"o{number}": {f"cd{number:05}ab" * 7: 1} for number in range(60)}
    known = {name[:63]: schema for name, schema in known.items()}
    inner = {"properties": known, "additionalProperties": False}
    assert faults(definition({"additionalProperties": inner}), many)
    assert faults(definition({"properties": known}), {f"cd{number:05}ab" * 7: 1 for number in range(12)})
    assert time.thread_time() - began < 1.5


def test_a_dialect_of_its_own_and_looking_around_leave_the_check_to_the_server():
    assert faults(definition({"properties": {"a": {"pattern": "^(?!x)"}}}), {"a": "x"}) == []
    assert faults(definition({"properties": {"a": {"type": "string"}}}), {"a": "\ud800"}) == []


@pytest.mark.parametrize(
    "dialect", ["http://json-schema.org/draft-07/schema#", "https://json-schema.org/draft/2020-12/schema"]
)
def test_the_usual_dialects_are_checked(dialect):
    told = faults(definition({"$schema": dialect, "properties": {"a": {"type": "string"}}}), {"a": 1})
    assert told[0] == 'a: expected string, got integer; try "1"'
