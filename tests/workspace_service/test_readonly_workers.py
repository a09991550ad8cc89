"""Sandboxes that run one program after another, none of which may hurt the host, or the next one."""

import contextlib
import signal
import time
from pathlib import Path

import anyio
import pytest
from tests.workspace.sandboxed import WORKSPACE, fork_server

from gloveport.errors import SandboxError
from gloveport.model import Program
from gloveport.sandbox.pool.zygote_process import ZygoteProcess
from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace_service import readonly_workers
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers

pytestmark = pytest.mark.anyio

PYTHON = ("python3", "-I", "-S", "-c")
SAME = "print(1)"


@pytest.fixture(scope="module")
async def server(tmp_path_factory):
    """A fork server whose sandboxes share a directory with the host."""
    root = tmp_path_factory.mktemp("shared")
    (root / "below").mkdir()
    (root / "file").write_text("text")
    async with fork_server(root) as running:
        yield running


@pytest.fixture
async def reading(server):
    """ReadonlyWorkers of its own for one test."""
    async with anyio.create_task_group() as tasks:
        yield ReadonlyWorkers(make=server.fork, protections=((WORKSPACE, "read-only"),), target=WORKSPACE, tasks=tasks)
        tasks.cancel_scope.cancel()


@pytest.fixture
def run(reading):
    """``await run(python)``."""

    async def call(source, *arguments, **more):
        return await reading.run((*PYTHON, source, *arguments), **more)

    return call


@pytest.fixture
def forks(server: ZygoteProcess):
    """How many sandboxes were made since the test began."""
    before = server.forks
    return lambda: server.forks - before


async def test_one_sandbox_runs_program_after_program(run, forks):
    """E9: each is told apart by what it says, in which order it says it, and how it ends."""
    for code in (0, 3, 127):
        ran = await run(f"import sys; print('out {code}'); print('err', file=sys.stderr); sys.exit({code})")
        assert (ran.exit_code, ran.stdout, ran.stderr) == (code, b"out %d\n" % code, b"err\n")
        assert (ran.truncated, ran.timed_out) == (False, False)
    assert forks() == 1


async def test_a_program_that_is_ended_by_a_signal_is_the_last_one_there(run, forks):
    """E9: it may have been for memory, and then its sandbox is ended as well, whoever is in it by then."""
    assert (await run("import os; os.kill(os.getpid(), 9)")).exit_code == 137
    assert (await run("import sys; sys.exit(255)")).exit_code == 255
    assert (await run(SAME)).stdout == b"1\n"
    assert forks() == 3


async def test_a_program_gets_its_directory_its_variables_and_its_input(run):
    """W1: of any size and with any byte, and nothing of what was there for another."""
    text = bytes(range(256)) * 8192
    digest = "import hashlib, os, sys; print(os.getcwd(), os.environ.get('WORD'), len(sys.stdin.buffer.read()))"
    first = await run(digest, variables={"WORD": "é\n"}, stdin=text)
    assert first.stdout.decode() == f"{WORKSPACE} é\n {len(text)}\n"
    assert (await run(digest)).stdout.decode() == f"{WORKSPACE} None 0\n"
    assert await run("import sys; sys.stdout.buffer.write(sys.argv[1].encode('utf8', 'surrogateescape'))", "\udcff")


async def test_programs_run_side_by_side_and_no_more_than_a_few(run, forks):
    """E9: the others wait."""
    async with anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(run, "import time; time.sleep(0.05)")
    assert 1 < forks() <= 4


async def test_who_asks_for_one_program_need_not_wait_for_the_many_of_another(run, reading):
    """P8: callers take turns."""
    ended: list[str] = []

    async def ask(caller):
        await run(SAME, caller=caller)
        ended.append(caller)

    async with anyio.create_task_group() as tasks:
        for _ in range(40):
            tasks.start_soon(ask, "one")
        while reading._turns.waiting < 36:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(ask, "two")
    assert ended.index("two") < 20


@pytest.mark.parametrize(
    "attack",
    [
        "os.fork()",
        "import threading; threading.Thread(target=print).start()",
        "resource.setrlimit(resource.RLIMIT_NPROC, (9, 9))",
        "os.open(f'/proc/{os.getppid()}/mem', os.O_RDWR)",
        "os.open(f'/proc/{os.getppid()}/environ', os.O_RDONLY)",
        "os.listdir(f'/proc/{os.getppid()}/fd')",
        "os.open(f'/proc/{os.getppid()}/fd/0', os.O_RDONLY)",
        "libc.syscall(438, os.pidfd_open(os.getppid()), 0, 0) == -1 and fail()",
        "libc.ptrace(16, os.getppid(), 0, 0) == -1 and fail()",
        "os.chmod('file', 0o600)",
        "os.utime('file')",
        "open('new', 'w')",
        "open('/cache/new', 'w')",
        "import socket; socket.create_connection(('192.0.2.1', 80))",
    ],
)
async def test_a_program_that_was_taken_over_changes_nothing_and_nobody(run, attack):
    """P39, E9, W4: the one after it answers as if it had not been there."""
    head = "import ctypes, os, resource\nlibc = ctypes.CDLL(None)\ndef fail(): raise OSError\n"
    ran = await run(f"{head}try:\n    {attack}\nexcept (OSError, RuntimeError, ValueError): print('refused')")
    assert (ran.exit_code, ran.stdout) == (0, b"refused\n"), ran
    assert (await run("print(1)")).stdout == b"1\n"


