"""The shell of a session (E7): what stays from call to call, how calls end, and that no program is taken for an end."""

import os
import signal
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest
from tests.guest.supervised import GUEST, descendants, is_dead, open_session


@pytest.fixture
def session(tmp_path):
    with open_session(tmp_path, sys.executable, "shell") as opened:
        yield opened


def said(session, source):
    """What a call writes to the standard output, whose last line is ours."""
    assert session.call(f"{source}\necho; echo 'the end'")["report"]["exit_code"] == 0
    lines = []
    while (line := session.line()) != "the end":
        lines.append(line)
    return "\n".join(lines).rstrip("\n")


def memory(session, name):
    """Where a memory of the supervisor can be read."""
    descriptors = Path(f"/proc/{session.process.pid}/fd").iterdir()
    (found,) = (one for one in descriptors if str(one.readlink()).startswith(f"/memfd:{name} "))
    return found


def test_directory_variables_functions_aliases_and_options_stay(session):
    session.call("cd /usr; x=1; declare -A map=([a]=2); f() { echo $x ${map[a]}; }; shopt -s extglob expand_aliases")
    session.call("alias say='echo said'; set -o pipefail; umask 077; trap 'echo trapped' USR1; readonly fixed=3")
    code = "pwd; f; say; shopt -q extglob && echo $fixed; set -o | grep pipefail; umask; kill -USR1 $$"
    assert said(session, code).split() == ["/usr", "1", "2", "said", "3", "pipefail", "on", "0077", "trapped"]


def test_a_call_ends_with_the_status_of_its_last_command_and_says_where_it_ended(session):
    assert session.call("false")["report"]["exit_code"] == 1
    assert session.call("return 7; echo never")["report"]["exit_code"] == 7
    assert session.call("cd /usr/bin")["variables"]["changed"] == [
        {"name": "PWD", "type": "path", "preview": "/usr/bin"}
    ]
    assert session.call(":")["variables"]["changed"] == []


def test_an_error_names_the_call_and_the_line(session):
    session.call("f() {\n  no_such_command\n}")
    assert session.call("\n\nf\nnor_this")["report"]["exit_code"] == 127
    first, second = (session.process.stderr.readline().decode() for _ in range(2))
    assert first.endswith("call-1.sh: line 2: no_such_command: command not found\n")
    assert second.endswith("call-2.sh: line 4: nor_this: command not found\n")


def test_half_a_text_ends_with_itself(session):
    for text in ("if true", "echo 'x", ": <<END\nx", "{", "\0", "case x in"):
        session.call(text)
        assert said(session, "echo whole") == "whole", text


def test_texts_of_any_size_without_a_last_newline_and_without_anything_are_calls(session):
    assert said(session, f"x={'y' * 1_000_000}; echo ${{#x}}") == "1000000"
    assert session.call("")["report"]["exit_code"] == 0
    assert session.call("echo 'x'\r")["state"] == "kept"


ENDS = {
    "exit 3": 3,
    "set -e; false": 1,
    "set -euo pipefail; f() { g; }; g() { false | true; }; f": 1,
    "set -u; echo $unset_variable": 1,
    "kill -INT $$": 130,
}


@pytest.mark.parametrize(("end", "code"), ENDS.items())
def test_what_ends_a_script_ends_a_bash_and_another_goes_on_with_its_state(session, end, code):
    session.call("x=before; cd /usr")
    answer = session.call(f"x=after; y=new; cd /usr/bin\n{end}\necho never")
    assert (answer["state"], answer["report"]["exit_code"]) == ("kept", code)
    assert "another has its variables" in answer["why"]
    assert said(session, "echo $x $y $PWD") == "after new /usr/bin"
    assert session.call(":")["why"] == ""


