"""Commands watch the files of the workspace (inotify), and nothing else of the host (T7, W4)."""

import json
import os
from pathlib import Path

import anyio
import pytest

pytestmark = pytest.mark.anyio

INOTIFY = """
import ctypes, errno, json, os, select, struct, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
MODIFY, OPEN, ACCESS, CLOSED, CREATE, DONT_FOLLOW, ONLY_DIRECTORY = 2, 0x20, 1, 0x10, 0x100, 0x2000000, 0x1000000
ALL = 0xFFF

def answer(result):
    return result if result >= 0 else errno.errorcode[ctypes.get_errno()]

def begin():
    return answer(libc.inotify_init1(os.O_NONBLOCK))

def watch(instance, path, mask=ALL):
    return answer(libc.inotify_add_watch(instance, os.fsencode(path), mask))

def events(instance, seconds=5):
    told = []
    while select.select([instance], [], [], 0 if told else seconds)[0]:
        data = os.read(instance, 65536)
        while data:
            _, mask, _, size = struct.unpack_from("iIII", data)
            told.append([mask, data[16:16 + size].rstrip(b"\\0").decode()])
            data = data[16 + size:]
    return told

def tell(value):
    print(json.dumps(value))
"""

FOLLOW = 'tail -n 1 -f log --pid=$$ | { read -r first; touch seen; read -r second; echo "$second"; kill $$; }'
SHARED = ["/usr/bin", "/dev/null", "/dev/tty", "/etc", "/", "/proc", "../../../../usr", "leading"]


@pytest.fixture
def watching(served):
    """``await watching(code)``: what a Python program says that watches files as a command in the workspace."""

    async def run(code):
        served.write("watching.py", INOTIFY + code)
        told = await served.run("python3 watching.py")
        assert told["exit_code"] == 0, told["stderr"]
        return json.loads(told["stdout"])

    return run


async def test_what_is_changed_in_the_workspace_and_the_scratch_directory_is_told(watching):
    assert await watching("""
one = begin()
os.makedirs("watched/deep", exist_ok=True)
numbers = [watch(one, path) for path in (".", "watched/deep", os.getcwd() + "/watched", "/tmp", "/out")]
open("watched/deep/file", "w").write("text")
os.mkdir("/tmp/made")
tell([len({*numbers}), sorted({name for _, name in events(one)})])
""") == [5, ["file", "made"]]


async def test_a_command_that_waits_for_a_change_goes_on_when_the_owner_makes_it(served):
    """Watch mode: of every test runner and development server."""
    served.write("log", "begun\n")
    waiting = anyio.Event()
    told = {}

    async def follow():
        waiting.set()
        told.update(await served.run(FOLLOW))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(follow)
        await waiting.wait()
        with anyio.fail_after(20):
            while not (served.root / "seen").exists():
                await anyio.sleep(0.02)
        with (served.root / "log").open("a") as file:
            file.write("changed\n")
    assert told["stdout"] == "changed\n"


@pytest.mark.parametrize("path", SHARED)
async def test_nothing_that_is_shared_with_the_host_can_be_watched(watching, path):
    code = f"if not os.path.lexists('leading'): os.symlink('/usr/lib', 'leading')\ntell(watch(begin(), {path!r}))"
    assert await watching(code) in ("EACCES", "ENOENT")


async def test_who_only_reads_a_file_is_told_of_to_nobody(watching):
    """Watchers ask for all events; programs must not learn when the owner opens a file."""
    assert await watching("""
open("quiet", "w").write("text")
one = begin()
added = watch(one, "quiet") > 0
open("quiet").read()
tell([added, events(one, 0.1), watch(one, "quiet", OPEN | ACCESS | CLOSED)])
""") == [True, [], "EINVAL"]


