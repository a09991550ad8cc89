"""Sandboxes that wait: how many, for whom, and what becomes of them, whoever is killed meanwhile."""

import contextlib
import itertools
import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from gloveport.bootstrap import app, build
from gloveport.config import Config
from gloveport.config.schema import PoolSettings as PoolSize
from gloveport.errors import GloveportError, SandboxError
from gloveport.model import Limits, Policy, Request
from gloveport.model.reading import WrongShapeError, read_value
from gloveport.sandbox.cgroups import delegation
from gloveport.sandbox.detection import host
from gloveport.sandbox.launch.bubblewrap_process import is_dead
from gloveport.sandbox.pool import makers, pool
from gloveport.sandbox.pool import stock as stock_module

pytestmark = pytest.mark.anyio
MIB = 1 << 20


class Counted:
    """A sandbox backend that counts how often it is asked."""

    def __init__(self, inner):
        self.inner, self.count = inner, 0

    def start(self, plan):
        self.count += 1
        return self.inner.start(plan)


@pytest.fixture
def pooled(environ):
    """``async with pooled("shell", forked=2) as engine``: one stock, of the first kind of sandbox of this language."""

    @contextlib.asynccontextmanager
    async def make(language, *, limits=None, **settings):
        policy = Policy(languages=frozenset({language}), limits=Limits(**(limits or {})))
        tables = {"pool": {"forked": 0, "booted": 0}, "sessions": {"total": 0}, "admission": {"concurrent_runs": 16}}
        config = read_value(Config, {"policy": policy, **tables})
        async with app.assemble(config, environ) as engine:
            cold = engine.sandbox.cold
            waiting = config.model_copy(update={"pool": PoolSize(**{"forked": 1, "booted": 1, **settings})})
            stocks = build.stocks(waiting, cold, engine.system, engine.runtimes, engine.reach.network)
            stock = pool.Pool(cold=Counted(cold), stocks=stocks[:1])
            async with stock.open():
                yield replace(engine, sandbox=stock)

    return make


@pytest.fixture
def quick(monkeypatch):
    """A pool that looks and tries again often."""
    for module, name in ((stock_module, "_LOOK_SECONDS"), (stock_module, "_PAUSE_SECONDS"), (makers, "_PAUSE_SECONDS")):
        monkeypatch.setattr(module, name, 0.02)


async def execute(engine, language, code, *, on_output=None, **limits):
    request = read_value(Request, {"language": language, "code": code, "limits": limits})
    return await engine.execute(request, caller="test", on_output=on_output)


async def ask_at_once(engine, count):
    """Run so many programs at the same time."""
    async with anyio.create_task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(execute, engine, "shell", "echo 1")


