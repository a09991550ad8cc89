"""Commands have sockets (AF_UNIX) between their own processes, and reach none of the host's (T7, P2, P21)."""

import json
import os
import socket
import threading
from pathlib import Path

import pytest
from tests.server.workspace.served import opened, owned

pytestmark = pytest.mark.anyio

SOCKETS = """
import contextlib, ctypes, errno, fcntl, json, os, select, signal, socket, struct, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
LOCAL = (socket.AF_UNIX, socket.SOCK_STREAM)

def reach(path, one=None):
    one = one or socket.socket(*LOCAL)
    one.settimeout(5)
    try:
        one.connect(path)
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    with one, contextlib.suppress(BrokenPipeError):
        one.sendall(b"hello")
    return "reached"

def listen(path, kind=socket.SOCK_STREAM, backlog=5):
    one = socket.socket(socket.AF_UNIX, kind)
    one.bind(path)
    one.listen(backlog)
    return one

def tell(value):
    print(json.dumps(value))
"""


def bind_in(directory, listener):
    """Bind a socket in a directory, whose path may be longer than one of a socket."""
    holder = os.open(directory, os.O_PATH)
    listener.bind(f"/proc/self/fd/{holder}/host.sock")
    os.close(holder)


@pytest.fixture
def running(served):
    """``await running(code)``: what a Python program says that makes sockets as a command in the workspace."""

    async def run(code):
        served.write("sockets.py", SOCKETS + code)
        told = await served.run("python3 sockets.py")
        assert told["exit_code"] == 0, told
        return json.loads(told["stdout"])

    return run


@pytest.fixture
def of_the_host(served, tmp_path):
    """A socket of the host in the workspace on which somebody listens; counts who comes."""
    with socket.socket(socket.AF_UNIX) as listener:
        bind_in(served.root, listener)
        (served.root / "host.sock").chmod(0o777)
        owned(served.root / "host.sock")
        listener.listen()
        visitors: list[int] = []

        def count():
            try:
                while True:
                    listener.accept()[0].close()
                    visitors.append(1)
            except OSError:
                return

        thread = threading.Thread(target=count)
        thread.start()
        yield visitors
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()
        (served.root / "host.sock").unlink()


async def test_processes_of_one_command_meet_by_path_and_by_name(running):
    assert await running("""
told = []
os.chdir("/tmp")
for path in ("/tmp/one.sock", "short", "/dev/shm/shared.sock", "\\0abstract", b"\\0" + bytes(range(1, 100))):
    for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
        with listen(path, kind) as one:
            told.append(reach(path, socket.socket(socket.AF_UNIX, kind)))
            peer, _ = one.accept()
            pid, uid, gid = struct.unpack("iII", peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
            told += [peer.recv(9).decode(), (uid, gid) == (os.getuid(), os.getgid())]
        if isinstance(path, str) and path[0] != "\\0":
            os.unlink(path)
tell(sorted(map(str, {*told})))
""") == ["True", "hello", "reached"]


async def test_no_socket_of_the_host_is_reached_by_any_name(running, of_the_host):
    """By its path, a link, a short name, an open directory, its own mount: the way does not matter."""
    told = await running("""
here = os.getcwd()
os.symlink(here + "/host.sock", "/tmp/link.sock")
os.symlink(here, "/tmp/place")
os.chdir("/tmp")
told = [reach(path) for path in (here + "/host.sock", "link.sock", "place/host.sock", "/proc/self/cwd/../" + here)]
os.chdir(here)
told += [reach(path) for path in ("host.sock", "./host.sock", "/proc/self/cwd/host.sock", "/proc/1/cwd/host.sock")]
holder = os.open("host.sock", os.O_PATH)
told += [reach(f"/proc/self/fd/{holder}"), reach(f"/proc/{os.getpid()}/fd/{holder}")]
one = socket.socket(*LOCAL)
for size in (16, 28, 14, 110):  # those of addresses of the internet are no way around
    address = struct.pack("=H", 1) + b"host.sock"
    libc.connect(one.fileno(), address.ljust(max(size, len(address)), b"\\0"), size)
    told.append(errno.errorcode[ctypes.get_errno()])
for make in (os.link, os.rename):
    try:
        make("host.sock", "/tmp/mine.sock")
        told.append("moved")
    except OSError as error:
        told.append(errno.errorcode[error.errno])
tell(told)
""")
    assert of_the_host == []
    assert {*told} <= {"EACCES", "ENOENT", "ELOOP", "EXDEV", "EPERM"}, told


