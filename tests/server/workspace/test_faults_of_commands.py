"""The faults of coding-tools-mcp that concern commands, as attacks on ours: section 21 of what is known of it.

Where an attack is a program that must fail, it says what it got at; a test of ours is then that it says nothing.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
from pathlib import Path

import anyio
import pytest
from mcp import Client
from tests import remembered
from tests.server.workspace.served import OWNER, git, opened, owned
from tests.server.workspace.test_commands import begun

from gloveport.errors import SandboxError
from gloveport.policy.decisions.inherited_variables import inherit_variables
from gloveport.workspace.protected import protected_paths

needs_a_compiler = pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is not there: apt-get install gcc")

REACH = """
import os
def reach(outside, mark):
    with open(mark, "a") as file:
        file.write(f"{os.getuid()}\\n")
    for path in (outside + "/mark", "/etc/mark", "/var/tmp/mark", "/usr/mark", "/opt/gloveport/mark"):
        try:
            open(path, "w")
        except OSError:
            continue
        os.write(1, b"GOT " + path.encode())
    for path in (outside, "/root", "/home", "/etc/shadow", "/etc/hostname", "/var/log", "/proc/1/environ"):
        try:
            os.listdir(path) if os.path.isdir(path) else open(path).read(1)
        except OSError:
            continue
        os.write(1, b"GOT " + path.encode())
"""


@pytest.fixture(autouse=True)
def canary(monkeypatch):
    """A secret of the server's environment."""
    text = "canary-7c1ab2f09d"
    monkeypatch.setenv("SERVER_TOKEN", text)
    return text


@pytest.fixture
async def target(served):
    """The workspace, as commands see it."""
    yield served.service.sandboxes.target
    assert [path.name for path in served.outside.iterdir()] == []


# -- 21.1 Escapes from the sandbox -----------------------------------------------------------------------------------

LIBRARY = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
unsigned la_version(unsigned version) {{ return version; }}
__attribute__((constructor)) static void reach(void) {{
    int mark = open("{target}/mark", O_CREAT | O_WRONLY | O_APPEND, 0644);
    dprintf(mark, "%d\\n", getuid());
    if (open("{outside}/mark", O_CREAT | O_WRONLY, 0644) >= 0) dprintf(1, "GOT outside");
    if (open("/etc/shadow", O_RDONLY) >= 0) dprintf(1, "GOT shadow");
}}
"""


@pytest.mark.parametrize("variable", ["PYTHONHOME", "PYTHONPATH", "PYTHONUSERBASE", "HOME", "BASH_ENV"])
async def test_a_library_planted_for_the_interpreter_runs_confined_or_not_at_all(served, target, variable):
    """CT-E1, CT-E3, CT-P3: whatever the caller's variables make of an interpreter, the command alone has them."""
    mark, outside = f"{target}/mark", str(served.outside)
    evil = f"{REACH}\nreach({outside!r}, {mark!r})\n"
    version = "python{}.{}".format(*(await served.out("python3 -c 'import sys; print(*sys.version_info[:2])'")).split())
    for name in ("encodings/__init__.py", "site.py", "os.py", "sitecustomize.py", "usercustomize.py", "io.py"):
        served.write(f"fake/lib/{version}/{name}", evil)
        served.write(f"fake/{name}", evil)
        served.write(f"fake/.local/lib/{version}/site-packages/{name}", evil)
    served.write(f"fake/.local/lib/{version}/site-packages/x.pth", f"import sys; exec({evil!r})\n")
    served.write("fake/.bashrc", f"echo GOT > {outside}/mark")
    value = f"{target}/fake/site.py" if variable == "BASH_ENV" else f"{target}/fake"
    for command in ("true", "python3 -c 'print(1)'", "git status"):
        told = await served.run(command, env={variable: value})
        assert "GOT" not in told["stdout"] + told["stderr"]
    uids = {*(served.root / "mark").read_text().split()} if (served.root / "mark").exists() else set()
    assert uids <= {"1000"}
    assert await served.out("python3 -c 'print(1)'") == "1\n"


@needs_a_compiler
@pytest.mark.parametrize("variable", ["LD_AUDIT", "LD_PRELOAD", "LD_LIBRARY_PATH"])
async def test_a_library_planted_for_the_loader_is_loaded_by_the_command_alone(served, target, variable):
    """CT-E2"""
    source = served.write("evil.c", LIBRARY.format(target=target, outside=served.outside))
    (served.root / "mark").unlink(missing_ok=True)
    for name in ("evil.so", "libtinfo.so.6"):
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", served.root / name, source], check=True)
        owned(served.root / name)
    value = target if variable == "LD_LIBRARY_PATH" else f"{target}/evil.so"
    told = await served.run("/bin/true; :", env={variable: value})
    assert "GOT" not in told["stdout"]
    if variable in {"LD_AUDIT", "LD_PRELOAD"}:
        assert {*(served.root / "mark").read_text().split()} == {"1000"}
    (served.root / "libtinfo.so.6").unlink()
    marked = await served.out("wc -l mark; true")
    assert await served.out("wc -l mark; true") == marked  # the next command has nothing of it


