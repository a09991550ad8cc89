"""P46: ``gloveport run`` beside a server of the same user, which runs the program in a sandbox that waits."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import remembered

from gloveport.cli import run_protocol

PIPE = subprocess.PIPE


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    state = tmp_path_factory.mktemp("served") / "state"
    with remembered.lent(state):
        yield state


@pytest.fixture(scope="module")
def config(state):
    file = state.parent / "gloveport.toml"
    file.write_text("pool = {forked = 1, booted = 0}\n[policy]\nlanguages = ['python', 'shell']\n")
    return file


@pytest.fixture
def environ(state):
    return {"GLOVEPORT_STATE": str(state)}


def serving(gloveport, config, state):
    """A server that has said that it serves: its process."""
    environ = {**os.environ, "GLOVEPORT_STATE": str(state)}
    arguments = ("serve", "--http", "--port", "0", "--config", str(config))
    process = gloveport.start(*arguments, env=environ, stdout=PIPE, stderr=PIPE, text=True)
    assert "serving" in process.stderr.readline()
    return process


@pytest.fixture(scope="module")
def server(gloveport, config, state):
    process = serving(gloveport, config, state)
    yield process
    process.terminate()
    process.communicate()


@pytest.fixture
def start(gloveport, config, environ, server):
    """Start ``gloveport run`` with the server's configuration."""
    started = []

    def call(*arguments, stdin=subprocess.DEVNULL):
        given = ("run", "--config", str(config), *arguments)
        options = {"stdin": stdin, "stdout": PIPE, "stderr": PIPE, "text": True, "env": {**os.environ, **environ}}
        started.append(gloveport.start(*given, **options))
        return started[-1]

    yield call
    for process in started:
        process.kill()
        process.communicate()


def children(pid):
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


def test_what_comes_of_it_is_what_a_run_of_its_own_gives(gloveport, config, environ, start, tmp_path):
    (tmp_path / "a.sh").write_text("echo shell; exit 3")
    cases = [
        (["-c", "import sys\nprint('out', end='')\nprint('err', file=sys.stderr)\n{'a': 'é'}"], None),
        (["-c", "1 / 0"], None),
        ([str(tmp_path / "a.sh")], None),
        (["-", "-l", "shell"], "echo $((6 * 7))"),
        (["-c", "while True: pass", "--timeout", "0.3"], None),
        (["-l", "typescript", "-c", "1"], None),
        (["--timeout", "7200", "-c", "1"], None),
        ([str(tmp_path / "none.py")], None),
        ([str(tmp_path / "none.txt")], None),
        (["-c", "1", str(tmp_path / "a.sh")], None),
        (["--tim", "1", "-c", "1"], None),
        (["-c", "open('/out/a', 'w').write('1')"], None),
    ]
    elsewhere = {**os.environ, "GLOVEPORT_STATE": str(tmp_path / "state")}
    for arguments, text in cases:
        process = start(*arguments, stdin=PIPE if text else subprocess.DEVNULL)
        stdout, stderr = process.communicate(text, timeout=60)
        alone = gloveport.run("run", "--config", str(config), *arguments, input=text, env=elsewhere)
        assert (process.returncode, stdout, stderr) == (alone.returncode, alone.stdout, alone.stderr), arguments


def test_a_wrong_value_is_said_before_anything_runs(start):
    for arguments, said in (
        (["--memory", "much", "-c", "1"], "--memory: "),
        (["--timeout", "1e9", "-c", "1"], "86400"),
    ):
        process = start(*arguments, "-c", "1")
        stdout, stderr = process.communicate(timeout=60)
        assert (process.returncode, stdout) == (2, "")
        assert said in stderr


def test_the_program_runs_in_the_server_and_ends_with_ctrl_c(start, records):
    process = start("-c", "import time\nprint('begun', flush=True)\ntime.sleep(60)")
    assert process.stdout.readline() == "begun\n"
    assert children(process.pid) == []
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    ended = [record for record in records() if record.kind == "execute.ended"]
    assert ended[-1].fields["status"] == "cancelled"


def test_who_reads_no_more_ends_the_program(start, eventually, records):
    process = start("-c", "import time\nwhile True: print('x' * 5000, flush=True); time.sleep(0.01)")
    assert process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    assert process.wait(30) == 128 + signal.SIGPIPE
    eventually(lambda: [r.fields["status"] for r in records() if r.kind == "execute.ended"][-1:] == ["cancelled"])


def test_another_configuration_is_not_run_by_it(gloveport, config, environ, start, tmp_path):
    other = tmp_path / "other.toml"
    other.write_text(config.read_text() + "[policy.limits]\nwall_seconds = 7.0\n")
    ended = gloveport.run("run", "--config", str(other), "--timeout", "9", "-c", "1", env={**os.environ, **environ})
    assert "lowered to 7 s" in ended.stderr