@pytest.mark.parametrize(
    "attack",
    [
        "resource.prlimit(os.getppid(), resource.RLIMIT_NPROC, (0, 0))",
        "resource.prlimit(os.getppid(), resource.RLIMIT_DATA, (1 << 20, 1 << 20))",
        "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
        "os.sched_setaffinity(os.getppid(), {min(os.sched_getaffinity(0))})",
        "os.sched_setscheduler(os.getppid(), os.SCHED_BATCH, os.sched_param(0))",
        "open('/tmp/left', 'w')",
        "open('/dev/shm/left', 'w')",
    ],
)
async def test_where_a_program_has_left_something_no_other_comes_after_it(run, forks, attack):
    """P39, E9, W4"""
    await run(SAME)
    with contextlib.suppress(WorkspaceError):
        await run(f"import os, resource\ntry: {attack}\nexcept OSError: pass")
    assert (await run(SAME)).stdout == b"1\n"
    assert forks() > 1 or "sched_" in attack  # on one processor, and where the filter refuses it, there is nothing left


async def test_flags_of_a_stream_are_those_of_one_program(run):
    """E9: nor is anybody sent signals for what another one says."""
    attack = (
        "import fcntl, os, signal\n"
        "for s in 1, 2:\n"
        "    fcntl.fcntl(s, fcntl.F_SETOWN, os.getppid())\n"
        "    fcntl.fcntl(s, 10, signal.SIGSTOP)\n"  # F_SETSIG
        "    fcntl.fcntl(s, fcntl.F_SETFL, os.O_ASYNC | os.O_NONBLOCK)\n"
    )
    assert (await run(attack)).exit_code == 0
    for _ in range(3):
        ran = await run("import fcntl; print(fcntl.fcntl(1, fcntl.F_GETFL) & 0o24000, fcntl.fcntl(1, fcntl.F_GETOWN))")
        assert (ran.stdout, ran.timed_out) == (b"0 0\n", False)


async def test_a_program_that_stops_its_sandbox_is_the_last_one_there(run, forks):
    """E9: though it says on one stream whatever it likes."""
    ran = await run("import os, signal; print(1, flush=True); os.kill(os.getppid(), signal.SIGSTOP)", seconds=0.5)
    assert ran.timed_out
    assert (await run(SAME, seconds=9)).exit_code == 0
    assert forks() == 2


async def test_all_tries_together_take_no_longer_than_one_may(run, forks):
    """E9: the second one has what time the first has left, and there is no third, however many sandboxes wait."""
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(run, "import time; time.sleep(0.2)")
    made = forks()
    assert made > 1
    ran = await run("import os, time; time.sleep(1.3); os.kill(os.getppid(), 9)", seconds=2.4)
    assert (ran.timed_out, forks()) == (True, made + 1)


async def test_a_program_may_work_while_its_sandbox_would_be_idle_too_long(run, forks, monkeypatch):
    """E9: and for longer than a command's time, which is not its own."""
    monkeypatch.setattr(readonly_workers, "_IDLE_SECONDS", 0.5)
    await run(SAME)
    assert (await run("import time; time.sleep(0.8); print(2)")).stdout == b"2\n"
    assert forks() == 1


async def test_a_program_ends_by_the_signal_of_a_closed_pipe(reading):
    """E9: which Python, that starts it, ignores."""
    ran = await reading.run(("grep", "SigIgn", "/proc/self/status"))
    assert int(ran.stdout.split()[1], 16) & 1 << (signal.SIGPIPE - 1) == 0


async def test_who_gives_up_while_a_sandbox_is_made_harms_nobody(server, reading):
    """E6, W4: what the fork server is asked for another then is what it does."""
    writable = server.fork(())
    async with writable as child:
        assert child.is_over() is False
    for number in range(0, 40, 2):
        with anyio.move_on_after(number / 8000):
            await reading.run(("true",))
        reading._idle.clear()
        async with server.fork(()) as child:
            assert await wrote(child), number
    assert server.is_alive()