async def test_what_a_command_plants_in_its_home_is_gone_with_it(served, target):
    """CT-E4: every command has a home of its own."""
    planted = ".local/lib/python3.11/site-packages/x.pth .bashrc .profile .gitconfig .npmrc .config/git/config"
    await served.out(f"cd; for name in {planted} /dev/shm/x; do mkdir -p $(dirname $name); echo 'x(' > $name; done")
    assert await served.out("ls -A ~ /tmp /dev/shm | grep -v '^$' | grep -v :; true") == ""
    assert await served.out("python3 -c 'print(1)'; git config --get user.name") == "1\nagent\n"


async def test_what_is_planted_for_start_up_in_the_workspace_is_not_started(served, target):
    """CT-E4: Python's start-up modules, where a command begins."""
    (served.root / "mark").unlink(missing_ok=True)
    for name in ("sitecustomize.py", "usercustomize.py", "x.pth", "encodings.py", "os.py"):
        served.write(f"here/{name}", "open('mark', 'w')")
    assert await served.out("true", workdir="here") == ""
    answers = [
        await served.call(tool, **arguments)
        for tool, arguments in (
            ("git_status", {}),
            ("list_files", {"path": "here"}),
            ("search_text", {"query": "mark"}),
        )
    ]
    assert not any(answer.is_error for answer in answers)
    assert not (served.root / "here/mark").exists()


HOSTILE = Path(__file__).with_name("hostile.gitconfig").read_text()


async def test_a_hostile_checkout_executes_nothing_at_start_nor_by_any_tool(tmp_path, canary):
    """CT-E5, CT-E6: fsmonitor, external diff, textconv, filters, hooks; and nothing of the server's environment."""

    def prepare(root):
        (root / "a.txt").write_text("one\n")
        git(root, "add", "a.txt")
        git(root, "commit", "-q", "-m", "x")
        (root / "a.txt").write_text("two\n")
        (root / ".gitattributes").write_text("* diff=x filter=x\n")
        evil = f"env > {tmp_path}/mark; env > {root}/mark; false"
        (root / ".git/config").write_text(
            (root / ".git/config").read_text() + HOSTILE.format(evil=evil, root=root).replace("; false", ";false")
        )
        for place in ("evil-hooks", ".git/hooks"):
            for hook in ("post-index-change", "pre-commit", "reference-transaction", "post-checkout"):
                file = root / place / hook
                file.parent.mkdir(exist_ok=True)
                file.write_text(f"#!/bin/sh\n{evil}\n")
                file.chmod(0o755)
        for path in root.rglob("*"):
            owned(path)

    calls = {
        "git_status": {},
        "git_diff": {},
        "git_log": {},
        "git_show": {},
        "git_blame": {"path": "a.txt"},
        "list_files": {},
        "list_dir": {"recursive": True},
        "search_text": {"query": "two"},
        "read_file": {"path": "a.txt"},
        "server_info": {},
        "check_exec_environment": {},
    }
    async with opened(tmp_path, prepare=prepare) as served:
        for tool, arguments in calls.items():
            await served.told(tool, **arguments)
            assert not (tmp_path / "mark").exists(), tool
            assert not (served.root / "mark").exists(), tool
        await served.run("git status; git diff; git commit -am y")  # the owner's own, and confined
        assert not (tmp_path / "mark").exists()
        if (served.root / "mark").exists():
            assert canary not in (served.root / "mark").read_text()


async def test_no_socket_of_the_host_is_reached_by_a_name(served, target, tmp_path):
    """CT-E7: by a path, also in the workspace, nor an abstract one."""
    attack = """
import socket, sys
for name in sys.argv[1:]:
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        try:
            with socket.socket(socket.AF_UNIX, kind) as one:
                one.connect(name.replace("@", chr(0)))
        except OSError:
            continue
        print("GOT", name)
"""
    served.write("attack.py", attack)
    abstract = f"gloveport-test-{os.getpid()}"
    with contextlib.ExitStack() as stack:
        places = [str(served.root / "door"), str(served.outside / "door"), f"\0{abstract}"]
        for place in places:
            listener = stack.enter_context(socket.socket(socket.AF_UNIX))
            listener.bind(place)
            listener.listen()
        for place in places[:2]:
            owned(Path(place))
            stack.callback(os.unlink, place)
        names = f"{target}/door door {served.outside}/door @{abstract} /run/docker.sock"
        assert await served.out(f"python3 attack.py {names}") == ""


