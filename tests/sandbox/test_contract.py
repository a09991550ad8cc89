"""What every backend promises, on the real kernel: the same for each language, warm or cold."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from importlib.metadata import packages_distributions
from pathlib import Path

import anyio
import pytest

from gloveport.errors import ConfigError, SandboxError
from gloveport.model import Limits, Mount, Policy, Request
from gloveport.model.reading import read_value
from gloveport.runtimes import python
from gloveport.sandbox.detection import host
from gloveport.sandbox.reaper import reaper

pytestmark = pytest.mark.anyio

# Of building itself: what can't be built can't wait either, and a run then hears why from being built for it.
cold_only = pytest.mark.parametrize("temperature", ["cold"], indirect=True)

HELLO = {
    "python": "print('out'); import sys; print('err', file=sys.stderr); {'answer': [1, 2.5, None, 'ü']}",
    "typescript": "const n: number = 1; console.log('out'); console.error('err'); ({answer: [n, 2.5, null, 'ü']})",
    "javascript": "console.log('out'); console.error('err'); ({answer: [1, 2.5, null, 'ü']})",
    "shell": """echo err >&2; echo '{"answer": [1, 2.5, null, "ü"]}'""",
}


def descendants(pid):
    """Host process ids below ``pid``."""
    children = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            children.setdefault(parent, []).append(int(entry.name))
    found, queue = set(), [pid]
    while queue:
        for child in children.get(queue.pop(), []):
            found.add(child)
            queue.append(child)
    return found


def groups():
    """Cgroup directories of the sandboxes of this process."""
    # os.walk: those of others may vanish on the way.
    walked = ((Path(place), names) for place, names, _ in os.walk("/sys/fs/cgroup"))
    ours = ((place, names) for place, names in walked if re.fullmatch(rf"gloveport-\d+-{os.getpid()}-.*", place.name))
    return {f"{place}/{name}" for place, names in ours for name in names if name.startswith("run-")}


async def at_rest(state):
    """What a state is when it has not changed for a while: of a run before, processes may be dying, even after it."""
    last, since = state(), anyio.current_time()
    with anyio.fail_after(30):
        while anyio.current_time() - since < 0.2:
            await anyio.sleep(0.01)
            if (now := state()) != last:
                last, since = now, anyio.current_time()
    return last


@pytest.mark.parametrize("language", HELLO)
async def test_every_language_gives_value_and_streams_apart(run, has_cgroups, language):
    """E1, E2, P15."""
    result = await run(language, HELLO[language])
    assert (result.status, result.value, result.value_type) == ("ok", {"answer": [1, 2.5, None, "ü"]}, None)
    assert result.stderr.text == "err\n"
    if language != "shell":
        assert result.stdout.text == "out\n"
    assert result.exit_code == 0
    assert result.limits_hit == ()
    assert result.usage.wall_ms > 0
    assert (result.usage.cpu_ms is not None) == (result.usage.peak_memory_bytes is not None) == has_cgroups


@pytest.mark.parametrize(
    ("language", "code", "line"),
    [
        ("python", "x = 1\n\nraise ValueError('no')", 'File "program.py", line 3'),
        ("typescript", "const x: number = 1;\n\nthrow new TypeError('no');", "program.ts:3:7"),
        ("javascript", "const x = 1;\n\nthrow new TypeError('no');", "program.js:3:7"),
    ],
)
async def test_a_failure_names_the_callers_own_line_and_none_of_ours(run, language, code, line):
    """E2."""
    result = await run(language, code)
    assert result.status == "error"
    assert result.error.message == "no"
    assert line in result.error.traceback
    for ours in ("/opt/gloveport", "init.py", "run.mjs", "blob:"):
        assert ours not in result.error.traceback


async def test_a_shell_error_names_the_callers_line(run):
    result = await run("shell", "true\n\nnosuchcommand")
    assert (result.status, result.exit_code) == ("error", 127)
    assert "program.sh: line 3: nosuchcommand" in result.stderr.text


@pytest.mark.parametrize("language", ["python", "typescript"])
async def test_await_works_at_the_top_level(run, language):
    """E1."""
    code = {
        "python": "import asyncio\nawait asyncio.sleep(0, 7)",
        "typescript": "await new Promise<number>(done => setTimeout(() => done(7), 1))",
    }
    assert (await run(language, code[language])).value == 7


async def test_the_effective_grant_is_in_the_answer(shared_engine):
    """T1, P11: the caller asks for more than the operator gives, and reads what it got."""
    engine = replace(shared_engine, policy=Policy(limits=Limits(wall_seconds=5, processes=20)))
    request = read_value(Request, {"language": "python", "code": "1", "limits": {"wall_seconds": 600, "processes": 10}})
    result = await engine.execute(request, caller="test")
    assert result.grant.limits.wall_seconds == 5
    assert result.grant.limits.processes == 10
    assert result.grant.languages == {"python", "typescript", "javascript", "shell"}


@cold_only
async def test_a_language_the_policy_does_not_name_is_denied_and_written_down(engine_with, tmp_path):
    """T1, T6, P11, P13."""
    async with engine_with(policy={"languages": {"shell"}}) as engine:
        result = await engine.execute(Request(language="python", code="1"), caller="test")
    assert (result.status, result.error.type) == ("denied", "language_not_allowed")
    log = "".join(path.read_text() for path in (tmp_path / "state/audit").glob("*.jsonl"))
    assert '"kind":"execute.denied"' in log


@cold_only
async def test_a_run_is_written_down_before_and_after(engine_with, tmp_path):
    """T6, A1, P13: digests and sizes, never the text."""
    async with engine_with() as engine:
        result = await engine.execute(Request(language="python", code="'very-secret-text'"), caller="me")
    records = [
        json.loads(line)
        for path in (tmp_path / "state/audit").glob("*.jsonl")
        for line in path.read_text().splitlines()
    ]
    kinds = [(record["kind"], record.get("run"), record.get("caller")) for record in records]
    assert kinds == [("execute.admitted", result.run_id, "me"), ("execute.ended", result.run_id, "me")]
    assert records[0]["rule"] == "policy.languages"
    assert records[1]["status"] == "ok"
    assert records[1]["result_sha256"] == hashlib.sha256(result.model_dump_json().encode()).hexdigest()
    assert "very-secret-text" not in json.dumps(records)


async def test_nothing_is_left_of_a_run(engine_with, settled):
    """E5, P9: no process, cgroup, mount or descriptor."""
    async with engine_with() as engine:
        await engine.execute(Request(language="shell", code="true"), caller="test")

        def state():
            mounts, files = Path("/proc/self/mountinfo").read_text(), list(Path("/proc/self/fd").iterdir())
            return len(descendants(os.getpid())), len(groups()), mounts.count("\n"), len(files)

        await settled(engine)
        before = await at_rest(state)
        for code in ("sleep 1000 & disown; exit 0", "(setsid sleep 1000 &) ; exit 0", "kill -9 $$"):
            await engine.execute(Request(language="shell", code=code), caller="test")
        await settled(engine)
        with anyio.fail_after(30):
            while any(now > then for now, then in zip(state(), before, strict=True)):
                await anyio.sleep(0.01)


async def test_a_cancelled_run_is_dead_at_once_with_all_its_processes(engine_with, settled):
    """E5, P9."""
    async with engine_with() as engine:
        await engine.execute(Request(language="shell", code="true"), caller="test")
        await settled(engine)
        before = await at_rest(lambda: len(descendants(os.getpid())))
        seen = anyio.Event()
        request = Request(language="shell", code="(setsid sleep 1000 &); echo up; trap '' TERM INT; sleep 1000")
        async with anyio.create_task_group() as tasks:

            async def execute():
                await engine.execute(request, caller="test", on_output=lambda *_: seen.set())

            tasks.start_soon(execute)
            await seen.wait()
            await settled(engine)
            assert len(descendants(os.getpid())) > before
            tasks.cancel_scope.cancel()
        for pid in descendants(os.getpid()):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # some end by themselves
                assert Path(f"/proc/{pid}/comm").read_text().strip() != "sleep"
        await settled(engine)
        assert await at_rest(lambda: len(descendants(os.getpid()))) <= before


OWNER = """
import sys, anyio
from gloveport.config import Config
from gloveport.model import Request
from gloveport.bootstrap.app import assemble
async def main():
    async with assemble(Config(), {"GLOVEPORT_STATE": sys.argv[1]}) as engine:
        request = Request(language="shell", code="(setsid sleep 1000 &); echo up; sleep 1000")
        await engine.execute(request, caller="x", on_output=lambda *_: print("up", flush=True))