async def test_a_path_or_socket_that_changes_meanwhile_leads_nowhere_else(running, of_the_host):
    """What the kernel would read twice is read once: address, link and number of a socket are turned all the time."""
    told = await running("""
here = os.getcwd()
own = listen("/tmp/own.sock", backlog=100)
server = socket.create_server(("127.0.0.1", 0), backlog=100)
inet = struct.pack("=H", 2) + server.getsockname()[1].to_bytes(2, "big") + bytes([127, 0, 0, 1]) + bytes(8)
local, host = (struct.pack("=H", 1) + (p.encode() + b"\\0").ljust(14, b"\\0") for p in ("/tmp/own.sock", "host.sock"))
text, done = ctypes.create_string_buffer(inet, 16), []
number = socket.socket().detach()

def turn():
    while not done:
        for address, kind in ((inet, socket.AF_INET), (host, socket.AF_UNIX), (local[:16], socket.AF_UNIX)):
            ctypes.memmove(text, address, 16)
            with socket.socket(kind) as one:
                os.dup2(one.fileno(), number)
                os.dup2(one.fileno(), number)
def turn_link():
    while not done:
        for target in ("/tmp/own.sock", here + "/host.sock"):
            os.symlink(target, "/tmp/turning.new")
            os.rename("/tmp/turning.new", "/tmp/turning")
def drop():
    while not done:
        for one in select.select([own, server], [], [], 0.05)[0]:
            one.accept()[0].close()
threads = [threading.Thread(target=one, daemon=True) for one in (turn, turn_link, drop)]
for thread in threads: thread.start()
made = [libc.connect(number, text, 16) for _ in range(80)]
linked = [reach("/tmp/turning") for _ in range(30)]
done.append(True)
for thread in threads: thread.join()
tell([len(made), len(linked), "reached" in linked])
""")
    assert of_the_host == []
    assert told == [80, 30, True]


async def test_no_socket_is_made_where_the_host_sees_it(running, served):
    assert await running("""
told = []
for path in ("mine.sock", os.getcwd() + "/mine.sock"):
    try:
        socket.socket(*LOCAL).bind(path)
    except OSError as error:
        told.append(errno.errorcode[error.errno])
tell(told)
""") == ["EACCES", "EACCES"]
    assert not (served.root / "mine.sock").exists()


async def test_what_sends_to_any_name_is_refused(running):
    assert (
        await running("""
told = []
for kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):
    for make in (socket.socket, socket.socketpair):
        try:
            make(socket.AF_UNIX, kind)
        except OSError as error:
            told.append(errno.errorcode[error.errno])
tell(told)
""")
        == ["EPERM"] * 4
    )


async def test_connections_wait_end_and_fail_as_those_of_the_kernel(running):
    """A queue that is full, a listener that ends, a signal, patience that is over, and one that does not wait."""
    assert await running("""
told = []
one = listen("/tmp/full.sock", backlog=0)
first = socket.socket(*LOCAL); first.connect("/tmp/full.sock")

hasty = socket.socket(*LOCAL); hasty.setblocking(False)
try: hasty.connect("/tmp/full.sock")
except OSError as error: told.append(errno.errorcode[error.errno])

patient = socket.socket(*LOCAL)
patient.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("qq", 0, 50_000))
try: patient.connect("/tmp/full.sock")
except OSError as error: told.append(errno.errorcode[error.errno])

class Woken(Exception): pass
def wake(*_): raise Woken
signal.signal(signal.SIGALRM, wake)
signal.setitimer(signal.ITIMER_REAL, 0.05)
waiting = socket.socket(*LOCAL)
try: waiting.connect("/tmp/full.sock")
except Woken: told.append("woken")

other = socket.socket(*LOCAL)
thread = threading.Thread(target=lambda: told.append(other.connect("/tmp/full.sock")))
thread.start()
tcp = socket.create_server(("127.0.0.1", 0))
with socket.create_connection(tcp.getsockname()):  # who waits keeps no other from its connection
    told.append(thread.is_alive())
one.accept(); thread.join()

for address in (("127.0.0.1", 1), ("192.0.2.1", 80)):
    try: socket.create_connection(address)
    except OSError as error: told.append(errno.errorcode[error.errno])
quick = socket.socket(); quick.setblocking(False)
try: quick.connect(tcp.getsockname())
except BlockingIOError: pass
select.select([], [quick], [], 5)
told.append(quick.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(tcp.getsockname())
told += [reach("/tmp/nowhere"), reach("/tmp"), fcntl.fcntl(waiting, fcntl.F_GETFL) & os.O_NONBLOCK]
for number, size in ((0, 16), (99, 16), (quick.fileno(), 200), (quick.fileno(), 16)):
    libc.connect(number, None if number else bytes(size), size)
    told.append(errno.errorcode[ctypes.get_errno()])
tell(told)
""") == [
        *("EAGAIN", "EAGAIN", "woken", True, None, "ECONNREFUSED", "ENETUNREACH", 0, "ENOENT", "ECONNREFUSED", 0),
        *("ENOTSOCK", "EBADF", "EINVAL", "EFAULT"),
    ]


