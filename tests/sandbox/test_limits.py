"""E4, P8: every limit is enforced by the kernel or by killing the whole sandbox, and reported by its name."""

from dataclasses import replace

import anyio
import anyio.lowlevel
import pytest

from gloveport.config.schema import AdmissionSettings
from gloveport.limits.admission import AdmissionQueue
from gloveport.model import Limits, Policy, Request

pytestmark = pytest.mark.anyio
MIB = 1 << 20
cold_only = pytest.mark.parametrize("temperature", ["cold"], indirect=True)
TEMPERATURES = {"python": ("cold", "warm"), "shell": ("cold",), "typescript": ("warm",)}


def in_each_language(codes):
    """A program of each language; in Python in both kinds of sandbox, else in one of them."""
    cases = [(kind, language, code) for language, code in codes.items() for kind in TEMPERATURES[language]]
    names = [f"{language}-{kind}" for kind, language, _ in cases]
    return pytest.mark.parametrize(("temperature", "language", "code"), cases, indirect=["temperature"], ids=names)


async def test_wall_seconds_end_a_run_and_what_it_printed_is_there(run):
    """E2, E4: partial output survives a timeout."""
    code = "import time\nprint('partial', end='')\ntime.sleep(1000)"
    result = await run("python", code, wall_seconds=1)
    assert (result.status, result.limits_hit) == ("timeout", ("wall_seconds",))
    assert result.stdout.text == "partial"
    assert 1000 <= result.usage.wall_ms < 10_000
    assert "timeout_seconds" in result.hint


async def test_a_request_without_a_timeout_gets_the_default(shared_engine):
    """T5: the knob ``default_wall_seconds``."""
    engine = replace(shared_engine, policy=Policy(default_wall_seconds=0.4))
    result = await engine.execute(Request(language="shell", code="sleep 1000"), caller="test")
    assert (result.status, result.limits_hit) == ("timeout", ("wall_seconds",))


@in_each_language({"python": "while True: pass", "shell": "while :; do :; done"})
async def test_cpu_seconds_of_one_process(run, language, code):
    result = await run(language, code, cpu_seconds=0.3, wall_seconds=60)
    assert (result.status, result.limits_hit) == ("killed", ("cpu_seconds",))


async def test_cpu_seconds_are_those_of_all_processes_together(run, has_cgroups):
    code = "for i in 1 2 3 4; do (while :; do :; done) & done; wait"
    result = await run("shell", code, cpu_seconds=0.3, cpus=2, wall_seconds=60 if has_cgroups else 0.5)
    if has_cgroups:
        assert (result.status, result.limits_hit) == ("killed", ("cpu_seconds",))
        assert result.usage.cpu_ms < 1200
    else:  # each process by itself; the wall clock bounds the sum
        assert result.usage.wall_ms < 5000


async def test_cpus_bound_what_a_sandbox_uses_at_once(run, has_cgroups):
    """T5: the knob ``cpus``. Half a processor: a second of work takes two."""
    if has_cgroups:
        result = await run("shell", "while :; do :; done & while :; do :; done", cpus=0.5, wall_seconds=1)
        assert result.status == "timeout"
        assert result.usage.cpu_ms <= 0.75 * result.usage.wall_ms


@in_each_language(
    {
        "python": "hoard = []\nwhile True: hoard.append(bytearray(1 << 22))",
        "shell": "x=0123456789abcdef; while :; do x=$x$x; done",
        "typescript": "const hoard: object[] = []; while (true) hoard.push(new Array(1000).fill(Math.random()));",
    }
)
async def test_memory_bytes(run, language, code):
    most = 128 if language == "typescript" else 64
    result = await run(language, code, memory_bytes=most * MIB, wall_seconds=60)
    assert result.limits_hit[:1] == ("memory_bytes",), result
    assert result.status in ("killed", "error")


@in_each_language(
    {
        "typescript": "const h = []; while (true) h.push(new Uint8Array(1 << 22).fill(1));",
        "python": "import mmap\nh = []\nwhile True: m = mmap.mmap(-1, 1 << 22); m.write(bytes(1 << 22)); h.append(m)",
        "shell": "for i in 1 2 3 4; do tail -c 100M /dev/zero | sort > /dev/null & done; wait; sleep 1000",
    }
)
async def test_memory_bytes_outside_the_languages_heap_and_over_all_processes(run, has_cgroups, language, code):
    if language == "shell" and not has_cgroups:
        return  # each process is bounded, their sum is not
    most = 192 if language == "typescript" else 96
    result = await run(language, code, memory_bytes=most * MIB, wall_seconds=60)
    if has_cgroups:
        assert (result.status, result.limits_hit[:1]) == ("killed", ("memory_bytes",)), result
    else:
        assert "memory_bytes" in result.limits_hit or result.status == "error", result