anyio.run(main)
"""


def test_a_killed_server_takes_its_sandboxes_with_it(gloveport, tmp_path):
    """E5, P9: nothing outlives its owner, though it had no time to say good-bye."""
    (script := tmp_path / "owner.py").write_text(OWNER)
    with gloveport.start_script(script, tmp_path / "state", stdout=subprocess.PIPE) as owner:
        assert owner.stdout.readline() == b"up\n"
        below = []
        for pid in descendants(owner.pid):
            with contextlib.suppress(ProcessLookupError):  # some end by themselves
                below.append(os.pidfd_open(pid))
        assert len(below) >= 4
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        with anyio.from_thread.start_blocking_portal() as portal:
            for descriptor in below:
                portal.call(_gone, descriptor)
                os.close(descriptor)


async def _gone(descriptor):
    with anyio.fail_after(30):
        await anyio.wait_readable(descriptor)


@cold_only
async def test_bubblewrap_never_runs_as_the_host_root(engine_with):
    """E9, P15: and every sandbox of a server that is root has a uid of its own."""
    others = {*descendants(os.getpid())}
    async with engine_with() as engine:
        seen = []
        both = anyio.Event()
        request = Request(language="shell", code="echo up; sleep 1000")

        def on_output(*_):
            seen.append(1)
            if len(seen) == 2:
                both.set()

        async with anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(lambda: engine.execute(request, caller="test", on_output=on_output))
            await both.wait()
            uids = []
            for pid in {*descendants(os.getpid())} - others:
                try:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes()
                    told = Path(f"/proc/{pid}/status").read_text().splitlines()
                except OSError:  # it was there for a moment
                    continue
                if reaper.__file__.encode() in command:  # it starts bubblewrap
                    continue
                status = dict(line.split(":\t", 1) for line in told if ":\t" in line)
                uids.append({int(uid) for uid in status["Uid"].split()})
            tasks.cancel_scope.cancel()
    if os.geteuid() == 0:
        assert len(set().union(*uids)) == 2
        assert all(1_900_000_000 <= uid < 1_900_001_024 for uid in set().union(*uids))
    else:
        assert set().union(*uids) == {os.getuid()}


@cold_only
async def test_bubblewrap_is_started_at_its_own_path(engine_with):
    """A profile of AppArmor goes by that: elsewhere the host's would not hold, and ours would give nothing."""
    others, up, programs = {*descendants(os.getpid())}, anyio.Event(), set()
    async with engine_with() as engine, anyio.create_task_group() as tasks:
        request = Request(language="shell", code="echo up; sleep 1000")
        tasks.start_soon(lambda: engine.execute(request, caller="test", on_output=lambda *_: up.set()))
        await up.wait()
        for pid in {*descendants(os.getpid())} - others:
            # Of its pid 1 that is not to be looked at, and one that was only needed to begin is gone.
            with contextlib.suppress(PermissionError, FileNotFoundError, ProcessLookupError):
                if b"\0--args\0" in Path(f"/proc/{pid}/cmdline").read_bytes():
                    programs.add(str(Path(f"/proc/{pid}/exe").readlink()))
        tasks.cancel_scope.cancel()
    assert programs == {str(host.find_bubblewrap(None))}


