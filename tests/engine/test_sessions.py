"""Sessions on the real kernel (E7): what stays, what is undone, who may call, and that nothing is left."""

import contextlib
import gc
import os
import resource
import sys
from dataclasses import replace

import anyio
import anyio.lowlevel
import msgspec
import pytest
from tests import shared_host
from tests.hub.upstreams import until

from gloveport.bootstrap import app, build
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.errors import Denied
from gloveport.model import Narrowing, Policy, Request
from gloveport.model.reading import read_value
from gloveport.sandbox.pool.makers import SessionStarter
from gloveport.sandbox.pool.pool import Pool
from gloveport.sandbox.run import confined_session
from gloveport.sandbox.run.out_files import has_entries

pytestmark = pytest.mark.anyio


class Caller:
    """Calls of one session by one caller."""

    def __init__(self, engine, share="me"):
        self.engine, self.share, self.id = engine, share, "new"

    async def call(self, code, on_output=None, **rest):
        limits = rest.pop("limits", {})
        request = Request(language="python", code=code, session=self.id, limits=Narrowing(**limits), **rest)
        result = await self.engine.execute(request, caller="test", share=self.share, on_output=on_output)
        if result.session is not None:
            self.id = result.session.id
        return result


POOL, NOTHING_WAITS = PoolSettings(forked=1, booted=0), PoolSettings(forked=0, booted=0)


@pytest.fixture(scope="module")
async def shared(tmp_path_factory):
    """An engine for all whom the default configuration does."""
    async with app.assemble(
        read_value(Config, {"pool": POOL}), {"GLOVEPORT_STATE": str(tmp_path_factory.mktemp("state"))}
    ) as engine:
        yield engine


@pytest.fixture
def opened(shared, environ):
    """``async with opened() as engine``; of an engine with tables of its own nobody else has a session."""

    @contextlib.asynccontextmanager
    async def make(**tables):
        if not tables:
            yield shared
            for owner in {session.owner for session in shared.sessions.alive()}:
                await shared.sessions.end_of(owner, "the test is over")
            return
        async with shared_host.assemble(read_value(Config, {"pool": NOTHING_WAITS, **tables}), environ) as engine:
            yield engine

    return make


async def test_variables_output_and_values_are_as_one_goes_on(opened):
    async with opened() as engine:
        caller = Caller(engine)
        first = await caller.call("x = 41\nprint('hello')")
        assert (first.status, first.stdout.text, first.session.state) == ("ok", "hello\n", "kept")
        assert [(one.name, one.type, one.preview) for one in first.session.variables] == [("x", "int", "41")]
        second = await caller.call("x + 1")
        assert (second.value, second.stdout.text, second.session.id) == (42, "", first.session.id)


async def test_a_session_that_can_not_be_watched_ends_alone(opened):
    """P12: no descriptor is left while it waits for its next call. It ended the server."""
    async with opened(sessions={"per_caller": 2}) as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        (session,) = engine.sessions.list_of(caller.share)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        try:
            await until(lambda: session.ended)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await session.wait_over()
        assert session.ended == "its sandbox could not be watched: Too many open files"
        assert (await Caller(engine).call("40 + 2")).value == 42


async def test_a_failing_call_leaves_the_session(opened):
    async with opened() as engine:
        caller = Caller(engine)
        failed = await caller.call("x = 1\n1 / 0")
        assert (failed.status, failed.error.type, failed.session.state) == ("error", "ZeroDivisionError", "kept")
        assert (await caller.call("x")).value == 1