async def test_a_command_that_can_not_be_confined_is_not_run(tmp_path, monkeypatch):
    """CT-E8: fail closed, and the model reads why."""
    async with opened(tmp_path) as served:
        monkeypatch.setattr(protected_paths, "_below", lambda target, path: f"{target}/missing/{os.fsdecode(path)}")
        answer = await served.call("exec_command", cmd="touch ran")
        assert answer.structured_content["error"]["code"] == "SANDBOX_UNAVAILABLE"
        assert answer.content[0].text.startswith("SANDBOX_UNAVAILABLE: ")
        assert not (served.root / "ran").exists()


# -- 21.2 Network ----------------------------------------------------------------------------------------------------

NETWORK = Path(__file__).with_name("ways_to_a_listener.sh").read_text()


async def test_no_variant_reaches_a_listener_of_the_host(served, target):
    """CT-N1, CT-N2: the kernel has no way there, whatever the text says."""
    own = socket.gethostbyname(socket.gethostname())
    with socket.create_server(("0.0.0.0", 0)) as tcp, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        port = tcp.getsockname()[1]
        udp.bind(("127.0.0.1", port))
        tcp.settimeout(0)
        udp.settimeout(0)
        told = await served.run(f"export PORT={port} HOST={own}\n{NETWORK}", timeout_ms=60_000)
        with pytest.raises(BlockingIOError):
            tcp.accept()
        with pytest.raises(BlockingIOError):
            udp.recv(1)
    assert "GOT" not in told["stdout"]


async def test_a_command_has_a_loopback_of_its_own(served, target):
    """CT-N2: tests of servers run; what else opens sockets to the kernel does not."""
    own = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print(1)"
    )
    assert await served.out(f'python3 -c "{own}"') == "1\n"
    other = """
import ctypes, socket
for family, kind in ((17, 3), (16, 3), (40, 1), (38, 5), (1, 2), (2, 3)):
    try:
        socket.socket(family, kind)
    except OSError:
        continue
    print("GOT", family, kind)
if ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(120)) >= 0:
    print("GOT io_uring")
"""
    served.write("families.py", other)
    assert await served.out("python3 families.py") == ""


async def test_a_command_does_not_call_its_own_server(served, target):
    """CT-N3"""
    async with served.over_http() as url:
        told = await served.run(f"curl -s -m 2 {url}; python3 -c \"import urllib.request as u; u.urlopen('{url}')\"")
        assert told["exit_code"] != 0
        assert told["stdout"] == ""


# -- 21.3 Files ------------------------------------------------------------------------------------------------------


async def test_no_file_outside_can_be_changed_read_or_looked_at(served, target):
    """CT-F1, CT-F2, section 20: by its path, by links, by what is mounted."""
    (served.outside / "file").write_text("outside")
    owned(served.outside / "file")
    before = (served.outside / "file").stat()
    attack = f"""
import os
outside = {str(served.outside)!r}
calls = (
    lambda p: os.chmod(p, 0o777), lambda p: os.chown(p, 1000, 1000), lambda p: os.utime(p, (1, 1)),
    lambda p: os.setxattr(p, "user.x", b"x"), lambda p: open(p, "w"), lambda p: open(p).read(1),
    lambda p: os.truncate(p, 0), lambda p: os.link(p, "linked"), lambda p: os.rename(p, "renamed"),
    lambda p: os.unlink(p), lambda p: os.listdir(p), lambda p: os.chdir(p), lambda p: os.mkdir(p + "/x"),
)
try:
    os.symlink(outside + "/file", "out")
except FileExistsError:
    pass
for path in (outside + "/file", outside, "/etc/shadow", "/etc/gitconfig.d", "/root", "/var/log", "/proc/1/root/etc"):
    for number, call in enumerate(calls):
        try:
            call(path)
        except OSError:
            continue
        print("GOT", path, number)
for number, call in enumerate(calls[:7] + calls[10:]):
    try:
        call("out")
    except OSError:
        continue
    print("GOT out", number)
for path in ("/usr/bin/env", "/etc/passwd", "/opt/gloveport/init.py", "/", "/etc"):
    for call in calls[:5] + calls[6:10]:
        try:
            call(path)
        except OSError:
            continue
        print("GOT", path)
"""
    served.write("attack.py", attack)
    try:
        assert await served.out("python3 attack.py") == ""
        after = (served.outside / "file").stat()
        assert (after.st_mode, after.st_uid, after.st_mtime_ns) == (before.st_mode, before.st_uid, before.st_mtime_ns)
        assert (served.outside / "file").read_text() == "outside"
    finally:
        (served.outside / "file").unlink()