async def test_the_environment_is_built_from_nothing(engine_with, monkeypatch):
    """T4, E9, P7: what a shell has, and what the packages of the extra ``data`` read."""
    monkeypatch.setenv("OWNERS_API_KEY", "sk-very-secret")
    async with engine_with() as engine:
        request = Request(language="python", code="import os\n{**os.environ}")
        result = await engine.execute(request, caller="test")
        limits_addresses = [] if engine.system.counts_memory else ["MALLOC_ARENA_MAX"]
    assert sorted(result.value) == [
        *["HOME", "LANG", "LOGNAME", *limits_addresses],
        *["MPLBACKEND", "MPLCONFIGDIR", "MPL_IGNORE_SYSTEM_FONTS", "NO_COLOR"],
        *["OPENBLAS_NUM_THREADS", "PATH", "PWD", "PYTHONPATH", "SHELL", "TERM", "TMPDIR", "USER"],
    ]
    assert result.value["PYTHONPATH"] == "/opt/data"
    assert "secret" not in str(result.value)


async def test_the_command_line_of_pid_1_says_nothing_of_the_host(run, tmp_path):
    """P7: bubblewrap or our own reaper is pid 1, and its command line is readable inside."""
    mounts = (Mount(source=str(tmp_path), target="/data"),)
    result = await run("shell", "tr '\\0' ' ' < /proc/1/cmdline", policy={"mounts": mounts})
    assert "/opt/gloveport/zygote.py" in result.stdout.text or "--args" in result.stdout.text
    assert str(tmp_path) not in result.stdout.text


