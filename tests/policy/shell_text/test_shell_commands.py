"""What is read in the text of a command."""

import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cases import for_each

from gloveport.policy.shell_text.directory import Directory
from gloveport.policy.shell_text.programs import ProgramRun
from gloveport.policy.shell_text.reader import MOST_BYTES, Facts, read_programs

MIB = 1 << 20


PLACE = Directory("/workspace", ".", frozenset())


def facts_of(text: str) -> Facts:
    return read_programs(text, PLACE)


def commands(text: str) -> list[ProgramRun]:
    return [run for run in facts_of(text).runs if run.source is None]


def scripts(text: str) -> list[tuple[str, str | None]]:
    return [(run.program, run.source) for run in facts_of(text).runs if run.source is not None]


def words(text: str) -> list[list[str]]:
    return [[run.program, *(word.text for word in run.arguments)] for run in commands(text)]


def programs(text: str) -> list[str]:
    return [" ".join(each) for each in words(text)]


@for_each(
    "text, meant",
    [
        ("rm -rf src", ["rm", "-rf", "src"]),
        ("r'm' \"-r\"f s\\rc", ["rm", "-rf", "src"]),
        ("$'r\\x6d' $'\\055rf' $'a\\tb'", ["rm", "-rf", "a\tb"]),
        ("'a  b' \"  c d \" e\\ f", ["a  b", "  c d ", "e f"]),
        ('echo "a\\"b\\$c\\d"', ["echo", 'a"b$c\\d']),
        ("rm {a,b}c x", ["rm", "ac", "bc", "x"]),
        ("rm a \\\n  b", ["rm", "a", "b"]),
        ("git commit -m 'rm -rf /; sudo su'", ["git", "commit", "-m", "rm -rf /; sudo su"]),
        ("A=1 B=2 make -j2 > log 2>&1", ["make", "-j2"]),
        ("echo ünï 'çödé'", ["echo", "ünï", "çödé"]),
    ],
)
def test_words_are_read_without_their_quoting(text, meant):
    """W5."""
    assert words(text) == [meant]


@for_each(
    "text, meant",
    [
        ("a; b && c || d & e | f |& g", "abcdefg"),
        ("if a; then b; elif c; then d; else e; fi", "abcde"),
        ("while a; do b; done; until c; do d; done", "abcd"),
        ("case $x in y) a;; *) b;; esac", "ab"),
        ("(a; (b)); { c; }; ! d; f() { e; }", "abcde"),
        ("c $(a) `b`", "abc"),
        ("b <(a) > >(c)", "abc"),
        ("a <<X | b\ntext\nX\nc", "abc"),
        ("a # b\nc", "ac"),
        ("[[ -f x && -d y ]] && a; ((i++)); b", "ab"),
        ("for i in 1; do a; done", "a"),
        ("export X=$(a)", "a"),
    ],
)
def test_every_simple_command_is_found(text, meant):
    """W5."""
    assert sorted(name for name, *_ in words(text)) == list(meant)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("d=src; rm $d", ["src"]),
        ('d=src; rm "$d" ${d}/x', ["src", "src/x"]),
        ("d=s; d+=r'c'; rm $d", ["src"]),
        ("for d in 'b c'; do rm -r \"$d\"; done", ["-r", "b c"]),
    ],
)
def test_a_variable_that_the_text_sets_is_known(text, arguments):
    (command,) = [command for command in commands(text) if command.program == "rm"]
    assert [word.text for word in command.arguments] == arguments
    assert all(word.known for word in command.arguments)


@for_each("word", ["$x", "${x}", '"$x"', "$(x)", "`x`", "a$x", "$((1+1))", "${x%y}"])
def test_a_word_that_depends_on_something_is_not_known(word):
    (command,) = [command for command in commands(f"rm {word}") if command.program == "rm"]
    assert not command.arguments[0].known