async def test_where_the_host_has_no_memory_left_the_kernel_takes_that_of_sandboxes_first(run):
    """E4: and no program can have it otherwise; see the case ``proc_writes.py``."""
    result = await run("python", "int(open('/proc/self/oom_score_adj').read())")
    assert result.value == 1000


async def test_files_in_scratch_count_as_memory(run, has_cgroups):
    if has_cgroups:
        code = "head -c 200M /dev/zero > /tmp/fill; sleep 1000"
        limits = {"memory_bytes": 64 * MIB, "scratch_bytes": 512 * MIB, "file_bytes": 512 * MIB, "wall_seconds": 60}
        result = await run("shell", code, **limits)
        assert (result.status, result.limits_hit[:1]) == ("killed", ("memory_bytes",))


@in_each_language(
    {
        "python": "import os\nwhile True:\n  if os.fork() == 0:\n    import time; time.sleep(1000)",
        "shell": "while :; do sleep 1000 & done",
    }
)
async def test_processes(run, has_cgroups, language, code):
    result = await run(language, code, processes=16, wall_seconds=3)
    if has_cgroups:
        assert "processes" in result.limits_hit, result
    else:
        assert "processes" in result.limits_hit or "Resource temporarily unavailable" in result.stderr.text, result


@in_each_language(
    {
        "python": "hoard = []\nwhile True: hoard.append(open('/dev/null'))",
        "typescript": "const h = []; while (true) h.push(Deno.openSync('/tmp/x', {create: true, write: true}));",
        "shell": 'for i in $(seq 3 200); do eval "exec $i</dev/null" || exit 1; done',
    }
)
async def test_open_files(run, language, code):
    result = await run(language, code, open_files=64)
    assert (result.status, result.limits_hit) == ("error", ("open_files",)), result


@in_each_language(
    {
        "python": "open('/tmp/x', 'wb').write(bytes(3 << 20))",
        "typescript": "Deno.writeFileSync('/tmp/x', new Uint8Array(3 << 20));",
        "shell": "head -c 3M /dev/zero > /tmp/x",
    }
)
async def test_file_bytes(run, language, code):
    result = await run(language, code, file_bytes=2 * MIB)
    assert result.limits_hit == ("file_bytes",), result
    assert result.status in ("error", "killed")


@in_each_language(
    {
        "python": "open('/tmp/x', 'wb').write(bytes(3 << 20))",
        "typescript": "Deno.writeFileSync('/tmp/x', new Uint8Array(3 << 20));",
        "shell": "head -c 3M /dev/zero > /tmp/x",
    }
)
async def test_scratch_bytes(run, language, code):
    result = await run(language, code, scratch_bytes=2 * MIB)
    assert (result.status, result.limits_hit) == ("error", ("scratch_bytes",)), result


async def test_a_program_out_of_terminals_is_not_told_that_its_scratch_is_full(run):
    result = await run("python", "import pty\nkept = [pty.openpty() for _ in range(50)]", scratch_bytes=2 * MIB)
    assert (result.status, result.limits_hit, result.error.type) == ("error", (), "OSError"), result
    assert result.hint == ""


async def test_shared_memory_is_no_way_around_the_scratch_limit(run):
    result = await run("shell", "head -c 3M /dev/zero > /dev/shm/x", scratch_bytes=2 * MIB)
    assert (result.status, result.limits_hit) == ("error", ("scratch_bytes",)), result


async def test_output_bytes_keep_head_and_tail_and_the_rest_by_handle(shared_engine):
    """E2: everything can be read, and no character is cut in two."""
    engine = replace(shared_engine, policy=Policy(limits=Limits(output_bytes=1000)))
    result = await engine.execute(Request(language="python", code="print('ü' * 4000)"), caller="test")
    out = result.stdout
    assert (result.status, result.limits_hit) == ("ok", ("output_bytes",))
    assert (out.total_bytes, out.truncated) == (8001, True)
    head, middle, tail = out.text.split("\n", 2)
    assert (head, tail) == ("ü" * 250, "ü" * 249 + "\n")
    assert middle.startswith("[… 7001 bytes not shown; read_output(")
    assert f"output_ref={out.handle!r}" in middle
    assert engine.archive.page(out.handle, "test", 0) == ("ü" * 4000 + "\n", None)
    assert engine.archive.page("output://run-0/stdout", "test", 0) is None