async def test_the_root_holds_only_what_the_runtime_needs(run):
    """E9, P1: nothing of the host's home, no /sys, no D-Bus, of /etc a handful of files."""
    code = """
import os
places = ["/home", "/root", "/var", "/sys", "/boot", "/media", "/srv", "/usr/local", "/usr/sbin", "/run/dbus"]
out = {os.path.realpath(path) for path in ("/mnt/data", "/mnt/user-data/outputs")}
[[path for path in places if os.path.exists(path)], os.listdir("/etc"), list(out)]
"""
    there, etc, out = (await run("python", code)).value
    assert (there, out) == ([], ["/out"])
    assert set(etc) <= {"passwd", "group", "hosts", "nsswitch.conf", "alternatives", "ld.so.cache"}


@pytest.mark.parametrize("temperature", ["warm"], indirect=True)  # the next is of a sandbox that is built for it
async def test_programs_can_work_on_data(run):
    """E8: the packages of the extra ``data`` work, a first picture included, and say nothing on standard error.

    And all that may be imported ahead is there and leaves one thread: a process of more can't be forked.
    """
    code = (
        f"import importlib\nfor name in {python.WITH_DATA}: importlib.import_module(name)"
        """
import io, os, sys
import matplotlib.pyplot as plt
import pandas as pd
frame = pd.DataFrame({"city": ["Bern", "Graz", "Bern"], "rain": [1.5, 2.0, 3.5]})
frame.groupby("city").rain.sum().plot.bar(title="Rain")
picture = io.BytesIO()
plt.savefig(picture)
threads = len(os.listdir("/proc/self/task"))
[frame.groupby("city").rain.mean().to_dict(), picture.getvalue()[:4].hex(), threads, sys.path[-2:], os.listdir("/tmp")]
"""
    )
    result = await run("python", code)
    assert result.value == [{"Bern": 2.5, "Graz": 2.0}, b"\x89PNG".hex(), 1, ["/opt/data", "/tmp"], ["program.py"]]
    assert result.stderr.text == ""


@cold_only
async def test_a_python_process_of_a_program_can_work_on_data_too(run):
    """E8."""
    code = """
cat > plot.py <<'END'
import matplotlib.pyplot, pandas
print(pandas.Series([1, 2, 3]).sum())
matplotlib.pyplot.plot([1, 2])
matplotlib.pyplot.savefig("plot.png")
END
python3 plot.py && head -c 4 plot.png | tail -c 3
"""
    result = await run("shell", code)
    assert (result.stdout.text, result.stderr.text) == ("6\nPNG", "")


async def test_processes_that_a_program_spawns_find_it(run):
    """E1: else multiprocessing starts one after the other, for ever."""
    code = """
import multiprocessing
def square(number):
    return number * number
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(square, [1, 2, 3]))
"""
    result = await run("python", code)
    assert (result.stdout.text, result.status) == ("[1, 4, 9]\n", "ok")


