"""Reads and edits a configuration as git does."""

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gloveport.policy.decisions.git_config_keys import ConfigKey
from gloveport.workspace.protected.config_text import decode, encode, read_values, set_values

PIECES = (
    *("[core]", '[Branch "a"]', '[branch "x.Y"]', "[a.B]", '[b "\\"c\\\\"]', "[core] bare = true", " [user]"),
    *("name = Ann", "name=", "Flag", 'x = " a ; b" # c', "x = a ; b", "y = a\\", 'z = "a\\', " b", "# x", "; [c]"),
    *('q = a "b  c" d  ', 'e = \\t\\"\\\\', "name = \xfc", "k = 'a'", "# \\", "x = a # \\", "merge = refs/heads/x"),
)
TEXTS = st.lists(st.sampled_from(PIECES), max_size=8).map("\n".join)
CHANGES = {
    ConfigKey("branch", "a", "remote"): ("origin",),
    ConfigKey("branch", "x.Y", "merge"): (),
    ConfigKey("user", None, "name"): ("Ann #1; x",),
    ConfigKey("core", None, "bare"): (),
}


def git_values(text):
    """What git reads in it; None where it reads nothing of it."""
    argv = ["git", "config", "--file", "-", "--no-includes", "--list", "-z"]
    done = subprocess.run(argv, input=encode(text), capture_output=True, check=False)
    return None if done.returncode else [one for one in decode(done.stdout).split("\0") if one]


def listed(values):
    return sorted(str(key) if value is None else f"{key}\n{value}" for key, found in values.items() for value in found)


@given(TEXTS)
def test_what_is_read_is_what_git_reads(text):
    """W4"""
    try:
        values = read_values(text)
    except ValueError:
        return
    assert listed(values) == sorted(git_values(text) or [])


@given(TEXTS)
def test_what_is_edited_says_to_git_what_it_should_and_nothing_else(text):
    """W4: what stands beside it stays, comments and all."""
    try:
        before, edited = read_values(text), set_values(text, CHANGES)
    except ValueError:
        return
    expected = {key: values for key, values in {**before, **CHANGES}.items() if values}
    assert sorted(git_values(edited) or []) == listed(expected)
    assert {*filter(lambda line: line.startswith("#"), text.split("\n"))} <= {*edited.split("\n")}


@pytest.mark.parametrize(
    "text",
    ["x = 1", "[a]\r\n", "[a]\nx = \0", "[a\n", '[a "b]', "[a]\n1 = 2", "[a]\nx = \\q", '[a]\nx = "b', "[a] [b]"],
)
def test_what_is_not_read_plainly_is_an_error(text):
    """W4"""
    with pytest.raises(ValueError, match="it h"):
        read_values(text)
