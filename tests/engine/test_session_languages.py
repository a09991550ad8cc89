"""Sessions of several languages on the real kernel (E7): one sandbox, one interpreter of each, and what each keeps."""

import os
import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from tests import shared_host
from tests.processes import below, is_dead

from gloveport.bootstrap.operator_reach import reach_of
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.model import Narrowing, Policy, Request
from gloveport.model.reading import read_value

pytestmark = pytest.mark.anyio

LANGUAGES = ("python", "shell", "typescript", "javascript")


class Caller:
    """Calls of one session."""

    def __init__(self, engine):
        self.engine, self.id = engine, "new"

    async def call(self, language, code, on_output=None, **limits):
        request = Request(language=language, code=code, session=self.id, limits=Narrowing(**limits))
        result = await self.engine.execute(request, caller="test", share="me", on_output=on_output)
        if result.session is not None:
            self.id = result.session.id
        return result


@pytest.fixture(scope="module")
async def shared(tmp_path_factory):
    environ = {"GLOVEPORT_STATE": str(tmp_path_factory.mktemp("state"))}
    async with shared_host.assemble(Config(pool=PoolSettings(forked=0, booted=0)), environ) as engine:
        yield engine


@pytest.fixture
async def caller(shared):
    yield Caller(shared)
    await shared.sessions.end_of("me", "the test is over")


async def test_languages_share_files_and_loopback(caller):
    assert (await caller.call("shell", "cd /tmp; echo shared >file; pwd")).stdout.text == "/tmp\n"
    assert (await caller.call("python", "open('file').read()")).value == "shared\n"
    assert (await caller.call("typescript", "Deno.readTextFileSync('/tmp/file')")).value == "shared\n"
    serve = (
        "import socket, threading\nserver = socket.create_server(('127.0.0.1', 8000))\n"
        "def answer():\n    while True:\n        connection, _ = server.accept()\n        connection.recv(4096)\n"
        "        connection.sendall(b'HTTP/1.0 200 OK\\r\\n\\r\\nhello'); connection.close()\n"
        "threading.Thread(target=answer, daemon=True).start()"
    )
    assert (await caller.call("python", serve)).status == "ok"
    told = await caller.call("shell", "exec 3<>/dev/tcp/127.0.0.1/8000; echo >&3; tail -1 <&3; exec 3<&-")
    assert told.stdout.text == "hello"
    fetched = await caller.call("typescript", "await (await fetch('http://127.0.0.1:8000/')).text()")
    assert (fetched.status, fetched.value) == ("ok", "hello"), fetched.error


@pytest.mark.parametrize("first", LANGUAGES)
async def test_a_session_begins_in_any_language_and_goes_on_in_all(caller, first):
    codes = {"python": "1 + 1", "shell": "echo 2", "typescript": "const n: number = 2; n", "javascript": "2"}
    assert (await caller.call(first, codes[first])).value == 2
    begun = caller.id
    for language, code in codes.items():
        result = await caller.call(language, code)
        assert (result.status, result.value, result.session.state) == ("ok", 2, "kept"), result
    assert caller.id == begun


@pytest.mark.parametrize(
    ("language", "first", "loop", "then"),
    [("shell", "x=1", "while :; do :; done", "echo $x"), ("typescript", "let x = 1", "for (;;);", "x")],
)
async def test_a_timeout_interrupts_and_keeps(caller, language, first, loop, then):
    await caller.call(language, first)  # before the clock runs: a busy host may begin late
    late = await caller.call(language, loop, wall_seconds=0.3)
    assert (late.status, late.session.state, late.session.generation) == ("timeout", "kept", 1)
    assert (await caller.call(language, then)).value == 1


async def test_what_is_lost_is_of_one_language(caller):
    await caller.call("python", "x = 1")
    await caller.call("shell", "x=2")
    await caller.call("typescript", "let x = 3")  # a Deno that starts too late has nothing to lose
    lost = await caller.call("typescript", "await 0; for (;;);", wall_seconds=1)
    assert (lost.status, lost.session.state, lost.session.generation) == ("timeout", "lost", 2)
    assert "and nothing else" in lost.session.why
    assert lost.session.expires_at
    values = [(await caller.call(language, code)).value for language, code in (("python", "x"), ("shell", "echo $x"))]
    assert (values, (await caller.call("typescript", "typeof x")).value) == ([1, 2], "undefined")


async def test_exit_codes_are_those_of_the_call(caller):
    failed = await caller.call("shell", "x=1; exit 3")
    assert (failed.status, failed.exit_code, failed.error.message) == ("error", 3, "exit code 3")
    assert (failed.session.state, "exited with 3" in failed.session.why) == ("kept", True)
    failed = await caller.call("typescript", "Deno.exit(4)")
    assert (failed.status, failed.exit_code) == ("error", 4)


