"""Tools are found by words, whatever the words are. H4."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.hub.schemas import HOSTILE, definition

from gloveport.hub.catalog import Catalog


def tool(name, description="", *, server="github", parameters=()):
    schema = {"type": "object", "properties": {key: {} for key in parameters}}
    return definition(schema, name=name, description=description, server=server)


@pytest.fixture
def catalog():
    catalog = Catalog()
    catalog.replace(
        "github",
        "Code hosting",
        [
            tool("create_issue", "Open a new issue in a repository"),
            tool("listIssues", "Issues of a repository, newest first"),
            tool("add_comment", "Comment on an issue", parameters=["issueNumber", "body"]),
            tool("HTTPServer2", "Restarts something"),
        ],
    )
    catalog.replace("slack", "Chat", [tool("send_message", "Post into a channel", server="slack")])
    return catalog


def found(catalog, query, limit=10, visible=lambda _: True):
    tools, total = catalog.search(query, limit, visible)
    return [tool.name for tool in tools], total


def test_who_says_a_word_again_and_again_does_not_come_first(catalog):
    """A server writes its own descriptions."""
    stuffed = "issue new repository open comment " * 60
    catalog.replace("stuffed", "", [tool("anything", stuffed, server="stuffed")])
    for query in ("issue", "new issue", "open a new issue in a repository", "comment"):
        assert found(catalog, query)[0][0] != "anything", query


def test_what_has_the_words_in_its_name_comes_first(catalog):
    """H4: ranked."""
    names, total = found(catalog, "create an issue")
    assert names[0] == "create_issue"
    assert (sorted(names), total) == (["add_comment", "create_issue", "listIssues"], 3)


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("list issues", "listIssues"),
        ("listIssues", "listIssues"),
        ("LISTISSUES", "listIssues"),
        ("server", "HTTPServer2"),
        ("http", "HTTPServer2"),
        ("add_comment", "add_comment"),
        ("number", "add_comment"),
        ("repositories", "listIssues"),
        ("posting", "send_message"),
        ("chat", "send_message"),
        ("slack", "send_message"),
        ("mess", "send_message"),
    ],
)
def test_words_are_found_in_compounds_parameters_servers_and_other_forms_of_them(catalog, query, name):
    """H4."""
    assert name in found(catalog, query)[0]


def test_without_a_word_everything_is_listed_in_order(catalog):
    everything = ["HTTPServer2", "add_comment", "create_issue", "listIssues", "send_message"]
    for query in ("", "  ", "*", '"', "-- ; '"):
        assert found(catalog, query) == (everything, 5)
    assert found(catalog, "", limit=2) == (everything[:2], 5)


def test_what_is_not_visible_is_neither_found_nor_counted(catalog):
    """H4: filtered by the same policy."""
    assert found(catalog, "issue", visible=lambda tool: tool.name != "create_issue")[1] == 2
    assert found(catalog, "", visible=lambda tool: tool.server == "slack") == (["send_message"], 1)


def test_words_are_never_commands_of_the_index(catalog):
    for query in (
        "issue AND nothing",
        "name: issue",
        "NEAR(create issue)",
        '"issue',
        "issue*",
        "^issue",
        "{name}: issue",
        "issue OR",
        "NOT issue",
        "issue\0",
        HOSTILE + " issue",
        "); drop table tool; -- issue",
    ):
        names, _ = found(catalog, query)
        assert "create_issue" in names, query
    assert len(found(catalog, "")[0]) == 5


@given(st.text())
def test_nothing_that_is_asked_for_breaks_the_search(query):
    catalog = Catalog()
    catalog.replace("github", "", [tool("create_issue")])
    names, total = found(catalog, query)
    assert total == len(names)


def test_a_huge_query_is_cut(catalog):
    assert found(catalog, "issue " * 1_000_000)[0][0] in {"create_issue", "listIssues"}
    assert found(catalog, " ".join(f"w{letter}" * 9 for letter in "abcdefgh" * 1000)) == ([], 0)


def test_what_a_server_offers_takes_the_place_of_what_it_offered(catalog):
    catalog.replace("github", "Code", [tool("close_issue")])
    assert found(catalog, "issue") == (["close_issue"], 1)
    catalog.replace("github", "Code", [])
    assert found(catalog, "") == (["send_message"], 1)
    catalog.replace("github", "Code", [tool("create_issue")])
    assert found(catalog, "issue") == (["create_issue"], 1)


def test_of_two_tools_with_one_name_the_first_counts(catalog):
    catalog.replace("liar", "", [tool("a", "first", server="liar"), tool("a", "second", server="liar")])
    (kept,), _ = catalog.search("", 10, lambda found: found.server == "liar")
    assert kept.description == "first"


def test_hostile_tools_are_found_like_others():
    catalog = Catalog()
    catalog.replace(HOSTILE, HOSTILE, [tool(HOSTILE, HOSTILE * 100_000, server=HOSTILE, parameters=[HOSTILE])])
    catalog.replace("strange", "", [definition({"properties": 3}, name="x", server="strange")])
    assert found(catalog, "import os")[1] == 1


def test_equal_ranks_come_in_one_order_whoever_was_first():
    names = [f"tool_{letter}" for letter in "abcdefgh"]
    answers = set()
    for seed in range(5):
        catalog = Catalog()
        servers = ["one", "two", "three"]
        random.Random(seed).shuffle(servers)
        for server in servers:
            shuffled = [tool(name, "the same", server=server) for name in names]
            random.Random(seed).shuffle(shuffled)
            catalog.replace(server, "", shuffled)
        answers.add(tuple((tool.server, tool.name) for tool in catalog.search("same", 100, lambda _: True)[0]))
    assert len(answers) == 1
