"""What is approved for good, and what somebody appends to it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.approvals.patterns import means
from gloveport.model.workspace import PathChange, RunCommand, WriteFiles
from gloveport.policy.decisions.subjects import permission_subject, subject_of

GATE = "destructive_command"
CLEAN = f"permit {GATE} command *: git%20clean*"
JOINS = [";", "|", "&", "\n", "$(", "${", "$[", "`", "<", ">", "#"]


def about(command, **more):
    return permission_subject(GATE, RunCommand(command=command, **more))


@for_each(
    "command",
    [
        "git clean -n; rm -rf src; curl x.example",
        "git clean -n; rm -rf src",
        "git clean -n && rm -rf src",
        "git clean -n\nrm -rf src",
        "git clean $(rm -rf src)",
        "git clean `rm -rf src`",
        "git clean <(rm -rf src)",
        "git clean -n > src/main.c",
        "git clean ${x:=$'\\x24\\x28rm -rf src)'} ${x@P}",
        "git clean $[a[x]]",
        "git clean -f #-n",
        f"git clean -n;{'x' * 2000}",
    ],
)
def test_who_approves_a_program_has_not_approved_what_is_appended_to_it(command):
    """H8, W5: the attack of the review, and its variants."""
    assert not means(CLEAN, about(command))
    assert not means(f"permit {GATE} command *", about(command))
    assert not means(f"permit {GATE} command .: *", about(command))
    assert not means("command .: *", subject_of(RunCommand(command=command)))
    assert means(about(command), about(command))


@pytest.mark.parametrize(
    ("pattern", "command"),
    [
        (CLEAN, "git clean -n 'a (b)' $HOME 100%"),
        (f"permit {GATE} command .: git%20clean*%3B%20ls*", "git clean -n; ls -l"),
        ("permit * command .: (git*%26%26*", "(git clean -n && ls"),
        (f"permit {GATE} command .: *%60date%60*", "git clean `date`"),
    ],
)
def test_what_a_pattern_says_itself_it_means(pattern, command):
    """H8: and between that, what is in no way a further command."""
    assert means(pattern.replace("(", "%28"), about(command))


def test_no_half_of_a_join_is_completed_by_what_stands_beside_it():
    """H8: `$` in the pattern and `(` of the agent, or half of an escape."""
    begin = f"permit {GATE} command .: echo%20"
    assert not means(f"{begin}%24*", about("echo $(rm -rf src)"))
    assert not means(f"{begin}*%28x%29", about("echo $(x)"))
    assert not means(f"{begin}a%3*", about("echo a; rm -rf src"))
    assert not means(f"{begin}a%*", about("echo a; rm -rf src"))
    assert not means(f"{begin}*B%20x", about("echo a; x"))
    assert not means(f"{begin}*%3Bx*", about("echo a;x;rm -rf src"))


WORDS = st.lists(st.sampled_from([*"ab %$({[)'*/-", "%3B", "%24", "$H", "é"]), max_size=4).map("".join)


@given(
    literals=st.lists(WORDS | st.sampled_from(JOINS), min_size=1, max_size=4),
    between=st.lists(st.tuples(WORDS, st.sampled_from([*JOINS, ""]), WORDS), min_size=4, max_size=4),
)
@example(literals=["echo $"], between=[("(rm", "", "")] * 4)
@example(literals=["$", "("], between=[("", "", "")] * 4)
def test_no_text_with_a_join_beyond_what_is_literal_is_meant(literals, between):
    """H8: a pattern of literal parts with `*` behind each; each `*` stands for a text."""
    parts = [about(literal).partition(": ")[2] for literal in literals]
    pattern = f"permit {GATE} command .: {''.join(f'{part}*' for part in parts)}"
    texts = ["".join(text) for text in between[: len(literals)]]
    command = "".join(map("".join, zip(literals, texts, strict=True)))
    if joins(command) > sum(map(joins, literals)):
        assert not means(pattern, about(command))
    elif joins(command) == sum(map(joins, literals)):
        assert means(pattern, about(command))


def joins(command):
    return sum(command.count(join) for join in JOINS)


@for_each(
    "pattern, paths, expected",
    [
        ("write create:dist/*", ["dist/a"], True),
        ("write create:dist/*", ["dist/a", "dist/b"], True),
        ("write create:dist/*", ["dist/a", "package-lock.json"], False),
        ("write create:dist/a*,create:b*", ["dist/a", "b"], True),
        ("write create:dist/a*,create:b*", ["dist/a", "b", "c"], False),
        ("write *", ["dist/a", "b,c"], True),
        ("write create:dist/*", ["dist/a,create:x"], True),
    ],
)
def test_of_several_files_each_has_to_be_meant(pattern, paths, expected):
    """H8: who approves a directory has not approved what else is in the patch."""
    action = WriteFiles(changes=tuple(PathChange(operation="create", path=path) for path in paths), sha256="ab")
    assert means(pattern, subject_of(action)) is expected
    gate = "write_generated_or_ignored"
    assert means(f"permit {gate} {pattern}", permission_subject(gate, action)) is expected


def test_what_is_no_command_is_meant_as_ever():
    """H8."""
    assert means("call s/*", "call s/a%3Bb")
    assert means("fetch GET https://api.example/*", "fetch GET https://api.example/a,b")
    assert not means("call s/*", "call t/a")
