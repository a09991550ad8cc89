"""The line of every key, whatever the TOML looks like."""

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.config.sources.layers import merge, read_layer, walk, where


def layer(text, name="/a"):
    return read_layer(Path(name), text.encode())


TEXT = Path(__file__).with_name("intricate.toml").read_text()


def test_every_key_of_an_intricate_file_has_the_line_of_its_statement():
    lines = layer(TEXT).lines
    assert lines == {
        ("a",): 2,
        ("b c",): 3,
        ("b c", "d"): 3,
        ("t",): 5,
        ("t", "e"): 6,
        ("t", "e", 0): 6,
        ("t", "e", 1): 6,
        ("t", "e", 1, "f"): 6,
        ("t", "g"): 10,
        ("t", "i"): 13,
        ("t", "l"): 15,
        ("t", "l", "m"): 15,
        ("t", "l", "m", "n"): 15,
        ("u",): 16,
        ("u", "v"): 16,
        ("u", "v", 0): 16,
        ("u", "v", 0, "w"): 17,
        ("u", "v", 0, "x"): 18,
        ("u", "v", 0, "x", "y"): 19,
        ("u", "v", 1): 20,
        ("u", "v", 1, "w"): 21,
        ("u", "v", 1, "z"): 22,
        ("u", "v", 1, "z", 0): 22,
        ("u", "v", 1, "z", 0, "q"): 23,
        ("u", "v", 1, "z", 1): 24,
        ("u", "v", 1, "z", 1, "q"): 25,
        ("a.b",): 26,
        ("a.b", "c"): 27,
        ("a.b", "d"): 28,
        ("a.b", "e"): 29,
    }


def test_windows_line_ends_change_nothing():
    assert layer(TEXT.replace("\n", "\r\n")).lines == layer(TEXT).lines


STRINGS = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=8)
MULTILINE = st.text(st.sampled_from("ab#[]{}=,\n "), max_size=12)
VALUES = st.recursive(
    st.integers(-5, 5).map(str)
    | STRINGS.map(lambda text: json.dumps(text, ensure_ascii=False))
    | MULTILINE.map(lambda text: f'"""{text}"""')
    | MULTILINE.map(lambda text: f"'''{text}'''"),
    lambda below: st.lists(below, max_size=3).map(lambda items: "[ # [\n" + ",# ]\n".join(items) + "\n]"),
    max_leaves=5,
)
TABLES = st.lists(st.tuples(st.sampled_from(["[{}]", "[[{}]]"]), st.lists(VALUES, max_size=3)), max_size=4)


@given(st.lists(VALUES, max_size=3), TABLES)
def test_a_key_stands_where_it_was_written(top, tables):
    text, expected = "", {}

    def write(statement, key):
        nonlocal text
        expected[key] = text.count("\n") + 1
        text += f"{statement} # 'x\n\n"

    for index, value in enumerate(top):
        write(f'"k{index}" = {value}', (f"k{index}",))
    for number, (header, values) in enumerate(tables):
        table = (f"t{number}", 0) if header == "[[{}]]" else (f"t{number}",)
        write(header.format(f"t{number}"), table)
        for index, value in enumerate(values):
            write(f"k{index} = {value}", (*table, f"k{index}"))
    read = layer(text)
    assert expected.items() <= read.lines.items()
    assert {key for key, _ in walk(read.data)} == set(read.lines)


@for_each(
    "under, over, merged",
    [
        ("a.b = 1\na.c = 2", "a.b = 3", {"a": {"b": 3, "c": 2}}),
        ("a = [1, 2, 3]", "a = [4]", {"a": [4]}),
        ("a.b = 1", "a = 2", {"a": 2}),
        ("a = 2", "a.b = 1", {"a": {"b": 1}}),
        ("", "a = 1", {"a": 1}),
    ],
)
def test_a_later_file_overrides_key_by_key_and_arrays_whole(under, over, merged):
    assert merge([layer(under), layer(over, "/b")]) == merged


def test_a_key_that_is_missing_is_placed_at_what_should_have_it():
    layers = [layer('[[m]]\nsource = "x"\ntarget = "y"'), layer('\n[[m]]\nsource = "x"', "/b")]
    assert where(layers, ("m", 0, "target")) == "/b:2"
    assert where(layers, ("m", 0, "source")) == "/b:3"
    assert where(layers, ("n",)) is None