@pytest.mark.parametrize("end", ["kill -KILL $$", "exec true", "trap 'echo bye' EXIT; exit"])
def test_a_bash_that_could_not_write_its_state_down_is_replaced_by_the_one_before_the_call(session, end):
    session.call("x=before")
    answer = session.call(f"x=after\n{end}")
    assert (answer["state"], "from before" in answer["why"]) == ("rewound", True)
    assert said(session, "echo $x").splitlines()[-1] == "before"


def test_a_bash_that_dies_between_calls_is_replaced_and_the_next_answer_says_so(session, eventually):
    bash = int(said(session, "x=1; echo $$"))
    saved = memory(session, "saved-1")
    eventually(lambda: saved.read_text().endswith("# whole 1\n"))  # bash writes its state down behind its answer
    os.kill(bash, signal.SIGKILL)
    eventually(lambda: is_dead(bash))
    answer = session.call("echo $x; echo 'the end'")
    assert (answer["state"], "SIGKILL" in answer["why"], session.line()) == ("kept", True, "1")


def test_a_bash_that_is_killed_while_it_writes_its_state_down_costs_that_call_alone(session, eventually):
    """It is killed in the midst of it, after its answer: what was written before is still there."""
    bash = int(said(session, "x=before; for n in {1..5000}; do declare v$n=$n; done; echo $$"))
    before, torn = (memory(session, f"saved-{place}") for place in (1, 0))
    eventually(lambda: before.read_bytes().endswith(b"# whole 1\n"))
    session.call("x=after")
    while not torn.stat().st_size:
        pass
    os.kill(bash, signal.SIGKILL)
    eventually(lambda: is_dead(bash))
    assert not torn.read_bytes().endswith(b"# whole 2\n"), "it had written all of it already"
    answer = session.call("echo $x $v5000; echo 'the end'")
    assert (answer["state"], "from before" in answer["why"]) == ("rewound", True)
    assert session.line() == "before 5000"


def test_e_u_v_and_x_count_for_their_call_alone(session):
    session.call("set -eu; set -x; set -v")
    assert said(session, "echo $unset_variable; false; echo $-").strip() == "hB"


def test_a_call_that_leads_its_streams_elsewhere_does_so_for_itself(session, tmp_path):
    session.call(f"exec >{tmp_path}/out 2>&1 </dev/zero; echo lost; exec 7>{tmp_path}/seven")
    assert said(session, "echo found; read x; echo $?; echo kept >&7") == "found\n1"
    assert (tmp_path / "seven").read_text() == "kept\n"


def test_jobs_stay_and_nobody_waits_for_their_output(session):
    session.call("until [ -e go ]; do sleep 0.02; done && echo late & job=$!")
    assert said(session, "jobs -p | grep -c $job; >go; wait $job; echo $?").split() == ["1", "late", "0"]


def test_traps_and_odd_options_do_not_confuse_an_end(session):
    for text in ("trap 'x=$?' DEBUG; trap 'y=$?' ERR; trap 'z=$?' RETURN", "false", "set -C; set -f; set -T; set -E"):
        session.call(text)
    session.call("IFS=x; unset PATH; shopt -s nullglob failglob; set -- a b; set -o posix")
    assert said(session, "builtin echo $#") == "2"


def test_children_find_no_descriptor_of_ours(session):
    inherited = said(session, "for fd in /proc/self/fd/*; do readlink $fd; done; ls -l /proc/self/fd | grep -c pipe")
    assert inherited.splitlines()[-1] == "2"


def test_a_program_that_writes_what_an_end_looks_like_has_said_it_and_no_more(session):
    session.call("x=1")
    answer = session.call("echo '2 0 /forged'; echo '2 0 /forged' >&2; x=2; (exit 5)")
    assert (answer["report"]["exit_code"], session.line()) == (5, "2 0 /forged")
    # A program of this user may find the pipe. What it says of its own call is its word; no other call is confused.
    session.call("for fd in /proc/$PPID/fd/*; do { echo '3 77 /forged' >$fd; } 2>/dev/null; done; x=3")
    assert [session.call("(exit 6)")["report"]["exit_code"] for _ in range(2)] == [6, 6]


