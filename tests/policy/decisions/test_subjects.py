"""What approvals are compared by, and what a person is shown."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.errors import Denied
from gloveport.model import Execute
from gloveport.model.egress import Connect, Fetch
from gloveport.model.hub import CallTool, Sample
from gloveport.model.workspace import PathChange, RunCommand, WriteFiles
from gloveport.policy.decisions.subjects import MOST_CHARACTERS, MOST_LINES, detail_of, is_about, subject_of
from gloveport.policy.hosts.url_paths import ambiguous


def call(tool="t", server="s", **arguments):
    return CallTool(server=server, tool=tool, arguments=arguments)


def fetch(path="/", *, method="GET", scheme="https", host="api.example", port=443):
    return Fetch(method=method, scheme=scheme, host=host, port=port, path=path)


def command(text="make", workdir=".", *, variables="", stdin="", environment="", more="no"):
    return RunCommand(
        command=text,
        workdir=workdir,
        variables_sha256=variables,
        stdin_bytes=len(stdin),
        stdin_sha256=stdin,
        environment=environment,
        tty=more == "terminal",
        keeps_stdin=more != "no",
    )


def write(*changes, sha256="0" * 64):
    every = (PathChange(operation=operation, path=path) for operation, path in changes)
    return WriteFiles(changes=tuple(every), sha256=sha256)


@for_each(
    "action, subject",
    [
        (command("make all", "src"), "command src: make%20all"),
        (command(variables="a1"), "command . a1: make"),
        (command(variables="a1", stdin="b2"), "command . a1 stdin=2,b2: make"),
        (command(environment="../a b", more="pipe"), "command . environment=../a%20b stdin+: make"),
        (command(more="pipe"), "command . stdin+: make"),
        (command(stdin="b2", more="terminal"), "command . stdin=2,b2 tty: make"),
        (write(("edit", "a b,c"), ("delete", "d"), sha256="e3"), "write edit:a%20b%2Cc,delete:d e3"),
        (write(("delete", "d"), sha256=""), "write delete:d"),
        (call("create_issue", "github"), "call github/create_issue"),
        (call("a/b.c-d", "s"), "call s/a/b.c-d"),
        (fetch("/items", method="POST"), "fetch POST https://api.example/items"),
        (fetch(scheme="http", port=80), "fetch GET http://api.example/"),
        (fetch(scheme="http", port=443), "fetch GET http://api.example:443/"),
        (fetch(host="2606:4700::1", port=8443), "fetch GET https://[2606:4700::1]:8443/"),
        (Connect(host="db.example", port=5432), "connect db.example:5432"),
        (Connect(host="::1", port=1), "connect [::1]:1"),
        (Sample(model="large", prompt_bytes=1, max_tokens=1), "sample large"),
        (Execute(language="python", code_bytes=1, code_sha256=""), "execute python"),
    ],
)
def test_a_subject_says_what_would_be_done(action, subject):
    """H8."""
    assert subject_of(action) == subject
    assert is_about(subject, subject)


HOSTILE = st.text(alphabet=st.sampled_from([*"ab*/ %:.@!?#\\\n\x1b\x7f", "\u202e", "\u00e9", "\ud800"]), max_size=12)
ACTIONS = (
    st.builds(call, HOSTILE, st.sampled_from(["s", "s.a"]))
    | st.builds(fetch, HOSTILE.map("/{}".format), method=st.sampled_from(["GET", "POST"]))
    | st.builds(Connect, host=st.sampled_from(["a.example", "::1"]), port=st.integers(1, 3))
)


@given(one=ACTIONS, other=ACTIONS)
def test_different_actions_have_different_subjects(one, other):
    """H8, P23: no approval is good for something else."""
    assert (subject_of(one) == subject_of(other)) is (one == other)


DIGESTS = st.sampled_from(["a" * 64, "b" * 64])
PLACES = st.sampled_from(["a", "b", "a,delete:b", "a b", "tty", ":", "stdin+:"]) | HOSTILE
COMMANDS = st.builds(
    command,
    PLACES,
    PLACES,
    variables=st.just("") | DIGESTS,
    stdin=st.just("") | DIGESTS,
    environment=st.just("") | PLACES,
    more=st.sampled_from(["no", "pipe", "terminal"]),
)
CHANGES = st.lists(st.tuples(st.sampled_from(["edit", "delete"]), PLACES | PLACES.map("{:>300}".format)), max_size=3)
WRITES = CHANGES.flatmap(lambda changes: DIGESTS.map(lambda digest: write(*changes, sha256=digest)))


@given(one=COMMANDS | WRITES, other=COMMANDS | WRITES)
def test_different_commands_and_writes_have_different_subjects(one, other):
    """H8, P36, CT-G6: neither what is read nor what is written is left out, and no path makes up another change."""
    assert (subject_of(one) == subject_of(other)) is (one == other)


@given(action=COMMANDS | WRITES)
def test_a_subject_of_a_command_or_write_is_bounded_printable_ascii_without_a_star(action):
    """H8"""
    subject = subject_of(action)
    assert subject.isascii()
    assert subject.isprintable()
    assert "*" not in subject
    assert len(subject) < 1400


def test_a_pattern_for_a_write_means_its_operations_and_paths_and_no_others():
    """H8, W5: whatever the content, and nothing besides."""
    pattern = "write edit:package-lock.json *"
    edit, delete = ("edit", "package-lock.json"), ("delete", "package-lock.json")
    assert is_about(pattern, subject_of(write(edit)))
    for changes in ([delete], [edit, delete], [delete, edit], [("edit", "package-lock.json x")]):
        assert not is_about(pattern, subject_of(write(*changes)))


@given(action=ACTIONS)
def test_a_subject_is_bounded_printable_ascii_that_no_pattern_of_its_own_is_in(action):
    subject = subject_of(action)
    assert subject.isascii()
    assert subject.isprintable()
    assert "*" not in subject
    assert len(subject) < 1200
    assert subject.count(" ") == (2 if isinstance(action, Fetch) else 1)


def test_a_long_name_is_never_cut_into_another():
    long = subject_of(call("x" * 100_000))
    assert len(long) < 200
    assert long != subject_of(call("x" * 100_001))
    assert is_about("call s/*", long)
    assert not is_about("call s/x*", long)


@for_each("path", ["/public/../private", "/public/%2e%2e/private", "/public//x", "/public\\..\\x", "/public/;x"])
def test_a_path_that_servers_may_read_in_two_ways_is_meant_by_no_pattern_of_paths(path):
    """H8: `/public/*` is not `/public/../private`."""
    assert ambiguous(path)
    subject = subject_of(fetch(path))
    assert not is_about("fetch GET https://api.example/public/*", subject)
    assert not is_about("fetch GET https://api.example/*", subject)
    assert is_about(subject, subject)


@given(tool=HOSTILE)
def test_a_tool_is_never_taken_for_one_of_another_server(tool):
    assert not is_about("call other/*", subject_of(call(tool)))
    assert not is_about("call s.a/*", subject_of(call(tool)))


@for_each("pattern", ["*", "", "call", "c*", "call*", "*/t", "* s/t", "fetch *", "Call s/t", "call s/T"])
def test_a_pattern_names_what_is_done_in_full(pattern):
    """H8: nobody approves everything by a slip."""
    assert not is_about(pattern, "call s/t")


def test_a_pattern_is_literal_but_for_the_star():
    assert is_about("call s/*", "call s/t")
    assert is_about("call s/*_file", "call s/read_file")
    assert not is_about("call s/.*", "call s/t")
    assert not is_about("call s/[t]", "call s/t")
    assert not is_about("call s/?", "call s/t")


def test_the_detail_is_one_line_for_each_argument():
    action = call(path="/ws/a", text='line\n\x1b[2J\u202e\x7f\ud800"', n=1)
    assert detail_of(action).split("\n") == [
        '"path": "/ws/a"',
        r'"text": "line\n\u001b[2J\u202e\u007f\ud800\""',
        '"n": 1',
    ]
    assert detail_of(fetch()) == ""


@given(arguments=st.dictionaries(HOSTILE, HOSTILE | st.lists(HOSTILE), max_size=4))
def test_the_detail_is_printable_and_whole(arguments):
    lines = detail_of(call(**arguments)).split("\n") if arguments else []
    assert all(line.isprintable() for line in lines)
    for line, (name, value) in zip(lines, arguments.items(), strict=True):
        exact = f"{json.dumps(name)}: {json.dumps(value)}".replace("\x7f", "\\u007f")
        assert line == exact or line.endswith(f"  = {exact}")  # letters may look alike: their numbers don't


def test_a_person_reads_their_own_letters_and_nothing_that_hides():
    """H8, P23."""
    assert detail_of(call(name="Zoë 雨")) == '"name": "Zoë 雨"  = "name": "Zo\\u00eb \\u96e8"'
    hidden = detail_of(call(name="a\u202eb\u200bc\U000e0041"))
    assert hidden.isascii()


def test_the_detail_has_every_argument_whole():
    """H8, P23: neither many junk arguments nor long names leave out what matters."""
    junk = {f"note{number}": "routine cleanup" for number in range(64)}
    sql = f"SELECT 1 -- {'.' * 200}\nDROP TABLE customers;\n-- {'.' * 2000}"
    written = detail_of(call(**junk, sql=sql, path="/etc", **{"n" * 1000: 1}))
    assert json.loads(f"{{{','.join(written.split(chr(10)))}}}") == {**junk, "sql": sql, "path": "/etc", "n" * 1000: 1}


@pytest.mark.parametrize(
    "arguments",
    [
        {f"n{number}": 1 for number in range(MOST_LINES + 1)},
        {"a": "x" * MOST_CHARACTERS},
        {"n" * MOST_CHARACTERS: 1},
        {"a": ["\u202e"] * (MOST_CHARACTERS // 8)},
    ],
    ids=["arguments", "a value", "a name", "escapes"],
)
def test_what_can_not_be_shown_whole_is_not_asked(arguments):
    """H8, P23: a program would choose what is left out."""
    with pytest.raises(Denied) as caught:
        detail_of(call(**arguments))
    assert caught.value.code == "too_large_to_ask"
    assert str(MOST_LINES) in caught.value.hint
    assert "rule" in caught.value.hint


class Untouched(list):
    """Elements that nobody may look at."""

    def __iter__(self):
        raise AssertionError("all of it was looked at")


@pytest.mark.parametrize("deep", [lambda value: value, lambda value: [[{"a": value}]]], ids=["itself", "within others"])
def test_what_is_too_large_to_be_shown_is_not_written_out_before_that_is_said(deep):
    """An argument of 14 MB was escaped whole, twice, while everybody waited."""
    with pytest.raises(Denied) as caught:
        detail_of(call(a=deep(Untouched([1] * (MOST_CHARACTERS + 1)))))
    assert caught.value.code == "too_large_to_ask"


def test_a_path_of_which_the_subject_has_a_digest_is_shown_in_the_detail():
    long = f"/{'a' * 600}/delete"
    assert long not in subject_of(fetch(long))
    assert detail_of(fetch(long)) == f'"path": "{long}"'
    with pytest.raises(Denied):
        detail_of(fetch(f"/{'a' * MOST_CHARACTERS}"))
