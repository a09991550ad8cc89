"""P9: whatever a server has started is dead soon after the server, at whatever moment somebody kills whom of them."""

import contextlib
import errno
import marshal
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from io import FileIO
from pathlib import Path

import anyio
import pytest

from gloveport.errors import GuestError, SandboxError
from gloveport.model import Limits
from gloveport.sandbox.launch.bubblewrap_process import BubblewrapProcess, is_dead, open_child
from gloveport.sandbox.launch.launcher import Launched, Launcher
from gloveport.sandbox.launch.uid_lease import lease
from gloveport.sandbox.reaper import launch, reaper

# As bubblewrap when it is killed too early: who is left waits for ever, and has not asked to die with anybody.
LEAVES_ONE = "sleep 1000 & echo $!; kill -KILL $$"
STAYS = "sleep 1000 & echo $!; wait"
SERVER = """
import contextlib, sys, anyio
from gloveport.sandbox.cgroups import delegation
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.errors import SandboxError
from tests.sandbox.test_launcher import start
async def main():
    with Launcher.open() as launcher, contextlib.ExitStack() as stack:
        with contextlib.suppress(SandboxError):
            tree = delegation.detect(claim=launcher.claim)
            for directory in {*tree.directories.values()}:
                (directory / "run-used").mkdir()
        left = [(await start(launcher, script, stack))[1].readline().decode() for script in sys.argv[1:]]
        print(*launcher._places, sep="\\n")
        print(launcher._reaper.process.pid, *map(int, left), flush=True)
        await anyio.sleep_forever()
anyio.run(main)
"""


async def start(launcher, script, stack, held=(), *, shell="/bin/sh", first=False):
    """Launch a shell that runs a script, and what it prints."""
    reading, writing = os.pipe()
    output = stack.enter_context(os.fdopen(reading, "rb", buffering=0))
    with FileIO(writing, "w") as far, FileIO(os.memfd_create("specification"), "w+") as file:
        file.write(marshal.dumps({"argv": [shell, "-c", f"exec >&3; {script}"], "uid": None}))
        file.seek(0)
        passed = [2, file.fileno(), far.fileno()]
        launched = launcher.launch_first(passed, held, stack) if first else await launcher.launch(passed, held, stack)
    return launched, output


async def until_dead(pid):
    """Return when the process is dead."""
    with contextlib.suppress(ProcessLookupError), FileIO(os.pidfd_open(pid)) as descriptor, anyio.fail_after(30):
        await anyio.wait_readable(descriptor)


@pytest.fixture
def stack():
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def launcher():
    with Launcher.open() as launcher:
        yield launcher


async def test_what_a_launch_leaves_behind_is_killed_when_it_dies(launcher, stack):
    launched, output = await start(launcher, LEAVES_ONE, stack)
    left = int(output.readline())
    await launched.wait()
    assert launched.code == -signal.SIGKILL
    await until_dead(left)


async def test_a_launch_is_killed_with_all_that_it_has_started_and_what_is_held_for_it_is_let_go_then(launcher, stack):
    held, writing = os.pipe()
    stack.callback(os.close, held)
    with FileIO(writing, "w") as far:
        launched, output = await start(launcher, STAYS, stack, [far.fileno()])
    left = int(output.readline())
    os.set_blocking(held, False)
    with pytest.raises(BlockingIOError):
        os.read(held, 1)
    launched.kill()
    await launched.wait()
    assert os.read(held, 1) == b""
    await until_dead(left)


async def test_who_leaves_a_launcher_leaves_nothing_running(stack):
    with Launcher.open() as launcher:
        launched, output = await start(launcher, STAYS, stack)
        left = int(output.readline())
    await launched.wait()
    await until_dead(left)