async def test_who_has_the_server_wait_waits_alone_and_is_killed_in_time(served):
    """A program turns its socket back into one that waits, in the moment in which the server connects it."""
    served.write(
        "stall.py",
        SOCKETS
        + """
one = listen("/tmp/full.sock", backlog=0)
first = socket.socket(*LOCAL); first.connect("/tmp/full.sock")
def turn(socket_):
    flags = fcntl.fcntl(socket_, fcntl.F_GETFL)
    while True:
        fcntl.fcntl(socket_, fcntl.F_SETFL, flags)
for _ in range(4):
    caught = socket.socket(*LOCAL)
    threading.Thread(target=turn, args=(caught,), daemon=True).start()
    threading.Thread(target=caught.connect, args=("/tmp/full.sock",), daemon=True).start()
time.sleep(60)
""",
    )
    told = await served.run("python3 stall.py", timeout_ms=1500)
    assert told["status"] in ("timed_out", "timeout", "killed"), told
    assert (
        await served.out("python3 -c 'import socket; socket.create_server((\"127.0.0.1\", 9999)); print(1)'") == "1\n"
    )


async def test_servers_and_managers_of_python_go_through_them(running):
    assert await running("""
import multiprocessing
if __name__ == "__main__":
    with multiprocessing.get_context("forkserver").Pool(2) as pool, multiprocessing.Manager() as manager:
        held = manager.dict(a=1)
        tell([pool.map(abs, [-1, -2]), held["a"]])
""") == [[1, 2], 1]


async def test_programs_without_a_workspace_have_none(served):
    code = "import socket\ntry: socket.socket(socket.AF_UNIX)\nexcept OSError as error: print(error.strerror)"
    answer = await served.call("execute_code", language="python", code=code)
    assert answer.structured_content["stdout"]["text"] == "Address family not supported by protocol\n"


async def test_shared_memory_and_semaphores_are_the_sandboxs_own_and_bounded(running):
    """System V: as much memory as /dev/shm has, few objects, none of the host's; no queue of messages."""
    host = {line.split()[0] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]}
    told = await running("""
def said(value): return value if value >= 0 else errno.errorcode[ctypes.get_errno()]
libc.shmat.restype = ctypes.c_void_p
size = os.statvfs("/dev/shm")
size = size.f_blocks * size.f_frsize
number = said(libc.shmget(0, 1 << 20, 0o1600))
place = libc.shmat(number, None, 0)
ctypes.memset(place, 1, 1 << 20)
sets = [said(libc.semget(0, 1, 0o1600)) for _ in range(100)]
many = [said(libc.shmget(0, 4096, 0o1600)) for _ in range(100)]
sizes = [said(libc.shmget(0, size + 4096, 0o1600)), said(libc.shmget(0, size, 0o1600))]
huge = said(libc.shmget(0, 1 << 21, 0o1600 | 0o4000))
tell([type(number) is int, sum(type(n) is int for n in sets), sum(type(n) is int for n in many), sizes, huge,
      said(libc.msgget(0, 0o1600)), len(open("/proc/sysvipc/shm").readlines()) <= 65])
""")
    assert told == [True, 64, 63, ["EINVAL", "ENOSPC"], "EPERM", "EPERM", True]
    assert {line.split()[0] for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]} == host


async def test_the_operators_word_opens_sockets_of_the_host(tmp_path):
    """``unix_sockets``: who sets it wants just that."""
    async with opened(tmp_path, tables={"policy": {"unix_sockets": True}}) as one:
        with socket.socket(socket.AF_UNIX) as listener:
            bind_in(one.root, listener)
            owned(one.root / "host.sock")
            listener.listen()
            one.write("sockets.py", SOCKETS + 'tell(reach("host.sock"))')
            assert json.loads(await one.out("python3 sockets.py")) == "reached"
