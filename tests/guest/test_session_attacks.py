"""Programs of a session that talk to its supervisor: they may lie about themselves, and keep nobody from their turn."""

import sys

import pytest
from tests.guest.supervised import open_session

LINK = (
    "import gc, json, os, socket\n"
    "link = next(one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0)\n"
    "def frame(message):\n    body = json.dumps(message).encode()\n    return len(body).to_bytes(4, 'big') + body\n"
)


@pytest.fixture
def session(tmp_path):
    with open_session(tmp_path, sys.executable, "python") as opened:
        assert opened.call(LINK)["report"]["error"] is None
        opened.call("x = 1")
        yield opened


def test_half_a_frame_keeps_nobody_from_killing_its_call(session):
    session.begin("link.send(b'\\0\\0\\0'); print('running', flush=True)\nwhile True: pass")
    session.wait_running()
    session.send({"interrupt": session.number})
    answer = session.kill()
    assert answer["state"] == "rewound"
    assert session.value("x") == 1


@pytest.mark.parametrize(
    "data", ["b'\\0\\0\\0\\x05'", "b'\\xff' * 8", "b'\\0\\0\\0\\x02no'", "b'\\0\\0\\xff\\0' + b'[' * 65280"]
)
def test_who_writes_nonsense_is_rewound(session, data):
    answer = session.call(f"x = 2; link.send({data})")
    assert answer["state"] == "rewound"
    assert session.value("x") == 1


@pytest.mark.parametrize("message", [[], None, 5, {}, {"call": 1}, {"call": 99}, {"call": "x"}, {"checkpoint": 1}])
def test_answers_to_other_calls_are_dropped(session, message):
    answer = session.call(f"link.send(frame({message!r})); y = 3; y")
    assert (answer["state"], answer["report"]["value"]) == ("kept", 3)
    assert session.value("y + x") == 4
    assert session.call(do="rewind")["state"] == "rewound"


@pytest.mark.parametrize("message", [[], None, 5, "x"])
def test_what_is_no_object_hides_no_answer_behind_it(session, message):
    """Both in one piece: nothing comes after it that would have the supervisor look again."""
    answer = session.call(
        f"link.sendall(frame({message!r}) + frame({{'call': {session.number + 1}, 'report': {{'value': 'early'}}}}))\n"
        "while True: pass"
    )
    assert answer["report"]["value"] == "early"


def test_an_answer_that_is_sent_early_ends_its_call_and_confuses_no_other(session):
    answer = session.call(
        f"link.send(frame({{'call': {session.number + 1}, 'report': {{'value': 'early'}}}})); x = 2; 'late'"
    )
    assert answer["report"]["value"] == "early"
    assert session.value("x") == 2
    assert session.value("x + 1") == 3


def test_a_closed_socket_is_the_end_of_its_interpreter_alone(session):
    assert session.call("link.close()")["state"] == "rewound"
    assert session.value("x") == 1


def test_descriptors_that_nobody_asked_for_are_no_checkpoint(session):
    session.call("a, b = socket.socketpair(); socket.send_fds(link, [frame({'checkpoint': 1})], [a.fileno()] * 3)")
    session.call("x = 2")
    assert session.call(do="rewind")["undone"] == [4]
    assert session.value("x") == 1


def test_a_program_that_wakes_its_own_checkpoint_costs_itself_alone_and_no_other_call(session):
    """It keeps a descriptor of the socket on which the twin sleeps, from the fork on."""
    keep = """\
import os, socket
pair, kept = socket.socketpair, []
def keep(*arguments):
    made = pair(*arguments)
    kept.append(os.dup(made[0].fileno()))
    return made
socket.socketpair = keep
x = 1
"""
    assert session.call(keep)["state"] == "kept"
    assert session.value("len(kept)") == 1
    session.call("import time\nos.write(kept[-1], b'W'); time.sleep(0.2)")  # two go on now, and both have the state
    ended = session.call("x = 2; os.kill(os.getpid(), 9)")
    assert ended["state"] in {"rewound", "lost"}
    after = session.call("x")
    assert (after["report"]["value"] == 1) is (after["report"]["error"] is None)
    assert session.call("x = 3")["report"]["error"] is None
    assert session.value("x") == 3


def test_a_stopped_interpreter_delays_no_kill(session):
    session.begin("import signal; print('running', flush=True); os.kill(os.getpid(), signal.SIGSTOP)")
    session.wait_running()
    session.send({"interrupt": session.number})
    assert session.kill()["state"] == "rewound"
    assert session.value("x") == 1