async def test_no_package_of_the_server_can_be_imported(run):
    """P1, P7: of what is installed with it, only the packages of the extra are there."""
    names = sorted({"gloveport", *filter(str.isidentifier, packages_distributions())})
    code = f"""
import importlib.util
found = {{name: spec.origin for name in {names} if (spec := importlib.util.find_spec(name))}}
sorted(name for name, origin in found.items() if origin and origin.startswith("/opt"))
"""
    mounted = {Path(name).stem for name in python.find(None).data.sources}
    found = (await run("python", code)).value
    assert {"numpy", "pandas", "matplotlib"} <= set(found) <= mounted
    assert {"anyio", "gloveport", "mcp", "pydantic"} <= set(names) - mounted


async def test_descriptors_are_the_intended_ones(run):
    """E9, P7: streams, and in Python the channel to the host, which carries the report."""
    shell = await run("shell", "for f in /proc/self/fd/*; do readlink $f; done")
    kinds = [line.split(":")[0] for line in shell.stdout.text.splitlines()]
    assert kinds[:3] == ["/dev/null", "pipe", "pipe"]
    assert kinds[3].startswith("/memfd")
    assert len(kinds) == 4
    code = "import os\nsorted(os.readlink(f.path).split(':')[0] for f in os.scandir('/proc/self/fd'))"
    python = await run("python", code)
    assert [kind for kind in python.value if not kind.startswith("/proc")] == ["/dev/null", "pipe", "pipe", "socket"]


async def test_a_program_can_open_its_own_standard_streams(run):
    result = await run("shell", "echo out > /dev/stdout; echo err > /dev/stderr")
    assert (result.stdout.text, result.stderr.text) == ("out\n", "err\n")


async def test_loopback_is_up_and_nothing_else_is_there(run):
    """E9, P2: its own loopback and no other network."""
    code = """
import socket, threading
server = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=lambda: server.accept()[0].sendall(b"pong")).start()
answer = socket.create_connection(server.getsockname()).recv(4).decode()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=1)
except OSError as error:
    outside = error.strerror
[answer, outside, [line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:]]]
"""
    result = await run("python", code)
    assert result.value == ["pong", "Network is unreachable", ["lo"]]


async def test_an_operators_mount_is_readable_and_read_only(run, tmp_path):
    """T5, P1: the knob ``mounts``."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "table.csv").write_text("a,b\n1,2\n")
    tmp_path.chmod(0o755)
    code = "cat /data/table.csv; echo x > /data/new || cp /bin/ls /data/ls"
    result = await run("shell", code, policy={"mounts": (Mount(source=str(data), target="/data"),)})
    assert result.stdout.text == "a,b\n1,2\n"
    assert "Read-only file system" in result.stderr.text
    assert [path.name for path in data.iterdir()] == ["table.csv"]


async def test_a_source_below_a_closed_directory_is_mounted_by_root_alone(run, tmp_path):
    """As root the mount is made before privileges are dropped, so that modes above it do not matter."""
    closed = tmp_path / "closed"
    (closed / "data").mkdir(parents=True)
    (closed / "data/file").write_text("here")
    (closed / "data").chmod(0o755)
    closed.chmod(0o700)
    result = await run("shell", "cat /data/file", policy={"mounts": (Mount(source=f"{closed}/data", target="/data"),)})
    assert result.stdout.text == "here"


async def test_a_configured_interpreter_that_only_root_can_reach_works(engine_with):
    """The interpreter of these tests may lie in root's home: root can use it, and so can whoever owns it."""
    interpreter = os.path.realpath(sys.executable)  # not that of a virtual environment, which may lie below /tmp
    async with engine_with(runtimes={"python": interpreter}) as engine:
        code = "import sys\nsys.base_prefix"
        result = await engine.execute(Request(language="python", code=code), caller="test")
    assert result.value == sys.base_prefix


