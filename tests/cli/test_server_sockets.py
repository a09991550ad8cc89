"""The sockets at which commands of the same user find a server."""

import asyncio
import contextlib
import os
import resource
import socket

import anyio
import pytest
from anyio import to_thread

from gloveport.cli import run_protocol
from gloveport.cli.server_sockets import serve_commands


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "sockets"


def connect(directory):
    with run_protocol.open_directory(directory) as opened:
        client = socket.socket(socket.AF_UNIX)
        client.connect(run_protocol.address(opened, "one"))
    return client


@pytest.mark.parametrize("waits", ["for the command", "for nobody"])
async def test_a_server_that_ends_at_the_moment_in_which_a_command_speaks_ends_quietly(directory, waits):
    entered = anyio.Event()

    async def answer(connection):
        entered.set()
        await connection.receive(1)

    with anyio.CancelScope() as scope:
        async with serve_commands(directory, "one", "gloveport run", answer):
            if waits == "for the command":
                client = connect(directory)
                await entered.wait()
                await anyio.wait_all_tasks_blocked()
                client.close()
            else:
                await anyio.wait_all_tasks_blocked()
                client = connect(directory)
            asyncio.get_running_loop().call_soon(scope.cancel)  # first of a round of the loop that also sees the socket
            await anyio.sleep_forever()
    client.close()
    assert scope.cancelled_caught


async def test_a_command_that_comes_where_no_descriptor_is_left_is_answered_later(directory, caplog, eventually):
    entered = anyio.Event()

    async def answer(_):
        entered.set()

    async with serve_commands(directory, "one", "gloveport run", answer):
        await anyio.wait_all_tasks_blocked()
        with connect(directory):
            with no_descriptor_left():
                said = "gloveport run can't be answered just now: Too many open files"
                await to_thread.run_sync(eventually, lambda: said in caplog.text)
            await entered.wait()


@contextlib.contextmanager
def no_descriptor_left():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    os.close(lowest := os.dup(0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
