"""Children of one fork server: what they share, what they must not, and that they end as any program does."""

import functools

import anyio
import pytest
from tests.processes import below

from gloveport.bootstrap import app, build
from gloveport.config import Config
from gloveport.config.schema import PoolSettings as PoolSize
from gloveport.errors import SandboxError
from gloveport.model import Policy, Request
from gloveport.model.reading import read_value
from gloveport.sandbox.pool import zygote_process

pytestmark = pytest.mark.anyio


@pytest.fixture
async def forks(environ):
    """A fork server for Python, of an engine that has no other."""
    tables = {"pool": {"forked": 0, "booted": 0}, "sessions": {"total": 0}}
    config = read_value(Config, {"policy": Policy(languages=frozenset({"python"})), **tables})
    async with app.assemble(config, environ) as engine:
        waiting = config.model_copy(update={"pool": PoolSize(forked=1)})
        stocks = build.stocks(waiting, engine.sandbox.cold, engine.system, engine.runtimes, engine.reach.network)
        plan = stocks[0].maker.plan
        async with zygote_process.start(engine.sandbox.cold, plan) as running:
            yield running


# --- What a fork shares ----------------------------------------------------------------------------------------------

DRAW = """
import os, random, ssl, tempfile, uuid
[random.random(), ssl.RAND_bytes(16).hex(), str(uuid.uuid4()), str(uuid.uuid1().clock_seq),
 os.path.basename(tempfile.mkdtemp()), os.urandom(16).hex(), random.SystemRandom().random()]
"""


async def test_random_numbers_of_siblings_differ(shared_engine):
    """P9: no program can guess another's, whatever was drawn before the fork."""
    drawn = []
    for _ in range(3):
        result = await shared_engine.execute(Request(language="python", code=DRAW), caller="test")
        drawn.append(result.value)
    random, tls, uuid4, _, name, system, secret = zip(*drawn, strict=True)
    for numbers in (random, tls, uuid4, name, system, secret):
        assert len(set(numbers)) == 3


async def test_no_memory_is_shared_that_can_be_written(run):
    """P9: what a fork shares is copied when it is written to."""
    maps = (await run("python", "open('/proc/self/maps').read()")).value
    assert [line for line in maps.splitlines() if line.split()[1][1] == "w" and line.split()[1][3] == "s"] == []


async def test_a_child_that_is_given_up_before_it_is_ready_is_gone(forks):
    """E5, P9."""
    async with forks.fork():
        pass
    server = forks.spawned.process.pid
    before = len(below(server))
    assert before
    for turns in range(6):
        async with anyio.create_task_group() as tasks:

            async def fork():
                async with forks.fork():
                    await anyio.sleep_forever()

            tasks.start_soon(fork)
            for _ in range(turns):
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        with anyio.fail_after(30):
            await forks.until_childless()
            while len(below(server)) > before:
                await anyio.sleep(0.005)
    async with forks.fork() as child:
        assert child.walls.seccomp


async def test_who_waits_until_a_child_is_dead_goes_on_when_its_maker_clears_it_away_meanwhile(forks):
    """P9: as when the server ends while a command runs. Two who wait for one descriptor are in each other's way."""
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks, forks.fork() as child:
            tasks.start_soon(child.wait_dead)
            await anyio.lowlevel.checkpoint()
    await child.wait_dead()


async def test_a_fork_that_fails_harms_no_other_child(forks):
    """P8, P12: where there is no process to be had, the one request hears it, and the fork server goes on."""
    tree = forks.backend.tree
    if tree is None:
        return
    async with forks.fork() as child:
        (most,) = tree.directories["pids"].glob("zygote-*/pids.max")
        before = most.read_text()
        most.write_text("1")
        with pytest.raises(SandboxError, match="Resource temporarily unavailable"):
            async with forks.fork():
                pass
        most.write_text(before)
        assert not child.is_over()
    async with forks.fork() as another:
        assert another.walls.seccomp


# --- How a program ends ----------------------------------------------------------------------------------------------


ENDINGS = [
    ("import os; os._exit(3)", 3, "exit code 3"),
    ("import sys; sys.exit(4)", 4, None),
    ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137, "ended by SIGKILL"),
    ("import os; os.abort()", 134, "ended by SIGABRT"),
    ("import ctypes; ctypes.string_at(0)", 139, "ended by SIGSEGV"),
    ("import os, signal; signal.raise_signal(signal.SIGTERM)", 143, "ended by SIGTERM"),
]


async def test_a_program_ends_as_it_ends(shared_engine):
    """E2."""
    for code, exit_code, message in ENDINGS:
        result = await shared_engine.execute(Request(language="python", code=code), caller="test")
        assert (result.status, result.exit_code) == ("error", exit_code), code
        assert message in (None, result.error.message)