async def test_what_is_blocked_in_the_server_is_blocked_in_nothing_that_it_starts(stack):
    """E1: whoever starts the server may have blocked some, as `perf` does; a program would wait for them in vain."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGWINCH})
    try:
        with Launcher.open() as launcher:
            # Bash, since dash unblocks them all.
            launched, output = await start(launcher, "grep SigBlk /proc/self/status", stack, shell="/bin/bash")
            assert int(output.readline().split()[1], 16) == 0
            await launched.wait()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


async def test_many_launches_wait_for_a_reaper_that_is_behind(launcher, stack):
    launcher.prepare()
    launcher._reaper.control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1)  # the kernel's least: room for a few
    os.kill(launcher._reaper.process.pid, signal.SIGSTOP)
    said = []

    async def launch():
        launched, output = await start(launcher, "echo here", stack)
        await launched.wait()
        said.append(output.readline())

    async with anyio.create_task_group() as tasks:
        for _ in range(20):
            tasks.start_soon(launch)
        await anyio.wait_all_tasks_blocked()
        os.kill(launcher._reaper.process.pid, signal.SIGCONT)
    assert said == 20 * [b"here\n"]


async def test_a_reaper_that_was_killed_before_the_first_launch_is_replaced(launcher, stack):
    launcher.prepare()
    os.kill(launcher._reaper.process.pid, signal.SIGKILL)
    await until_dead(launcher._reaper.process.pid)
    launched, output = await start(launcher, "echo here", stack, first=True)
    await launched.wait()
    assert output.readline() == b"here\n"


async def test_a_reaper_that_was_killed_is_replaced(launcher, stack):
    launched, output = await start(launcher, STAYS, stack)
    sleeper = int(output.readline())
    os.kill(launcher._reaper.process.pid, signal.SIGKILL)
    await launched.wait()
    assert launched.code is None
    again, output = await start(launcher, "echo $$", stack)
    said = int(output.readline())
    await again.wait()
    assert (said, again.code) == (again.pid, 0)
    with contextlib.suppress(ProcessLookupError):
        os.kill(sleeper, signal.SIGKILL)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM], ids=str)
async def test_with_a_killed_server_ends_what_it_has_started(number, eventually):
    """Whether or not it has asked to. Its cgroups are removed, by its reaper or by a server that starts just then."""
    command = [sys.executable, "-c", SERVER, LEAVES_ONE, STAYS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2], text=True) as server:
        *places, line = [server.stdout.readline()]
        while not line.strip()[:1].isdigit():
            places, line = [*places, line], server.stdout.readline()
        *left, ender = map(int, line.split()[::-1])
        server.send_signal(number)
        server.wait()
    for pid in (*left, ender):
        await until_dead(pid)
    eventually(lambda: not any(Path(place.strip()).exists() for place in places if place.strip()))


def test_a_cgroup_that_is_made_while_those_beside_it_are_removed_goes_as_well(tree, monkeypatch):
    """P9: by a thread of the server that is ending, behind the back of who clears up."""
    with tree.group("run-late", Limits()) as group:
        place, kill_members = Path(group.paths["memory"]), reaper.kill_members

        def make_another(directory):
            monkeypatch.setattr(reaper, "kill_members", kill_members)
            (place / "late").mkdir()
            kill_members(directory)

        monkeypatch.setattr(reaper, "kill_members", make_another)
        reaper.clear(str(place))
        assert not place.exists()


def test_a_killed_groups_quota_is_lifted(tree):
    """To tear down what it had takes processor time, which is nobody's to save any more."""
    with tree.group("run-lifted", Limits(cpus=0.01)) as group:
        group.lift_quota()
        name = "cpu.max" if tree.version == 2 else "cpu.cfs_quota_us"
        assert (Path(group.paths["cpu"]) / name).read_text().split()[0] in ("max", "-1")


def test_what_is_left_of_a_uid_is_ended_before_somebody_else_gets_it():
    """Only root leases uids: sandboxes of an ordinary user have its own."""
    if os.geteuid() != 0:
        return
    with lease(1_980_000_000 + os.getpid(), 1) as leased:
        left = subprocess.Popen(["/bin/sleep", "1000"], user=leased.uid, group=leased.uid, extra_groups=[])
        with left:
            become = f"import runpy; runpy.run_path({launch.__file__!r})['become']({leased.uid})"
            try:
                subprocess.run([sys.executable, "-I", "-S", "-c", become], check=True)
                assert left.wait(10) == -signal.SIGKILL
            finally:
                left.kill()


def test_several_may_clear_a_server_that_has_died_at_once(tree):
    """Its reaper, and whichever servers start just then: each goes on where another has been quicker."""
    place = tree.directories["memory"] / "place"
    with ThreadPoolExecutor(4) as threads:
        for _ in range(6):
            for number in range(20):
                (place / f"run-{number}").mkdir(parents=True)
            list(threads.map(reaper.clear, [str(place)] * 4))
            assert not place.exists()


def test_who_has_the_number_of_a_dead_child_is_refused_whatever_its_name(tmp_path):
    script = tmp_path / os.fsdecode(b"x) 0 \xff")
    script.write_text("#!/bin/sh\necho begun\nread line\n")
    script.chmod(0o700)
    with (
        subprocess.Popen([script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process,
        socket.socket() as status,
    ):
        assert process.stdout.readline() == b"begun\n"
        open_child(process.pid, Launched(status=status, _pid=os.getpid())).close()
        with pytest.raises(GuestError, match="it died while it was built"):
            open_child(process.pid, Launched(status=status, _pid=process.pid))


async def test_a_sandbox_that_is_up_before_the_reaper_has_told_its_number_is_found():
    ours, theirs = socket.socketpair()
    near, far = socket.socketpair()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    ours.settimeout(0)
    with subprocess.Popen(["sleep", "1000"]) as inner, FileIO(reading) as info, ours, theirs, near, far:
        os.write(writing, b'{"child-pid": %d}' % inner.pid)
        os.close(writing)
        process = BubblewrapProcess(
            process=Launched(status=ours),
            channel=near,
            uid=None,
            mount_identities=(),
            info=info,
            diagnosis=info,
            network=None,
        )
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(process.find_inner)
                await anyio.wait_all_tasks_blocked()
                theirs.send(reaper.STATUS.pack(os.getpid()))
            with process.inner:
                assert not is_dead(process.inner)
        finally:
            inner.kill()


def test_where_no_process_can_be_watched_that_is_said_before_anything_is_started(monkeypatch):
    """As under the system call filter of an old container engine."""

    def refuse(_pid):
        raise PermissionError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "pidfd_open", refuse)
    with pytest.raises(SandboxError, match="no process can be watched here"), Launcher.open():
        pass
