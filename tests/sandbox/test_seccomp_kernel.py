"""P5: E9: the system call filter in the kernel: what it refuses is refused, and what a program needs works under it."""

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from deno import find_deno_bin

from gloveport.sandbox.seccomp.compiler import compile_filter
from gloveport.sandbox.seccomp.tables import load_syscalls

NUMBERS = load_syscalls().numbers
pytestmark = pytest.mark.skipif(os.uname().machine not in NUMBERS, reason="there is no filter for this architecture")

FILTER = compile_filter("x86_64", frozenset({socket.AF_INET, socket.AF_INET6}))
NUMBER = NUMBERS["x86_64"]
X32 = 0x40000000

LOADER = """
import ctypes, os, resource, sys
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
code = bytes.fromhex(sys.argv[1])
buffer = ctypes.create_string_buffer(code, len(code))  # Program holds its address alone: it must live until the call
program = Program(len(code) // 8, ctypes.addressof(buffer))
resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
zero, libc = ctypes.c_ulong(0), ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) or libc.prctl(22, ctypes.c_ulong(2), ctypes.byref(program)):
    raise OSError(ctypes.get_errno(), "the filter was not taken")
os.execv(sys.argv[2], sys.argv[2:])
"""

CALLS = """
import ctypes, json, sys
libc = ctypes.CDLL(None, use_errno=True)
def attempt(nr, *args):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(nr), *map(ctypes.c_long, args))
    return ctypes.get_errno() if result == -1 else 0
print(json.dumps([attempt(*call) for call in json.loads(sys.argv[1])]))
"""


