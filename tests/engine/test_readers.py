"""Sandboxes that run one program after another, none of which may hurt the host, or the next one."""

import contextlib
import time
from pathlib import Path

import anyio
import pytest
from tests.workspace.sandboxed import WORKSPACE, fork_server

from gloveport.engine import readers
from gloveport.engine.readers import Readers
from gloveport.errors import SandboxError, WorkspaceError
from gloveport.sandbox.zygote import Zygote

pytestmark = pytest.mark.anyio

PYTHON = ("python3", "-I", "-S", "-c")
ITS_PARENT = "import os; print(os.readlink('/proc/self/ns/pid'), os.getppid())"


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
    """Readers of its own for one test."""
    async with anyio.create_task_group() as tasks:
        yield Readers(make=server.fork, kept=((WORKSPACE, "read-only"),), target=WORKSPACE, tasks=tasks)
        tasks.cancel_scope.cancel()


@pytest.fixture
def run(reading):
    """``await run(python)``."""

    async def call(source, *arguments, **more):
        return await reading.run((*PYTHON, source, *arguments), **more)

    return call


@pytest.fixture
def forks(server: Zygote):
    """How many sandboxes were made since the test began."""
    before = server.forks
    return lambda: server.forks - before


async def test_one_sandbox_runs_program_after_program(run, forks):
    """E9: each is told apart by what it says, in which order it says it, and how it ends."""
    for code in (0, 3, 127, 255):
        ran = await run(f"import sys; print('out {code}'); print('err', file=sys.stderr); sys.exit({code})")
        assert (ran.exit_code, ran.stdout, ran.stderr) == (code, b"out %d\n" % code, b"err\n")
        assert (ran.truncated, ran.timed_out) == (False, False)
    assert (await run("import os; os.kill(os.getpid(), 9)")).exit_code == 137
    assert forks() == 1


async def test_a_program_gets_its_directory_its_variables_and_its_input(run):
    """W1: of any size and with any byte, and nothing of what was there for another."""
    text = bytes(range(256)) * 8192
    digest = "import hashlib, os, sys; print(os.getcwd(), os.environ.get('WORD'), len(sys.stdin.buffer.read()))"
    first = await run(digest, directory="below", variables={"WORD": "é\n"}, stdin=text)
    assert first.stdout.decode() == f"{WORKSPACE}/below é\n {len(text)}\n"
    assert (await run(digest)).stdout.decode() == f"{WORKSPACE} None 0\n"
    assert await run("import sys; sys.stdout.buffer.write(sys.argv[1].encode('utf8', 'surrogateescape'))", "\udcff")
    assert "not there" not in (await run("print()", directory="nowhere")).stdout.decode()


async def test_programs_run_side_by_side_and_no_more_than_a_few(run, forks):
    """E9: the others wait."""
    async with anyio.create_task_group() as tasks:
        for _ in range(9):
            tasks.start_soon(run, "import time; time.sleep(0.05)")
    assert 1 < forks() <= 4


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
    """E9, W4: the one after it answers as if it had not been there."""
    head = "import ctypes, os, resource\nlibc = ctypes.CDLL(None)\ndef fail(): raise OSError\n"
    ran = await run(f"{head}try:\n    {attack}\nexcept (OSError, RuntimeError, ValueError): print('refused')")
    assert (ran.exit_code, ran.stdout) == (0, b"refused\n"), ran
    assert (await run("print(1)")).stdout == b"1\n"


async def test_who_ends_the_sandbox_ends_their_own_answer(run, forks):
    """E9: the next program gets another one; and a program that had nothing to do with it is run again."""
    first = await run(ITS_PARENT)
    with pytest.raises(WorkspaceError) as caught:
        await run("import os, signal; os.kill(os.getppid(), signal.SIGKILL); signal.pause()")
    assert caught.value.code == "SANDBOX_UNAVAILABLE"
    assert forks() == 2  # of the first it was not the first program, so it was given another chance
    assert (await run(ITS_PARENT)).stdout != first.stdout


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
    ran = await run("import time; print('x', flush=True); time.sleep(60)", seconds=0.3)
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
    monkeypatch.setattr(readers, "_IDLE_SECONDS", 0.05)
    await run("print(1)")
    with anyio.fail_after(30):
        await server.until_childless()


async def test_a_sandbox_serves_for_a_while_only(run, forks, monkeypatch):
    """E9"""
    monkeypatch.setattr(readers, "_MOST_JOBS", 2)
    seen = [(await run(ITS_PARENT)).stdout for _ in range(4)]
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert forks() == 2


async def test_a_sandbox_that_is_not_to_be_had_is_an_error(server):
    """E9: with its reason and what to do."""

    @contextlib.asynccontextmanager
    async def make(kept):
        raise SandboxError("no such luck", hint="buy some")
        yield kept

    async with anyio.create_task_group() as tasks:
        reading = Readers(make=make, kept=(), target=WORKSPACE, tasks=tasks)
        with pytest.raises(WorkspaceError, match="no such luck") as caught:
            await reading.run(("true",))
    assert (caught.value.code, caught.value.hint, caught.value.retryable) == ("SANDBOX_UNAVAILABLE", "buy some", True)


async def test_the_host_is_read_only_and_what_is_in_force_is_known(reading, run, server):
    """W4, E9"""
    ran = await run("print(open('file').read())")
    assert ran.stdout == b"text\n"
    assert reading.walls.seccomp
    assert sorted(path.name for path in Path(server.plan.writable[0].source).iterdir()) == ["below", "file"]