async def test_a_value_too_large_for_output_bytes_is_cut_and_said_so(run):
    result = await run("python", "'x' * 5000", output_bytes=1000)
    assert (result.status, result.limits_hit) == ("ok", ("output_bytes",))
    assert len(result.value) <= 1100
    assert result.value_type == "str"


@in_each_language({"python": "while True: print('x' * 1000)", "shell": "yes | tee /dev/stderr"})
async def test_stored_output_bytes_end_a_flood(run, language, code):
    result = await run(language, code, stored_output_bytes=1 * MIB, wall_seconds=60)
    assert (result.status, result.limits_hit[0]) == ("killed", "stored_output_bytes")
    assert len(result.stdout.text) < 40_000


async def test_a_run_that_ends_since_its_output_finds_no_room_is_not_told_to_print_less(shared_engine, tmp_path):
    """The disk is the server's: a program that prints less soon meets it again."""
    engine = replace(shared_engine, spool=tmp_path / "missing")
    result = await engine.execute(Request(language="shell", code="yes | head -c 1000000"), caller="test")
    assert (result.status, result.limits_hit[0]) == ("killed", "stored_output_bytes")
    assert result.hint == f"output can't be stored in {tmp_path}/missing: No such file or directory, tell the owner"


async def test_code_bytes(run):
    result = await run("python", "#" * 2000, code_bytes=1000)
    assert (result.status, result.error.type, result.limits_hit) == ("denied", "code_too_large", ("code_bytes",))


def with_admission(engine, **settings):
    """The engine with a queue of its own; that comes before any sandbox, so it is tried with one kind of them."""
    queue = AdmissionQueue(**dict(AdmissionSettings(concurrent_runs=1, queue_length=1, **settings).items()))
    return replace(engine, admission=queue)


@cold_only
async def test_concurrent_runs_and_queue_length(shared_engine):
    """E4, T5: one runs, one waits, the third is told to come back."""
    engine, up, results = with_admission(shared_engine, queue_seconds=30), anyio.Event(), {}

    async def execute(name, code, **hooks):
        results[name] = await engine.execute(Request(language="shell", code=code), caller="test", **hooks)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: execute("first", "echo up; sleep 3", on_output=lambda *_: up.set()))
        await up.wait()
        tasks.start_soon(execute, "second", "echo second")
        while not engine.admission.waiting:  # not until all tasks wait: the pool's never do for long
            await anyio.lowlevel.checkpoint()
        assert engine.admission.running == 1
        await execute("third", "echo third")
        assert results["third"].status == "denied"
        assert results["third"].limits_hit == ("queue_length",)
    assert [results[name].status for name in ("first", "second")] == ["ok", "ok"]


@cold_only
async def test_queue_seconds(shared_engine):
    engine, up = with_admission(shared_engine, queue_seconds=0.2), anyio.Event()
    request = Request(language="shell", code="echo up; sleep 1000")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: engine.execute(request, caller="test", on_output=lambda *_: up.set()))
        await up.wait()
        result = await engine.execute(Request(language="shell", code="true"), caller="test")
        assert (result.status, result.limits_hit) == ("denied", ("queue_seconds",))
        tasks.cancel_scope.cancel()


async def test_a_hungry_run_harms_no_other(engine_with):
    """E4: a fork bomb, a flood and a memory bomb run beside an honest program, which does not notice."""
    limits = {"wall_seconds": 2, "memory_bytes": 128 * MIB, "processes": 32, "stored_output_bytes": 4 * MIB}
    bombs = [":(){ :|:& };:; wait", "yes", "x=0123456789abcdef; while :; do x=$x$x; done"]
    async with (
        engine_with(limits=limits, admission={"concurrent_runs": 8}) as engine,
        anyio.create_task_group() as tasks,
    ):
        for bomb in bombs:
            tasks.start_soon(lambda bomb=bomb: engine.execute(Request(language="shell", code=bomb), caller="bad"))
        result = await engine.execute(Request(language="python", code="sum(range(10))"), caller="good")
        assert (result.status, result.value) == ("ok", 45)
        tasks.cancel_scope.cancel()