# -- 21.4 Processes and environment ----------------------------------------------------------------------------------


async def test_of_the_server_nothing_is_seen_in_proc(served, target, canary):
    """CT-P1: neither its command line nor its environment nor its connections; and its own entry is there."""
    told = await served.run(
        "cat /proc/*/cmdline /proc/*/environ /proc/*/status /proc/net/tcp /proc/net/unix /proc/1/maps 2>/dev/null"
        " | tr '\\0' '\\n'; ls -d /proc/[0-9]*"
    )
    assert canary not in told["stdout"]
    seen = {int(number) for number in re.findall(r"^/proc/(\d+)$", told["stdout"], re.MULTILINE)}
    assert seen <= set(range(1, 20))
    assert await served.out("readlink /proc/self; test -r /proc/self/status && test -r /proc/cpuinfo") != ""


async def test_no_process_outside_can_be_signalled_or_slowed(served, target):
    """CT-P2: the server lives."""
    me = os.getpid()
    nice, affinity = os.getpriority(os.PRIO_PROCESS, me), os.sched_getaffinity(me)
    attack = f"""
import os, resource, signal
for pid in ({me}, {os.getppid()}, 0x7fffffff):
    for call in (
        lambda: os.kill(pid, 9), lambda: os.setpriority(os.PRIO_PROCESS, pid, 19), lambda: os.pidfd_open(pid),
        lambda: os.sched_setaffinity(pid, [0]), lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE, (1, 1)),
        lambda: os.killpg(pid, 9),
    ):
        try:
            call()
        except (OSError, PermissionError):
            continue
        print("GOT", pid)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for number in (signal.SIGTERM, signal.SIGSTOP, signal.SIGKILL):
    try:
        os.kill(1, number)
    except OSError:
        pass
print("alive")
"""
    served.write("attack.py", attack)
    assert await served.out("python3 attack.py") == "alive\n"
    await served.run("kill -9 -1; kill -9 1; kill -9 0")
    assert (os.getpriority(os.PRIO_PROCESS, me), os.sched_getaffinity(me)) == (nice, affinity)
    assert await served.out("echo well") == "well\n"


