"""Tools as Python declarations: whatever a server says, what is made of it parses, and says what is known. H2."""

import ast
import keyword
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from tests.hub.schemas import GENERATED, HOSTILE, OBJECTS, SCHEMAS, definition

from gloveport.hub.names import exposed_names
from gloveport.hub.stubs.python_stubs import module, signature, stub


def every_module():
    """All schemas, as what goes in and as what comes out, and names that hide what annotations are made of."""
    names = [
        *SCHEMAS,
        "list",
        "str",
        "Any",
        "typing",
        "_typing",
        "builtins",
        "_builtins",
        "Literal",
        "match",
        "Promise",
    ]
    exposed = exposed_names(names)
    return {
        name: definition(SCHEMAS.get(own, SCHEMAS["usual"]), SCHEMAS.get(own), name=own)
        for name, own in exposed.items()
    }


def test_a_signature_is_one_line_that_tells_all():
    """H2, H4."""
    issue = {"type": "object", "title": "Issue", "properties": {"id": {"type": "integer"}}}
    assert signature(definition(SCHEMAS["usual"], issue), "create_issue") == (
        'create_issue(*, title: str, labels: list[str] = ..., state: Literal["open", "closed"] = ..., '
        "count: int | None = ...) -> Issue"
    )


def test_a_stub_has_types_and_texts():
    """H2."""
    issue = {
        "type": "object",
        "title": "Issue",
        "description": "An issue.",
        "properties": {"id": {"type": "integer", "description": "Its number"}, "parent": {"$ref": "#"}},
        "required": ["id"],
    }
    assert (
        stub(definition(SCHEMAS["usual"], issue), "create_issue")
        == '''\
class Issue(TypedDict):
    """An issue."""
    id: int  # Its number
    parent: NotRequired[Issue]

def create_issue(
    *,
    title: str,
    labels: list[str] = ...,
    state: Literal["open", "closed"] = ...,
    count: int | None = ...,
) -> Issue:
    """Create an issue.

    Args:
        title: Title of the issue
    """
    ...
'''
    )


def test_names_that_are_none_in_python_go_into_a_dict():
    """H2: awkward names are reachable, and said so."""
    schema = {
        "properties": {"max-size": {"type": "integer"}, "class": {}, "url": {"type": "string"}},
        "required": ["class"],
    }
    assert signature(definition(schema), "fetch") == (
        'fetch(arguments: dict[Literal["class", "max-size"], Any], /, *, url: str = ...) -> Any'
    )
    text = stub(definition(schema), "fetch")
    assert '"max-size": NotRequired[int],' in text
    assert "    arguments: FetchArguments,\n    /,\n    *,\n    url: str = ...,\n" in text


def test_what_is_not_declared_is_said_to_be_so():
    """H2: no schema at all, and an absent output schema."""
    assert signature(definition({}), "do") == "do(**others: Any) -> Any"
    assert signature(definition({"type": "object"}), "do") == "do(**others: Any) -> Any"
    assert signature(definition({"type": "object", "properties": {}}), "do") == "do() -> Any"
    assert signature(definition({"type": "object", "additionalProperties": False}), "do") == "do() -> Any"
    assert signature(definition({"properties": {}, "additionalProperties": {}}), "do") == "do(**others: Any) -> Any"
    assert "does not declare what the result looks like" in stub(definition({}), "do")
    assert "does not declare" not in stub(definition({}, {"type": "object"}), "do")


def test_a_result_that_programs_get_unwrapped_is_declared_unwrapped():
    """H3: the stub says what the program gets."""
    output = {
        "$defs": {"n": {"type": "integer"}},
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/n"}}},
    }
    assert signature(definition({"properties": {}}, output), "do") == "do() -> list[int]"


def test_recursion_has_a_name_and_an_end():
    """H2."""
    text = stub(definition(SCHEMAS["any json"]), "put")
    assert "Json: TypeAlias = str | float | bool | None | list[Json] | dict[str, Json]" in text
    assert "self: int = ..." in text
    assert "next: NotRequired[Node]" in stub(definition(SCHEMAS["recursive"]), "put")
    assert "x: Any = ..." in stub(definition(SCHEMAS["loop"]), "put")


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_gives_a_declaration_that_parses(name):
    tool = definition(SCHEMAS[name], SCHEMAS[name], description=HOSTILE, name=HOSTILE, server=HOSTILE)
    ast.parse(f"def {signature(tool, 'tool')}: ...")
    ast.parse(stub(tool, "tool"))
    assert signature(tool, "tool").isprintable()


@settings(max_examples=settings.default.max_examples // 2)  # each takes a hundred times as long as most do
@given(GENERATED | OBJECTS, GENERATED | OBJECTS)
def test_every_schema_that_chance_makes_gives_a_declaration_that_parses(taken, given_back):
    taken = taken if isinstance(taken, dict) else {}
    tool = definition(taken, given_back if isinstance(given_back, dict) else None)
    line, text = signature(tool, "tool"), module("server", "", {"tool": tool, "list": tool})
    ast.parse(f"def {line}: ...")
    assert "\n" not in line
    defined = [node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    assert defined == ["tool", "list"]


def test_nothing_that_a_server_says_becomes_code():
    """T2: a declaration is text that people and models trust; only what we wrote may be code in it."""
    tools = {
        name: definition({"properties": {HOSTILE: {"description": HOSTILE, "const": HOSTILE}}}, description=hostile)
        for name, hostile in zip("abcd", ('"""\nimport os\n"""', HOSTILE, '\\"""', '""""\\'), strict=True)
    }
    text = module("server", HOSTILE, tools)
    allowed = ast.Expr | ast.ImportFrom | ast.Assign | ast.FunctionDef
    assert all(isinstance(node, allowed) for node in ast.parse(text).body)
    assert not [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute | ast.Import)]
    assert all(line.isprintable() for line in text.split("\n"))


def test_what_is_endless_is_cut():
    for name, schema in SCHEMAS.items():
        tool = definition(schema, schema, description="long " * 200_000)
        began = time.thread_time()
        assert len(stub(tool, "tool")) < 200_000, name
        assert len(signature(tool, "tool")) < 8_000, name
        assert time.thread_time() - began < 1, name
    text = stub(definition(SCHEMAS["wide"]), "wide")
    assert "p9999: str,\n" in text, "what is required comes first"
    assert "It has 9800 more parameters" in text
    assert "    **others: Any,\n" in text


def test_all_of_it_satisfies_a_type_checker(tmp_path):
    """H2: typed stubs, for mypy too; and a program that uses them is checked by them."""
    (tmp_path / "everything.pyi").write_text(module("everything", HOSTILE, every_module()))
    (tmp_path / "program.py").write_text(
        "import everything\n"
        'everything.usual(title="x", labels=["a"])["title"]\n'
        'everything.awkward_names({"max-size": "x"}, undeclared=2, list="x")\n'
        "everything.usual(title=1)\n"
        "everything.usual()\n"
    )
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir", "/dev/null", "program.py"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.splitlines()
    assert [line.partition(" error: ")[::2] for line in told if " note: " not in line] == [
        ("program.py:4:", 'Argument "title" to "usual" has incompatible type "int"; expected "str"  [arg-type]'),
        ("program.py:5:", 'Missing named argument "title" for "usual"  [call-arg]'),
    ]


def test_names_of_parameters_are_never_keywords():
    tree = ast.parse(stub(definition(SCHEMAS["awkward names"]), "f"))
    assert not [node.arg for node in ast.walk(tree) if isinstance(node, ast.arg) and keyword.iskeyword(node.arg)]
