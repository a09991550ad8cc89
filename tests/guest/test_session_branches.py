"""E7: a branch goes on by itself from where the Python of its session was; neither can harm more than the sandbox."""

import sys
from pathlib import Path

import pytest
from tests.guest.supervised import descendants, is_dead, open_session


@pytest.fixture
def session(tmp_path):
    with open_session(tmp_path, sys.executable, "python") as opened:
        opened.call("x = [1]")
        yield opened


def branch(session, into=1, **rest):
    return session.call(do="branch", into=into, **{"live": [*range(1, into + 1)], **rest})


def value(session, source, number):
    answer = session.call(source, branch=number)
    assert answer["report"]["error"] is None, answer
    return answer["report"]["value"]


def test_both_go_on_by_themselves_from_the_same_state(session):
    assert branch(session)["is_branched"]
    assert value(session, "x.append(2); x", 1) == [1, 2]
    assert value(session, "x.append(3); x", 0) == [1, 3]
    assert branch(session, into=2, branch=1)["is_branched"]
    assert value(session, "x.append(4); x", 2) == [1, 2, 4]
    assert [value(session, "x", number) for number in range(3)] == [[1, 3], [1, 2], [1, 2, 4]]


def test_what_nobody_has_waited_for_ends_with_the_next(session):
    """P9: each branch whose request was cancelled left processes, until the session could make no more."""
    branch(session)
    pid = value(session, "import os; os.getpid()", 1)
    branch(session, into=2)
    assert branch(session, into=3, live=[2, 3])["is_branched"]
    assert session.call("x", branch=1)["why"] == "there is no such branch"
    assert [value(session, "x", number) for number in (0, 2, 3)] == [[1]] * 3
    assert is_dead(pid)


def test_a_session_without_a_call_can_branch(tmp_path):
    with open_session(tmp_path, sys.executable, "python") as opened:
        assert branch(opened)["is_branched"]
        assert value(opened, "1 + 1", 1) == 2


def test_each_is_rewound_alone_and_leaves_files_as_they_are(session):
    session.call("open('file', 'w').write('before')")
    branch(session)
    session.call("x = 'first'; open('file', 'w').write('first')")
    session.call("x = 'second'", branch=1)
    answer = session.call(do="rewind")
    assert (answer["state"], value(session, "x", 0)) == ("rewound", [1])
    assert "files are everybody's" in answer["why"]
    assert value(session, "open('file').read()", 0) == "first"
    assert session.call("x += '!'; x", branch=1)["report"]["value"] == "second!"
    assert session.call(do="rewind", branch=1)["state"] == "rewound"
    assert value(session, "x", 1) == "second"


def test_who_is_killed_goes_on_from_the_call_before_and_the_other_as_it_is(session):
    branch(session)
    session.call("x = 'changed'", branch=1)
    session.call("x = 'kept'")
    session.begin("print('running', flush=True)\nwhile True: pass", branch=1)
    session.wait_running()
    assert session.kill()["state"] == "rewound"
    assert (value(session, "x", 1), value(session, "x", 0)) == ("changed", "kept")


def test_one_that_kills_the_others_costs_each_no_more_than_its_last_call(session):
    """All have one uid in one sandbox: so they can, and are told what became of it."""
    branch(session)
    pids = descendants(session.process.pid)
    kill = f"import os, signal\nfor pid in {pids}:\n  if pid != os.getpid(): os.kill(pid, signal.SIGKILL)"
    session.call(kill, branch=1)
    answer = session.call("x")
    assert answer["state"] in {"rewound", "lost"}
    assert value(session, "1 + 1", 0) == 2
    assert value(session, "x", 1) == [1]


def test_a_branch_that_is_closed_is_gone_and_the_others_stay(session, eventually):
    branch(session)
    session.call("1", branch=1)
    before = set(descendants(session.process.pid))
    assert session.call(do="close", branch=1)["state"] == "kept"
    assert session.call("x", branch=1)["state"] == "lost"
    assert value(session, "x", 0) == [1]
    eventually(lambda: sum(map(is_dead, before)) >= 2)
    assert session.call(do="close")["state"] == "kept"
    assert value(session, "x", 0) == [1]


def test_many_branches_one_after_the_other_leave_no_dead_process(session, eventually):
    branch(session)
    for number in range(2, 12):
        assert branch(session, into=number, branch=number % 2)["is_branched"]
        session.call("x", branch=number)
        session.call(do="close", branch=number)
    for number in (0, 1, 0, 1):
        session.call("y = 1", branch=number)
    eventually(lambda: sum(map(is_dead, descendants(session.process.pid))) <= 4)
    assert len(list(Path(f"/proc/{session.process.pid}/fd").iterdir())) < 24


@pytest.mark.parametrize(
    "forged", ["{'call': 99, 'report': {'value': 5}}", "{'is_branched': True}", "{'checkpoint': 1}", "[]"]
)
def test_what_an_interpreter_makes_up_counts_for_no_other(session, forged):
    """It can write to its own link alone, and there only answers to its own call are taken."""
    branch(session)
    code = (
        "import gc, json\n"
        "link = [one for one in gc.get_objects() if type(one).__name__ == 'Link'][-1]\n"
        f"body = json.dumps({forged}).encode(); link.connection.sendall(len(body).to_bytes(4, 'big') + body)"
    )
    session.call(code, branch=1)
    assert value(session, "x", 0) == [1]
    assert branch(session, into=2)["is_branched"]
    assert value(session, "x", 2) == [1]


def test_an_interpreter_that_makes_no_twin_is_not_branched(session):
    session.call(
        "import signal\n"
        "def refuse(sleep): raise OSError(11, 'no process is left')\n"
        "type(signal.getsignal(signal.SIGINT).__self__).checkpoint.__globals__['fork_unseen'] = refuse"
    )
    assert branch(session)["is_branched"] is False
    assert session.call("1", branch=1)["state"] == "lost"
    assert value(session, "x", 0) == [1]
