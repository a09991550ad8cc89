"""What JSON and TOML hold becomes a value, or everything is told that keeps it from being one."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

import pytest

from gloveport.model import Limits
from gloveport.model.byte_size import ByteSize
from gloveport.model.constraints import AwareDatetime, Constraints
from gloveport.model.pydantic_models import validate
from gloveport.model.reading import CheckedValue, WrongShapeError, read_json, read_value
from gloveport.model.value import Value


class Leaf(Value):
    number: Annotated[int, Constraints(ge=1, le=5)] = 1
    share: Annotated[float, Constraints(gt=0, le=1, allow_inf_nan=False)] = 1
    name: Annotated[str, Constraints(pattern="^a|b$", max_length=3)] = "a"
    flag: bool = False
    word: Literal["x", "y"] = "x"


class Tree(Value):
    kinds: frozenset[Literal["x", "y"]] = frozenset()
    pair: tuple[int, str] | None = None
    leaves: tuple[Leaf, ...] = ()
    named: Mapping[Annotated[str, Constraints(pattern="^[a-z]+$")], Leaf] = {}
    anything: Any = None


class Host(CheckedValue):
    name: Annotated[str, Constraints(pattern=r"^\S+$")]


WRONG = {
    "number": ["1", True, 1.0, 0, 6, None, [1], 10**400],
    "share": ["1", True, 0, 1.5, math.inf, math.nan, None, 10**400],
    "name": [1, "a\n", "ax", "xb", "", None, "\ud800", b"a"],
    "flag": [1, 0, "true", None],
    "word": ["X", "x\n", 1, None, ["x"]],
}


def test_nothing_is_taken_for_what_it_is_not():
    """T5: "5" is no number, 1 is not true, and an end of a line is a part of a text."""
    for name, values in WRONG.items():
        for value in values:
            with pytest.raises(WrongShapeError) as caught:
                read_value(Leaf, {name: value})
            assert [(one.path, one.kind) for one in caught.value.faults] == [((name,), "value")], (name, value)


def test_what_is_right_becomes_a_value_of_the_type_that_the_field_has():
    told = b'{"kinds": ["y", "x", "y"], "pair": [1, "a"], "named": {"a": {"share": 1}}, "anything": {"b": [null]}}'
    tree = read_json(Tree, told)
    assert tree == Tree(
        kinds=frozenset({"x", "y"}), pair=(1, "a"), named={"a": Leaf(share=1.0)}, anything={"b": [None]}
    )
    assert isinstance(tree.named["a"].share, float)


def test_all_that_is_wrong_is_told_at_once_and_of_a_wrong_name_nothing_more():
    told = {"leaves": [{}, {"number": 9, "nmae": 1}], "named": {"A": 1, "B": {"flag": 1}}, "pair": [1], "more": 1}
    with pytest.raises(WrongShapeError) as caught:
        read_value(Tree, told)
    assert [(one.path, one.kind) for one in caught.value.faults] == [
        (("pair",), "value"),
        (("leaves", 1, "number"), "value"),
        (("leaves", 1, "nmae"), "unknown"),
        (("named", "A"), "name"),
        (("named", "B"), "name"),
        (("named", "B", "flag"), "value"),
        (("more",), "unknown"),
    ]


def test_a_document_with_a_million_faults_ends_at_a_thousand():
    with pytest.raises(WrongShapeError) as caught:
        read_value(Tree, {"leaves": [1] * 1_000_000})
    assert len(caught.value.faults) == 1000
    with pytest.raises(WrongShapeError) as caught:
        read_value(Tree, {"named": {f"A{number}": {} for number in range(5000)}})
    assert len(caught.value.faults) == 1000


def test_of_what_is_too_long_nothing_is_read():
    """T5: whoever reads a million elements of at most three holds everybody up."""

    class Untouched(list[int]):
        def __iter__(self):
            raise AssertionError

    class Short(Value):
        few: Annotated[tuple[int, ...] | None, Constraints(max_length=3)] = None

    with pytest.raises(WrongShapeError) as caught:
        read_value(Short, {"few": Untouched(range(4))})
    assert [one.path for one in caught.value.faults] == [("few",)]


MORE = ("64MiB or so", "1.5.2GiB", "1MiB\0", "64MiB;")


def test_a_size_is_a_number_of_bytes_or_a_text_with_a_unit():
    sizes = {"1": 1, " 2 kb": 2000, "1.5KiB": 1536, "8kbit": 1000, "3k": 3000, ".5MiB": 1 << 19, "1_000": 1000}
    assert {text: ByteSize.parse(text) for text in sizes} == sizes
    for wrong in (-1, True, 1.0, None, "", "MiB", "1xb", "5ib", "-1", "9" * 5000, "1e400\n", [], *MORE):
        with pytest.raises(ValueError, match="not a size"):
            ByteSize.parse(wrong)


@pytest.mark.parametrize("wrong", MORE)
def test_a_text_that_begins_with_a_size_is_none_to_pydantic_either(wrong):
    assert validate(ByteSize, " 64 MiB ") == 64 << 20
    with pytest.raises(ValueError, match="could not parse value and unit"):
        validate(ByteSize, wrong)


def test_a_moment_has_its_time_zone():
    assert read_value(AwareDatetime, "2026-01-01T00:00:00Z").tzinfo is not None
    for wrong in ("2026-01-01T00:00:00", "2026", 5, None):
        with pytest.raises(WrongShapeError):
            read_value(AwareDatetime, wrong)


def test_what_others_have_a_say_in_is_checked_when_it_is_made():
    """T1: a name with a blank would be two in a file of hosts."""
    assert Host(name="a").name == "a"
    for make in (lambda: Host(name="a b"), lambda: Host(name="a").model_copy(update={"name": "a\n"})):
        with pytest.raises(WrongShapeError):
            make()


def test_a_pattern_of_a_part_of_a_text_is_none():
    with pytest.raises(ValueError, match=r"a\+"):
        Constraints(pattern="a+$")


def test_what_is_dumped_is_what_was_read():
    dumped = Limits().model_dump_json()
    assert '"wall_seconds":300.0,' in dumped
    assert read_json(Limits, dumped) == Limits()
    assert Leaf(number=2).model_dump(exclude_defaults=True) == {"number": 2}


def test_a_field_is_dumped_as_its_type_has_it_whatever_else_the_value_knows():
    class Named(Leaf):
        secret: str = "s3cr3t"

    tree = Tree(leaves=(Named(),), named={"a": Named()})
    assert "s3cr3t" not in f"{tree.model_dump()}{tree.model_dump(mode='json')}{tree.model_dump_json()}"
