"""What calls of one session come to (E7): the supervisor and its interpreters as plain processes, without walls."""

import sys
from pathlib import Path

import pytest
from tests.guest.supervised import open_session

PYTHONS = sorted({path for path in (sys.executable, "/usr/bin/python3") if Path(path).exists()})


@pytest.fixture(params=PYTHONS)
def session(request, tmp_path):
    with open_session(tmp_path, request.param, "python") as opened:
        yield opened


def test_variables_imports_and_functions_stay(session):
    assert session.call("import math\nx = 2\ndef f(y): return x * y")["state"] == "kept"
    assert session.value("f(math.floor(3.5))") == 6


def test_an_error_is_told_with_the_lines_of_the_call_it_is_in_and_leaves_the_rest(session):
    session.call("def f(y):\n    return 1 / y")
    answer = session.call("x = 5\nf(0)")
    assert answer["report"]["error"]["traceback"] == (
        "Traceback (most recent call last):\n"
        '  File "call-2.py", line 2, in <module>\n'
        "    f(0)\n"
        '  File "call-1.py", line 2, in f\n'
        "    return 1 / y\n" + ("           ~~^~~\n") + "ZeroDivisionError: division by zero\n"
    )
    assert session.value("x") == 5


def test_awaits_share_one_event_loop_which_goes_on_between_calls(session):
    session.call(
        "import asyncio\nqueue = asyncio.Queue()\nasync def fill():\n    await queue.put(7)\n    print('running')"
    )
    session.call("async def later():\n    await asyncio.sleep(0.01)\n    await fill()")
    session.call("task = asyncio.ensure_future(later())\nawait asyncio.sleep(0)")
    session.wait_running()
    assert session.value("await queue.get()") == 7


def test_sys_exit_ends_the_call_and_not_the_session(session):
    answer = session.call("x = 1\nimport sys\nsys.exit(3)")
    assert (answer["state"], answer["report"]["exit_code"]) == ("kept", 3)
    assert session.value("x") == 1


def test_threads_go_on_between_calls(session):
    session.call(
        "import threading\nevent = threading.Event()\ndone = []\ndef wait():\n    event.wait(); done.append(1)"
    )
    session.call("thread = threading.Thread(target=wait, daemon=True); thread.start()")
    assert session.value("event.set(); thread.join(5); done") == [1]


def test_an_interrupt_ends_a_loop_and_keeps_the_variables(session):
    session.call("x = 1")
    session.begin("x = 2\nprint('running')\nwhile True: pass")
    session.wait_running()
    answer = session.interrupt()
    assert (answer["state"], answer["report"]["error"]["type"]) == ("kept", "KeyboardInterrupt")
    assert answer["report"]["error"]["traceback"].count("File") == 1
    assert session.value("x") == 2


def test_an_interrupt_ends_an_await_where_it_waits(session):
    session.begin("import asyncio\nprint('running')\nawait asyncio.sleep(1000)")
    session.wait_running()
    answer = session.interrupt()
    assert (answer["state"], answer["report"]["error"]["type"]) == ("kept", "KeyboardInterrupt")
    assert 'File "call-1.py", line 3' in answer["report"]["error"]["traceback"]
    assert session.value("await asyncio.sleep(0, 3)") == 3


def test_an_interrupt_between_calls_means_nothing(session):
    session.call("x = 1")
    session.send({"interrupt": session.number})
    assert session.value("x") == 1


def test_a_killed_call_is_undone_with_its_files(session, tmp_path):
    session.call("x = [1]\nopen('kept', 'w').write('before')")
    session.begin(
        "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nx.append(2)\n"
        "open('kept', 'w').write('after')\nopen('new', 'w').close()\nprint('running')\nwhile True: pass"
    )
    session.wait_running()
    answer = session.kill()
    assert (answer["state"], answer["undone"], answer["report"]) == ("rewound", [2], None)
    assert session.value("x") == [1]
    assert [path.name for path in (tmp_path / "directory").iterdir()] == ["kept"]
    assert (tmp_path / "directory/kept").read_text() == "before"


def test_the_first_call_too_can_be_undone(session, tmp_path):
    session.begin("open('new', 'w').close()\nprint('running')\nwhile True: pass")
    session.wait_running()
    answer = session.kill()
    assert (answer["state"], answer["undone"]) == ("rewound", [1])
    assert not list((tmp_path / "directory").iterdir())
    assert session.call("new")["report"]["error"]["type"] == "NameError"