@for_each("text", ["echo $((1+2))", "echo ${i}", "echo $i", "echo '$(x)'", "x=1", "[[ $a == b* ]]"])
def test_arithmetic_and_plain_variables_are_no_expansions(text):
    """CT-G2."""
    assert facts_of(text).expansions == []


@pytest.mark.parametrize("piece", ["$(x)", "`x`", "${i%x}", "<(x)"])
def test_what_the_shell_puts_together_is_an_expansion(piece):
    """W5: the gate `shell_expansion`."""
    assert facts_of(f"echo {piece}").expansions == [piece]


@for_each(
    "wrapped",
    [
        "env -u B A=1 RUN",
        "env -S 'RUN'",
        "timeout -k 5 10 RUN",
        "timeout --signal=KILL 10s RUN",
        "nice -n 5 RUN",
        "ionice -c 2 -n 7 RUN",
        "nohup RUN &",
        "setsid RUN",
        "stdbuf -oL RUN",
        "time -p RUN",
        "command RUN",
        "exec -a x RUN",
        "builtin RUN",
        "xargs -n 1 -I{} RUN",
        "sudo -u root A=1 RUN",
        "busybox RUN",
        "flock x RUN",
        "flock x -c 'RUN'",
        "su - user -c 'RUN'",
        "uv run RUN",
        "sh -c 'RUN'",
        "bash -lc 'RUN'",
        "bash --norc -o pipefail -ec 'RUN' x",
        "/usr/bin/env sh -c 'sh -c \"RUN\"'",
        "eval 'RUN'",
        "eval RUN",
        "find . -exec RUN ;",
        "find . -name x -execdir RUN \\; -ok y +",
        "time timeout 5 nice env sh -c 'exec RUN'",
    ],
)
def test_wrappers_and_shells_in_shells_are_unwrapped(wrapped):
    """W5 CT-N1 CT-G1 CT-G6: what starts a program does not hide it."""
    assert any(each.startswith("rm -r a") for each in programs(wrapped.replace("RUN", "rm -r a")))


@for_each(
    "text",
    ["command -v rm", "which rm", "echo rm -r a", "grep -rn 'rm -r a' .", "npm run rm", "man rm", "bash x.sh -c rm"],
)
def test_a_word_that_is_no_command_starts_nothing(text):
    """CT-G2."""
    assert not any(each.startswith("rm") for each in programs(text))


@for_each(
    "text, interpreter, source",
    [
        ("python3 -c 'x = 1'", "python", "x = 1"),
        ("python3.11 -Bc'x'", "python", "x"),
        ("python -W error -c x", "python", "x"),
        ("perl -MFile::Path -ne 'x'", "perl", "x"),
        ("node --print x", "node", "x"),
        ("ruby -e x", "ruby", "x"),
        ("php -r x", "php", "x"),
        ("deno eval x", "deno", "x"),
        ("sh -c x", "sh", "x"),
    ],
)
def test_a_program_text_in_a_command_is_found(text, interpreter, source):
    """W5 CT-G6: the gate `inline_script`, on standard input too."""
    assert scripts(text) == [(interpreter, source)]


@for_each("text", ["python3 x.py -c y", "python3 -m pytest -c x", "node x.js -e", "perl x.pl", "bash x.sh"])
def test_arguments_of_a_script_file_are_no_program_texts(text):
    assert scripts(text) == []


def test_what_a_long_here_document_hides_is_found():
    text = "cat > x <<'EOF'\n" + "line\n" * 10_000 + "EOF\nrm -rf src"
    facts = facts_of(text)
    assert [run.program for run in facts.runs] == ["cat", "rm"]
    assert not facts.unread


def test_a_long_here_document_for_a_program_is_whole():
    ((interpreter, source),) = scripts("python3 - <<'EOF'\n" + "x = 1\n" * 1000 + "EOF\n")
    assert interpreter == "python"
    assert source is not None
    assert "x = 1\n" * 1000 in source


