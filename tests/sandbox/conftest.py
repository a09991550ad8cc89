"""Engines on the real kernel, each with a policy of its own and an audit log in a directory of its own; and cgroups."""

import contextlib
import functools
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from gloveport.bootstrap import build
from gloveport.bootstrap.app import assemble
from gloveport.config import Config
from gloveport.config.schema import PoolSettings as PoolSize
from gloveport.errors import SandboxError
from gloveport.model import LANGUAGES, Grant, Limits, Policy, Request
from gloveport.model.reading import read_value
from gloveport.runtimes import Runtime
from gloveport.sandbox.cgroups import delegation
from gloveport.sandbox.launch.spawn import Bubblewrap
from gloveport.sandbox.plan import Plan, make_plan
from gloveport.sandbox.pool.makers import ForkServer, Prestarter
from gloveport.sandbox.pool.pool import Pool
from gloveport.sandbox.pool.stock import Stock

WAITS = "import sys; sys.stdin.readline(); exec(sys.argv[1])"


def pytest_collection_modifyitems(config, items):
    """Leave out tests of cgroups that this host does not have: other tests hold what is promised there instead.

    Root can always make groups of one version, so for root only those of the other version are left out.
    """
    version = cgroup_version()
    absent = {"version_2"} if version == 1 else set()
    if version is None and os.geteuid() != 0:
        absent = {"version_2", "tree"}
    without = [item for item in items if absent & set(getattr(item, "fixturenames", ()))]
    items[:] = [item for item in items if item not in without]
    config.hook.pytest_deselected(items=without)


def cgroup_version():
    """Version of the cgroups that this process may make, None where it may make none."""
    try:
        with contextlib.closing(delegation.detect()) as tree:
            return tree.version
    except SandboxError:
        return None


@pytest.fixture(scope="session")
def has_cgroups():
    """Whether this process may make cgroups: root here, an ordinary user only where they are delegated."""
    return cgroup_version() is not None


@pytest.fixture
def tree():
    """This process's place for groups. Where there can be none, tests of it are left out."""
    with contextlib.closing(delegation.detect()) as found:
        yield found


@pytest.fixture
def version_2(tree):
    """The same, and of version 2."""
    assert tree.version == 2
    return tree


