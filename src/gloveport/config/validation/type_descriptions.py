"""What a key takes, in words: the same for the reference and for every fault."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

from annotated_types import Ge, Gt, Le, Lt, MaxLen, MinLen
from pydantic import ByteSize, IPvAnyAddress, IPvAnyNetwork, JsonValue, SecretStr

from gloveport.config.validation.key_types import (
    Shape,
    below,
    element,
    is_mapping,
    is_of_tables,
    is_table,
    members,
    shape_of,
    shape_of_field,
    words,
)
from gloveport.model import Mount, Value
from gloveport.model.egress import (
    ApiName,
    HeaderName,
    HttpsUrl,
    Method,
    PlaceholderName,
    PlaceholderPlace,
    PlainText,
    Secret,
    UrlPath,
)
from gloveport.model.hub import (
    Directory,
    EnvironmentText,
    HeaderText,
    ServerName,
    ServerUrl,
    ToolPattern,
    VariableName,
)
from gloveport.model.workspace import HostPattern, VariablePattern


class Kind(Value):
    """What a key takes: ``expected`` completes "expected ...", ``hint`` says how to write it."""

    expected: str
    hint: str


_PATH = Kind(
    expected="an absolute path",
    hint='write the whole path from "/" on, without ".", ".." or a slash too many; "~" and variables are not expanded',
)
_TABLES, _TEXTUAL = "[{ ... }, { ... }]", '["a", "b"]'
_TEXT = Kind(expected="text", hint="write it in quotes")
_PLAIN: dict[object, Kind] = {
    bool: Kind(expected="true or false", hint="write it without quotes"),
    ByteSize: Kind(
        expected="a size",
        hint='a plain number is bytes; units are KiB, MiB, GiB (1024) and KB, MB, GB (1000), in quotes: "64MiB"',
    ),
    int: Kind(expected="a whole number", hint="write it without quotes, unit or decimal point"),
    float: Kind(expected="a number", hint="write it without quotes or unit"),
    Path: _PATH.model_copy(update={"expected": "an absolute path below /"}),
    SecretStr: _TEXT,
    JsonValue: Kind(expected="any value", hint="write it as TOML has it"),
    IPvAnyAddress: Kind(expected="an IP address", hint='write it in quotes: "10.0.0.5", "fd00::5"'),
    IPvAnyNetwork: Kind(
        expected="a network", hint='write its first address and the length of its prefix: "10.0.0.0/8", "fd00::/8"'
    ),
}


def _patterns(shape: Shape) -> Iterator[str]:
    return (item.pattern for item in shape.constraints if hasattr(item, "pattern"))


_SECRET = next(_patterns(shape_of(Secret)))
_PRIVATE = frozenset({_SECRET, *(next(_patterns(shape_of(text))) for text in (EnvironmentText, HeaderText, ServerUrl))})
"""Where a person may have written the secret itself."""

_TEXTS = {
    next(_patterns(shape_of(text))): kind
    for text, kind in (
        (
            Secret,
            Kind(
                expected="where a secret is, never the secret itself",
                hint='write "env:NAME", "file:/path", "json:/path#/pointer", "command:PROGRAM ARGUMENT" or '
                '"keyring:SERVICE/USER"',
            ),
        ),
        (
            ApiName,
            Kind(expected="a name of at most 64 small letters, digits, - and _", hint="rename it, as in my-api_2"),
        ),
        (HeaderName, Kind(expected="the name of a header", hint='write the name alone: "X-Api-Key"')),
        (Method, Kind(expected="an HTTP method in capitals", hint='write it as "GET"')),
        (HttpsUrl, Kind(expected="an https:// address", hint="secrets are sent to it: they never leave unencrypted")),
        (PlainText, Kind(expected="text in one line", hint="leave out line ends and other control characters")),
        (
            PlaceholderName,
            Kind(
                expected="the name of an environment variable, of at most 64 capitals, digits and _",
                hint='write it as "API_TOKEN"',
            ),
        ),
        (
            PlaceholderPlace,
            Kind(
                expected="one named place of a request",
                hint='write "header:NAME", "query:NAME", "form:FIELD" or "body:MEMBER.MEMBER"; '
                "a whole body or all headers can't be named",
            ),
        ),
        (
            ServerName,
            Kind(
                expected="a name of at most 64 letters, digits, ., _ and -, the first a letter or a digit",
                hint="rename it, as in my-server",
            ),
        ),
        (
            ToolPattern,
            Kind(
                expected="the name of a tool, in which * stands for any characters",
                hint='write it as "create_issue", "create_*" or "*"',
            ),
        ),
        (VariableName, Kind(expected="the name of an environment variable", hint='write it as "API_URL"')),
        (
            ServerUrl,
            Kind(
                expected="an http:// or https:// address without a user or a fragment",
                hint='write it as "https://mcp.example.com/mcp"; credentials belong in auth',
            ),
        ),
        (EnvironmentText, Kind(expected="text without a null character", hint="write it in quotes")),
        (
            HeaderText,
            Kind(expected="a header's value in printable ASCII", hint="write it in quotes, without line ends"),
        ),
        (
            HostPattern,
            Kind(
                expected="the name of a host in small letters, in which * stands for any characters",
                hint='write it as "pypi.org" or "*.example.com"',
            ),
        ),
        (
            VariablePattern,
            Kind(
                expected="the name of an environment variable, in which * stands for any characters",
                hint='write it as "LANG" or "LC_*"',
            ),
        ),
        (Directory, _PATH),
        (UrlPath, Kind(expected="the path of a URL", hint='write it from "/" on, without host and query: "/v1/**"')),
    )
} | {next(_patterns(shape_of_field(Mount.model_fields[name]))): _PATH for name in ("source", "target")}


def kind_of(shape: Shape) -> Kind:
    """Say what a key of this type takes."""
    form = shape.form
    if allowed := words(form):
        expected = "one of " + ", ".join(f'"{word}"' for word in allowed)
        return Kind(expected=expected, hint="write one of these words, in quotes")
    if tables := members(form):
        expected = kind_of(choice(tables)).expected
        return Kind(expected=f"a table whose kind is {expected}", hint='write it as { kind = "KIND", ... }')
    if is_mapping(form):
        return _kind_of_mapping(form)
    if inner := element(form):
        expected = f"an array{_bounds(shape.constraints, unit='elements')}, each element {kind_of(inner).expected}"
        return Kind(expected=expected, hint=f"write it as {_TABLES if is_of_tables(form) else _TEXTUAL}")
    if is_table(form):
        return Kind(expected="a table", hint=f"its keys are: {', '.join(form.model_fields)}")
    kind = next((_TEXTS[pattern] for pattern in _patterns(shape)), _TEXT) if form is str else _PLAIN[form]
    return kind.model_copy(update={"expected": kind.expected + _bounds(shape.constraints)})


def _kind_of_mapping(form: object) -> Kind:
    names, values = (shape_of(inner) for inner in get_args(form))
    expected = f"a table, each key {kind_of(names).expected}"
    if is_table(values.form):
        return Kind(expected=expected, hint="write each as a table of its own")
    return Kind(expected=f"{expected}, each value {kind_of(values).expected}", hint='write it as { NAME = "value" }')


def choice(allowed: Iterable[str]) -> Shape:
    """Give the type of a key that is one of these words."""
    return Shape(Literal[tuple(allowed)])


def is_secret(shape: Shape) -> bool:
    """Tell whether a key takes the place of a secret."""
    return _SECRET in _patterns(shape)


def is_private(shape: Shape) -> bool:
    """Tell whether a person may have written a secret where this type is expected: then no message shows the value."""
    return (
        shape.form is SecretStr
        or not _PRIVATE.isdisjoint(_patterns(shape))
        or any(is_private(inner) for _, inner in below(shape.form))
    )


def _bounds(constraints: Sequence[object], *, unit: str = "characters") -> str:
    bounds = ""
    for item in constraints:
        match item:
            case Gt():
                bounds += f", above {item.gt}"
            case Ge():
                bounds += f", at least {item.ge}"
            case Lt():
                bounds += f", below {item.lt}"
            case Le():
                bounds += f", at most {item.le}"
            case MinLen(min_length=1):
                bounds += ", not empty"
            case MinLen():
                bounds += f", of at least {item.min_length} {unit}"
            case MaxLen():
                bounds += f", of at most {item.max_length} {unit}"
            case _:  # not a bound
                pass
    return bounds