def test_the_fingerprint_is_that_of_all_that_can_count(tmp_path, monkeypatch):
    named, cwd = tmp_path / "etc/gloveport.toml", tmp_path / "work"
    named.parent.mkdir()
    cwd.mkdir()
    monkeypatch.setattr(run_protocol, "config_directory", lambda: named.parent)
    seen = set()

    def is_new(given=None, environ=None):
        mark = run_protocol.fingerprint(given, cwd=cwd, environ=environ or {})
        known = mark in seen
        seen.add(mark)
        return mark is not None and not known

    assert is_new()
    assert not is_new()
    named.write_text("a")
    assert is_new()
    assert is_new(given=named)  # beside a named one no project file counts
    assert not is_new(environ={"GLOVEPORT_CONFIG": str(named)})
    (named.parent / "apis").mkdir()
    (named.parent / "apis/x.toml").write_text("b")
    assert is_new()
    (cwd / "gloveport.toml").write_text("")
    assert is_new()
    assert is_new(given=named)
    (cwd / "gloveport.toml").unlink()
    os.mkfifo(cwd / "gloveport.toml")  # of a hostile checkout: nobody would ever write
    assert run_protocol.fingerprint(None, cwd=cwd, environ={}) is None


def test_a_directory_that_others_may_enter_is_not_looked_into(gloveport, config, environ, start, state):
    """Anybody could listen there, and be given the program."""
    directory = state / "serving"
    directory.chmod(0o711)
    try:
        process = start("-c", "import time\nprint('begun', flush=True)\ntime.sleep(60)")
        assert process.stdout.readline() == "begun\n"
        assert children(process.pid)  # it has built the sandbox itself
    finally:
        directory.chmod(0o700)


STRANGER = """
import os, socket, sys
os.setgroups([]) or os.setgid(65534) or os.setuid(65534)
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="nobody else than root can be somebody else")
def test_nobody_else_is_answered(tmp_path):
    place = f"\0gloveport-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen()
        stranger = STRANGER.replace("sys.argv[1]", repr(place))
        subprocess.run(["/usr/bin/python3", "-ISc", stranger], check=True)
        with listener.accept()[0] as connection:
            assert not run_protocol.is_of_this_user(connection)
        with socket.socket(socket.AF_UNIX) as ours:
            ours.connect(place)
            with listener.accept()[0] as connection:
                assert run_protocol.is_of_this_user(connection)


def test_a_server_removes_what_dead_ones_left_and_nothing_else(gloveport, config, state, server):
    directory = state / "serving"
    (kept,) = directory.iterdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(directory / "dead"))
    second = serving(gloveport, config, state)
    assert len({*directory.iterdir()} - {kept}) == 1
    assert kept.exists()
    assert not (directory / "dead").exists()
    second.terminate()
    second.communicate()
    assert {*directory.iterdir()} == {kept}


def test_who_says_nothing_or_nonsense_is_let_go(start, state):
    for said in (b"", b"\0\0\0\0\2{}", b"\0\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", b'\0\0\0\0\3"x"'):
        with socket.socket(socket.AF_UNIX) as connection:
            with run_protocol.open_directory(state / "serving") as directory:
                connection.connect(run_protocol.address(directory, *run_protocol.names(directory)))
            connection.sendall(said)
            connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):  # it has not read all of it
                while connection.recv(1 << 16):
                    pass
    assert start("-c", "6 * 7").communicate(timeout=60)[0] == "42\n"


def test_who_asks_for_more_than_the_command_line_has_does_not_get_it(start, state, records):
    asked = {"language": "python", "code": "6 * 7", "limits": {}, "environment": None, "session": "new"}
    said = {"request": asked, "json": False, "encoding": "utf-8", "terminals": []}
    with socket.socket(socket.AF_UNIX) as connection:
        with run_protocol.open_directory(state / "serving") as directory:
            connection.connect(run_protocol.address(directory, *run_protocol.names(directory)))
        connection.sendall(run_protocol.pack(said))
        told = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    assert b"42\n" in told
    (ended,) = [record for record in records() if record.kind == "execute.ended"][-1:]
    assert not ended.fields.get("session")


def test_a_server_that_is_killed_loses_the_program_and_its_client_says_so(gloveport, config, tmp_path):
    with remembered.lent(tmp_path / "state"):
        server = serving(gloveport, config, tmp_path / "state")
    environ = {**os.environ, "GLOVEPORT_STATE": str(tmp_path / "state")}
    words = ("run", "--config", str(config), "-c", "import time\nprint('begun', flush=True)\ntime.sleep(60)")
    with gloveport.start(*words, env=environ, stdin=subprocess.DEVNULL, stdout=PIPE, stderr=PIPE, text=True) as client:
        assert client.stdout.readline() == "begun\n"
        server.kill()
        assert client.wait(30) == 4
        assert "has ended" in client.stderr.read()
    server.communicate()
    again = gloveport.run("run", "--config", str(config), "-c", "1", env=environ)  # its socket is still there
    assert (again.returncode, again.stdout) == (0, "1\n")


def test_it_waits_for_no_library():
    code = "import sys, gloveport.cli.main; raise SystemExit(len({'typer', 'pydantic', 'anyio'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True)
