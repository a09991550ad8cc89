"""This host, found once for the engines of many tests: what is found is the same, and takes longer than all else.

Their sandboxes are forked where others of the kind have been asked for: that takes a sixth of what it takes to build
one. Tests whose subject is how a sandbox is made have engines of their own; strength never depends on it.
"""

import asyncio
import atexit
import contextlib
import functools
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field

from gloveport.bootstrap import app
from gloveport.bootstrap.host_setup import Host, open_host
from gloveport.config import Config
from gloveport.engine.execution import Engine
from gloveport.errors import ForkRefusedError, SandboxError
from gloveport.model import Program
from gloveport.sandbox.base import Child
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan
from gloveport.sandbox.pool.makers import ForkServer

_WORTH_A_SERVER = 3
"""How many of a kind are asked for before a fork server is started for them: it costs as much as building a few."""

_MOST_SERVERS = 8

_MOST_MEMORY = 1 << 40
"""Of a sandbox that waits: more than any test asks for, since what is asked for can only be lowered."""


@functools.cache
def _host() -> Host:
    context = contextlib.ExitStack()
    atexit.register(context.close)
    return context.enter_context(open_host(Config(), {}))


@dataclass
class _Fork:
    """A fork server, and how many of its sandboxes are there."""

    server: ForkServer
    task: asyncio.Task[None]
    children: int = 0


@dataclass
class Forks:
    """A sandbox backend that builds what is asked for seldom, and forks the rest. It ends with the event loop.

    Attributes:
        backend: Builds sandboxes.
    """

    backend: Bubblewrap
    _asked: Counter[str] = field(default_factory=Counter)
    _forks: dict[str, _Fork] = field(default_factory=dict)
    """By walls; what was used last comes last."""

    @contextlib.asynccontextmanager
    async def start(self, plan: Plan) -> AsyncIterator[Child]:
        """See ``sandbox.base.Sandbox``."""
        fork = self._find(plan)
        if fork is not None:
            fork.children += 1  # from here on, for who waits for one that was ended meanwhile waits for ever
            try:
                if await _is_up(fork.server):
                    async with fork.server.make() as child:
                        child.narrow(plan)
                        yield child
                    return
            finally:
                fork.children -= 1
        async with self.backend.start(plan) as child:
            yield child

    def _find(self, plan: Plan) -> _Fork | None:
        if "DENO_DIR" in plan.env:  # what has threads can't be forked
            return None
        self._asked[plan.walls] += 1
        fork = self._forks.pop(plan.walls, None)
        if fork is None:
            if self._asked[plan.walls] < _WORTH_A_SERVER:
                return None
            roomy = plan.model_copy(update={"limits": plan.limits.model_copy(update={"memory_bytes": _MOST_MEMORY})})
            server = ForkServer(backend=self.backend, plan=roomy, program=Program(name="any"), forks=1_000_000)
            fork = _Fork(server, asyncio.create_task(server.maintain()))
        self._forks[plan.walls] = fork
        for walls, other in [*self._forks.items()][:-_MOST_SERVERS]:
            if not other.children and other is not fork:
                del self._forks[walls]
                other.task.cancel()
        return fork


async def _is_up(server: ForkServer) -> bool:
    try:
        await server.check()
    except (ForkRefusedError, SandboxError):
        return False
    return True


_of_loops: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Forks] = weakref.WeakKeyDictionary()


@contextlib.asynccontextmanager
async def assemble(config: Config, environ: Mapping[str, str], *connected: app.Connected) -> AsyncIterator[Engine]:
    """As ``app.assemble``; a configuration that says something of sandboxes or runtimes has a host of its own."""
    if (config.sandbox, config.runtimes) != (Config().sandbox, Config().runtimes):
        async with app.assemble(config, environ, *connected) as engine:
            yield engine
        return
    host = _host()
    forks = _of_loops.setdefault(asyncio.get_running_loop(), Forks(host.backend))
    async with app.assemble_on(host, config, environ, *(connected or (app.open_no_hub,))) as engine:
        engine.sandbox.cold = forks
        yield engine