def confined(
    *argv: str, cwd: Path | None = None, env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program under the filter."""
    command = [sys.executable, "-I", "-c", LOADER, FILTER.hex(), *argv]
    return subprocess.run(
        command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
    )


def python(code: str, *argv: str) -> subprocess.CompletedProcess[str]:
    return confined(sys.executable, "-I", "-c", code, *argv)


REFUSALS = [  # each does nothing, or fails with another error, where there is no filter
    ("unshare", [0], errno.EPERM),
    ("setns", [-1, 0], errno.EPERM),
    ("name_to_handle_at", [-1, 0, 0, 0, 0], errno.EPERM),
    ("ptrace", [2, 0, 0, 0], errno.EPERM),
    ("process_vm_readv", [0, 0, 0, 0, 0, 0], errno.EPERM),
    ("keyctl", [-1, 0, 0, 0, 0], errno.EPERM),
    ("shmget", [0, 0, 0], errno.EPERM),
    ("mq_open", [0, 0, 0, 0], errno.EPERM),
    ("get_mempolicy", [0, 0, 0, 0, 0], errno.EPERM),
    ("adjtimex", [0], errno.EPERM),
    ("syncfs", [-1], errno.EPERM),
    ("clone3", [0, 0], errno.ENOSYS),
    ("io_setup", [0, 0], errno.ENOSYS),
    ("socket", [socket.AF_NETLINK, socket.SOCK_RAW, 0], errno.EAFNOSUPPORT),
    ("socket", [socket.AF_UNIX, socket.SOCK_STREAM, 0], errno.EAFNOSUPPORT),
    ("socket", [socket.AF_UNIX | 1 << 32, socket.SOCK_STREAM, 0], errno.EAFNOSUPPORT),
    ("socket", [socket.AF_INET, socket.SOCK_STREAM, 262], errno.EPERM),
    ("ioctl", [0, 0x5412, 0], errno.EPERM),
    ("ioctl", [0, 0x5412 | 1 << 32, 0], errno.EPERM),
    ("ioctl", [-1, 0x4004_6601, 0], errno.ENOTTY),
    ("personality", [0x40000], errno.EPERM),
    ("mmap", [0, 1 << 21, 3, 0x40022, -1, 0], errno.EPERM),
    ("memfd_create", [0, 4], errno.EPERM),
    ("setsockopt", [-1, 6, 31, 0, 0], errno.ENOPROTOOPT),
    ("setsockopt", [-1, 0, 35 | 1 << 32, 0, 0], errno.ENOPROTOOPT),
    ("setsockopt", [-1, 1, 8, 0, 0], 0),
    ("getsockopt", [-1, 1, 77, 0, 0], errno.ENOPROTOOPT),
    ("prctl", [22, 2, 0], errno.EINVAL),
    ("seccomp", [1, 0, 0], errno.ENOSYS),
    ("preadv2", [-1, 0, 0, 0, 0, 8], errno.EOPNOTSUPP),
    ("fadvise64", [-1, 0, 0, 4], 0),
    ("mincore", [1, 0, 0], errno.EPERM),
    ("openat", [-100, 0, os.O_DIRECT], errno.EINVAL),
    ("fcntl", [-1, 1026, 0], errno.EPERM),
    ("setrlimit", [4, 0], 0),
    ("prlimit64", [0, 4, 1, 0], 0),
    ("prlimit64", [0, 4, 1 << 32, 0], errno.EPERM),
    ("mknod", [0, stat.S_IFSOCK, 0], errno.EPERM),
    ("mknod", [0, stat.S_IFIFO | 0o4755, 0], errno.EPERM),
    ("chmod", [0, 0o4755], errno.EPERM),
    ("fchmod", [-1, 0o2755 | 1 << 32], errno.EPERM),
    ("openat", [-100, 0, os.O_CREAT, 0o4755], errno.EPERM),
    ("openat2", [-100, 0, 0, 24], errno.ENOSYS),
    ("socketpair", [socket.AF_UNIX, socket.SOCK_DGRAM, 0, 0], errno.EPERM),
    ("fcntl", [-1, 1024 | 1 << 32, 0], errno.EPERM),
    ("fcntl", [-1, 37, 0], errno.EINVAL),
]
PERMITTED = [
    ("ioctl", [-1, 0x5401, 0], errno.EBADF),
    ("prlimit64", [0, 4, 0, 0], 0),
    ("prlimit64", [0, 7, 1, 0], errno.EFAULT),
    ("mknod", [0, stat.S_IFIFO, 0], errno.EFAULT),
    ("chmod", [0, 0o1777], errno.EFAULT),
    ("openat", [-100, 0, os.O_RDONLY, 0o4755], errno.EFAULT),
    ("openat", [-100, 0, os.O_CREAT, 0o755], errno.EFAULT),
    ("personality", [0xFFFFFFFF], 0),
    ("socketpair", [socket.AF_UNIX, socket.SOCK_STREAM, 0, 0], errno.EFAULT),
    ("setsockopt", [-1, 6, 1, 0, 0], errno.EBADF),
    ("getsockopt", [-1, 1, 4, 0, 0], errno.EBADF),
    ("fcntl", [-1, 1, 0], errno.EBADF),
    ("fadvise64", [-1, 0, 0, 3], errno.EBADF),
    ("preadv2", [-1, 0, 0, 0, 0, 0], errno.EBADF),
    ("madvise", [1, 0, 4], errno.EINVAL),
    ("prctl", [38, 1, 0, 0, 0], 0),
    ("landlock_create_ruleset", [1, 0, 0], errno.EINVAL),
]
UNSAFE_TO_TRY_UNCONFINED = [
    ("clone", [0x10000000 | signal.SIGCHLD, 0, 0, 0, 0], errno.EPERM),
    ("clone", [0x8000 | signal.SIGCHLD, 0, 0, 0, 0], errno.EPERM),
    ("clone", [0x40000000 | signal.SIGCHLD | 1 << 40, 0, 0, 0, 0], errno.EPERM),
    ("io_uring_setup", [0, 0], errno.EPERM),
    ("bpf", [0, 0, 0], errno.EPERM),
    ("userfaultfd", [0], errno.EPERM),
    ("perf_event_open", [0, 0, 0, 0, 0], errno.EPERM),
    ("mount", [0, 0, 0, 0, 0], errno.EPERM),
    ("sync", [], errno.EPERM),
]


def test_the_kernel_answers_as_the_tables_say() -> None:
    probes = [*REFUSALS, *PERMITTED, *UNSAFE_TO_TRY_UNCONFINED]
    run = python(CALLS, json.dumps([[NUMBER[name], *args] for name, args, _ in probes] + [[600], [1000]]))
    expected = [code for _, _, code in probes]
    assert (run.returncode, run.stderr) == (0, "")
    assert json.loads(run.stdout) == [*expected, errno.ENOSYS, errno.ENOSYS]


def test_it_is_the_filter_that_refuses() -> None:
    calls = json.dumps([[NUMBER[name], *args] for name, args, _ in REFUSALS])
    bare = subprocess.run(
        [sys.executable, "-I", "-c", CALLS, calls], stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    same = [name for (name, _, code), got in zip(REFUSALS, json.loads(bare.stdout), strict=True) if got == code]
    assert same == []


def test_an_x32_number_ends_the_process() -> None:
    assert python(f"import ctypes; ctypes.CDLL(None).syscall(ctypes.c_long({X32 | 39}))").returncode == -signal.SIGSYS


def test_a_32_bit_call_ends_the_process() -> None:
    """A kernel without 32-bit calls ends it with SIGSEGV before any filter is asked."""
    getpid = """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, 20; int 0x80; ret
ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
    assert python(getpid).returncode in (-signal.SIGSYS, -signal.SIGSEGV)


def test_python_works() -> None:
    program = """
import asyncio, concurrent.futures, ctypes, multiprocessing, os, socket, sqlite3, subprocess, sys, tempfile, threading
from multiprocessing import shared_memory

def square(number):
    return number * number

async def talk():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    writer.write(b"hello\\n")
    line = await reader.readline()
    writer.close()
    server.close()
    child = await asyncio.create_subprocess_exec(sys.executable, "-I", "-c", "print(6 * 7)", stdout=-1)
    return line, (await child.communicate())[0], await asyncio.to_thread(square, 3)

if __name__ == "__main__":
    with concurrent.futures.ThreadPoolExecutor(8) as threads:
        assert sum(threads.map(square, range(100))) == 328350
    assert subprocess.run(["/bin/sh", "-c", "exit 7"]).returncode == 7
    assert asyncio.run(talk()) == (b"hello\\n", b"42\\n", 9)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, range(5)) == [0, 1, 4, 9, 16]
    memory = shared_memory.SharedMemory(create=True, size=4096)
    memory.close()
    memory.unlink()
    with multiprocessing.Semaphore(1), multiprocessing.Lock():
        pass
    compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
    numbers = (ctypes.c_int * 3)(3, 1, 2)
    ctypes.CDLL(None).qsort(numbers, 3, 4, compare(lambda a, b: a[0] - b[0]))
    assert list(numbers) == [1, 2, 3]
    with tempfile.TemporaryDirectory() as home:
        os.mkfifo(home + "/pipe")
        database = sqlite3.connect(home + "/data")
        database.execute("pragma journal_mode = wal")
        database.execute("create table t as select 1 as one")
        database.commit()
        assert database.execute("select one from t").fetchall() == [(1,)]
        database.close()
    left, right = socket.socketpair()
    socket.send_fds(left, [b"x"], [0])
    os.close(socket.recv_fds(right, 1, 1)[1][0])
    print("fine")
"""
    run = python(program)
    assert (run.stdout, run.stderr) == ("fine\n", "")


def test_bash_and_coreutils_work(tmp_path: Path) -> None:
    script = """
set -euo pipefail
seq 1000 | sort -rn | head -3 | tr '\\n' ' '
diff <(printf 'a\\nb\\n') <(printf 'a\\nb\\n') && echo same
mkfifo pipe; cat pipe > copy & echo through > pipe; wait; cat copy
cp copy other; mv other third; ln -s third link; chmod 600 third; touch -d 2020-01-01 third; stat -c %a link third
timeout 5 sleep 0.01; ulimit -n 64; ulimit -c; sync; find . -type f | sort | xargs wc -c | tail -1
"""
    run = confined("/bin/bash", "-c", script, cwd=tmp_path)
    assert run.stderr == ""
    assert run.stdout.splitlines()[0] == "1000 999 998 same"
    assert run.returncode == 0


def test_the_core_limit_stays_one_byte() -> None:
    program = """
import resource
for wish in (0, 0), (0, 1), (1, 1):
    resource.setrlimit(resource.RLIMIT_CORE, wish)  # sanitizers end where that fails
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE))
"""
    run = python(program)
    assert run.stdout.splitlines() == ["(1, 1) (64, 64)"], run.stderr


def test_git_works(tmp_path: Path) -> None:
    script = """
set -e
git init -q -b main . && echo text > file && git add file && git commit -q -m first
git checkout -q -b side && echo more >> file && git commit -q -a -m second && git gc -q && git fsck --strict
git log --format=%s
"""
    names = {f"GIT_{who}_{what}": "a@b" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    run = confined("/bin/bash", "-c", script, cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path), **names})
    assert (run.returncode, run.stdout) == (0, "second\nfirst\n"), run.stderr


def test_deno_works(tmp_path: Path) -> None:
    program = """
let sum: number = 0;
for (let i = 0; i < 5e6; i++) sum = (sum + i * i) % 1000003;  // long enough for the optimising compiler
const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, () => new Response("served"));
const text = await (await fetch(`http://127.0.0.1:${server.addr.port}/`)).text();
await server.shutdown();
const child = await new Deno.Command("/bin/echo", { args: ["child"] }).output();
const source = "data:text/javascript,onmessage = (e) => { postMessage(e.data + 1); close(); }";
const worker = new Worker(source, { type: "module" });
const answer = await new Promise((done) => { worker.onmessage = (e) => done(e.data); worker.postMessage(41); });
const wasm = new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
await Deno.writeTextFile("file", "x");
console.log(sum, text, new TextDecoder().decode(child.stdout).trim(), answer, wasm instanceof WebAssembly.Module);
"""
    run = confined(
        find_deno_bin(), "eval", "--ext=ts", program, cwd=tmp_path, env={"HOME": str(tmp_path), "NO_COLOR": "1"}
    )
    assert run.stdout.split()[1:] == ["served", "child", "42", "true"], run.stderr
