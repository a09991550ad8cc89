"""Calls that pass by a session's supervisor: what it has to know of them all the same."""

import os
import select
import sys

import pytest
from tests.guest.supervised import open_session

FILL = """
import socket
for number in range(3, 30):
    try:
        one = socket.socket(fileno=os.dup(number))
        while one.type == socket.SOCK_SEQPACKET: one.send(bytes(60_000), socket.MSG_DONTWAIT)
    except OSError: pass
7
"""
FORGE = """
import gc, json, socket
link = next(one for one in gc.get_objects() if type(one) is socket.socket and one.fileno() >= 0)
body = json.dumps({"call": NUMBER, "is_told": True}).encode()
link.send(len(body).to_bytes(4, "big") + body); x = 2
"""


@pytest.fixture
def new_session(tmp_path):
    with open_session(tmp_path, sys.executable, "python") as opened:
        yield opened


@pytest.fixture
def session(new_session):
    assert new_session.call("import os, signal, threading; x = 1")["state"] == "kept"
    return new_session


def test_the_first_call_passes_by_and_a_rewind_undoes_it(new_session):
    assert new_session.call_directly("x = 1; x")["report"]["value"] == 1
    answer = new_session.call(do="rewind")
    assert (answer["state"], answer["undone"]) == ("rewound", [1])
    assert "NameError" in new_session.call("x")["report"]["error"]["traceback"]


def test_a_first_call_that_passed_by_and_is_killed_leaves_neither_names_nor_files(new_session, tmp_path):
    """It may run before the supervisor has looked at anything."""
    new_session.begin_directly("x = open('left', 'w'); print('running', flush=True)\nwhile True: pass")
    new_session.wait_running()
    new_session.send({"call": 1, "branch": 0, "language": "python", "do": "attend"})
    answer = new_session.kill()
    assert (answer["state"], answer["undone"]) == ("rewound", [1])
    assert not [*(tmp_path / "directory").iterdir()]
    assert "NameError" in new_session.call("x")["report"]["error"]["traceback"]


def test_a_rewind_undoes_the_last_call_that_passed_by_and_no_other(session):
    session.call_directly("x = 2")
    assert session.call_directly("x = 3; x")["report"]["value"] == 3
    answer = session.call(do="rewind")
    assert (answer["state"], answer["undone"]) == ("rewound", [3])
    assert session.value("x") == 2


def test_each_call_waits_until_the_state_before_it_is_kept(session):
    for number in range(5):
        session.call_directly(f"x = {number}")
    session.call(do="rewind")
    assert session.value("x") == 3


def test_who_dies_in_a_call_that_passed_by_is_rewound_when_the_host_asks(session):
    session.call_directly("x = 2")
    session.begin_directly("x = 3; os._exit(4)")
    answer = session.attend()
    assert (answer["state"], answer["undone"]) == ("rewound", [3])
    assert "exited with 4" in answer["why"]
    assert session.value("x") == 2


def test_a_call_that_found_nobody_alive_is_made_of_who_goes_on_and_told_of_it(session):
    """Who is woken must not take it by itself: the host would not hear that something was undone."""
    interpreter = os.pidfd_open(session.value("os.getpid()"))
    session.call("threading.Timer(0.05, lambda: os._exit(5)).start()")
    assert select.select([interpreter], [], [], 20)[0]
    os.close(interpreter)
    session.begin_directly("x + 10")
    answer = session.attend()
    assert (answer["state"], answer["report"]["value"]) == ("rewound", 11)


def test_after_a_kill_the_supervisor_says_what_came_of_the_call(session):
    session.begin_directly("x = 2; print('running', flush=True)\nwhile True: pass")
    session.wait_running()
    session.send({"call": session.number, "branch": 0, "language": "python", "do": "attend"})
    session.send({"interrupt": session.number})
    assert b"KeyboardInterrupt" in session.direct.recv(1 << 16)
    answer = session.kill()  # which may come before it has heard that the call is over
    assert answer["call"] == session.number
    assert session.value("x") == (2 if answer["state"] == "kept" else 1)


def test_what_takes_no_interrupt_is_killed(session):
    session.begin_directly("x = 3; print('running', flush=True)\nwhile True: pass")
    session.wait_running()
    session.send({"call": session.number, "branch": 0, "language": "python", "do": "attend"})
    answer = session.kill()
    assert (answer["state"], answer["undone"]) == ("rewound", [session.number])


def test_an_answer_that_finds_no_room_comes_by_the_supervisor(session):
    session.begin_directly(FILL)
    answer = session.receive()
    assert (answer["state"], answer["report"]["value"]) == ("kept", 7)


@pytest.mark.parametrize("number", [0, 1, 99])
def test_what_is_said_of_other_calls_keeps_nobody_waiting(session, number):
    assert session.call_directly(FORGE.replace("NUMBER", str(number)))["report"]["error"] is None
    assert session.call("x")["report"]["value"] == 2
    session.begin("print('running', flush=True)\nwhile True: pass")
    session.wait_running()
    assert session.kill()["call"] == session.number


def test_who_is_to_attend_to_a_call_that_is_over_hears_of_the_next_ones_all_the_same(session):
    session.call_directly("x = 2")
    for number in range(4):
        session.call_directly(f"x = {number}")
        session.send({"call": 2, "branch": 0, "language": "python", "do": "attend"})
    assert session.call_directly("x")["report"]["value"] == 3


def test_a_call_is_answered_though_the_supervisor_was_told_of_others_in_the_place_of_those_before(session):
    """Else the interpreter, which waits for its word, would never take it."""
    assert session.call_directly(FORGE.replace("NUMBER", "3"))["report"]["error"] is None
    assert session.call_directly(FORGE.replace("NUMBER", "4"))["report"]["error"] is None
    session.begin_directly("x")
    session.send({"call": session.number, "branch": 0, "language": "python", "do": "attend"})
    assert select.select([session.connection, session.direct], [], [], 20)[0]
