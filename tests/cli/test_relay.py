"""What moves the bytes of a program that a person has started."""

import os
import socket
import tty
from io import FileIO

import anyio
import pytest
from anyio.lowlevel import checkpoint
from tests.cli.terminals import open_terminal

from gloveport.cli.terminal import front
from gloveport.cli.terminal.destination import Destination
from gloveport.cli.terminal.output_filter import OutputFilter
from gloveport.cli.terminal.relay import Relay
from gloveport.sandbox.console import Console, close
from gloveport.secrets.sources import Sources
from gloveport.secrets.vault import Vault


@pytest.mark.anyio
@pytest.mark.parametrize("turns", [None, 0, 1, 2, 3])
async def test_a_sandbox_that_is_gone_under_its_program_is_no_error_of_the_relay(turns):
    """Whoever called was told of that by the traceback of who waits for the program to be stopped."""
    pipes = [[FileIO(end, mode) for end, mode in zip(os.pipe2(os.O_NONBLOCK), "rw", strict=True)] for _ in range(4)]
    (stops, far_stops), (output, _), (errors, _), (_, input_) = pipes
    ours, theirs = socket.socketpair()
    with ours, theirs, FileIO(os.pidfd_open(os.getpid())) as process:
        console = Console(input=input_, output=output, errors=errors, stops=stops, process=process, is_terminal=False)
        async with anyio.create_task_group() as tasks:
            Relay(tasks=tasks, front=theirs, terminal=None).begin(console)
            await anyio.wait_all_tasks_blocked()
            if turns is not None:  # stopped, so many turns of the event loop before that
                far_stops.write(b"s")
                for _ in range(turns):
                    await checkpoint()
            close(stops)
            tasks.cancel_scope.deadline = anyio.current_time() + 5
    for file in [one for pipe in pipes for one in pipe]:
        file.close()
    assert not tasks.cancel_scope.cancelled_caught


@pytest.mark.anyio
async def test_a_terminal_that_is_full_of_output_is_restored_all_the_same(monkeypatch):
    """P41: as by a program that is killed while it floods a slow connection."""
    monkeypatch.setattr(front, "_ROOM_SECONDS", 0.1)
    with open_terminal() as terminal:
        tty.setraw(terminal.program)
        output = Destination(descriptor=terminal.program, filter=OutputFilter(), vault=Vault(Sources({})))
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(output.write, b"\x1b[?1049h\x1b[?1003h" + b"\x1b[31m" * (1 << 18))
                await anyio.wait_all_tasks_blocked()
                scope.cancel()
        output.close()
        terminal.see(r"\x1b\\\x1b\[\?1049l\x1b\[\?1003l")