@cold_only
async def test_a_configured_interpreter_that_is_none_is_a_configuration_error(engine_with):
    with pytest.raises(ConfigError, match=r"runtimes\.python: /bin/true does not run"):
        async with engine_with(runtimes={"python": "/bin/true"}):
            pass


@cold_only
async def test_a_demand_the_kernel_can_not_meet_is_a_refusal(engine_with):
    """T3, T5, P12: the knob ``landlock_abi``."""
    async with engine_with(sandbox={"landlock_abi": 60}) as engine:
        with pytest.raises(SandboxError, match="Landlock ABI 60 is demanded, the kernel enforces") as caught:
            await engine.execute(Request(language="shell", code="echo ran"), caller="test")
    assert "lsm=" in caught.value.hint


@cold_only
async def test_a_bubblewrap_that_fails_is_a_refusal_with_its_own_words(engine_with, tmp_path):
    """T3, P12: and nothing ran."""
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2; exit 1\n")
    broken.chmod(0o755)
    tmp_path.chmod(0o755)
    async with engine_with(sandbox={"bubblewrap": str(broken)}) as engine:
        with pytest.raises(SandboxError, match="No permissions to create new namespace"):
            await engine.execute(Request(language="shell", code="echo ran"), caller="test")


@cold_only
async def test_a_missing_bubblewrap_names_what_to_do(engine_with):
    """T3: or, where the configuration names one, the setting."""
    with pytest.raises(SandboxError, match=r"sandbox\.bubblewrap: /nonexistent/bwrap is not there") as caught:
        async with engine_with(sandbox={"bubblewrap": "/nonexistent/bwrap"}):
            pass
    assert "remove the setting" in caught.value.hint


@cold_only
async def test_cgroups_can_be_demanded(engine_with, has_cgroups):
    """T3, T5: the knob ``cgroups``: a refusal where there are none, in force where there are."""
    if has_cgroups:
        async with engine_with(sandbox={"cgroups": "require"}) as engine:
            assert engine.sandbox.cold.tree is not None
    else:
        with pytest.raises(SandboxError, match="no cgroup"):
            async with engine_with(sandbox={"cgroups": "require"}):
                pass


@cold_only
async def test_uids_come_from_the_configured_range_and_run_out(engine_with):
    """T5: the knobs ``first_uid`` and ``uid_count``; only root drops to another uid."""
    first_uid = 1_950_000_000 + os.getpid()
    async with engine_with(sandbox={"first_uid": first_uid, "uid_count": 1}) as engine:
        seen = anyio.Event()
        first = Request(language="shell", code="grep ^ /proc/self/uid_map; sleep 1000")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: engine.execute(first, caller="test", on_output=lambda *_: seen.set()))
            await seen.wait()
            second = Request(language="shell", code="cat /proc/self/uid_map")
            if os.geteuid() == 0:
                with pytest.raises(SandboxError, match=f"all 1 user ids from {first_uid} are in use"):
                    await engine.execute(second, caller="test")
            else:
                assert (await engine.execute(second, caller="test")).status == "ok"
            tasks.cancel_scope.cancel()


async def test_two_runs_share_nothing(shared_engine):
    """E9, P10: files, shared memory, host name, abstract names, System V objects: the second run finds none."""
    leave = "echo mine > /tmp/left; echo mine > /dev/shm/left; mkdir -p /run/gloveport/left; hostname other"
    await shared_engine.execute(Request(language="shell", code=leave), caller="test")
    look = "ls -A /tmp /dev/shm /run/gloveport; hostname; cat /proc/net/unix | wc -l"
    result = await shared_engine.execute(Request(language="shell", code=look), caller="test")
    assert "left" not in result.stdout.text
    assert "gloveport" in result.stdout.text.splitlines()
    assert result.stdout.text.splitlines()[-1] == "1"


@pytest.mark.parametrize("language", ["python", "typescript", "shell"])
async def test_a_program_sees_no_process_but_its_own(run, language):
    """E9, P3."""
    look = "ls -d /proc/[0-9]* | wc -l"
    code = {
        "shell": f"echo $(({look.replace('ls', '$(ls')})))",
        "python": f"import subprocess\nint(subprocess.check_output('{look}', shell=True))",
        "typescript": "console.log(Deno.pid); Deno.pid",
    }
    result = await run(language, code[language])
    assert result.status == "ok", result
    assert result.value <= 7