async def test_a_command_has_these_variables_and_no_others(served, target, monkeypatch, canary):
    """W6, CT-P3: name by name, value by value; the caller's appear in the command alone."""
    for name in ("LD_PRELOAD_X", "GITHUB_TOKEN", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "HTTP_PROXY", "GIT_DIR"):
        monkeypatch.setenv(name, f"{canary}-{name}")
    for name, value in {"TERM": "vt100", "LC_TIME": "C.UTF-8", "TZ": "UTC", "COLORTERM": "x", "LANGUAGE": "en"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("LC_SECRET_TOKEN", canary)
    monkeypatch.setenv("LANG", "C.UTF-8")
    inherited = inherit_variables(served.service.settings, os.environ)  # as at a start of the server
    monkeypatch.setitem(vars(served.service), "inherited_variables", inherited)
    out = await served.out("env -0 | tr '\\n\\0' ' \\n'", env={"MINE": "yes", "HOME": "/elsewhere"})
    told = dict(line.split("=", 1) for line in out.splitlines())
    caches = {"CARGO_HOME", "GOCACHE", "GOMODCACHE", "PIP_CACHE_DIR", "UV_CACHE_DIR", "YARN_CACHE_FOLDER"}
    caches |= {"GRADLE_USER_HOME", "npm_config_cache"}
    assert {told.pop(name).split("/")[1] for name in caches} == {"cache"}
    assert told.pop("MAVEN_OPTS") == "-Dmaven.repo.local=/cache/maven"
    assert told.pop("PATH").startswith("/")
    assert told == {
        "HOME": "/elsewhere",
        "MINE": "yes",
        "TMPDIR": "/tmp",
        "LANG": "C.UTF-8",
        "LANGUAGE": "en",
        "LC_TIME": "C.UTF-8",
        "TZ": "UTC",
        "COLORTERM": "x",
        "TERM": "vt100",
        "USER": "agent",
        "LOGNAME": "agent",
        "SHELL": "/bin/bash",
        "NO_COLOR": "1",
        "LSAN_OPTIONS": "detect_leaks=0",
        "PWD": target,
        "SHLVL": "0",
        "_": "/usr/bin/env",
    } | {name: told[name] for name in ("SHLVL", "_", "MALLOC_ARENA_MAX") if name in told}


# -- 21.5 Resources --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
async def narrow(tmp_path_factory):
    """A workspace whose commands may use little."""
    limits = {"memory_bytes": "128MiB", "processes": 40, "file_bytes": "8MiB", "scratch_bytes": "8MiB"}
    async with opened(Path(tmp_path_factory.mktemp("narrow")), limits=limits) as one:
        yield one


FORKS = "import os\nfor n in range(99): os.fork() or os.execlp('sleep', 'sleep', '9')\nprint('GOT')"


@pytest.mark.parametrize(
    "attack",
    [
        ":(){ :|:& };:; sleep 0.3",
        f'python3 -c "{FORKS}"',
        "python3 -c 'x = bytearray(1 << 29); print(\"GOT\")'",
        "head -c 20M /dev/zero > large && echo GOT",
        "head -c 20M /dev/zero > /tmp/large && echo GOT",
        "for n in $(seq 20); do head -c 2M /dev/zero > /tmp/$n || exit 1; done; echo GOT",
    ],
)
async def test_no_command_takes_more_than_its_share(narrow, attack):
    """CT-R1: processes, memory, files."""
    told = await narrow.run(attack, timeout_ms=5000)
    assert "GOT" not in told["stdout"]
    large = narrow.root / "large"
    assert not large.exists() or large.stat().st_size <= 8 << 20
    assert await narrow.out("echo well") == "well\n"


async def test_a_command_takes_no_terminal_from_another(narrow):
    """P8: of the terminals of the host each sandbox has few."""
    take = "import os, time\nkept = []\ntry:\n  while True: kept.append(os.open('/dev/ptmx', os.O_RDWR))\n"
    take += "except OSError: print(len(kept), flush=True)\ntime.sleep(99)"
    narrow.write("take.py", take)
    command_id, said = await begun(narrow, "python3 take.py")
    assert int(said) <= 64
    assert "well" in (await narrow.told("exec_command", cmd="echo well", tty=True))["stdout"]
    await narrow.told("kill_command", command_id=command_id, signal="KILL")


async def test_a_sandbox_that_dies_before_its_command_is_unavailable_and_no_fault_of_the_server(tmp_path, monkeypatch):
    """As where the host has no terminal left."""
    async with opened(tmp_path) as served:
        kind = type(served.service.sandboxes.prefetch.server)
        make = kind.make

        @contextlib.asynccontextmanager
        async def make_dead(server, kept):
            async with make(server, kept) as child:
                child.end()
                await anyio.wait_readable(child.inner)
                yield child

        with monkeypatch.context() as patch:
            patch.setattr(kind, "make", make_dead)
            answer = await served.call("exec_command", cmd="true", tty=True)
        assert answer.structured_content["error"]["code"] == "SANDBOX_UNAVAILABLE"
        assert await served.out("echo well") == "well\n"


def _resident():
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1]) << 10


async def test_sixteen_floods_at_once_are_bounded_and_keep_nobody_from_calling(served, target):
    """CT-R1, CT-L7: the seventeenth command is refused."""
    ids = [(await served.told("exec_command", cmd="yes", yield_time_ms=0))["command_id"] for _ in range(16)]
    try:
        assert (await served.refused("exec_command", cmd="true"))["code"] == "COMMAND_LIMIT_REACHED"
        commands = [served.service.sandboxes.commands.get(command_id, "stdio") for command_id in ids]

        async def flooded(total):
            with anyio.fail_after(60):
                while any(command.outputs["stdout"].retained.total < total for command in commands):
                    await anyio.sleep(0.02)

        await flooded(1 << 20)
        before = _resident()
        await flooded(4 << 20)
        assert _resident() - before < 20 << 20
        started = time.monotonic()
        await served.told("server_info")
        assert time.monotonic() - started < 10
        assert all(command.outputs["stdout"].retained.kept_bytes <= 512 << 10 for command in commands)
    finally:
        for command_id in ids:
            await served.told("kill_command", command_id=command_id, signal="KILL")


# -- 21.6 Life cycle -------------------------------------------------------------------------------------------------

HIDE = (
    "setsid sleep {0} & (setsid sleep {0} &); (nohup sh -c 'sleep {0}' >/dev/null 2>&1 &); "
    'python3 -c \'import os; os.fork() or os.setsid() and 0 or os.fork() or os.execlp("sleep", "sleep", "{0}")\'; '
)