async def test_a_timeout_interrupts_and_keeps(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        late = await caller.call("import time\nx = 2\nwhile True: time.sleep(0.01)", limits={"wall_seconds": 1})
        assert (late.status, late.error.type, late.session.state) == ("timeout", "KeyboardInterrupt", "kept")
        assert (await caller.call("x")).value == 2


async def test_what_takes_no_interrupt_is_killed_and_undone(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1\nopen('file', 'w').write('before')")
        code = "import signal, time\nsignal.pthread_sigmask(signal.SIG_BLOCK, {2})\nx = 2\nopen('file', 'w')\n"
        late = await caller.call(f"{code}while True: time.sleep(0.01)", limits={"wall_seconds": 1})
        assert (late.status, late.session.state, late.session.undone) == ("timeout", "rewound", 1)
        assert late.session.generation == 2
        assert (await caller.call("x, open('file').read()")).value == [1, "before"]


async def test_an_interpreter_that_dies_is_undone(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        died = await caller.call("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
        assert (died.status, died.session.state) == ("error", "rewound")
        assert "SIGKILL" in died.session.why
        assert (await caller.call("x")).value == 1


async def test_a_cancelled_call_is_interrupted_and_the_session_goes_on(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        with anyio.CancelScope() as scope:
            code = "x = 2\nimport time\nprint('begun', flush=True)\ntime.sleep(1000)"
            await caller.call(code, on_output=lambda *_: scope.cancel())
        assert (await caller.call("x")).value == 2


async def test_what_a_call_uses_is_not_closed_with_its_session(opened):
    """P27: the number of a closed descriptor may be that of another session's directory, or of the host's."""
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("open('/out/file', 'w').close()")
        session = engine.sessions.find(caller.id, "me")
        async with anyio.create_task_group() as tasks, session.take_turn() as child:
            with session.use_sandbox():
                directory = os.fstat(child.directories.out)
                tasks.start_soon(lambda: engine.session_requests.close(session, caller="test"))
                await child.wait_dead()
                for _ in range(1000):  # far more turns of the event loop than the rest takes
                    await anyio.lowlevel.checkpoint()
                assert os.path.samestat(os.fstat(child.directories.out), directory)
                assert has_entries(child.directories.out)
        with pytest.raises(Denied), session.use_sandbox():
            pass


async def test_what_a_call_uses_is_not_closed_where_no_descriptor_is_left_to_wait_by(opened):
    """P27: then a number that is given back is another's at once."""
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        session = engine.sessions.find(caller.id, "me")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        async with session.take_turn() as child:
            with session.use_sandbox():
                directory = os.fstat(child.directories.out)
                resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
                try:
                    session.end("its caller has closed it")
                    for _ in range(1000):  # far more turns of the event loop than the rest takes
                        await anyio.lowlevel.checkpoint()
                finally:
                    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                assert os.path.samestat(os.fstat(child.directories.out), directory)
        await session.wait_over()


async def test_a_call_whose_session_is_closed_meanwhile_is_told_so(opened):
    async with opened() as engine:
        caller, results = Caller(engine), []
        await caller.call("x = 1")
        session = engine.sessions.find(caller.id, "me")

        async def call() -> None:
            results.append(await caller.call("print('running', flush=True)\nwhile True: print(1)", on_output=on_output))

        began = anyio.Event()

        def on_output(_stream: str, _text: str) -> None:
            began.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            await began.wait()
            await engine.session_requests.close(session, caller="test")
        assert results[0].session.state == "lost"
        assert results[0].session.why == "its caller has closed it"


async def test_a_branch_whose_request_was_cancelled_ends_with_the_next(opened):
    async with opened() as engine:
        caller, requests = Caller(engine), engine.session_requests
        await caller.call("x = 1")
        session = engine.sessions.find(caller.id, "me")
        cancelled = await requests.branch(session, caller="test")
        cancelled.end("it was never made")
        await requests.branch(session, caller="test")
        cancelled.ended = ""
        _, state = await requests.ask(cancelled, {"do": "variables"}, caller="test")
        assert state.why == "there is no such branch"


async def test_to_exceed_the_memory_undoes_the_call_or_loses_the_session_and_names_the_limit(opened):
    policy = read_value(Policy, {"limits": {"memory_bytes": "64MiB"}})
    async with opened(policy=policy) as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        exceeding = await caller.call("x = 2; y = b'x' * (256 << 20)")
        again = await caller.call("x")
        if exceeding.error is not None and exceeding.error.type == "MemoryError":  # no cgroup: Python refuses
            assert again.value == 2
            return
        assert "memory_bytes" in exceeding.limits_hit
        if exceeding.session.state == "rewound":  # the kernel has ended the interpreter, and once in a while its twin
            assert (again.value, again.session.state) == (1, "kept") or (again.value, again.session.state) == (
                None,
                "lost",
            )
        else:
            assert (again.status, again.error.type) == ("denied", "session_lost")
            assert "memory_bytes" in again.error.message


async def test_a_child_that_the_kernel_ends_for_its_memory_costs_the_call_and_not_the_session(opened):
    policy = read_value(Policy, {"limits": {"memory_bytes": "64MiB"}})
    async with opened(policy=policy) as engine:
        if engine.backend.tree is None or engine.backend.tree.version == 2:
            pytest.skip("the kernel ends nothing, or the whole sandbox")
        caller = Caller(engine)
        await caller.call("x = 1")
        child = "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'bytearray(256 << 20)'])"
        exceeding = await caller.call(f"{child}\nx = 2\nimport threading\nthreading.Event().wait()")
        assert exceeding.limits_hit == ("memory_bytes",)
        assert exceeding.session.state == "rewound"
        assert (await caller.call("x")).value == 1


async def test_where_nobody_counts_the_time_of_a_call_each_process_is_limited_to_that_of_one(opened):
    async with opened() as engine:
        without_cgroups = Pool(cold=msgspec.structs.replace(engine.backend, tree=None), stocks=())
        async with without_cgroups.open():
            caller = Caller(replace(engine, sandbox=without_cgroups))
            limits = await caller.call("import resource\nlist(resource.getrlimit(resource.RLIMIT_CPU))")
            await engine.sessions.end_of("me", "the test is over")
        seconds = engine.policy.limits.cpu_seconds
        assert limits.value == [seconds, seconds + 1]


async def test_killing_the_supervisor_loses_the_session_and_nothing_else(opened):
    async with opened() as engine:
        caller, other = Caller(engine), Caller(engine)
        await caller.call("x = 1")
        await other.call("x = 2")
        lost = await caller.call(
            "import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\nimport time; time.sleep(100)"
        )
        assert lost.session.state == "lost"
        assert (await caller.call("x")).error.type == "session_lost"
        assert (await other.call("x")).value == 2


async def test_a_stopped_supervisor_takes_no_call_and_keeps_nobody_waiting(opened, monkeypatch):
    """A text that is larger than the socket's buffer can't be sent whole."""
    monkeypatch.setattr(confined_session, "_TAKE_SECONDS", 0.5)
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call(
            "import os, signal, threading\n"
            "def stop(): os.kill(os.getppid(), signal.SIGSTOP); print('stopped', flush=True)\n"
            "threading.Timer(1, stop).start()"
        )
        while not engine.sessions.find(caller.id, "me")._between[0].data:
            await anyio.sleep(0.01)
        assert (await caller.call(f"# {'x' * 250_000}")).session.state == "lost"
        assert (await caller.call("x")).error.type == "session_lost"


@pytest.mark.parametrize("number", [None, 1, 2])
async def test_forged_answers_are_taken_for_nothing(opened, number):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        forged = (
            "import os, gc, json, socket\n"
            "def tell(message):\n"
            "    body = json.dumps(message).encode()\n"
            "    for number in range(3, 30):\n"
            "        try:\n"
            "            passes_by = socket.socket(fileno=os.dup(number)).type == socket.SOCK_SEQPACKET\n"
            "            os.write(number, body if passes_by else len(body).to_bytes(4, 'big') + body)\n"
            "        except OSError: pass\n"
            f"tell({{'call': {number}, 'report': {{'value': 7}}, 'state': 'kept', 'undone': 'x', "
            "'variables': {'changed': [{'name': 5}]}})"
        )
        answer = await caller.call(forged)
        # The answer to its own call it may forge: it is its word in any case. But it counts once.
        assert [one.name for one in answer.session.variables] == ([] if number == 2 else ["tell"])
        assert answer.session.id == caller.id
        again = await caller.call("y = x + 1\ny")
        assert (again.value, [one.name for one in again.session.variables]) == (2, ["y"])


async def test_what_a_program_says_of_its_variables_fits_also_where_it_is_escaped_and_scrubbed(opened):
    async with opened() as engine:
        engine.gateway.vault.remember("weather.bearer", "hunter2-hunter2")
        caller = Caller(engine)
        variables = [{"name": chr(1) * 200, "preview": "hunter2-hunter2 " * 12}]
        answer = await caller.call(
            "import os, gc, json, socket\n"
            f"body = json.dumps({{'call': 1, 'state': 'kept', 'variables': {{'changed': {variables}}}}}).encode()\n"
            "for number in range(3, 30):\n"  # whole messages to the host, or to the supervisor with their size before
            "    try:\n"
            "        kind = socket.socket(fileno=os.dup(number)).type\n"
            "        os.write(number, body if kind == socket.SOCK_SEQPACKET else len(body).to_bytes(4, 'big') + body)\n"
            "    except OSError: pass"
        )
        (told,) = answer.session.variables
        assert "hunter2" not in told.preview
        assert max(len(told.name), len(told.preview)) <= 200


async def test_an_empty_message_from_past_the_supervisor_ends_nothing(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call(
            "import os, socket\n"
            "for number in range(3, 30):\n"
            "    try:\n"
            "        one = socket.socket(fileno=os.dup(number))\n"
            "        if one.type == socket.SOCK_SEQPACKET: one.send(b'')\n"
            "    except OSError: pass\n"
            "x = 1",
            limits={"wall_seconds": 3},  # now and then it takes the answer away from itself
        )
        assert (await caller.call("x", limits={"wall_seconds": 5})).value == 1


async def test_an_id_of_another_is_as_unknown_as_none(opened):
    async with opened() as engine:
        caller, stranger = Caller(engine), Caller(engine, share="you")
        await caller.call("x = 1")
        texts = []
        for session in (caller.id, "ses-" + "0" * 32, "nonsense"):
            stranger.id = session
            refused = await stranger.call("x")
            texts.append((refused.status, refused.error.type, refused.error.message))
        assert len(set(texts)) == 1
        assert texts[0][:2] == ("denied", "unknown_session")


async def test_what_a_session_may_use_is_decided_when_it_begins(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        assert (await caller.call("x", limits={"memory_bytes": 64 << 20})).error.type == "session_fixed"
        assert (await caller.call("x", tools=())).error.type == "session_fixed"


async def test_there_are_no_more_than_may_be(opened):
    async with opened(sessions={"per_caller": 1}) as engine:
        assert (await Caller(engine).call("1")).status == "ok"
        assert (await Caller(engine).call("1")).error.type == "too_many_sessions"
        assert (await Caller(engine, share="you").call("1")).status == "ok"


async def test_few_calls_wait_for_their_turn(opened):
    """P8: a call needs no open request while it waits, and its program lies in the server's memory."""
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("1")
        session = engine.sessions.find(caller.id, "me")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller.call, "import time; time.sleep(600)")
            await until(lambda: session.current is not None)
            for _ in range(16):
                tasks.start_soon(caller.call, "2")
            await until(lambda: session.turn.statistics().tasks_waiting == 16)
            refused = await caller.call("3")
            assert (refused.status, refused.error.type) == ("denied", "session_busy")
            session.interrupt()
        assert (await caller.call("4")).value == 4


@pytest.mark.parametrize("rest", [{"apis": ()}, {"session": "commands"}], ids=["fixed", "of another purpose"])
async def test_a_refusal_keeps_no_program_in_memory(opened, rest):
    """P8: an error that is raised again and again would keep the frames of all who have raised it."""
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("1")
        if "session" in rest:
            engine.sessions.find(caller.id, "me").purpose = "commands"
        code = "#" * 1000
        before = sys.getrefcount(code)
        for _ in range(3):
            result = await caller.call(code, **{name: given for name, given in rest.items() if name != "session"})
            assert result.status == "denied"
        gc.collect()
        assert sys.getrefcount(code) == before


async def test_an_idle_session_ends_and_its_id_says_why(opened):
    async with opened(sessions={"idle_seconds": 0.2}) as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        await engine.sessions.find(caller.id, "me").wait_over()
        again = await caller.call("x")
        assert (again.status, again.error.type) == ("denied", "session_lost")
        assert "nobody had called it" in again.error.message


async def test_calls_of_one_session_take_turns(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("order = []")
        async with anyio.create_task_group() as tasks:
            for number in range(4):
                tasks.start_soon(caller.call, f"order.append({number}); order.append({number})")
        order = (await caller.call("order")).value
        assert order[::2] == order[1::2]
        assert sorted(order[::2]) == [0, 1, 2, 3]


async def test_what_is_written_between_calls_comes_with_the_next(opened):
    async with opened() as engine:
        caller = Caller(engine)
        seconds, early = 0.05, "end"
        while "end" in early:  # it was written while the call still went on
            seconds *= 2
            answer = await caller.call(
                f"import threading\nthreading.Timer({seconds}, lambda: print('x' * 100_000 + 'end')).start()"
            )
            early = answer.stdout.text
        while engine.sessions.find(caller.id, "me")._between[0].data[-4:] != b"end\n":
            await anyio.sleep(0.01)
        assert (await caller.call("1")).stdout.text.endswith("end\n")


async def test_processes_in_the_background_go_on(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("import subprocess\nserver = subprocess.Popen(['sleep', '100'])")
        assert (await caller.call("server.poll()")).value is None


async def test_nothing_is_left_of_a_session(opened, is_running, eventually):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("import subprocess\nchild = subprocess.Popen(['sleep', '98761'])")
        eventually(lambda: is_running("98761"))  # its arguments are there a moment after its start
        await engine.sessions.end_of("me", "its client has gone")
        assert not is_running("98761")
        await caller.call("x")
    async with opened() as engine:
        await Caller(engine).call("import subprocess\nchild = subprocess.Popen(['sleep', '98762'])")
    assert not is_running("98762")


async def test_a_fork_bomb_ends_with_the_call_or_the_session(opened):
    async with opened() as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
        late = await caller.call(bomb, limits={"wall_seconds": 0.5})
        assert late.status in ("timeout", "killed")
        await engine.sessions.end_of("me", "done")


async def test_a_fork_bomb_in_a_branch_ends_with_its_sandbox_at_the_latest(opened, is_running):
    """A trunk and its branches have one bound for their processes, and one end."""
    async with opened() as engine:
        caller, other = Caller(engine), Caller(engine, share="you")
        await caller.call("x = 1")
        trunk = engine.sessions.find(caller.id, "me")
        branch = Caller(engine)
        branch.id = (await engine.session_requests.branch(trunk, caller="test")).id
        word = f"9{os.getpid()}3"  # an ordinary user may run the same test meanwhile
        sleep = f"os.execlp('sleep', 'sleep', '{word}')"
        bomb = f"import os\nwhile True:\n    try: os.fork() or {sleep}\n    except OSError: pass"
        assert (await branch.call(bomb, limits={"wall_seconds": 0.5})).status in {"timeout", "killed"}
        assert (await other.call("1")).value == 1
        for one in (caller, branch):  # each answers, or says that it is over
            answer = await one.call("1", limits={"wall_seconds": 1})
            assert answer.status in {"ok", "error", "timeout", "denied"}, answer
        await engine.sessions.end_of("me", "done")
        assert not is_running(word)


async def test_every_call_is_written_down(opened, records):
    async with opened(policy=Policy()) as engine:
        caller = Caller(engine)
        await caller.call("x = 1")
        await caller.call("x")
    ended = [record for record in records() if record.kind == "execute.ended"]
    assert [record.fields["session"] for record in ended] == [caller.id] * 2


async def test_a_session_begins_where_one_waits_but_not_with_more_than_it_asks_for(opened, monkeypatch):
    """N2: and one that goes on does so when what waits is exchanged, for another way out."""
    config = {"sessions": {"life_seconds": 1000}, "pool": POOL}
    async with opened(**config) as engine:

        async def begin(code, **limits):
            for stock in stocks:
                await stock.wait_filled()
            waiting = {waiting.child.pid for stock in stocks for waiting in stock._waiting}
            caller = Caller(engine, f"{code} {limits}")
            assert (await caller.call(code, limits=limits)).status == "ok"
            return caller, engine.sessions.find(caller.id, caller.share)._child.pid in waiting

        stocks = [stock for stock in engine.sandbox.stocks if isinstance(stock.maker, SessionStarter)]
        first, was_waiting = await begin("x = 41", wall_seconds=20)
        assert was_waiting
        assert (await begin("import pandas"))[1]
        for limits in ({"memory_bytes": 64 << 20}, {"cpu_seconds": 5}, {"processes": 20}):
            assert not (await begin("x = 1", **limits))[1], limits
        monkeypatch.setattr(build, "_KINDS", ("", "import asyncio"))  # the other takes long to make
        app.adopt(engine, read_value(Config, config))
        stocks = [stock for stock in engine.sandbox.stocks if isinstance(stock.maker, SessionStarter)]
        assert (await begin("x = 2"))[1]
        assert (await first.call("x + 1")).value == 42
