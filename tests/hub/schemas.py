"""Schemas as servers send them: the usual ones, the awkward ones, and those of somebody who wants to do harm."""

from hypothesis import strategies as st

from gloveport.hub.definition import Definition

HOSTILE = '"""\n*/ import os; os.system("x")\r\u2028\u202e\u200b\x00\x1b[2J\\" \\'
RECURSIVE = {"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}


def doubling(levels, keyword="allOf"):
    """Each definition refers to the one before twice: two to the power of the levels, written out."""
    definitions = {"d0": {"type": "integer"}}
    for level in range(1, levels + 1):
        before = {"$ref": f"#/$defs/d{level - 1}"}
        if keyword == "properties":
            definitions[f"d{level}"] = {"type": "object", "properties": {"a": before, "b": before}}
        else:
            definitions[f"d{level}"] = {keyword: [before, before]}
    return {"$defs": definitions, "type": "object", "properties": {"value": {"$ref": f"#/$defs/d{levels}"}}}


def nested(levels):
    """Arrays in arrays."""
    schema = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return {"type": "object", "properties": {"value": schema}}


SCHEMAS = {
    "none": {},
    "object": {"type": "object"},
    "nothing": {"type": "object", "properties": {}},
    "usual": {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": "Title of the issue"},
            "labels": {"type": "array", "items": {"type": "string"}},
            "state": {"enum": ["open", "closed"]},
            "count": {"type": ["integer", "null"]},
        },
        "required": ["title"],
    },
    "recursive": {**RECURSIVE, "type": "object", "properties": {"list": {"$ref": "#/$defs/node"}}},
    "itself": {
        "type": "object",
        "properties": {"again": {"$ref": "#"}, "list": {"type": "array", "items": {"$ref": "#"}}},
    },
    "root by reference": {**RECURSIVE, "$ref": "#/$defs/node"},
    "nothing but itself": {"$ref": "#"},
    "loop": {
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}},
        "properties": {"x": {"$ref": "#/$defs/a"}},
    },
    "any json": {
        "$defs": {
            "json": {
                "anyOf": [
                    {"type": ["string", "number", "boolean", "null"]},
                    {"type": "array", "items": {"$ref": "#/$defs/json"}},
                    {"type": "object", "additionalProperties": {"$ref": "#/$defs/json"}},
                ]
            },
            "ping": {"type": "array", "items": {"$ref": "#/$defs/pong"}},
            "pong": {"type": "array", "items": {"$ref": "#/$defs/ping"}},
            "self": {"anyOf": [{"$ref": "#/$defs/self"}, {"type": "integer"}]},
        },
        "properties": {
            "value": {"$ref": "#/$defs/json"},
            "ping": {"$ref": "#/$defs/ping"},
            "self": {"$ref": "#/$defs/self"},
        },
    },
    "references": {
        "definitions": {"a/b~c d": {"type": "integer"}},
        "properties": {
            "found": {"$ref": "#/definitions/a~1b~0c%20d"},
            "missing": {"$ref": "#/definitions/none"},
            "far": {"$ref": "https://elsewhere.example/schema.json"},
            "file": {"$ref": "file:///etc/passwd"},
            "anchor": {"$ref": "#here"},
            "deep": {"$ref": "#/properties/list/items/0"},
            "list": {"items": [{"type": "boolean"}]},
        },
    },
    "together": {
        "$defs": {"base": {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}},
        "allOf": [{"$ref": "#/$defs/base"}, {"properties": {"name": {"type": "string"}}}],
        "properties": {"one": {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}},
    },
    "values": {
        "properties": {
            "const": {"const": 1},
            "mixed": {"enum": [1, True, None, "a", 1.5, -0.0, 1]},
            "objects": {"enum": [{"a": 1}]},
            "many": {"enum": [f"v{number}" for number in range(10_000)]},
            "long": {"enum": ["x" * 10_000]},
            "huge": {"const": 10**400},
            "hostile": {"enum": [HOSTILE, "\U000e0041"]},
            "empty": {"enum": []},
        }
    },
    "tables and tuples": {
        "properties": {
            "table": {"type": "object", "additionalProperties": {"type": "integer"}},
            "closed": {"type": "object", "additionalProperties": False},
            "patterns": {"patternProperties": {"^x": {"type": "string"}}, "additionalProperties": False},
            "tuple": {"prefixItems": [{"type": "integer"}, {"type": "string"}], "items": {"type": "boolean"}},
            "old tuple": {"type": "array", "items": [{"type": "integer"}, {"type": "string"}]},
            "never": {"type": "array", "items": False},
            "no": False,
            "yes": True,
            "nullable": {"type": "string", "nullable": True},
        },
        "additionalProperties": True,
    },
    "awkward names": {
        "properties": {
            name: {"type": "string", "description": HOSTILE}
            for name in (
                "max-size",
                "class",
                "None",
                "self",
                "cls",
                "list",
                "str",
                "Any",
                "typing",
                "arguments",
                "others",
                "args",
                "__init__",
                "__debug__",
                "_private",
                "ﬁ",
                "é",
                "",
                " ",
                "3d",
                "constructor",
                "__proto__",
                "new",
                "get",
                HOSTILE,
                "print",
                "NotRequired",
                "Literal",
                "builtins",
                "dict",
            )
        },
        "required": ["max-size", "undeclared"],
    },
    "awkward members": {
        "properties": {
            "inner": {
                "type": "object",
                "title": "Any",
                "properties": {
                    name: {"type": "array", "items": {"type": "string"}} for name in ("list", "a-b", "__x", HOSTILE)
                },
            },
            "other": {
                "type": "object",
                "title": "Promise",
                "properties": {"list": {"type": "array"}, "dict": {"type": "object"}},
            },
            "third": {
                "type": "object",
                "title": HOSTILE,
                "properties": {"a": {}},
                "additionalProperties": {"type": "integer"},
            },
        }
    },
    "wrong": {
        "type": "objekt",
        "properties": {
            "a": 3,
            "b": [],
            "c": None,
            "d": "x",
            "e": {"type": 3},
            "f": {"type": []},
            "g": {"$ref": 3},
            "h": {"anyOf": 3},
        },
        "required": [1, None, "a"],
    },
    "no properties": {"properties": 3, "required": "a", "$defs": 3},
    "doubling": doubling(60),
    "doubling records": doubling(60, "properties"),
    "doubling unions": doubling(60, "anyOf"),
    "deep": nested(200),
    "wide": {"properties": {f"p{number}": {"type": "string"} for number in range(10_000)}, "required": ["p9999"]},
    "long texts": {"properties": {"a": {"type": "string", "description": "long " * 200_000, "title": "x" * 10_000}}},
    "long names": {"properties": {"n" * 100_000: {"type": "string"}}, "required": ["n" * 100_000]},
}

