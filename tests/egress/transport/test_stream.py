"""A connection that never blocks: what happens when it is closed under somebody who waits."""

import socket
from contextlib import closing

import anyio
import pytest

from gloveport.egress.transport.stream import SocketStream

pytestmark = pytest.mark.anyio


async def test_who_never_has_to_wait_passes_the_turn_on_now_and_then():
    """E4."""
    near, far = socket.socketpair()
    passed = 0

    async def pass_turn():
        nonlocal passed
        passed += 1

    with far, closing(SocketStream(near, pass_turn)) as wire:
        far.sendall(bytes(100))
        assert b"".join([await wire.receive(1) for _ in range(100)]) == bytes(100)
    assert passed == 20


async def test_who_waits_when_it_is_closed_gets_an_error_and_its_descriptor_is_not_another_ones_meanwhile():
    """T3: closed at once, the number could be a new connection's, which would then wait for ever."""
    near, far = socket.socketpair()
    with far:
        wire, number, raised = SocketStream(near), near.fileno(), []

        async def wait():
            with pytest.raises(OSError, match="closed while"):
                await wire.receive()
            raised.append(near.fileno())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            wire.close()
            assert near.fileno() == number
        assert raised == [-1]
