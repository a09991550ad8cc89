"""Checks that the arguments of a call are JSON; an error says where they are not, and what to do."""

import json

DEPTH = 100
INT_BITS = 14_280  # below 4300 decimal digits, where readers of JSON stop
INSTEAD = (  # how to make JSON of what has this attribute
    ("isoformat", "value.isoformat()"),
    ("tolist", "value.tolist()"),
    ("to_dict", "value.to_dict('records')"),
    ("model_dump", "value.model_dump(mode='json')"),
    ("__dataclass_fields__", "dataclasses.asdict(value)"),
    ("__fspath__", "str(value)"),
    ("_asdict", "value._asdict()"),
    ("decode", "value.decode(), or base64.b64encode(value).decode()"),
    ("as_tuple", "str(value), or float(value)"),
    ("keys", "dict(value)"),
    ("__iter__", "list(value)"),
)


def require_json(value, path, depth=0):
    """Check that an argument is JSON: None, bool, int, finite float, str, list, tuple, dict with str keys.

    Subclasses count as well. Raises TypeError that names the place and what to do.
    """
    if isinstance(value, (list, tuple)):
        require_depth(path, depth)
        for number, item in enumerate(value):
            require_json(item, f"{path}[{number}]", depth + 1)
    elif isinstance(value, dict):
        require_depth(path, depth)
        for key, item in value.items():
            if not isinstance(key, str):
                raise no_json(path, f"has a {type(key).__name__} as a key", "make every key a str")
            require_text(key, path)
            require_json(item, f"{path}.{key}" if path else key, depth + 1)
    elif isinstance(value, str):
        require_text(value, path)
    elif isinstance(value, (int, float)):
        require_number(value, path)
    elif value is not None:
        raise no_json(path, f"is a {type(value).__name__}", f"pass {instead_of(value)}")


def require_depth(path, depth):
    """Refuse a nesting that JSON readers refuse."""
    if depth == DEPTH:
        raise no_json(path, f"is nested more than {DEPTH} deep, or contains itself", "pass something flatter")


def require_text(value, path):
    """Refuse text that is no Unicode."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise no_json(path, "has half of a surrogate pair", "repair the text where it is read") from None


def require_number(value, path):
    """Refuse numbers that JSON can't express, or its readers can't read."""
    if isinstance(value, int):
        if value.bit_length() > INT_BITS:
            raise no_json(path, "is a number of more than 4,300 digits", "pass it as a text")
    elif value - value != 0:
        raise no_json(path, f"is {value}", "pass None instead")


def instead_of(value):
    """What to pass instead, in Python."""
    for attribute, expression in INSTEAD:
        if hasattr(value, attribute):
            return expression
    return "a value of None, bool, int, float, str, list and dict"


def no_json(path, what, hint):
    """The error for an argument that is no JSON."""
    return TypeError(f"argument {path} {what}, and arguments must be JSON\nhint: {hint}")


KINDS = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}


def properties_of(schema):
    """The schemas of a tool's parameters by name. None where its server's schema has another shape."""
    properties = schema.get("properties")
    return properties if isinstance(properties, dict) else {}


def typed_by(schema):
    """The JSON types that a schema allows besides null, as far as it says so plainly: ``{"string", "integer"}``."""
    if not isinstance(schema, dict):
        return set()
    kinds = schema.get("type", ())
    found = {kinds} if isinstance(kinds, str) else {kind for kind in as_list(kinds) if isinstance(kind, str)}
    for choice in (*as_list(schema.get("anyOf")), *as_list(schema.get("oneOf"))):
        found |= typed_by(choice)
    values = [*as_list(schema.get("enum")), *([schema["const"]] if "const" in schema else ())]
    return (found or {KINDS[type(value)] for value in values}) - {"null"}


def as_list(value):
    """The value, if it is a list; else an empty one."""
    return value if isinstance(value, list) else []


def compact(value):
    """A value as a line of JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
