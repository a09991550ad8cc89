"""What tests of the reading tools run programs with: real sandboxes of one fork server, which may write to nothing."""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import anyio

from gloveport.bootstrap import host_setup, operator_reach
from gloveport.config import Config
from gloveport.model import Mount, Program
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.plan import PathProtection, make_plan
from gloveport.sandbox.pool import zygote_process
from gloveport.workspace.program import ProgramOutput, RunProgram
from gloveport.workspace_service.readonly_workers import ReadonlyWorkers

OWNER = 54_321
WORKSPACE = "/workspace"
KEPT: Final[tuple[PathProtection, ...]] = ((WORKSPACE, "read-only"),)


@contextlib.asynccontextmanager
async def fork_server(root: Path):
    """One whose sandboxes have ``root`` at /workspace; for root, of another user's."""
    if os.geteuid() == 0:
        os.chown(root, OWNER, OWNER)
    config = Config()
    with Launcher.open() as launcher:
        tree = host_setup.cgroups(config, launcher)
        backend, system = (
            host_setup.bubblewrap(config, launcher, tree),
            host_setup.system_of(host_setup.init_of(config, os.environ), tree),
        )
        shares = (Mount(source=str(root), target=WORKSPACE),)
        grant = operator_reach.whole_grant(config).model_copy(update={"writable": shares})
        async with zygote_process.start(backend, make_plan(Program(name="command"), grant, system)) as server:
            yield server


@contextlib.asynccontextmanager
async def running(server: zygote_process.ZygoteProcess, below: str) -> AsyncIterator[RunProgram]:
    """A ``RunProgram`` whose workspace is the directory ``below`` of the fork server's."""
    async with anyio.create_task_group() as tasks:
        yield ReadonlyWorkers(make=server.fork, protections=KEPT, target=f"{WORKSPACE}/{below}", tasks=tasks).run
        tasks.cancel_scope.cancel()


class _Said:
    """What a stream has said."""

    data = b""

    def write(self, data):
        """Take the next bytes."""
        self.data += data

    def full(self):
        """There is no limit."""
        return False


def careless(server: zygote_process.ZygoteProcess, below: str) -> RunProgram:
    """A ``RunProgram`` whose programs may start others; the host is read-only for them, too."""

    async def run(argv, *, variables, seconds, most_bytes):
        out, err = _Said(), _Said()
        place = f"{WORKSPACE}/{below}"
        program = Program(name="command", argv=argv, directory=place, variables=variables)
        async with server.fork(KEPT) as child:
            with anyio.fail_after(seconds):
                outcome = await child.run(program, value_bytes=256, stdout=out, stderr=err)
        code = outcome.exit_code
        return ProgramOutput(
            exit_code=code, stdout=out.data[:most_bytes], stderr=err.data, truncated=False, timed_out=False
        )

    return run