async def until(condition):
    """Wait for what no event tells: a fact of the kernel, or what the pool makes of it in the background."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.sleep(0.005)


def pids(stock):
    """Host process ids of the first processes of what waits."""
    return [pid_of(waiting.child.inner) for waiting in stock._waiting]


def pid_of(descriptor):
    """The process behind a process descriptor; -1 once it is dead and reaped."""
    fields = Path(f"/proc/self/fdinfo/{descriptor.fileno()}").read_text().splitlines()
    return int(next(line.split()[1] for line in fields if line.startswith("Pid:")))


async def ready(engine):
    """Wait until all that wait can be run in, and say which stock it is."""
    (stock,) = engine.sandbox.stocks
    await stock.wait_filled()
    await engine.sandbox.wait_cleared()
    return stock


def members(first):
    """Host process ids of the others in the pid namespace of this process."""
    own, found = Path(f"/proc/{first}/ns/pid").readlink(), []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "ns/pid").readlink() == own and int(entry.name) != first:
                found.append(int(entry.name))
    return found


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def descendants(pid):
    with contextlib.suppress(OSError):
        for child in children(pid):
            yield child
            yield from descendants(child)


def alive(pid):
    return Path(f"/proc/{pid}").exists()


def names(pids):
    found = []
    for pid in pids:
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text())
    return found


def cgroup_version():
    """Version of the cgroups that a sandbox of this process is in, None where it is in none."""
    try:
        with contextlib.closing(delegation.detect()) as tree:
            return tree.version
    except SandboxError:
        return None


def left_behind():
    """Whatever an engine might leave: processes, cgroups, descriptors."""
    walk = os.walk("/sys/fs/cgroup")  # which bears that other servers remove theirs meanwhile
    groups = [path for path, _, _ in walk if Path(path).match(f"gloveport-*-{os.getpid()}-*")]
    return sorted(descendants(os.getpid())), groups, len(list(Path("/proc/self/fd").iterdir()))


@contextlib.asynccontextmanager
async def going_on(engine, language, code, **limits):
    """A run that has printed and goes on meanwhile; on leaving, its result is in the list."""
    up, result = anyio.Event(), []

    async def run():
        try:
            result.append(await execute(engine, language, code, on_output=lambda *_: up.set(), **limits))
        except SandboxError as error:
            result.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run)
        await up.wait()
        yield result


# --- How many wait ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "knob"), [("python", "forked"), ("shell", "forked"), ("typescript", "booted")])
async def test_none_waits_where_none_is_wanted(environ, language, knob):
    """T5: the knobs ``forked`` and ``booted``: with 0 no fork server runs, and each sandbox is built when asked for."""
    config = read_value(
        Config, {"policy": Policy(languages=frozenset({language})), "pool": {"forked": 2, "booted": 2, knob: 0}}
    )
    async with app.assemble(config, environ) as engine:
        assert engine.sandbox.stocks == ()
        result = await execute(engine, language, {"shell": "echo 2"}.get(language, "1 + 1"))
    assert (result.status, result.value) == ("ok", 2)


async def test_a_server_that_nobody_has_asked_has_one_of_each_kind_waiting_and_few_processes(environ):
    """Clients look through all that is below a server: 150 processes took them seconds."""
    before = set(descendants(os.getpid()))
    async with app.assemble(Config(), environ) as engine:
        for stock in engine.sandbox.stocks:
            if not stock.begins_with_use:
                await stock.wait_filled()
        assert {stock.waiting for stock in engine.sandbox.stocks if not stock.begins_with_use} == {1}
        assert len(set(descendants(os.getpid())) - before) <= 27
        engine.sandbox.cold = Counted(engine.sandbox.cold)
        for code in ("1", "import asyncio\n1"):  # who comes first need not wait for all that
            assert (await execute(engine, "python", code)).value == 1
        assert (await execute(engine, "shell", "echo 1")).value == 1
        assert (await execute(engine, "typescript", "1")).value == 1
        assert engine.sandbox.cold.count == 0


async def test_data_packages_are_imported_ahead_once_somebody_has_used_them(environ):
    """They take as much memory as all else that waits, and most servers are never asked for them."""
    async with app.assemble(Config(policy=Policy(languages=frozenset({"python"}))), environ) as engine:
        late = [stock for stock in engine.sandbox.stocks if stock.begins_with_use]
        for stock in engine.sandbox.stocks:
            if stock not in late:
                await stock.wait_filled()
        assert (len(late), [stock.waiting for stock in late]) == (2, [0, 0])
        engine.sandbox.cold = Counted(engine.sandbox.cold)
        assert (await execute(engine, "python", "import pandas\n1")).value == 1
        assert engine.sandbox.cold.count == 1
        used = next(stock for stock in late if isinstance(stock.maker, makers.ForkServer))
        await used.wait_filled()
        assert [stock.waiting for stock in late if stock is not used] == [0]
        assert (await execute(engine, "python", "import pandas\n1")).value == 1
        assert engine.sandbox.cold.count == 1


@pytest.mark.parametrize("count", [1, 3])
async def test_as_many_wait_as_are_wanted_and_who_is_taken_is_replaced(pooled, count):
    """T5: the knob ``forked``."""
    async with pooled("shell", forked=count) as engine:
        await ready(engine)
        await ask_at_once(engine, 4)
        for _ in range(2):
            stock = await ready(engine)
            before = pids(stock)
            assert len(set(before)) == stock.waiting == count
            assert (await execute(engine, "shell", "echo 1")).value == 1
            await stock.wait_filled()
            assert before[0] not in pids(stock)
            assert before[1:] == pids(stock)[:-1]
        assert engine.sandbox.cold.count == 0


async def test_deno_waits_booted(pooled):
    """T5: the knob ``booted``; TypeScript and JavaScript share what waits."""
    async with pooled("typescript", booted=2) as engine:
        for count in (1, 2):
            stock = await ready(engine)
            assert stock.waiting == count
            assert all("deno\n" in names(members(first)) for first in pids(stock))
            assert (await execute(engine, "typescript", "const n: number = 2; n")).value == 2
        assert engine.sandbox.cold.count == 0


async def test_a_stock_grows_with_use_and_shrinks_when_nobody_comes(pooled, quick):
    """T5: the knob ``idle_seconds``."""
    async with pooled("shell", forked=6) as engine:
        stock = await ready(engine)
        assert stock.waiting == 1
        for _ in range(3):  # one after the other, as agents mostly ask
            assert (await execute(engine, "shell", "echo 1")).value == 1
            await ready(engine)
            assert stock.waiting == 4
        await ask_at_once(engine, 5)
        await ready(engine)
        assert stock.waiting == 6
        first, *others = pids(stock)
        descriptors = [os.pidfd_open(pid) for pid in others]
        stock.idle_seconds = 0.01
        await until(lambda: stock.waiting == 1)
        assert pids(stock) == [first]
        for descriptor in descriptors:
            await anyio.wait_readable(descriptor)
            os.close(descriptor)
        assert engine.sandbox.cold.count == 0


LAYOUT = "[hash('a'), id(len)]"
PATIENT = f"""
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR1}})
print('up', flush=True)
signal.sigwait({{signal.SIGUSR1}})
{LAYOUT}
"""


async def test_a_worn_fork_server_is_replaced_and_ends_after_its_last_run(pooled):
    """T5: the knob ``forks``; the next one has another layout of memory and another hash seed."""
    async with pooled("python", forked=1, forks=2) as engine:
        stock = await ready(engine)
        old = stock.maker._current
        init = pid_of(old.inner)
        (worker,) = members(pids(stock)[0])
        async with going_on(engine, "python", PATIENT) as result:
            await until(lambda: stock.maker._current is not old)
            while old._children > 1:  # what waits in it
                await execute(engine, "python", "1")
                await ready(engine)
            fresh = await execute(engine, "python", LAYOUT)
            assert old.is_alive()
            assert result == []
            os.kill(worker, signal.SIGUSR1)
        assert result[0].status == "ok"
        assert all(mine != other for mine, other in zip(result[0].value, fresh.value, strict=True))
        await engine.sandbox.wait_cleared()
        await until(lambda: not alive(init))
        assert engine.sandbox.cold.count == 0


@pytest.mark.parametrize(
    "settings",
    [
        {"forked": -1},
        {"forked": 257},
        {"booted": -1},
        {"booted": 65},
        {"idle_seconds": 0},
        {"idle_seconds": 86_401},
        {"forks": 0},
        {"forks": 1_000_001},
        {"forked": "many"},
        {"zygotes": 1},
    ],
)
def test_what_is_no_number_of_sandboxes_is_refused(settings):
    """T5: bounds of the table ``pool``."""
    with pytest.raises(WrongShapeError):
        read_value(Config, {"pool": settings})


def test_by_default_some_wait():
    """T5: the defaults of the table ``pool`` lie within its bounds."""
    defaults = PoolSize()
    assert read_value(PoolSize, dict(defaults.items())) == defaults
    assert 1 <= defaults.booted <= defaults.forked <= 16


def test_one_program_from_the_command_line_starts_no_fork_server(gloveport, environ, eventually):
    """The one program there is would not wait for it."""
    words = ("run", "--language", "shell", "--code", "echo up; sleep 99")
    with gloveport.start(*words, stdout=subprocess.PIPE, env={**os.environ, **environ}) as running:
        assert running.stdout.readline() == b"up\n"
        eventually(lambda: "sleep\n" in names(descendants(running.pid)))
        words = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in descendants(running.pid)]
        running.send_signal(signal.SIGINT)
    assert words
    assert not any(b"zygote" in line for line in words)


# --- At the start ----------------------------------------------------------------------------------------------------


async def test_the_start_waits_for_nothing_that_is_made_ahead(environ):
    """A request that comes before anything waits is served all the same."""
    config = read_value(
        Config, {"policy": Policy(languages=frozenset({"shell", "typescript"})), "pool": {"forked": 2, "booted": 2}}
    )
    async with app.assemble(config, environ) as engine:
        assert [stock.waiting for stock in engine.sandbox.stocks] == [0, 0]
        assert (await execute(engine, "shell", "echo 1")).value == 1
        assert (await execute(engine, "typescript", "1")).value == 1


async def test_many_callers_at_once_find_one_that_waits_and_all_are_served(pooled):
    async with pooled("shell", forked=1) as engine:
        stock = await ready(engine)
        results = []

        async def ask(number):
            results.append((await execute(engine, "shell", f"echo {number}")).value == number)

        async with anyio.create_task_group() as tasks:
            for number in range(12):
                tasks.start_soon(ask, number)
        assert results == [True] * 12
        assert engine.sandbox.cold.count == 0
        await stock.wait_filled()
        await engine.sandbox.wait_cleared()
        assert stock.maker._current._children == stock.waiting == 1


# --- What dies while it waits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("victim", ["first process", "worker"])
async def test_one_that_dies_waiting_is_never_handed_out(pooled, victim):
    """E5, P9: though nobody has looked yet, the request gets a live one, and the dead one is replaced."""
    async with pooled("shell", forked=2) as engine:
        stock = await ready(engine)
        dead = stock._waiting[0]
        first = pids(stock)[0]
        os.kill(first if victim == "first process" else members(first)[0], signal.SIGKILL)
        await until(lambda: is_dead(dead.child.inner) or is_dead(dead.child.over))
        assert (await execute(engine, "shell", "echo 1")).value == 1
        await stock.wait_filled()
        assert stock.waiting == 2
        assert dead not in stock._waiting
        assert engine.sandbox.cold.count == 0


@pytest.mark.parametrize("language", ["shell", "typescript"])
async def test_one_that_dies_waiting_is_replaced_without_any_run(pooled, quick, language):
    async with pooled(language) as engine:
        stock = await ready(engine)
        (dead,) = stock._waiting
        os.kill(pids(stock)[0], signal.SIGKILL)
        await until(lambda: stock.waiting == 1 and dead not in stock._waiting)
        assert not is_dead(stock._waiting[0].child.inner)


@pytest.mark.parametrize("victim", ["fork server", "its maker of namespaces", "its init", "bubblewrap"])
async def test_a_fork_server_that_dies_is_replaced_and_meanwhile_requests_are_served(pooled, quick, victim):
    """E5, P9: what waited in it is dead too, and never handed out."""
    async with pooled("shell", forked=2) as engine:
        stock = await ready(engine)
        old, waited = stock.maker._current, list(stock._waiting)
        killed = {
            "fork server": children(pid_of(old.inner))[0],
            "its maker of namespaces": children(children(pid_of(old.inner))[0])[0],
            "its init": pid_of(old.inner),
            "bubblewrap": old.spawned.process.pid,
        }[victim]
        init = os.pidfd_open(pid_of(old.inner))
        os.kill(killed, signal.SIGKILL)
        with anyio.fail_after(30):
            await anyio.wait_readable(init)
        os.close(init)
        assert (await execute(engine, "shell", "echo 1")).value == 1
        await until(lambda: stock.maker._current not in (None, old) and stock.waiting == 2)
        assert not set(map(id, waited)) & set(map(id, stock._waiting))
        before = engine.sandbox.cold.count
        assert (await execute(engine, "shell", "echo 2")).value == 2
        assert engine.sandbox.cold.count == before


# --- Narrower requests -----------------------------------------------------------------------------------------------

NARROWED = {
    "memory_bytes": (64 * MIB, "hoard = []\nwhile True: hoard.append(bytearray(1 << 20))"),
    "processes": (8, "import os, time\nwhile True:\n  if os.fork() == 0: time.sleep(1000)"),
    "file_bytes": (MIB, "open('big', 'wb').write(bytes(2 << 20))"),
    "open_files": (32, "hoard = []\nwhile True: hoard.append(open('/dev/null'))"),
    "cpu_seconds": (0.2, "while True: pass"),
}


async def test_a_narrower_request_is_narrower_in_a_sandbox_that_waited(pooled):
    """T1, E4, P8: each limit that can be lowered in a sandbox that stands is in force."""
    async with pooled("python") as engine:
        for name, (value, code) in NARROWED.items():
            await ready(engine)
            result = await execute(engine, "python", code, wall_seconds=60, **{name: value})
            assert result.limits_hit[:1] == (name,), (name, result)
            assert getattr(result.grant.limits, name) == value
        await ready(engine)
        assert (await execute(engine, "python", "len(bytearray(1 << 27))")).value == 1 << 27  # nothing is narrow since
        assert engine.sandbox.cold.count == 0


async def test_a_smaller_scratch_is_built_for_the_request(pooled):
    """T1: a file system that is mounted already keeps its size."""
    async with pooled("python") as engine:
        await ready(engine)
        code = "import os\ns = os.statvfs('/tmp')\ns.f_blocks * s.f_frsize"
        assert (await execute(engine, "python", code, scratch_bytes=MIB)).value == MIB
        assert engine.sandbox.cold.count == 1
        assert engine.sandbox.stocks[0].waiting == 1


async def test_a_memory_limit_that_can_not_be_lowered_is_built_for_the_request(pooled):
    """T1: under version 1 the kernel refuses a limit below what is used; under version 2 it makes room by killing."""
    if cgroup_version() != 1:
        return
    async with pooled("python") as engine:
        stock = await ready(engine)
        (waiting,) = stock._waiting
        with subprocess.Popen(
            [sys.executable, "-c", "x = input(); x = bytearray(64 << 20); print(flush=True); input()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as hog:
            waiting.child.group.attach(hog.pid)
            hog.stdin.write(b"\n")
            hog.stdin.flush()
            assert hog.stdout.readline() == b"\n"
            result = await execute(engine, "python", "1", memory_bytes=32 * MIB)
        assert (result.status, result.value, result.grant.limits.memory_bytes) == ("ok", 1, 32 * MIB)
        assert waiting not in stock._waiting
        assert hog.returncode == -signal.SIGKILL  # it was of that sandbox


# --- The end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("language", "turns"), [("shell", 0), ("shell", 64), ("typescript", 8), ("typescript", 256)])
async def test_a_server_that_ends_while_it_fills_leaves_nothing(environ, language, turns):
    """E5, P9: whatever it was at: launching, booting, forking, or nothing yet."""
    before = left_behind()
    config = read_value(Config, {"policy": Policy(languages=frozenset({language})), "pool": {"forked": 3, "booted": 2}})
    async with app.assemble(config, environ):
        for _ in range(turns):
            await anyio.sleep(0.0005)
    assert left_behind() == before


ENDLESS = {
    "shell": "echo up; sleep 1000",
    "typescript": "console.log('up'); await new Promise((done) => setTimeout(done, 1_000_000))",
}


@pytest.mark.parametrize("language", ENDLESS)
async def test_a_server_that_ends_leaves_nothing_of_what_waits_and_of_what_runs(pooled, language):
    """E5, P9: even of a run that nobody has given up before."""
    before = left_behind()
    up = anyio.Event()

    async def run(engine):
        with contextlib.suppress(GloveportError):
            await execute(engine, language, ENDLESS[language], on_output=lambda *_: up.set())

    async with anyio.create_task_group() as tasks:
        async with pooled(language, forked=2, booted=2) as engine:
            await ready(engine)
            tasks.start_soon(run, engine)
            await up.wait()
        tasks.cancel_scope.cancel()
    assert left_behind() == before


# --- A host on which nothing can be made -----------------------------------------------------------------------------


@pytest.fixture
def broken_bubblewrap(tmp_path):
    """A bubblewrap that fails until it is repaired."""
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    program.chmod(0o755)

    def repair():
        working = tmp_path / "working"
        working.write_text(f'#!/bin/sh\nexec {host.find_bubblewrap(None)} "$@"\n')
        working.chmod(0o755)
        working.rename(program)

    return program, repair


@pytest.mark.parametrize("language", ["shell", "typescript"])
async def test_where_nothing_can_be_made_a_request_hears_why_and_the_server_stands(
    environ, broken_bubblewrap, quick, language
):
    """P12: the start fails not, and is not held up; once the host is repaired, sandboxes wait."""
    program, repair = broken_bubblewrap
    errors = {}
    for size in (0, 1):
        config = read_value(
            Config,
            {
                "policy": Policy(languages=frozenset({language})),
                "pool": {"forked": size, "booted": size},
                "sandbox": {"bubblewrap": program},
            },
        )
        async with app.assemble(config, environ) as engine:
            with pytest.raises(SandboxError) as caught:
                await execute(engine, language, "echo 1")
            errors[size] = caught.value.args[0], caught.value.hint
            if size:
                repair()
                await until(lambda: engine.sandbox.stocks[0].waiting == 1)
                assert (await execute(engine, language, {"shell": "echo 1"}.get(language, "1"))).value == 1
    assert errors[0] == errors[1]
    assert "no such luck" in errors[0][0]


async def test_each_attempt_that_fails_is_one_warning_and_a_pause_that_grows(
    environ, broken_bubblewrap, monkeypatch, caplog
):
    monkeypatch.setattr(stock_module, "_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(stock_module, "_LONGEST_PAUSE_SECONDS", 0.2)
    program, _ = broken_bubblewrap
    config = read_value(
        Config,
        {
            "policy": Policy(languages=frozenset({"typescript"})),
            "pool": {"booted": 1},
            "sandbox": {"bubblewrap": program},
        },
    )
    async with app.assemble(config, environ):
        await until(lambda: len(caplog.records) == 4)
    times = [record.created for record in caplog.records]
    assert {record.levelname for record in caplog.records} == {"WARNING"}
    assert all("no such luck" in record.getMessage() for record in caplog.records)
    first, second, third = (later - earlier for earlier, later in itertools.pairwise(times))
    assert first >= 0.05
    assert second >= 0.1
    assert third >= 0.2


# --- What a run is told to have used ---------------------------------------------------------------------------------


async def test_a_run_has_used_what_it_used_and_not_what_waiting_did(pooled, has_cgroups):
    """E1, P8."""
    async with pooled("python") as engine:
        await ready(engine)
        await anyio.sleep(0.3)  # it waits longer than it runs
        began = time.monotonic()
        idle = await execute(engine, "python", "1")
        assert idle.usage.wall_ms <= 1000 * (time.monotonic() - began) + 1
        await ready(engine)
        busy = await execute(
            engine, "python", "import time\nx = bytearray(64 << 20)\nwhile time.process_time() < 0.3: pass"
        )
        assert busy.usage.wall_ms >= 200
        await ready(engine)
        after = await execute(engine, "python", "1")
        if has_cgroups:
            assert busy.usage.cpu_ms >= 200
            assert busy.usage.peak_memory_bytes >= 64 * MIB
            for other in (idle, after):
                assert other.usage.cpu_ms < 200
                assert other.usage.peak_memory_bytes < 32 * MIB
        assert engine.sandbox.cold.count == 0


@pytest.mark.parametrize("victim", ["fork server", "bubblewrap"])
async def test_a_run_whose_fork_server_dies_is_a_clear_error(pooled, victim):
    """P9, P12: no outcome is made up for a program that was killed from outside."""
    async with pooled("shell") as engine:
        stock = await ready(engine)
        old = stock.maker._current
        async with going_on(engine, "shell", "echo up; sleep 1000") as result:
            killed = {"fork server": children(pid_of(old.inner))[0], "bubblewrap": old.spawned.process.pid}
            os.kill(killed[victim], signal.SIGKILL)
        (error,) = result
        assert isinstance(error, SandboxError), error
        assert error.hint


async def test_a_server_that_has_no_descriptor_left_stands(environ):
    """P12: what can't be made ahead is tried again; the server goes on."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = read_value(Config, {"policy": Policy(languages=frozenset({"shell"})), "pool": {"forked": 64}})
    try:
        async with app.assemble(config, environ) as engine:
            resource.setrlimit(resource.RLIMIT_NOFILE, (80, hard))
            with anyio.move_on_after(2):
                await engine.sandbox.stocks[0].wait_filled()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            assert (await execute(engine, "shell", "echo 1")).value == 1
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class LastDescriptors:
    """A maker after whose work no descriptor is left."""

    def __init__(self, maker):
        self.maker = maker

    @contextlib.asynccontextmanager
    async def make(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        async with self.maker.make() as child:
            resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
            try:
                yield child
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_sandbox_made_with_the_last_descriptors_is_a_failed_attempt(pooled):
    """P12: it ended the server."""
    async with pooled("shell") as engine:
        (stock,) = engine.sandbox.stocks
        await stock.wait_filled()
        maker, stock.maker = stock.maker, LastDescriptors(stock.maker)
        with pytest.raises(SandboxError, match="Too many open files"):
            await stock.make()
        stock.maker = maker
        assert (await execute(engine, "shell", "echo 1")).value == 1


@pytest.mark.parametrize("turns", [0, 2, 8])
async def test_a_request_given_up_while_it_is_forked_for_leaves_nothing(pooled, turns):
    """E5, P9."""
    async with pooled("shell") as engine:
        stock = await ready(engine)
        await engine.sandbox.wait_cleared()
        processes, _, before = left_behind()
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(execute, engine, "shell", "sleep 1000")
            for _ in range(turns):
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
        await stock.wait_filled()
        await engine.sandbox.wait_cleared()
        assert stock.maker._current._children == stock.waiting == 1
        assert len(list(Path("/proc/self/fd").iterdir())) == before
        await until(lambda: len(left_behind()[0]) == len(processes))
        assert (await execute(engine, "shell", "echo 1")).value == 1


async def test_new_stocks_take_over_and_what_runs_in_the_old_ones_ends_as_it_would(pooled):
    """N2: the configuration of the way out is changed while programs run."""
    async with pooled("shell") as engine:
        former = await ready(engine)
        (program,) = (waiting.child for waiting in former._waiting)
        begun = anyio.Event()
        results = []

        async def run():
            results.append(await execute(engine, "shell", "echo begun; sleep 1000; echo over", wall_seconds=2))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            await until(lambda: not former.waiting or former._waiting[0].child is not program)
            begun.set()
            config = read_value(
                Config, {"policy": Policy(languages=frozenset({"shell"})), "pool": {"forked": 1, "booted": 0}}
            )
            successors = build.stocks(
                config, engine.sandbox.cold.inner, engine.system, engine.runtimes, engine.reach.network
            )
            engine.sandbox.restock(successors[:1])
            await ready(engine)
            assert engine.sandbox.stocks == successors[:1]
            assert (await execute(engine, "shell", "echo new")).stdout.text == "new\n"
        assert results[0].stdout.text == "begun\n"
        assert results[0].status == "timeout"
        await engine.sandbox.wait_cleared()
        await until(lambda: former._count == 0)
        assert not former.waiting
        assert engine.sandbox.cold.count == 0
