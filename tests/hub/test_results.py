"""What a tool has answered becomes a value, and no secret comes with it. H3, N6."""

import base64

import mcp_types as wire
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.schemas import definition

from gloveport.errors import UpstreamError
from gloveport.hub.results import error_text, result_of
from gloveport.secrets.scrub import Needles, scrub_text

SECRET = "sk-live-0123456789"
NEEDLES = Needles.of({"key": SECRET, "number": "123456789012"})
MARK = "[secret key]"


def scrub(text):
    return scrub_text(NEEDLES, text)


def text(*texts):
    return [wire.TextContent(text=text) for text in texts]


def value(content=(), structured=None, output=None):
    result = wire.CallToolResult(content=list(content), structured_content=structured)
    made = result_of(result, definition({}, output), scrub)
    return made["kind"], made["value"]


def nested(levels):
    inner = 1
    for _ in range(levels):
        inner = [inner]
    return inner


@pytest.mark.parametrize("structured", [{"a": float("nan")}, {"a": nested(100)}, {"a": float("-inf")}])
def test_structured_content_that_can_t_be_told_is_no_empty_text(structured):
    """H3: it became "" without a word."""
    with pytest.raises(UpstreamError, match="structured content that is no JSON") as caught:
        value(structured=structured)
    assert caught.value.code == "bad_answer"


@pytest.mark.parametrize(
    ("content", "structured", "kind", "expected"),
    [
        (text("ignored"), {"a": 1}, "structured", {"a": 1}),
        (text(), {}, "structured", {}),
        (text('{"a": [1, 2.5, null]}'), None, "json", {"a": [1, 2.5, None]}),
        (text(" [1]\n"), None, "json", [1]),
        (text("12345"), None, "text", "12345"),
        (text("null"), None, "text", "null"),
        (text("{broken"), None, "text", "{broken"),
        (text("[NaN]"), None, "text", "[NaN]"),
        (text('{"a": "\\ud800"}'), None, "text", '{"a": "\\ud800"}'),
        (text("[" * 5000), None, "text", "[" * 5000),
        (text("[" * 150 + "]" * 150), None, "text", "[" * 150 + "]" * 150),
        (text("a", "b"), None, "text", "a\nb"),
        (text("[1]", "[2]"), None, "text", "[1]\n[2]"),
        (text(), None, "text", ""),
        ([*text("a"), wire.ImageContent(data="aGk=", mime_type="image/png")], None, "blocks", None),
        (text("text"), {"a": float("nan")}, "text", "text"),
        (text("text"), {"a": nested(100)}, "text", "text"),
        (text("text"), {"a": nested(99)}, "structured", {"a": nested(99)}),
    ],
)
def test_the_value_is_what_is_most_exactly_said(content, structured, kind, expected):
    """H3: structured content, else JSON, else text, else the blocks alone."""
    assert value(content, structured) == (kind, expected)


ONE = {"type": "object", "properties": {"result": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("output", "structured", "expected"),
    [
        (ONE, {"result": 3}, 3),
        (ONE, {"result": None}, None),
        (None, {"result": 3}, {"result": 3}),
        ({"type": "object"}, {"result": 3}, {"result": 3}),
        (ONE, {"result": 3, "more": 4}, {"result": 3, "more": 4}),
        (ONE, {}, {}),
        ({"properties": {"result": {}, "more": {}}}, {"result": 3}, {"result": 3}),
        ({"properties": {"results": {}}}, {"results": 3}, {"results": 3}),
    ],
)
def test_a_plain_value_is_unwrapped_where_the_schema_says_that_it_is_wrapped(output, structured, expected):
    """H3: and nowhere else, for then it is the tool's own."""
    assert value([], structured, output) == ("structured", expected)


def test_every_block_is_reachable():
    """H3: as it is on the wire."""
    blocks = [
        wire.TextContent(text="a"),
        wire.ImageContent(data="aGk=", mime_type="image/png"),
        wire.EmbeddedResource(resource=wire.TextResourceContents(uri="file:///a", text="b", mime_type="text/plain")),
        wire.ResourceLink(uri="file:///c", name="c"),
    ]
    assert result_of(wire.CallToolResult(content=blocks), definition({}), scrub)["blocks"] == [
        {"type": "text", "text": "a"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a", "mimeType": "text/plain", "text": "b"}},
        {"type": "resource_link", "name": "c", "uri": "file:///c"},
    ]


@pytest.mark.parametrize(
    "result",
    [
        wire.CallToolResult(content=text(SECRET)),
        wire.CallToolResult(content=text(f'{{"{SECRET}": ["{SECRET}"]}}')),
        wire.CallToolResult(content=text('["' + "".join(f"\\u{ord(c):04x}" for c in SECRET) + '"]')),
        wire.CallToolResult(content=[], structured_content={"a": [{"b": SECRET, SECRET: 1}]}),
        wire.CallToolResult(content=[], structured_content={"a": 123456789012, "b": [-123456789012, 123456789012.0]}),
        wire.CallToolResult(
            content=[wire.ImageContent(data=base64.b64encode(SECRET.encode()).decode(), mime_type=SECRET)]
        ),
        wire.CallToolResult(
            content=[
                wire.EmbeddedResource(resource=wire.TextResourceContents(uri=f"file:///{SECRET}", text=SECRET)),
                wire.EmbeddedResource(
                    resource=wire.BlobResourceContents(
                        uri="a:b", blob=base64.b64encode(b"x" + SECRET.encode()).decode()
                    )
                ),
                wire.ResourceLink(
                    uri=f"https://x.example/?key={SECRET}", name=SECRET, description=SECRET, title=SECRET
                ),
                wire.TextContent(text="a", _meta={SECRET: SECRET}),
            ]
        ),
    ],
    ids=lambda result: str(result)[:40],
)
def test_no_secret_is_in_what_a_program_gets(result):
    """N6, P19: in texts, names, addresses, numbers, and in base64."""
    made = str(result_of(result, definition({}), scrub))
    for form in (SECRET, "123456789012", base64.b64encode(SECRET.encode()).decode()[:20]):
        assert form not in made
    assert "[secret " in made


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


@given(JSON)
def test_a_value_without_secrets_comes_as_it_is(structured):
    assert value([], {"a": structured}) == ("structured", {"a": structured})


def test_the_text_of_an_error():
    """H3: a failure is told in the tool's words."""
    failed = wire.CallToolResult(
        content=[*text("no", "such"), wire.ImageContent(data="", mime_type="a/b")], is_error=True
    )
    assert error_text(failed) == "no\nsuch"
    assert error_text(wire.CallToolResult(content=[], structured_content={"a": 1}, is_error=True)) == '{"a": 1}'
    assert error_text(wire.CallToolResult(content=[], is_error=True)) == "the tool has failed and does not say why"


def test_a_document_of_millions_of_members_stays_text():
    """H3: to read it would keep everybody waiting; to look through its text does not."""
    lists = "[" + "[]," * 1_000_000 + f'"{SECRET}"]'
    kind, found = value(text(lists))
    assert kind == "text"
    assert found.endswith(f'"{MARK}"]')
