"""view_image: what many who look at once cost."""

import struct

import anyio
import pytest
from anyio import to_thread

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.images.view import view_image
from gloveport.workspace.program import ProgramOutput

LARGE = b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR" + struct.pack(">II", 9000, 9000) + bytes(1 << 16)


class Runs:
    """A sandbox that makes nothing smaller, and counts how many pictures it is given at a time."""

    def __init__(self) -> None:
        self.inside = self.most = self.times = 0

    async def __call__(self, *_: object, stdin: bytes, **__: object) -> ProgramOutput:
        assert stdin == LARGE
        self.inside += 1
        self.times += 1
        self.most = max(self.most, self.inside)
        for _turn in range(20):
            await to_thread.run_sync(lambda: None)  # time for all others to come this far
        self.inside -= 1
        return ProgramOutput(exit_code=1, stdout=b"", stderr=b"", truncated=False, timed_out=False)


@pytest.mark.parametrize("_loop", [1, 2])  # the second has an event loop of its own
async def test_few_pictures_are_held_at_a_time_however_many_ask(tree, root, _loop):
    """CT-R4, CT-R3: each may have 32 MiB. Whoever waits is given an answer too."""
    (root / "large.png").write_bytes(LARGE)
    runs, refusals = Runs(), []

    async def look() -> None:
        with pytest.raises(WorkspaceError) as refusal:
            await view_image(tree, runs, "large.png", max_bytes=1 << 20, max_width=100)
        refusals.append(refusal.value.code)

    async with anyio.create_task_group() as tasks:
        for _ in range(12):
            tasks.start_soon(look)
    assert refusals == ["OUTPUT_TOO_LARGE"] * 12
    assert (runs.times, runs.most) == (12, 2)


async def test_callers_take_turns_at_large_pictures(tree, root):
    """P8, CT-R4: many of one caller do not hold up another's, though each may take ten seconds."""
    (root / "large.png").write_bytes(LARGE)
    runs, served = Runs(), []

    async def look(caller: str) -> None:
        with pytest.raises(WorkspaceError):
            await view_image(tree, runs, "large.png", max_bytes=1 << 20, max_width=100, caller=caller)
        served.append(caller)

    async with anyio.create_task_group() as tasks:
        for caller in [*["greedy"] * 20, "other"]:
            tasks.start_soon(look, caller)
    assert "other" in served[:8]


async def test_who_is_cancelled_leaves_the_turn_to_others(tree, root):
    """CT-R4."""
    (root / "large.png").write_bytes(LARGE)
    begun = anyio.Event()

    async def forever(*_: object, **__: object) -> ProgramOutput:
        begun.set()
        await anyio.sleep_forever()
        raise AssertionError

    for _ in range(3):
        begun = anyio.Event()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: view_image(tree, forever, "large.png", max_width=100))
            await begun.wait()
            tasks.cancel_scope.cancel()
    told, data = await view_image(tree, forever, "large.png", max_width=9000, max_height=9000)
    assert (told["resized"], data) == (False, LARGE)
