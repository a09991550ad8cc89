"""The names of servers and tools in programs: one mapping, which loses and confuses nothing. H2."""

import keyword
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.hub.names import exposed_names, split_legacy

NAMES = (
    st.text(st.sampled_from("ab_-.2é A\u202e\0"), max_size=6) | st.text(max_size=8) | st.sampled_from(keyword.kwlist)
)


@given(st.lists(NAMES, max_size=12))
def test_every_original_has_one_name_that_every_language_can_write(originals):
    """H2: injective, whatever the names are."""
    names = exposed_names(originals)
    assert sorted(names.values()) == sorted(set(originals))
    for name in names:
        assert name.isidentifier()
        assert name.isascii()
        assert not keyword.iskeyword(name)
        assert not name.startswith("__")


@given(st.lists(NAMES, max_size=8), st.randoms(use_true_random=False))
def test_the_order_in_which_a_server_lists_its_tools_changes_no_name(originals, order: random.Random):
    shuffled = list(originals)
    order.shuffle(shuffled)
    assert exposed_names(shuffled) == exposed_names(originals)


@given(st.lists(NAMES, max_size=8))
def test_a_name_that_is_an_original_too_means_that_original(originals):
    """H2: a program may use both kinds of name, so no exposed name may lead to another tool than the original does."""
    names = exposed_names(originals)
    assert all(names[name] == name for name in names.keys() & set(originals))


@pytest.mark.parametrize(
    ("original", "exposed"),
    [
        ("create-issue", "create_issue"),
        ("files.read", "files_read"),
        ("Größe", "Gr__e"),
        ("3d", "_3d"),
        ("class", "class_"),
        ("None", "None_"),
        ("__class__", "_class__"),
        ("__proto__", "_proto__"),
        ("__3", "_3"),
        ("", "_"),
        ("///", "_"),
        ("a" * 500, "a" * 100),
    ],
)
def test_the_mapping_is_as_documented(original, exposed):
    """H2."""
    assert exposed_names([original]) == {exposed: original}


def test_names_that_come_to_the_same_are_numbered_in_the_order_of_the_originals():
    """H2."""
    assert exposed_names(["a b", "a.b", "a-b"]) == {"a_b": "a b", "a_b_2": "a-b", "a_b_3": "a.b"}
    assert exposed_names(["a-b", "a_b", "a_b_2"]) == {"a_b_3": "a-b", "a_b": "a_b", "a_b_2": "a_b_2"}


def test_thousands_of_names_that_come_to_the_same_are_no_burden():
    names = exposed_names("-" * number for number in range(1, 101)) | exposed_names(
        f"{'a' * 100}{number}" for number in range(20_000)
    )
    assert len(names) == 20_100


@pytest.mark.parametrize(
    ("name", "meanings"),
    [
        ("mcp__github__create_issue", [("github", "create_issue")]),
        ("mcp__files__fs.read", [("files", "fs.read")]),
        ("mcp__a__b__c", [("a", "b__c"), ("a__b", "c")]),
        ("mcp__a___b", [("a", "_b"), ("a_", "b")]),
        ("mcp____a", []),
        ("mcp__a__", []),
        ("mcp__a", []),
        ("a__b", []),
        ("", []),
        ("mcp__" + "_" * 600, []),
    ],
)
def test_an_old_name_is_split_wherever_it_can_be(name, meanings):
    """H2: the existing names; both parts may hold two underscores."""
    assert list(split_legacy(name)) == meanings


@given(st.text("ab_.", min_size=1, max_size=5), st.text("ab_.", min_size=1, max_size=5))
def test_what_was_joined_is_among_what_is_split(server, tool):
    assert (server, tool) in split_legacy(f"mcp__{server}__{tool}")
