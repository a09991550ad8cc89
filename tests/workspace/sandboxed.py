"""What tests of the reading tools run programs with: real sandboxes of one fork server, which may write to nothing."""

import contextlib
import os
from pathlib import Path

import anyio

from gloveport.config import Config
from gloveport.model import Mount, Program
from gloveport.sandbox import zygote
from gloveport.sandbox.base import make_plan
from gloveport.server import build
from gloveport.workspace.running import Ran

OWNER = 54_321
WORKSPACE = "/workspace"
_STDERR_BYTES = 1 << 16


class _Kept:
    """The first bytes of a stream."""

    def __init__(self, most):
        self.most, self.data, self.had_more = most, b"", False

    def write(self, data):
        """Take the next bytes."""
        room = self.most - len(self.data)
        self.had_more = self.had_more or len(data) > room
        self.data += data[:room]

    def full(self):
        """Whether there is no more to be had."""
        return self.had_more


@contextlib.asynccontextmanager
async def fork_server(root: Path):
    """One whose sandboxes have ``root`` at /workspace; for root, of another user's."""
    if os.geteuid() == 0:
        os.chown(root, OWNER, OWNER)
    config = Config()
    with contextlib.ExitStack() as stack:
        tree = build.cgroups(config, stack)
        backend, system = build.bubblewrap(config, tree), build.system_of(config, tree)
        shares = (Mount(source=str(root), target=WORKSPACE),)
        grant = build.whole_grant(config).model_copy(update={"writable": shares})
        async with zygote.start(backend, make_plan(Program(name="command"), grant, system)) as server:
            yield server


def _found(server, name):
    """The path, inside, of a program that ``Run`` would find along the PATH of sandboxes."""
    return server.plan.interpreter[0] if name == "python3" else name if "/" in name else f"/usr/bin/{name}"


def runner(server, below: str, **more):
    """A ``Run`` whose workspace is the directory ``below`` of the fork server's; ``more`` of its programs."""

    async def run(
        argv, *, directory=".", variables=None, stdin=b"", seconds=10.0, most_bytes=1 << 20, processes="many"
    ):
        out, err, timed_out, outcome = _Kept(most_bytes), _Kept(_STDERR_BYTES), True, None
        program = Program(
            name="command",
            argv=(_found(server, argv[0]), *argv[1:]),
            directory=f"{WORKSPACE}/{below}/{directory}",
            variables=variables or {},
            **{"reads_only": True, "alone": processes == "one", **more},
        )
        async with server.fork() as child, anyio.create_task_group() as tasks:

            def hand(console):
                async def feed():
                    with contextlib.suppress(BrokenPipeError):
                        await console.write(stdin)
                    console.close_input()

                tasks.start_soon(feed)

            with anyio.move_on_after(seconds):
                outcome = await child.run(program, value_bytes=256, stdout=out, stderr=err, hand=hand)
                timed_out = False
            tasks.cancel_scope.cancel()
        return Ran(
            exit_code=None if outcome is None or out.had_more else outcome.exit_code,
            stdout=out.data,
            stderr=err.data,
            truncated=out.had_more,
            timed_out=timed_out,
        )

    return run