@pytest.mark.parametrize("how", ["exit", "kill", "timeout", "end of its first process"])
async def test_nothing_outlives_its_command(served, target, is_running, eventually, how):
    """CT-L1: whatever has left its process group or session."""
    word = f"7{os.getpid()}{len(how)}"
    command = HIDE.format(word) + "echo begun; "
    more = {"timeout_ms": 2500} if how == "timeout" else {}
    if how == "exit":
        assert (await served.run(command + "exit 0"))["exit_code"] == 0
    elif how == "end of its first process":
        await served.run(command + "kill -9 $$")
    else:
        command_id, _ = await begun(served, command + "sleep 60", **more)
        if how == "kill":
            assert (await served.told("kill_command", command_id=command_id, signal="KILL"))["killed"] is True
    await anyio.to_thread.run_sync(lambda: eventually(lambda: not is_running(word)))


@pytest.mark.parametrize("how", ["killed", "left"])
def test_nothing_outlives_its_server(gloveport, tmp_path, is_running, eventually, how):
    """CT-L2, CT-L3: not one that is killed, nor one whose client has gone."""
    word = f"7{os.getpid()}{len(how)}9"
    root = tmp_path / "project"
    root.mkdir()
    own = {name: os.environ[name] for name in ("HOME", "PATH") if name in os.environ}
    environ = own | {"GLOVEPORT_STATE": str(tmp_path / "state")}
    told = tmp_path / "gloveport.toml"
    told.write_text(f'pool = {{forked = 0, booted = 0}}\nworkspace = {{root = "{root}", toolsets = ["workspace"]}}\n')
    server = gloveport.start("serve", "--config", told, env=environ, stdin=-1, stdout=-1)
    with remembered.lent(tmp_path / "state"), server:
        call = {"name": "exec_command", "arguments": {"cmd": HIDE.format(word) + "sleep 60", "yield_time_ms": 0}}
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        for number, (method, params) in enumerate((("initialize", hello), ("tools/call", call)), 1):
            asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            server.stdin.write(json.dumps(asked).encode() + b"\n")
            server.stdin.flush()
            assert "result" in json.loads(server.stdout.readline())
        eventually(lambda: is_running(word))
        if how == "killed":
            server.kill()
        else:
            server.stdin.close()
        eventually(lambda: not is_running(word))
        server.wait(20)


@pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
async def test_a_client_that_drops_its_call_leaves_no_command_that_nobody_knows(
    served, target, is_running, eventually, era
):
    """CT-L3: over HTTP, in the middle of a call."""
    word = f"7{os.getpid()}{len(era)}77"
    arguments = {"cmd": f"echo begun; sleep {word}", "yield_time_ms": 30_000}
    async with served.over_http() as url:
        with anyio.move_on_after(20) as scope:
            async with Client(url, mode=era) as client, anyio.create_task_group() as tasks:
                tasks.start_soon(client.call_tool, "exec_command", arguments)
                while not is_running(word):
                    await anyio.sleep(0.02)
                scope.cancel()
        await anyio.to_thread.run_sync(lambda: eventually(lambda: not is_running(word)))


async def test_a_server_leaves_nothing_behind_but_its_state(tmp_path):
    """CT-L5: no directory that piles up."""
    before = {*Path("/tmp").iterdir(), *Path("/var/tmp").iterdir()}
    async with opened(tmp_path) as served:
        await served.out("mkdir -p ~/x /tmp/y; touch ~/z")
    left = {*Path("/tmp").iterdir(), *Path("/var/tmp").iterdir()} - before
    assert not [path for path in left if path.exists() and _made_by_us(path)]
    assert len([*(tmp_path / "state/workspaces").iterdir()]) == 1


def _made_by_us(path):
    of_tests = ("gloveport-packages-", "gloveport-escape-", "gloveport-kills.")  # which others run meanwhile
    return path.stat().st_uid == OWNER or ("gloveport" in path.name and not path.name.startswith(of_tests))


# -- 21.9 Daily use --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "out"),
    [
        ("python3 -c 'import multiprocessing as m; m.Lock(); m.Semaphore(); m.Queue(); print(1)'", "1\n"),
        ("python3 -c 'import multiprocessing as m; p = m.Pool(2); print(sum(p.map(abs, [-1, -2])))'", "3\n"),
        ("node -e 'console.log(require(\"os\").cpus().length > 0)'", "true\n"),
        ("ps -o pid= | wc -l >/dev/null; free -b | wc -l", "3\n"),
        (
            "python3 -m venv --without-pip v && v/bin/python -c 'import sys; print(sys.prefix != sys.base_prefix)'",
            "True\n",
        ),
        (
            "git init -q r; cd r; git commit -q --allow-empty -m 'fix mount bug' && git log --format=%s",
            "fix mount bug\n",
        ),
        ("test -w /dev/null && test -w $TMPDIR && test -w $HOME && getent passwd $(id -u) | cut -d: -f1", "agent\n"),
        ("echo '#!/bin/sh' > x.sh; chmod +x x.sh; ./x.sh; echo $?", "0\n"),
    ],
)
async def test_what_programs_need_every_day_works(served, target, command, out):
    """CT-U4"""
    if command.startswith("node ") and shutil.which("node", path="/usr/bin:/usr/local/bin") is None:
        pytest.skip("node is not there: apt-get install nodejs")
    assert await served.out(command) == out