@pytest.mark.parametrize("end", ["import os; os._exit(3)", "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"])
def test_an_interpreter_that_dies_is_replaced_by_its_checkpoint(session, end):
    session.call("x = 1")
    answer = session.call(f"x = 2\n{end}")
    assert answer["state"] == "rewound"
    assert answer["why"] in ("its interpreter has exited with 3", "its interpreter was ended by SIGKILL")
    assert session.value("x") == 1


def test_rewind_undoes_the_last_call_and_no_more_than_is_kept(session):
    for number in (1, 2, 3):
        session.call(f"x = {number}")
    answer = session.call(do="rewind")
    assert (answer["state"], answer["undone"]) == ("rewound", [3])
    assert session.value("x") == 2
    assert session.call("y = 1")["state"] == "kept"
    assert session.call(do="rewind")["state"] == "rewound"
    assert session.call("y")["report"]["error"]["type"] == "NameError"


def test_rewind_of_the_only_call_begins_anew(session):
    session.call("x = 1")
    assert session.call(do="rewind")["undone"] == [1]
    assert session.call("x")["report"]["error"]["type"] == "NameError"


def test_where_no_call_is_left_a_rewind_says_that_it_undoes_none(session):
    session.call("x = 1")
    session.call(do="rewind")
    session.call(do="variables")  # of a new interpreter
    answer = session.call(do="rewind")
    assert (answer["state"], answer["undone"]) == ("kept", [])


def test_checkpoints_are_no_children_that_a_program_finds(session):
    session.call("x = 1")
    session.call("y = 1")
    assert session.call("import os\nos.wait()")["report"]["error"]["type"] == "ChildProcessError"


def test_too_large_a_heap_has_no_checkpoint_and_the_answer_says_so(session):
    assert session.call("x = 1")["checkpoint"] == ""
    assert "MiB" in session.call("y = b'x' * (80 << 20)")["checkpoint"]
    session.begin("print('running')\nwhile True: pass")
    session.wait_running()
    answer = session.kill()
    assert (answer["state"], answer["undone"]) == ("rewound", [2, 3])
    assert session.value("x") == 1
    assert session.call("y")["report"]["error"]["type"] == "NameError"


def test_changed_variables_are_told_with_type_and_size(session):
    answer = session.call("x = 1\nname = 'abc'\nrows = [1, 'a', {}]\ndef f(a, b=1): pass\nimport os\n_private = 1")
    told = {one.pop("name"): one for one in answer["variables"]["changed"]}
    assert told["x"] == {"type": "int", "preview": "1"}
    assert told["name"] == {"type": "str", "shape": "3", "preview": "'abc'"}
    assert (told["rows"]["shape"], told["rows"]["preview"]) == ("3", "1, 'a', dict")
    assert told["f"] == {"type": "function", "preview": "(a, b)"}
    assert set(told) == {"x", "name", "rows", "f"}
    answer = session.call("rows.append(2)\ndel x")
    assert [one["name"] for one in answer["variables"]["changed"]] == ["rows"]
    assert answer["variables"]["removed"] == ["x"]


def test_what_waits_when_it_is_asked_for_its_shape_is_not_waited_for_again_and_again(session):
    lazy = "type('Lazy', (), {'__module__': 'xarray', 'shape': property(lambda self: __import__('time').sleep(0.6))})"
    told = session.call(f"Lazy = {lazy}\na, b, c, d = (Lazy() for _ in range(4))")["variables"]
    assert not told["is_complete"]
    assert {"a", "d"} & {one["name"] for one in told["changed"]} == {"a"}


def test_variables_and_inspect_run_no_cell(session):
    session.call("x = {'a': 1}\ndef f(a: int) -> int:\n    'Doubles.'")
    assert [one["name"] for one in session.call(do="variables")["variables"]["changed"]] == ["x", "f"]
    answer = session.call(do="inspect", expression="f", bytes=4096)
    assert answer["report"]["value"] == "function (a: int) -> int\nDoubles."
    assert session.call(do="inspect", expression="nothing", bytes=4096)["report"]["error"]["type"] == "NameError"


def test_nothing_is_left_when_the_host_is_gone(session, eventually):
    session.call("x = 1")
    children = Path(f"/proc/{session.process.pid}/task/{session.process.pid}/children").read_text().split()
    assert children
    session.connection.close()
    session.process.wait(10)
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
