"""All commands of one server: how many, whose, and for how long they are known."""

import signal
import tempfile
from pathlib import Path
from types import SimpleNamespace

import anyio
import pytest
from msgspec.structs import replace

from gloveport.errors import SandboxError
from gloveport.sandbox.base import Outcome
from gloveport.workspace.commands import registry
from gloveport.workspace.commands.registry import MOST_ACTIVE, MOST_OF_OWNER, open_commands
from gloveport.workspace.errors import WorkspaceError

SPOOL = Path(tempfile.gettempdir())
OUTCOME = Outcome(
    exit_code=0,
    killed_by=None,
    report=None,
    wall_seconds=0.1,
    cpu_seconds=None,
    peak_memory_bytes=None,
    refused_forks=None,
)


class Tin:
    """A console that keeps what it is given; ``unread`` says whether nothing reads it."""

    def __init__(self):
        self.written, self.signals, self.closed, self.reads = b"", [], False, anyio.Event()
        self.reads.set()

    async def write(self, data):
        await self.reads.wait()
        if self.closed:
            raise BrokenPipeError
        self.written += data

    def close_input(self):
        self.closed = True

    def signal(self, number):
        self.signals.append(number)


@pytest.fixture
async def commands():
    async with open_commands(900, SPOOL) as one:
        yield one


def going(until=None, console=None):
    """A command that goes on until it is told to end."""

    async def execute(command):
        command.begin(console or Tin())
        await (until or anyio.Event()).wait()
        return OUTCOME

    return execute


async def over(command):
    with anyio.fail_after(5):
        while not command.is_over:
            await command.wait_changed(1)


async def test_who_runs_as_many_commands_as_one_may_leaves_room_for_others(commands):
    """W4, P8."""
    until = anyio.Event()
    for _ in range(MOST_OF_OWNER):
        await commands.begin("one", going(until), is_terminal=False)
    with pytest.raises(WorkspaceError, match="16 commands of yours are running"):
        await commands.begin("one", going(), is_terminal=False)
    await commands.begin("another", going(), is_terminal=False)
    until.set()


async def test_no_more_than_twenty_four_run_at_once_whoever_they_are_of(commands):
    """W4, CT-R1: COMMAND_LIMIT_REACHED says so, and that it may be tried again."""
    until = anyio.Event()
    for number in range(MOST_ACTIVE):
        await commands.begin(f"owner {number}", going(until), is_terminal=False)
    with pytest.raises(WorkspaceError) as error:
        await commands.begin("another", going(), is_terminal=False)
    assert (error.value.code, error.value.retryable) == ("COMMAND_LIMIT_REACHED", True)
    assert error.value.details == {"max_active_commands": 24}
    until.set()
    await anyio.wait_all_tasks_blocked()
    await commands.begin("another", going(), is_terminal=False)


async def test_a_command_that_never_begins_is_the_fault_of_whoever_asked_and_of_nobody_else(commands):
    """W4: COMMAND_SPAWN_FAILED and the like reach the call; nothing is remembered."""

    async def fails(_command):
        raise SandboxError("no wall")

    with pytest.raises(SandboxError):
        await commands.begin("me", fails, is_terminal=False)
    other = await commands.begin("me", going(), is_terminal=False)
    assert commands.get(other.id, "me") is other


async def test_a_command_that_breaks_when_it_has_begun_is_over(commands):
    """W4"""

    async def breaks(command):
        command.begin(Tin())
        raise SandboxError("gone")

    command = await commands.begin("me", breaks, is_terminal=False)
    await over(command)
    assert (command.status, command.exit_code) == ("terminated", -signal.SIGKILL)
    assert isinstance(command.failure, SandboxError)


async def test_ids_are_long_and_only_their_owner_knows_a_command_by_them(commands):
    """P34, W4"""
    one, two = [await commands.begin("me", going(), is_terminal=False) for _ in range(2)]
    assert one.id != two.id
    assert len(one.id) >= 24
    for command_id, owner in ((one.id, "you"), ("", "me"), (one.id[:-1], "me")):
        with pytest.raises(WorkspaceError) as error:
            commands.get(command_id, owner)
        assert error.value.code == "COMMAND_NOT_FOUND"


async def test_an_id_is_no_option_of_a_command_line(commands):
    """``gloveport ports open PORT ID`` would take one that begins with a dash for an option: one of 64."""

    async def execute(command):
        command.begin(Tin())
        return OUTCOME

    for _ in range(600):
        assert not (await commands.begin("one", execute, is_terminal=False)).id.startswith("-")