async def test_a_fork_bomb_of_jobs_ends_with_its_call(caller):
    await caller.call("shell", "x=1")
    bomb = "f() { f | f & f; }; f"
    stopped = await caller.call("shell", bomb, wall_seconds=1.0)
    assert stopped.status in ("timeout", "killed", "error")
    if stopped.session.expires_at:  # bash may give up by itself where no more processes are to be had
        assert (await caller.call("shell", "echo $x")).value == 1


async def test_a_language_that_is_not_allowed_is_denied_in_a_session_too(environ):
    policy = Policy(languages=frozenset({"python"}))
    async with shared_host.assemble(Config(policy=policy, pool=PoolSettings(forked=0, booted=0)), environ) as engine:
        caller = Caller(engine)
        assert (await caller.call("python", "1")).status == "ok"
        for language in LANGUAGES[1:]:
            assert (await caller.call(language, "1")).status == "denied"


async def test_an_interrupt_ends_the_call_that_goes_on(caller):
    await caller.call("shell", "x=1")
    session = caller.engine.sessions.find(caller.id, "me")
    assert not session.interrupt()
    over = anyio.Event()
    async with anyio.create_task_group() as tasks:

        async def go_on():
            interrupted = await caller.call("shell", "x=2; echo running; sleep 1000")
            over.set()
            assert (interrupted.status, interrupted.exit_code, interrupted.session.state) == ("error", 130, "kept")

        tasks.start_soon(go_on)
        while not over.is_set():  # one that comes before bash has begun ends nothing
            session.interrupt()
            await anyio.sleep(0.05)
    assert (await caller.call("shell", "echo alive")).value is None


async def test_a_cancelled_call_that_was_undone_counts_and_the_next_answer_says_so(caller):
    await caller.call("python", "x = 1")
    code = "import signal\nsignal.pthread_sigmask(signal.SIG_BLOCK, {2})\nx = 2\nprint(x, flush=True)\nwhile True: pass"
    with anyio.CancelScope() as scope:
        await caller.call("python", code, on_output=lambda *_: scope.cancel())
    answer = await caller.call("python", "x")
    assert (answer.value, answer.session.state, answer.session.generation) == (1, "kept", 2)
    assert answer.session.why == "the call before this one was cancelled, and its state rewound"
    assert (await caller.call("python", "x")).session.why == ""


async def test_what_the_configuration_takes_back_the_answers_name(environ):
    def api(host):
        return {"description": "An API.", "hosts": [host]}

    config = read_value(
        Config, {"api": {"kept": api("a.test"), "changed": api("b.test")}, "pool": PoolSettings(forked=0, booted=0)}
    )
    async with shared_host.assemble(config, environ) as engine:
        caller = Caller(engine)
        assert (await caller.call("python", "1")).session.narrowed == ()
        gateway = engine.gateway
        engine.reach = reach_of(read_value(Config, {"api": {"kept": api("a.test"), "changed": api("c.test")}}), gateway)
        assert (await caller.call("shell", ":")).session.narrowed == ("the API changed",)
        engine.reach = reach_of(config, gateway)
        assert (await caller.call("python", "1")).session.narrowed == ()


SERVER = """
import anyio, sys
from gloveport.bootstrap import app
from gloveport.bootstrap.operator_reach import reach_of
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.model import Request

async def main():
    async with app.assemble(Config(pool=PoolSettings(forked=1, booted=0)), {"GLOVEPORT_STATE": sys.argv[1]}) as engine:
        session = "new"
        for language, code in (
            ("python", f"import subprocess; child = subprocess.Popen(['sleep', '{sys.argv[2]}1'])"),
            ("shell", f"sleep {sys.argv[2]}2 & disown"),
            ("typescript", "setInterval(() => {}, 98765)"),
        ):
            request = Request(language=language, code=code, session=session)
            result = await engine.execute(request, caller="test", share="me")
            assert result.status == "ok", result
            session = result.session.id
        print("running", flush=True)
        await anyio.sleep_forever()

anyio.run(main)
"""


async def test_a_killed_server_leaves_nothing_of_its_sessions(gloveport, tmp_path, is_running, eventually):
    word = f"9{os.getpid()}"  # no other server's sleep for so long
    (script := tmp_path / "server.py").write_text(SERVER)
    server = gloveport.start_script(script, tmp_path / "state", word, stdout=subprocess.PIPE)
    with server.stdout:
        assert server.stdout.readline() == b"running\n"
        eventually(lambda: is_running(f"{word}1") and is_running(f"{word}2"))
        started = below(server.pid)
        assert any("/opt/gloveport/deno/session.mjs" in Path(f"/proc/{one}/cmdline").read_text() for one in started)
        os.kill(server.pid, signal.SIGKILL)
        server.wait()
    eventually(lambda: not any(map(is_running, (f"{word}1", f"{word}2"))))
    eventually(lambda: all(map(is_dead, started)))