# -- What runs later, outside ----------------------------------------------------------------------------------------

EVIL = "printf '[core]\\n\\trepositoryformatversion = 0\\n\\tfsmonitor = touch {0};false\\n' > "
AFTERWARDS = (
    ("status",),
    ("diff",),
    ("commit", "--allow-empty", "-qm", "x"),
    ("log", "-1"),
    ("add", "-A", "--dry-run"),
)


@pytest.mark.parametrize(
    "attack",
    [
        "echo '[core] fsmonitor = touch {0}' >> .git/config",
        "git config core.fsmonitor 'touch {0};false'",
        "mv .git .was; mkdir .git; cp -r .was/* .git; {evil} .git/config",
        "cp -r .git .new; {evil} .new/config; mv -T --exchange .new .git || mv -T .new .git",
        "printf '#!/bin/sh\\ntouch {0}' > h; chmod +x h; cp h .git/hooks/pre-commit; ln -f h .git/hooks/pre-commit",
        "mv .git/hooks .git/h; mkdir .git/hooks; ln -s ../../h .git/hooks/pre-commit",
        "{evil} .git/config.worktree; git config extensions.worktreeConfig true",
        "mkdir e; cp -r .git/objects .git/refs e; {evil} e/config; echo ../e > .git/commondir",
        "rm -f .git/config .git/config.lock; ln -sf ../e/config .git/config; mv -f e/config .git/config",
        "ln .git/config other && {evil} other",
        '{evil} .git/x; python3 -c \'import os; os.replace(".git/x", ".git/config")\'',
        "mkdir .GIT; cp -r .git/* .GIT; {evil} .GIT/config",
        "mkdir -p o; echo $PWD/o > .git/objects/info/alternates; echo '* filter=x diff=x' > .git/info/attributes",
        "echo '[filter \"x\"] clean = touch {0}' > .gitmodules; printf '[include] path=%s' $PWD/x > .gitconfig",
        "cat .git/config > n; unshare -rm mount --bind n .git/config; mount --move .git/config n; umount .git/config",
        "chmod 777 .git/config .git/hooks; setfattr -n user.x -v x .git/config; truncate -s 0 .git/config",
    ],
)
async def test_after_a_command_git_runs_nothing_of_it_on_the_host(served, target, tmp_path, attack):
    """CT-E5, W4: with a repository that was there before."""
    mark, config = tmp_path / "mark", (served.root / ".git/config").read_bytes()
    await served.run(attack.replace("{evil}", EVIL).format(mark), timeout_ms=10_000)
    for command in AFTERWARDS:
        served.git(*command, check=False)
        assert not mark.exists(), command
    assert (served.root / ".git/config").read_bytes() == config
    assert not (served.root / ".git/commondir").exists()
    assert served.git("rev-parse", "--git-dir").stdout == ".git\n"


async def test_what_leads_git_elsewhere_is_removed_also_after_a_command_that_was_killed(served, target):
    """CT-E5: and written down."""
    command_id, _ = await begun(served, "echo ../e > .git/commondir; echo begun; sleep 60")
    told = await served.told("kill_command", command_id=command_id, signal="KILL")
    assert not (served.root / ".git/commondir").exists()
    assert any("commondir" in word for word in told["warnings"])
    *_, record = [one for one in served.records() if "commondir" in str(one.fields.get("appeared"))]
    assert record.kind.startswith("command")


@pytest.mark.parametrize(
    ("attack", "told"),
    [
        ("mkdir -p s; git init -q s; git -C s config core.fsmonitor x", "s/.git/config is new"),
        ("mkdir -p b; git init -q --bare b/any.name", "b/any.name/config is new"),
        ("mkdir -p .vscode; echo {} > .vscode/tasks.json", ".vscode is new"),
        ("ln -s /etc/passwd .envrc", ".envrc is a new symbolic link"),
    ],
)
async def test_what_can_not_be_prevented_is_told(served, target, attack, told):
    """W4: a warning for the model, and the same in the log."""
    answer = await served.run(attack)
    assert any(word.startswith(told) for word in answer["warnings"]), answer["warnings"]
    assert any(told in str(one.fields.get("appeared")) for one in served.records())
    await served.run("rm -rf s b .vscode .envrc")