_NAMES = st.sampled_from(["a", "b", "list", "x-y", "class", "__x", HOSTILE, ""])
_SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
)
_KINDS = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", "other"])


def _around(inner):
    lists, named = st.lists(inner, max_size=3), st.dictionaries(_NAMES, inner, max_size=3)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _KINDS | st.lists(_KINDS, max_size=3),
            "properties": named,
            "required": st.lists(_NAMES, max_size=2),
            "additionalProperties": inner,
            "patternProperties": named,
            "items": inner | lists,
            "prefixItems": lists,
            "anyOf": lists,
            "oneOf": lists,
            "allOf": lists,
            "enum": st.lists(_SCALARS, max_size=3),
            "const": _SCALARS,
            "nullable": st.booleans(),
            "title": st.text(max_size=8) | st.just(HOSTILE),
            "description": st.text(max_size=20) | st.just(HOSTILE),
            "$ref": st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/$defs", "#/properties/a", "http://x.example/"]),
            "$defs": st.fixed_dictionaries({"a": inner, "b": inner}),
        },
    )


GENERATED = st.recursive(st.booleans() | st.just({}), _around, max_leaves=20)
OBJECTS = _around(GENERATED)


def definition(schema, output=None, *, name="create_issue", description="Create an issue.", server="github"):
    return Definition(server=server, name=name, description=description, input_schema=schema, output_schema=output)
