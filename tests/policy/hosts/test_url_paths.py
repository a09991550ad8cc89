"""Paths: what servers may read in two ways, and what a pattern means."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.policy.hosts.url_paths import ambiguous, matches

LONG = 64 * 1024


@for_each(
    "path",
    [
        "/..",
        "/.",
        "/a/../b",
        "/a/./b",
        "/a/..",
        "/%2e%2e/b",
        "/a/%2E./b",
        "/a/.%2e",
        "/a/%2e",
        "/a/..;/b",
        "/a/..%3b/b",
        "/a/%2e%2E%3Bx=1/b",
        "/a;x=1/b",
        "/a;",
        "//a",
        "//",
        "/a//b",
        "/a/b//",
        "/a\\b",
        "/a%5cb",
        "/a%5Cb",
        "/a%2fb",
        "/a%2Fb",
        "/a%252fb",
        "/a%252e%252e",
        "/%2561dmin",
        "/%25252e",
        "/a/%25%32%65",
        "/a/%252%45",
        "/a/%25%36%31dmin",
        "/a%",
        "/a%2",
        "/a%zz",
        "/a%u002e",
        "/a%00",
        "/a%0d%0a",
        "/a%1F",
        "/a%7f",
        "/a b",
        "/a\tb",
        "/a\x00",
        "/a\x7f",
        "/ä",
        "/a\u2215b",
        "/\udc80",
        "/%c0%ae%c0%ae/b",
        "/%e0%80%af",
        "/caf%e9",
        "/a?x",
        "/a#x",
        "",
        "a",
        "*",
        "http://example.com/a",
    ],
)
def test_what_servers_read_in_two_ways_is_ambiguous(path):
    """N2 N8: no rule is walked around by another spelling."""
    assert ambiguous(path)


@for_each(
    "path",
    [
        "/",
        "/a",
        "/a/",
        "/a/b.c",
        "/.well-known/x",
        "/...",
        "/..a/b..",
        "/a/..b",
        "/a%20b",
        "/%61",
        "/a:b@c,d=e+f!$&'()*~_-",
        "/m%C3%BCnchen",
        "/a%3Bb",
        "/a%3Fb%23c",
        "/100%25",
        "/100%25of",
        "/100%25%20of",
        "/100%25%41s",
        '/{id}|^`"<>',
    ],
)
def test_what_servers_agree_about_is_not(path):
    assert not ambiguous(path)


@given(path=st.text(max_size=50).map(lambda text: f"/{text}"))
def test_every_spelling_of_a_dot_segment_is_ambiguous(path):
    """N2: in the middle and at the end of anything."""
    for dots in ("..", ".", "%2e%2E", ".%2e", "%2E"):
        assert ambiguous(f"{path}/{dots}")
        assert ambiguous(f"{path}/{dots}/x")


@for_each(
    "pattern, path",
    [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/a/*", "/a/b"),
        ("/a/*/c", "/a/b/c"),
        ("/a/v*", "/a/v"),
        ("/a/v*", "/a/v12"),
        ("/a/*.json", "/a/b.json"),
        ("/a/*b*b", "/a/bb"),
        ("/a/*-*-*", "/a/1-2-3-4"),
        ("/**", "/"),
        ("/**", "/a/b/c/"),
        ("/a/**", "/a/"),
        ("/a/**", "/a/b/c"),
        ("/a**", "/a"),
        ("/a**", "/abc/d"),
        ("/**/c", "/a/b/c"),
        ("/**/b/**/d", "/a/b/c/d"),
        ("/**/b/**/d", "/a/b/x/b/c/d"),
        ("/**/*", "/a/b"),
        ("/**.json", "/a/b.json"),
        ("/a/***", "/a/b/c"),
        ("**", "/a/b"),
        ("/a/b", "/%61/b"),
        ("/%61/b", "/a/b"),
        ("/a~b", "/a%7Eb"),
        ("/a%7eb", "/a~b"),
        ("/things/*:delete", "/things/1%3Adelete"),
        ("/a%20b", "/a%20b"),
        ("/a%c3%bc", "/a%C3%BC"),
        ("/münchen", "/m%c3%bcnchen"),
        ("/a%3bb", "/a%3Bb"),
        ("/a%2A", "/a*"),
        ("/a.b+c(d)[e]$", "/a.b+c(d)[e]$"),
    ],
)
def test_a_pattern_means_a_path(pattern, path):
    """N2: rules about paths."""
    assert matches(pattern, path)


@for_each(
    "pattern, path",
    [
        ("/", "/a"),
        ("/a", "/a/"),
        ("/a", "/A"),
        ("/a", "/a/b"),
        ("/a/b", "/a/b\n"),
        ("/a/*", "/a"),
        ("/a/*", "/a/"),
        ("/a/*", "/a/b/"),
        ("/a/*", "/a/b/c"),
        ("/a/*/c", "/a//c"),
        ("/a/*/c", "/a/b/b/c"),
        ("/a/v*", "/a/v1/x"),
        ("/a/*b*b", "/a/b"),
        ("/a/**", "/a"),
        ("/a/**", "/ab"),
        ("/**/b", "/b/c"),
        ("/**/b/**/d", "/a/b/d"),
        ("/**/*", "/a/"),
        ("/a.c", "/abc"),
        ("/a%2A", "/ab"),
        ("/a%3bb", "/a;b"),
        ("/a%2fb", "/a/b"),
        ("/a%3fb", "/a?b"),
        ("/a%2561", "/aa"),
    ],
)
def test_a_pattern_does_not_mean_a_path(pattern, path):
    """N2: rules about paths."""
    assert not matches(pattern, path)


def naive(pattern: str, path: str) -> bool:
    """What a pattern means, as slowly and plainly as can be: all places that may be reached, token by token."""
    places = {0}
    for token in re.finditer(r"\*\*+|\*|[^*]", pattern):
        whole = pattern[token.start() - 1 : token.start()] == "/" and pattern[token.end() : token.end() + 1] in {
            "",
            "/",
        }
        if token[0] == "*":
            reached = {start: path.find("/", start) for start in places}
            ends = {start: len(path) if end < 0 else end for start, end in reached.items()}
            places = {place for start in places for place in range(start + whole, ends[start] + 1)}
        elif token[0].startswith("**"):
            places = {place for start in places for place in range(start, len(path) + 1)}
        else:
            places = {start + 1 for start in places if path[start : start + 1] == token[0]}
    return len(path) in places


@given(
    pattern=st.lists(st.sampled_from(["a", "b", "/", "/a", "*", "**"]), max_size=9).map(
        lambda some: "/" + "".join(some)
    ),
    path=st.text(alphabet="ab/", max_size=12).map(lambda text: f"/{text}"),
)
def test_matching_agrees_with_the_plain_definition(pattern, path):
    """N2: the quick way and the plain way are the same."""
    assert matches(pattern, path) is naive(pattern, path)


@given(path=st.text(alphabet="/abc.~:@-_", max_size=20).map(lambda text: f"/{text}"), data=st.data())
def test_escaping_a_character_changes_no_decision(path, data):
    """N2: /%61dmin is /admin, to rules as to servers."""
    escaped = "".join(
        data.draw(st.sampled_from([c, f"%{ord(c):02x}", f"%{ord(c):02X}"])) if c in "abc.~:@-_" else c for c in path
    )
    for pattern in ("/a*", "/**/b", "/*/*:a", "/**.c", path):
        assert matches(pattern, escaped) is matches(pattern, path)


@for_each(
    "pattern",
    [
        "/**a*b",
        "/*a*a*a*a*a*b",
        "/**/a/**/a/**/a/**/b",
        "/**a**a**a**a**b",
        "/**/*/*/*/*/b",
        "/**a*a*a*ab",
        "/**aaaaaaaab",
        "/**/a*b/**/c",
        "/**/*a*a*a*b",
    ],
)
def test_a_long_path_that_almost_matches_is_judged_in_linear_time(pattern):
    """N2: a program can't hold the host up by its paths. Linear is milliseconds here, quadratic many seconds."""
    began = time.process_time()
    for path in ("a" * LONG, "a/" * (LONG // 2), "/" * LONG, "ab" * (LONG // 2), "%61" * (LONG // 3)):
        assert matches(pattern, f"/{path}c") is False
    for path in ("%" * LONG, "%2" * (LONG // 2), "/." * (LONG // 2), "%c3%bc" * (LONG // 6)):
        ambiguous(f"/{path}")
    assert time.process_time() - began < 3


@given(pattern=st.text(max_size=20), path=st.text(max_size=20))
def test_no_text_breaks_a_match(pattern, path):
    """N2: whatever is sent gets an answer."""
    assert isinstance(matches(pattern, path), bool)
    assert isinstance(ambiguous(path), bool)