async def test_what_the_owner_replaces_meanwhile_and_a_command_writes_then_is_told(served, target):
    """W4: a mount goes with the file that it was on; nobody can keep what comes in its place."""
    wait = "echo begun; while ! grep -q replaced .git/config; do :; done; echo '# evil' >> .git/config; echo done"
    command_id, _ = await begun(served, wait)
    served.git("config", "test.replaced", "yes")
    with anyio.fail_after(30):
        while (told := await served.told("write_stdin", command_id=command_id))["status"] == "running":
            pass
    assert any(word.startswith(".git/config was changed meanwhile") for word in told["warnings"])
    served.git("config", "--unset", "test.replaced")
    config = served.root / ".git/config"
    config.write_text(config.read_text().replace("# evil\n", ""))


async def test_a_repository_that_was_made_none_is_told_of(tmp_path):
    """W4: git would then take the directory itself for one, and its configuration."""
    async with opened(tmp_path) as served:
        made = "mv .git/HEAD .git/was; mkdir objects refs; echo 'ref: refs/heads/main' > HEAD; "
        told = await served.run(made + EVIL.format("x") + "config")
        words = " | ".join(told["warnings"])
        assert ".git is a repository no more" in words
        assert "config is new" in words


async def test_directories_that_are_renamed_all_the_time_keep_nobody_from_what_is_kept(tmp_path):
    """W4: one command moves what the search for what to keep goes through, others start."""
    async with opened(tmp_path) as served:
        (served.root / "lib").mkdir()
        owned(served.root / "lib")
        git(served.root / "lib", "init", "-q")
        before = (served.root / "lib/.git/config").read_bytes()
        served.write("a/.envrc", "mine")
        race = """
import os
print("begun", flush=True)
while True:
    for one, two in (("n", "m"), ("m", "n")):
        for call in (os.mkdir, lambda p: os.mkdir(p + "/.vscode"), lambda p: os.rename(p, two), os.rmdir):
            try:
                call(one)
            except OSError:
                pass
    for one, two in (("lib", "bil"), ("lib/.git", "x"), ("a", "b"), ("a/.envrc", "e")):
        try:
            os.rename(one, two)
            os.rename(two, one)
        except OSError:
            pass
"""
        served.write("race.py", race)
        command_id, _ = await begun(served, "python3 race.py")
        codes = []
        for _ in range(10):
            answer = await served.call("exec_command", cmd="echo x >> lib/.git/config; echo x > a/.envrc; true")
            codes.append(answer.structured_content.get("error", {}).get("code"))
        await served.told("kill_command", command_id=command_id, signal="KILL")
        assert {*codes} <= {None, "SANDBOX_UNAVAILABLE"}
        assert codes.count(None) > 2
        assert (served.root / "lib/.git/config").read_bytes() == before
        assert (served.root / "a/.envrc").read_text() == "mine"


@pytest.mark.parametrize("tty", [False, True])
async def test_no_escape_of_a_command_reaches_a_terminal(served, tty):
    """P14: a clipboard is written by OSC 52, a title by OSC 0; and what overrides the direction of a line hides it."""
    cmd = r"printf 'a\033]52;c;ZXZpbA==\007b\033[31mc\033[0m\033]0;title\033\\d\xe2\x80\xaee\n'; sleep 0.1"
    told = await served.told("exec_command", cmd=cmd, tty=tty, yield_time_ms=5000)
    assert told["stdout"] == "abcde\n"
    page = await served.told("read_output", output_ref=f"command:{told['command_id']}:stdout")
    assert page["content"] == "abcde\n"
    answer = await served.call("exec_command", cmd=cmd, tty=tty, verbosity="preview", yield_time_ms=5000)
    assert "\033" not in answer.model_dump_json() + answer.content[0].text
    assert "u001b" not in answer.model_dump_json()


async def test_where_no_sandbox_can_be_made_what_tells_of_the_server_says_that(served, monkeypatch):
    """And not that the server has a fault."""

    @contextlib.asynccontextmanager
    async def make(_):
        raise SandboxError("the sandbox could not be built: it died while it was built")
        yield

    monkeypatch.setattr(served.service.sandboxes.workers, "make", make)
    monkeypatch.setattr(served.service.sandboxes.workers, "_idle", [])
    for tool in ("server_info", "check_exec_environment"):
        assert (await served.refused(tool))["code"] == "SANDBOX_UNAVAILABLE"