async def wrote(child):
    """Whether a program may write to the directory."""
    program = Program(name="sh", argv=("/bin/sh", "-c", "touch new && rm new"), directory=WORKSPACE)
    said = Said()
    return (await child.run(program, value_bytes=256, stdout=said, stderr=said)).exit_code == 0


class Said:
    """Listens to nothing."""

    def write(self, data):
        """Take it."""

    def full(self):
        """Never."""
        return False


async def test_who_ends_the_sandbox_ends_their_own_answer(run, forks):
    """E9: the next program gets another one; and a program that had nothing to do with it is run again."""
    await run(SAME)
    with pytest.raises(WorkspaceError) as caught:
        await run("import os, signal; os.kill(os.getppid(), signal.SIGKILL); signal.pause()")
    assert caught.value.code == "SANDBOX_UNAVAILABLE"
    assert forks() == 2  # of the first it was not the first program, so it was given another chance
    assert (await run(SAME)).stdout == b"1\n"
    assert forks() == 3


async def test_what_looks_like_an_end_is_none(run):
    """E9: nobody knows the mark; it is not in the environment, nor on the command line."""
    guess = "import os, sys\nfor s in 1, 2: os.write(s, bytes(17))\nos.write(1, b'more')"
    ran = await run(guess)
    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, bytes(17) + b"more", bytes(17))


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
async def test_a_program_that_says_too_much_is_ended(run, stream):
    """E9, N6: what it has said first is there."""
    ran = await run(f"import sys\nwhile 1: sys.{stream}.write('x' * 4096)", most_bytes=10_000)
    assert ran.exit_code is None
    assert (len(ran.stdout), len(ran.stderr)) == ((10_000, 0) if stream == "stdout" else (0, 64 << 10))
    assert (ran.truncated, ran.timed_out) == (stream == "stdout", False)
    assert (await run("print(1)")).stdout == b"1\n"


async def test_a_program_that_says_just_what_may_be_said_is_whole(run):
    """E9"""
    exact = await run("print('x' * 99)", most_bytes=100)
    assert (exact.exit_code, len(exact.stdout), exact.truncated) == (0, 100, False)
    more = await run("print('x' * 100)", most_bytes=100)
    assert (len(more.stdout), more.truncated) == (100, True)


async def test_a_program_that_takes_too_long_is_ended_and_holds_up_nobody(run):
    """E9"""
    started = time.monotonic()
    ran = await run("import time; print('x', flush=True); time.sleep(60)", seconds=1.5)
    assert (ran.exit_code, ran.timed_out, ran.stdout) == (None, True, b"x\n")
    assert time.monotonic() - started < 30
    assert (await run("print(1)")).stdout == b"1\n"


async def test_a_program_that_is_wanted_no_more_is_ended(run, server):
    """E6, E9"""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "import time; print('x', flush=True); time.sleep(60)")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(30):
        await server.until_childless()
    assert (await run("print(1)")).stdout == b"1\n"


async def test_a_program_that_takes_too_much_memory_is_ended(run):
    """E9"""
    ran = await run("x = b'x' * (8 << 30)")
    assert ran.exit_code in {None, 1, 137}
    assert (await run("print(1)")).stdout == b"1\n"


async def test_a_sandbox_that_has_nothing_to_do_is_ended(run, server, monkeypatch):
    """N6"""
    monkeypatch.setattr(readonly_workers, "_IDLE_SECONDS", 0.05)
    await run("print(1)")
    with anyio.fail_after(30):
        await server.until_childless()


async def test_a_sandbox_serves_for_a_while_only(run, forks, monkeypatch):
    """E9"""
    monkeypatch.setattr(readonly_workers, "_MOST_JOBS", 2)
    for made in (1, 1, 2, 2, 3):
        await run(SAME)
        assert forks() == made


async def test_a_sandbox_that_is_not_to_be_had_is_an_error(server):
    """E9: with its reason and what to do."""

    @contextlib.asynccontextmanager
    async def make(kept):
        raise SandboxError("no such luck", hint="buy some")
        yield kept

    async with anyio.create_task_group() as tasks:
        reading = ReadonlyWorkers(make=make, protections=(), target=WORKSPACE, tasks=tasks)
        with pytest.raises(WorkspaceError, match="no such luck") as caught:
            await reading.run(("true",))
    assert (caught.value.code, caught.value.hint, caught.value.retryable) == ("SANDBOX_UNAVAILABLE", "buy some", True)


async def test_the_host_is_read_only_and_what_is_in_force_is_known(reading, run, server):
    """W4, E9"""
    ran = await run("print(open('file').read())")
    assert ran.stdout == b"text\n"
    assert reading.walls.seccomp
    assert sorted(path.name for path in Path(server.plan.writable[0].source).iterdir()) == ["below", "file"]