async def test_a_program_learns_how_its_children_end(run):
    """E1: the fork server ignores the end of its own; a program does not."""
    code = """
import os, signal, subprocess
[subprocess.run(['false']).returncode, subprocess.run(['sh', '-c', 'exit 7']).returncode,
 subprocess.run(['sh', '-c', 'kill -9 $$']).returncode,
 str(signal.getsignal(signal.SIGCHLD)), str(signal.getsignal(signal.SIGINT).__name__),
 [number for number in range(1, 65) if signal.pthread_sigmask(signal.SIG_BLOCK, ()) & {number}]]
"""
    assert (await run("python", code)).value == [1, 7, -9, "0", "default_int_handler", []]


async def test_orphans_are_reaped(run):
    """E4: what is dead does not count against the limit."""
    code = """
import os
for _ in range(80):
    if (child := os.fork()) == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(child, 0)
    while sum(map(str.isdecimal, os.listdir("/proc"))) > 32:  # a busy host reaps late
        os.sched_yield()
'done'
"""
    result = await run("python", code, processes=64)
    assert (result.status, result.value, result.limits_hit) == ("ok", "done", ())


FULL_OF_PROCESSES = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        break
os.write(1, b'full')
time.sleep(1000)
"""

FULL_OF_SIGNALS = """
import ctypes, os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
libc = ctypes.CDLL(None)
while libc.sigqueue(os.getpid(), 40, 0) == 0:
    pass
os.write(1, b'full')
time.sleep(1000)
"""

NEEDS_BOTH = """
import ctypes, os, signal, subprocess
signal.pthread_sigmask(signal.SIG_BLOCK, {40})
queued = sum(ctypes.CDLL(None).sigqueue(os.getpid(), 40, 0) == 0 for _ in range(100))
[queued, [subprocess.run(['true']).returncode for _ in range(5)]]
"""


async def test_what_one_program_uses_up_of_its_limits_its_siblings_have_still(shared_engine):
    """E4, P8, P10."""
    async with anyio.create_task_group() as tasks:
        for greedy in (FULL_OF_PROCESSES, FULL_OF_SIGNALS):
            up = anyio.Event()
            request = Request(language="python", code=greedy)
            execute = functools.partial(shared_engine.execute, caller="a", on_output=lambda *_, up=up: up.set())
            tasks.start_soon(execute, request)
            await up.wait()
        result = await shared_engine.execute(Request(language="python", code=NEEDS_BOTH), caller="b")
        assert result.value == [100, [0] * 5], result
        tasks.cancel_scope.cancel()


async def test_a_small_limit_of_processes_is_one_of_each_program(run):
    """E4: not one of all that wait."""
    result = await run("shell", "echo a | cat; echo b | cat | cat", processes=16)
    assert (result.status, result.stdout.text) == ("ok", "a\nb\n")


async def test_what_others_print_before_the_end_is_there_and_after_it_nobody_prints(run):
    """E2, E5: threads and children that the program leaves behind."""
    code = """
import os, subprocess, sys, threading
out, done = os.pipe()
def chatter():
    os.write(1, b'thread\\n')
    os.write(done, b'.')
    threading.Event().wait()
threading.Thread(target=chatter, daemon=True).start()
os.read(out, 1)
subprocess.Popen(['sh', '-c', 'echo child; echo . >&%d; sleep 1000' % done], pass_fds=[done])
os.read(out, 1)
subprocess.Popen(['sh', '-c', 'trap "" TERM; sleep 60; echo too late'], start_new_session=True)
print('last')
"""
    result = await run("python", code)
    assert result.status == "ok"
    assert result.stdout.text == "thread\nchild\nlast\n"


SHELL_ENDINGS = [
    ("echo $$", "ok", 0, "2\n"),
    ("exit 3", "error", 3, ""),
    ("kill -9 $$", "error", 137, ""),
    ("kill -TERM $$", "error", 143, ""),
    ("false | true; echo ${PIPESTATUS[@]}", "ok", 0, "1 0\n"),
    ("(exit 5) & wait $!; echo $?", "ok", 0, "5\n"),
    ("sleep 1000 & kill $!; wait $!; echo $?", "ok", 0, "143\n"),
    ("trap 'echo caught' USR1; kill -USR1 $$; echo on", "ok", 0, "caught\non\n"),
    ("(trap '' HUP TERM; sleep 60; echo late) & echo now", "ok", 0, "now\n"),
    ("yes | head -n 1", "ok", 0, "y\n"),
]


async def test_a_shell_program_ends_as_it_ends(shared_engine):
    """E1, E2, E5: the same process number, exit codes and signals, and no job outlives it."""
    for code, *expected in SHELL_ENDINGS:
        result = await shared_engine.execute(Request(language="shell", code=code), caller="test")
        assert [result.status, result.exit_code, result.stdout.text] == expected, (code, result.stderr.text)