async def test_what_is_no_instance_of_the_program_or_no_path_is_an_error(watching):
    assert await watching("""
one = begin()
def at(address):
    return answer(libc.inotify_add_watch(one, ctypes.c_void_p(address), ALL))
os.symlink("nowhere", "dangling") if not os.path.lexists("dangling") else None
os.path.exists("pipe") or os.mkfifo("pipe")
tell([watch(0, "."), watch(99, "."), watch(os.open(".", os.O_RDONLY), "."), at(0), at(1 << 46), at((1 << 64) - 8),
      watch(one, ""), watch(one, "dangling"), watch(one, "pipe"), watch(one, "watching.py", ALL | ONLY_DIRECTORY),
      watch(one, "a" * 5000), watch(one, "."*3), watch(one, "/proc/self/cwd"), watch(one, ".", 0)])
""") == [
        "EINVAL",
        "EBADF",
        "EINVAL",
        "EFAULT",
        "EFAULT",
        "EFAULT",
        "ENOENT",
        "ENOENT",
        "EACCES",
        "ENOTDIR",
        "ENAMETOOLONG",
        "ENOENT",
        "ENOENT",
        "EINVAL",
    ]


async def test_a_sandbox_has_a_few_instances_and_can_raise_no_bound(watching):
    """An ordinary user shares what the host gives with all of its sandboxes."""
    made, most, raised = await watching("""
made = [begin() for _ in range(200)]
raised = []
for name in ("instances", "watches"):
    try:
        open(f"/proc/sys/user/max_inotify_{name}", "w").write("100000")
        raised.append(name)
    except OSError:
        pass
tell([sum(type(one) is int for one in made), int(open("/proc/sys/user/max_inotify_watches").read()), raised])
""")
    host = Path("/proc/sys/fs/inotify")
    assert made <= max(4, int((host / "max_user_instances").read_text()) // 32)
    assert most <= int((host / "max_user_watches").read_text()) // 32
    assert raised == []


async def test_who_is_killed_while_it_asks_keeps_nobody_from_an_answer(watching):
    assert await watching("""
import random, time
one = begin()
for _ in range(60):
    pid = os.fork()
    if not pid:
        while True:
            watch(one, ".")
    time.sleep(random.random() / 200)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
tell(watch(one, ".") > 0)
""")


async def test_a_path_that_changes_while_it_is_asked_for_leads_nowhere_else(watching):
    """What the kernel would have read twice, we read once: nothing of the host's is ever watched."""
    assert await watching("""
one, text, done = begin(), ctypes.create_string_buffer(b"/usr/bin"), []
os.makedirs("inside", exist_ok=True)
def turn():
    while not done:
        for path in (b"inside\\0\\0", b"/usr/bin", b"/dev/nul"):
            ctypes.memmove(text, path, 8)
def turn_link():
    while not done:
        for target in ("inside", "/usr/lib"):
            os.symlink(target, "turning.new")
            os.rename("turning.new", "turning")
threads = [threading.Thread(target=turn), threading.Thread(target=turn_link)]
for thread in threads: thread.start()
numbers = {answer(libc.inotify_add_watch(one, text, ALL)) for _ in range(50)}
numbers |= {watch(one, "turning") for _ in range(50)}
done.append(True)
for thread in threads: thread.join()
marks = [line for line in open(f"/proc/self/fdinfo/{one}") if line.startswith("inotify")]
inside = os.stat("inside").st_ino
tell([{int(line.split("ino:")[1].split()[0], 16) for line in marks} <= {inside}, 1 in numbers])
""") == [True, True]


async def test_what_a_program_may_not_read_it_may_not_watch(served, watching):
    """Where the server is root, it watches with the rights of the program."""
    if os.geteuid() != 0:
        return
    secret = served.root / "of_others"
    secret.mkdir()
    os.chown(secret, 4242, 4242)
    secret.chmod(0o700)
    (secret / "inner").mkdir()
    assert await watching("one = begin(); tell([watch(one, 'of_others'), watch(one, 'of_others/inner')])") == [
        "EACCES",
        "EACCES",
    ]


async def test_programs_without_a_workspace_have_no_watches(served):
    answer = await served.call("execute_code", language="python", code=INOTIFY + "begin()")
    assert answer.structured_content["value"] == "ENOSYS"
