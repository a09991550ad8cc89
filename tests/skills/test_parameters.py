"""Arguments of a skill become values in its program, and never code."""

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.errors import Denied
from gloveport.skills.parameters import bind_arguments, find_parameters, schema_of

PYTHON = """MONTH: int = 11  # parameter: which month
NAME = 'x'  # parameter
RATES = [1.5, {"a": None}]  # parameter
total = 1  # parameters are above
"""
HOSTILE = (
    '\'"""); raise SystemExit(9) #',
    "`touch /x`$(touch /x)${x}\\",
    "*/ evil() /*",
    "\n\r\u2028",
    "{evil()}",
    "\\",
)


def bind(language, code, arguments):
    return bind_arguments(language, code, find_parameters(language, code), arguments)


def test_marked_constants_are_parameters():
    found = [one.parameter for one in find_parameters("python", PYTHON)]
    assert [(one.name, one.type, one.default) for one in found] == [
        ("month", "integer", 11),
        ("name", "string", "x"),
        ("rates", "array", [1.5, {"a": None}]),
    ]
    assert schema_of(found)["properties"]["month"] == {"type": "integer", "default": 11, "description": "which month"}
    typed = "export const city: string = 'Rome'; // parameter\r\nlet n = 2 // parameter: how many\n"
    assert [one.parameter.default for one in find_parameters("typescript", typed)] == ["Rome", 2]
    assert [
        one.parameter.default for one in find_parameters("shell", "export A='b c' # parameter\nN=3 # parameter")
    ] == [
        "b c",
        3,
    ]


def test_no_value_is_code_wherever_the_marked_line_stands():
    for text in HOSTILE:
        for around in ("{}", '"""\n{}\n"""', "'''\n{}\n'''", 'f"""\n{}\n"""'):
            code = bind("python", around.format("X = 'x'  # parameter") + "\n", {"x": text})
            run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
            assert run.returncode == 0, (text, around, run.stderr)
        for around in ("{}", "cat <<E\n{}\nE", 'echo "\n{}\n"', "echo '\n{}\n'"):
            code = bind("shell", around.format("X=x # parameter") + '\nfalse || printf %s "$X"', {"x": text})
            assert "touch /x" not in code, code
        code = bind("typescript", "const X = 'x'; // parameter", {"x": text})
        assert json.loads(code.removeprefix("const X = ").removesuffix("; // parameter")) == text


@given(
    st.recursive(
        st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_python_reads_the_very_value_that_was_given(value):
    code = bind("python", "X = []  # parameter\n", {"x": [value]})
    names = {}
    exec(code, names)
    assert names["X"] == [value]
    assert code.count("\n") == 1


def test_bash_reads_the_very_text_that_was_given():
    for text in (*HOSTILE, "é\U0001f600", ""):
        code = bind("shell", 'X=x # parameter\nprintf %s "$X"', {"x": text})
        said = subprocess.run(["bash", "-c", code], capture_output=True, check=True).stdout
        assert said.decode() == text


def test_what_does_not_fit_is_refused_in_words():
    for arguments, words in (
        ({"moon": 1}, "It takes: month, name, rates"),
        ({"month": "11"}, "It takes integer"),
        ({"month": True}, "It takes integer"),
        ({"name": None}, "It takes string"),
        ({"name": "x" * 300_000}, "more than"),
        ({"rates": {"eur": float("inf")}}, "is infinite"),  # written as `inf`, which the program may have defined
        ({"rates": {"eur": [float("nan")]}}, "is infinite or none"),
        ({"name": "\ud800"}, "half of a surrogate pair"),
    ):
        with pytest.raises(Denied, match=words):
            bind("python", PYTHON, arguments)
    for told in ("f()", "(1, 2)", "", "1e999", r'"\ud800"', r'{"\udfff": 1}'):  # half of a pair is no text
        line = f"X = {told}  # parameter"
        with pytest.raises(Denied, match="no literal"):
            find_parameters("python", line)
    with pytest.raises(Denied, match="two parameters x"):
        find_parameters("python", "X = 1  # parameter\nx = 2  # parameter")
    find_parameters("python", f"X = {' ' * 200_000}\n" * 3)
    find_parameters("typescript", f"const x {':' * 200_000}" + " // parameter")