async def test_of_what_is_over_the_last_few_are_remembered(commands, monkeypatch):
    """W4, R1: 32 of them, and no longer than five minutes."""
    known = []
    for number in range(40):
        until = anyio.Event()
        known.append(await commands.begin("me", going(until), is_terminal=False))
        if number == 38:
            known[-1].outputs["stdout"].write(b"x" * 11)
        until.set()
        await over(known[-1])

    def found(command):
        try:
            return commands.get(command.id, "me") is command
        except WorkspaceError:
            return False

    assert [found(command) for command in known] == [False] * 8 + [True] * 32
    monkeypatch.setattr(registry._RETENTION, "bytes", 10)
    assert [found(command) for command in known] == [False] * 39 + [True]
    assert registry._RETENTION.seconds == 300
    monkeypatch.setattr(registry._RETENTION, "seconds", -1)  # a host that runs since a minute knows no older time
    assert not found(known[-1])


async def test_whoever_gives_up_before_a_command_has_begun_ends_it(commands):
    """CT-L4"""
    ended = anyio.Event()

    async def slow(_command):
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    with anyio.move_on_after(0):
        await commands.begin("me", slow, is_terminal=False)
    with anyio.fail_after(5):
        await ended.wait()


async def test_the_commands_of_a_client_that_has_gone_are_ended_after_a_while(monkeypatch):
    """CT-L3: and those of one that is heard of go on."""
    monkeypatch.setattr(registry, "_LOOK_SECONDS", 0.01)
    async with open_commands(60, SPOOL) as commands:
        gone = await commands.begin("gone", going(), is_terminal=False)
        here = await commands.begin("here", going(), is_terminal=False)
        gone.began -= 61
        here.began -= 61
        commands.see("here")
        await over(gone)
        assert gone.status == "terminated"
        assert not here.is_over


async def test_when_the_server_ends_all_commands_are_ended_and_waited_for():
    """CT-L2"""
    left = []

    async def execute(command):
        command.begin(Tin())
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            left.append(command.id)

    async with open_commands(60, SPOOL) as commands:
        begun = [await commands.begin("me", execute, is_terminal=False) for _ in range(3)]
        await commands.end()
        assert sorted(left) == sorted(command.id for command in begun)


async def test_a_signal_is_sent_and_force_comes_after_it(commands):
    """W4"""
    tin = Tin()
    command = await commands.begin("me", going(console=tin), is_terminal=False)
    assert await commands.kill(command, signal.SIGTERM, 0, 5) == "SIGTERM, SIGKILL"
    assert (tin.signals, command.is_over) == ([signal.SIGTERM], True)
    assert await commands.kill(command, signal.SIGTERM, 0, 5) is None


async def test_what_is_not_read_in_time_is_read_later_and_the_end_comes_behind_it(commands):
    """W4, CT-L9"""
    tin = Tin()
    tin.reads = anyio.Event()
    command = await commands.begin("me", going(console=tin), is_terminal=False)
    await commands.feed(command, "late", until=0, then="close")
    assert (tin.written, tin.closed) == (b"", False)
    tin.reads.set()
    await anyio.wait_all_tasks_blocked()
    assert (tin.written, tin.closed) == (b"late", True)
    with pytest.raises(WorkspaceError) as error:
        await commands.feed(command, "more", until=float("inf"))
    assert error.value.code == "COMMAND_CLOSED"


async def test_what_a_command_does_not_read_is_not_kept_without_end(commands):
    """R1"""
    tin = Tin()
    tin.reads = anyio.Event()
    command = await commands.begin("me", going(console=tin), is_terminal=False)
    for _ in range(4):
        await commands.feed(command, "x" * (1 << 20), until=0)
        await anyio.wait_all_tasks_blocked()
    with pytest.raises(WorkspaceError) as error:
        await commands.feed(command, "x", until=float("inf"))
    assert (error.value.code, error.value.retryable) == ("COMMAND_LIMIT_REACHED", True)


async def test_a_signal_without_a_name_has_a_number():
    """W4"""
    command = registry.Command(id="x", owner="me", is_terminal=False, spool=SPOOL)
    command.outcome = replace(OUTCOME, exit_code=128 + 40, signal=40)
    command.end()
    assert (command.exit_code, command.signal_name, command.status) == (-40, "SIG40", "terminated")


async def test_a_console_is_all_that_a_command_needs_to_have_begun():
    """W4: status and exit code before and after."""
    command = registry.Command(id="x", owner="me", is_terminal=False, spool=SPOOL)
    assert (command.status, command.exit_code, command.signal_name) == ("running", None, None)
    command.begin(SimpleNamespace())
    assert command.status == "running"
    command.outcome = replace(OUTCOME, exit_code=None, killed_by="wall_seconds")
    command.end()
    assert (command.status, command.exit_code) == ("timeout", -9)