def test_a_loop_is_read_once_for_each_of_its_first_values():
    assert programs("for d in a 'b c'; do rm -r \"$d\"; done") == ["rm -r a", "rm -r b c"]
    facts = facts_of(f"for d in {' '.join('abcdefghijk')}; do ls $d; done")
    assert len(facts.runs) == 8
    assert "values of a loop" in facts.unread


@for_each(
    "text",
    [
        "d=(a b); rm $d",
        "d='a b'; rm $d",
        "d=(a); d+=b; rm $d",
        "sh <<X\nrm -r a\nX",
        "cat <<X | sh\nrm -r a\nX",
        "echo 'rm -r a' | sh -s",
        "bash <<< 'rm -r a'",
        "git -c alias.x='reset --hard' x",
        "git submodule foreach 'git clean -f'",
        "echo rm -r a | xargs env",
        "true;" * 1000,
        "echo 'x",
        "sh < x.sh",
    ],
)
def test_a_text_that_is_not_read_plainly_is_scanned(text):
    """W5: its words count, wherever they stand."""
    assert facts_of(text).unread


@for_each(
    "text",
    [
        "for t in tests/*; do pytest $t; done",
        "cd x && make",
        "d=src; ls $d",
        "VAR=1 cmd > log 2>&1",
        "cat > x.py <<X\nrm\nX",
        "git commit -m 'rm -r a'",
        "ps aux | grep x",
        "bash x.sh <<< y",
        "find . -name x | xargs ls",
        "bash --version | head -1",
        "cat x | python3 -m json.tool",
    ],
)
def test_a_text_that_is_read_plainly_is_not_scanned(text):
    """CT-G2."""
    assert not facts_of(text).unread


@for_each("text", ["echo 'x", "if a", ")", "a | | b", "$(", "<<X"])
def test_what_is_no_command_is_said_to_be_unread(text):
    facts_of(text)  # raises nothing
    assert commands("a && " + text)[0].program == "a"


def test_what_is_too_long_is_said_to_be_unread():
    facts = facts_of("rm -rf src;" + "true;" * MIB)
    assert facts.runs[0].program == "rm"
    assert str(MOST_BYTES) in facts.unread


def test_what_is_nested_deeply_is_read():
    """Where, Python's own recursion would end the reading."""
    assert programs("( " * 900 + "rm -r a" + ")" * 900) == ["rm -r a"]
    nested = "rm -r a"
    for _ in range(6):
        nested = "sh -c '" + nested.replace("'", "'\\''") + "'"
    assert "rm -r a" in programs(nested)


@pytest.mark.parametrize("text", ["find ." + " -exec a" * 200 + ";find ." + " -exec a" * 50, "time " * 400])
def test_what_starts_programs_without_end_is_said_to_be_unread(text):
    facts = facts_of(";".join([text] * 8))
    assert len(facts.runs) <= 512
    assert facts.unread


HOSTILE = [
    "(",
    "$(",
    "${",
    '"$(',
    "<<A ",
    "`",
    "a|",
    "a&&",
    "a=(",
    "[[ (",
    "f() ",
    "<(",
    "=|&",
    "a;",
    "{a,",
    "\\",
    "\0",
]


@for_each("unit", HOSTILE)
def test_a_hostile_mebibyte_costs_little(unit):
    """W5 CT-R6: the grammar alone took 22 s and 2 GB for 64 KiB of some of these."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    facts_of(unit * (MIB // len(unit)))
    after = resource.getrusage(resource.RUSAGE_SELF)
    assert after.ru_utime - before.ru_utime < 5
    assert after.ru_maxrss - before.ru_maxrss < 200 * 1024


@given(
    st.lists(
        st.sampled_from([*HOSTILE, "rm ", "-rf ", "sh -c '", "'", "\n", "xargs ", "find ", "-exec ", "é", "\ud800"])
    )
)
def test_nothing_raises(pieces):
    facts_of("".join(pieces))