@pytest.fixture
def start():
    """``start(code)``: a Python that runs the code once it is written a line, and is dead when the test ends."""
    with contextlib.ExitStack() as stack:

        def make(code):
            line = [sys.executable, "-c", WAITS, code]
            child = stack.enter_context(
                subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            stack.callback(child.kill)
            return child

        yield make


@dataclass
class Warm:
    """A sandbox backend that hands out waiting sandboxes alone, and makes the kinds of them that are asked for.

    Attributes:
        pool: What hands them out.
        make_stocks: Makes kinds for a policy with these limits.
        stocks: All kinds that may be asked for.
        apart: Pools of one kind each.
    """

    pool: Pool
    make_stocks: Callable[[Limits | None], tuple[Stock, ...]]
    stocks: tuple[Stock, ...] = ()
    apart: list[Pool] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def start(self, plan):
        """See ``sandbox.base.Sandbox``."""
        for limits in (None, plan.limits):
            if not any(stock.maker.fits(plan) for stock in self.stocks):
                self.stocks += self.make_stocks(limits)
        fitting = [stock for stock in self.stocks if stock.maker.fits(plan)]
        for stock in fitting:
            if stock not in self.pool.stocks:
                self.pool.stocks += (stock,)
                self.pool._tasks.start_soon(stock.maintain)
        for stock in fitting:  # those of sessions need the others
            await stock.wait_filled()
        async with self.pool.start(plan) as child:
            yield child

    async def settled(self):
        """Return when all that was made ahead or cleared away is."""
        for stock in self.pool.stocks:
            await stock.wait_filled()
        await self.pool.wait_cleared()

    def pool_of(self, plan, program, backend):
        """A pool of this kind alone: by its plan nobody can tell what a waiting Deno was started with."""
        for pool in self.apart:
            if (pool.stocks[0].maker.plan, pool.stocks[0].maker.program) == (plan, program):
                return pool
        kind = functools.partial(ForkServer, forks=1000) if program.forked else Prestarter
        stock = Stock(maker=kind(backend=backend, plan=plan, program=program), size=1, idle_seconds=600)
        pool = Pool(cold=Nothing(), stocks=(), _tasks=self.pool._tasks)
        pool._tasks.start_soon(pool._remove_ended, pool._tasks)
        pool.restock((stock,))
        self.apart.append(pool)
        return pool


class Nothing:
    """A sandbox backend that must not be asked."""

    def start(self, _plan):
        raise AssertionError("this was to be run in a sandbox that waited")


@pytest.fixture
def settled():
    """Wait until all that an engine clears away or makes ahead in the background is."""

    async def wait(engine):
        if isinstance(engine.sandbox, Warm):
            await engine.sandbox.settled()

    return wait


@pytest.fixture(params=["cold", "warm"])
def temperature(request):
    """Whether a run's sandbox is built for it or has waited for it: what is promised is the same."""
    return request.param


@contextlib.asynccontextmanager
async def assemble_engine(state, temperature, policy, **tables):
    """An engine under these settings."""
    config = read_value(Config, {"policy": policy, "pool": {"forked": 0, "booted": 0}, **tables})
    async with assemble(config, {"GLOVEPORT_STATE": str(state)}) as engine:
        if temperature == "cold":
            yield engine
            return

        def make_stocks(limits):
            narrowed = policy if limits is None else policy.model_copy(update={"limits": limits})
            waiting = config.model_copy(update={"policy": narrowed, "pool": PoolSize(forked=1, booted=1)})
            return build.stocks(waiting, engine.sandbox.cold, engine.system, engine.runtimes, engine.reach.network)

        pool = Pool(cold=Nothing(), stocks=())
        async with pool.open():
            yield replace(engine, sandbox=Warm(pool, make_stocks))


@pytest.fixture
def engine_with(tmp_path, temperature):
    """``async with engine_with(limits={…}, policy={…}, …)``: an engine under these settings."""

    def make(*, limits=None, policy=None, **tables):
        policy = read_value(Policy, {"limits": Limits(**(limits or {})), **(policy or {})})
        return assemble_engine(tmp_path / "state", temperature, policy, **tables)

    return make


@pytest.fixture(scope="module")
async def engines(tmp_path_factory):
    """An engine of each temperature, for runs that leave nothing and look at nobody else's."""
    async with contextlib.AsyncExitStack() as stack:
        yield {
            kind: await stack.enter_async_context(assemble_engine(tmp_path_factory.mktemp(kind), kind, Policy()))
            for kind in ("cold", "warm")
        }


@pytest.fixture
def run(engines, engine_with, temperature, settled):
    """Run one program under these limits, and return its result."""

    async def run_one(language, code, *, policy=None, **limits):
        request = Request(language=language, code=code)
        if policy is not None:
            async with engine_with(limits=limits, policy=policy) as engine:
                return await engine.execute(request, caller="test")
        engine = replace(engines[temperature], policy=Policy(limits=Limits(**limits)))
        result = await engine.execute(request, caller="test")
        await settled(engine)  # other tests count what there is
        return result

    return run_one


@dataclass
class Sandboxes:
    """Makes sandboxes of one plan; ``stock`` where they wait for their program."""

    runtime: Runtime
    grant: Grant
    plan: Plan
    sandbox: Bubblewrap | Pool
    stock: Stock | None

    @contextlib.asynccontextmanager
    async def build(self):
        """One of them."""
        await self.settled()
        async with self.sandbox.start(self.plan) as child:
            yield child

    def prepare(self, code):
        """A program for one of them."""
        return self.runtime.prepare(code, self.grant)

    async def settled(self):
        """Return when all that was made ahead or cleared away is."""
        if self.stock is not None:
            await self.sandbox.wait_cleared()
            await self.stock.wait_filled()


@pytest.fixture
def shared_engine(engines, temperature):
    """The module's engine of this temperature."""
    return engines[temperature]


@pytest.fixture
def sandboxes(engines, temperature):
    """``sandboxes(language, network)``: see ``Sandboxes``. Tests of the same plan share what waits."""

    def make(language, network, grant=None):
        grant, engine = grant or Grant(languages=LANGUAGES), engines["cold"]
        backend, runtime = engine.sandbox.cold, engine.runtimes[language]
        program = runtime.prepare("", grant)
        plan = make_plan(program, grant, engine.system, network)
        if temperature == "cold":
            return Sandboxes(runtime, grant, plan, backend, None)
        pool = engines["warm"].sandbox.pool_of(plan, program, backend)
        return Sandboxes(runtime, grant, plan, pool, pool.stocks[0])

    return make