@pytest.mark.parametrize("noise", ["half a line", "no number\\n", "4 x y\\n", "\\377\\376\\n", "9 9\\n"])
def test_nonsense_on_its_pipe_costs_a_program_its_own_shell_alone(session, noise):
    session.call("echo 1 >kept", language="shell")
    session.call("x = 1", language="python")
    session.begin(f"for fd in /proc/$PPID/fd/*; do {{ printf '{noise}' >$fd; }} 2>/dev/null; done; :")
    session.receive()
    session.call(":")
    assert session.call("echo alive")["report"]["exit_code"] == 0
    assert session.call("x", language="python")["report"]["value"] == 1


@pytest.mark.parametrize(
    "loop",
    [
        "echo running; while :; do :; done",
        "echo running; sleep 1000",
        "sleep 1000 | sh -c 'echo running; exec cat'",  # what bash has only just forked is not interrupted
        "f() { sleep 1000; }; echo running; f; echo no",
        "sleep 1000 & echo running; wait",
    ],
)
def test_an_interrupt_ends_what_runs_in_the_foreground_and_keeps_the_rest(session, loop):
    session.call("sleep 1000 & background=$!; until grep -q sleep /proc/$!/comm; do :; done")
    session.begin(f"x=2\n{loop}\necho never")
    session.wait_running()
    answer = session.interrupt()
    assert (answer["report"]["exit_code"], answer["state"]) == (130, "kept")
    assert said(session, 'echo "x=$x"; kill -0 $background; echo $?') == "x=2\n0"


def test_a_second_interrupt_ends_no_bash_that_writes_its_state_down(session):
    """The first one ends bash alone where it comes before a program has begun."""
    session.call("for n in {1..5000}; do declare v$n=$n; done")
    session.begin("x=2\necho running\nwhile :; do :; done")
    session.wait_running()
    last_words = memory(session, "last-words")
    session.send({"interrupt": session.number})
    while not last_words.stat().st_size:
        pass
    session.send({"interrupt": session.number})
    answer = session.receive()
    assert (answer["report"]["exit_code"], answer["state"]) == (130, "kept")
    assert said(session, 'echo "x=$x $v5000"') == "x=2 5000"


def test_a_shell_that_was_only_just_forked_is_killed_all_the_same():
    """It leads no group of processes yet."""
    spec = spec_from_file_location("process", GUEST / "session/process.py")
    tools = module_from_spec(spec)
    spec.loader.exec_module(tools)
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    process = tools.Process(pid, is_group=True)
    process.kill()
    assert os.waitpid(pid, 0)[1] == signal.SIGKILL
    process.close()


def test_what_takes_no_interrupt_is_killed_with_its_processes(session, eventually):
    session.call("x=1")
    session.begin("x=2\ntrap '' INT\nsleep 98765 &\necho running\nwhile :; do sleep 98765; done")
    session.wait_running()
    session.send({"interrupt": session.number})
    answer = session.kill()
    assert (answer["state"], answer["why"].partition(":")[0]) == ("rewound", "the call did not stop, and was killed")
    eventually(lambda: not [pid for pid in descendants(session.process.pid) if is_sleeping(pid)])
    assert said(session, "echo $x") == "1"


def is_sleeping(pid):
    try:
        return b"98765" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def test_to_rewind_says_that_a_shell_can_not_be(session):
    session.call("x = 1", language="python")
    session.call("echo new >file")
    answer = session.call(do="rewind")
    assert (answer["state"], "no other language" in answer["why"]) == ("kept", True)


def test_to_go_back_in_python_undoes_no_file_of_another_call(session, tmp_path):
    session.call("x = 1; open('python', 'w').close()", language="python")
    session.call("echo new >shell")
    session.call("open('undone', 'w').close(); import os; os._exit(1)", language="python")
    assert {path.name for path in (tmp_path / "directory").iterdir()} == {"python", "shell"}
    assert session.call("x", language="python")["report"]["value"] == 1