async def test_a_program_has_no_privilege_and_gains_none(run):
    """E9, P4: no capability in any set, no_new_privs, the filter in force, an unprivileged user."""
    code = """
import os
fields = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
capabilities = {int(fields["Cap" + name], 16) for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")}
[sorted(capabilities), fields["NoNewPrivs"], fields["Seccomp"], list(os.getresuid())]
"""
    assert (await run("python", code)).value == [[0], "1", "2", [1000, 1000, 1000]]


@cold_only
@pytest.mark.parametrize("place", ["itself", "above it"])
async def test_a_source_that_became_a_link_after_the_start_is_refused(engine_with, tmp_path, place):
    """P1, P12: who may write above a mount's source could otherwise have anything mounted that the server can reach."""
    (tmp_path / "mine/data").mkdir(parents=True)
    (tmp_path / "secret/data").mkdir(parents=True)
    (tmp_path / "secret/data/file").write_text("secret")
    mounts = (Mount(source=str(tmp_path / "mine/data"), target="/data"),)
    async with engine_with(policy={"mounts": mounts}) as engine:
        moved = tmp_path / ("mine/data" if place == "itself" else "mine")
        moved.rename(tmp_path / "away")
        moved.symlink_to(tmp_path / ("secret/data" if place == "itself" else "secret"))
        with pytest.raises(SandboxError, match="could not be built"):
            await engine.execute(Request(language="shell", code="cat /data/file"), caller="test")


@cold_only
async def test_what_is_mounted_is_compared_with_what_was_named(engine_with, tmp_path):
    """P1: should bubblewrap be led elsewhere between the look and the mount, the first process tells what it found."""
    (tmp_path / "data").mkdir()
    (tmp_path / "bwrap").write_text(
        "#!/usr/bin/python3 -I\n"
        "import os, sys\n"
        "if '--args' in sys.argv:\n"
        "    number = int(sys.argv[2])\n"
        "    options = os.read(number, 1 << 20).split(b'\\0')\n"
        "    options[options.index(b'/data') - 1] = b'/usr/share'\n"
        "    memory = os.memfd_create('x', 0)\n"
        "    os.write(memory, b'\\0'.join(options)); os.lseek(memory, 0, 0); os.dup2(memory, number)\n"
        "os.execv('/usr/bin/bwrap', ['bwrap', *sys.argv[1:]])\n"
    )
    for path in (tmp_path, tmp_path / "bwrap"):
        path.chmod(0o755)
    mounts = (Mount(source=str(tmp_path / "data"), target="/data"),)
    async with engine_with(policy={"mounts": mounts}, sandbox={"bubblewrap": str(tmp_path / "bwrap")}) as engine:
        with pytest.raises(SandboxError, match="what is mounted in the sandbox is not what was named"):
            await engine.execute(Request(language="shell", code="ls /data"), caller="test")


@cold_only
async def test_a_run_whose_cgroup_somebody_removes_ends_as_an_error_of_this_host(engine_with, has_cgroups):
    """P8, P12: its limits are gone with the group, so it does not go on."""
    if not has_cgroups:
        return
    before = groups()
    async with engine_with() as engine:
        if engine.sandbox.cold.tree.version == 2:  # where its parent takes no processes
            return
        up = anyio.Event()
        request = Request(language="shell", code="echo up; sleep 1000")

        async def remove():
            await up.wait()
            place = engine.sandbox.cold.tree.directories["memory"]
            (group,) = place.glob("run-*")
            while pids := (group / "cgroup.procs").read_text().split():  # the shell may fork meanwhile
                for pid in pids:
                    (place.parent / "cgroup.procs").write_text(pid)
            group.rmdir()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(remove)
            with pytest.raises(SandboxError):
                await engine.execute(request, caller="test", on_output=lambda *_: up.set())
        assert groups() == before
