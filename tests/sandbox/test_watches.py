"""P8: who holds the epoll watches of a user of the host is found, wherever they are."""

import os
import time

import pytest

from gloveport.sandbox.cgroups import open_files
from gloveport.sandbox.cgroups.open_files import WATCHES

MAKE = """
import ctypes, os, select, socket, time
libc = ctypes.CDLL(None)
poller = select.epoll()
reading, _ = os.pipe()
def watch():
    for _ in range(100): poller.register(os.dup(reading))
"""
HIDES = {
    "in a process": "watch()",
    "in a grandchild": """
for _ in range(2):
    if os.fork(): break
    libc.prctl(1, 9)  # it ends with the first of them
else:
    watch()
""",
    "in a thread with descriptors of its own": """
import threading
def hide():
    libc.unshare(0x400)
    watch()
    time.sleep(1000)
threading.Thread(target=hide, daemon=True).start()
""",
    "in flight": """
watch()
ours, theirs = socket.socketpair()
socket.send_fds(ours, [b"x"], [poller.fileno()])
poller.close()
""",
    "beside a thread that has ended": """
import threading
def hide():
    libc.unshare(0x400)
    watch()
    time.sleep(1000)
threading.Thread(target=hide, daemon=True).start()
libc.syscall(60, 0)
""",
    "in a thread that makes another and ends": """
import threading
watch()
def go_on():
    threading.Thread(target=go_on).start()
threading.Thread(target=go_on).start()
libc.syscall(60, 0)
""",
    "in a process that makes another and ends": """
import signal
libc.prctl(36, 1)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
lives, held = os.pipe()
if os.fork() == 0:
    os.close(held)
    watch()
    while not select.select([lives], [], [], 0)[0]:
        if os.fork(): os._exit(0)
    os._exit(0)
""",
    "in a process that can't be looked at": "watch(); libc.prctl(4, 0)",
}

ENDED = """
import os
for _ in range(3):
    if (child := os.fork()) == 0: os._exit(0)
    os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
"""
ENDING = """
import ctypes, mmap, os
for _ in range(2):
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(1, 9)  # it ends with its parent
        break
while True:
    if os.fork() == 0:  # and has much to give back
        held = mmap.mmap(-1, 32 << 20, mmap.MAP_PRIVATE)
        held.write(bytes(32 << 20))
        os._exit(0)
    os.wait()
"""
SENDING = """
ours, theirs = socket.socketpair()
while True:
    socket.send_fds(ours, [b"x"], [0])
    _, (received,), _, _ = socket.recv_fds(theirs, 1, 1)
    os.close(received)
    time.sleep(0.001)
"""
THREADS = """
import threading
for _ in range(20): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
"""


def has_more(child, most):
    """Whether it has, as soon as it has; False if it has not after a while."""
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 20
    while not (more := open_files.hold_more([child.pid], most, WATCHES)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return more


@pytest.mark.parametrize("place", HIDES)
def test_watches_are_found(start, place):
    code = f"print('begun', flush=True)\n{MAKE}{HIDES[place]}\ntime.sleep(1000)"
    if os.geteuid() == 0 and "looked at" in place:
        code = code.replace("watch();", "watch(); watch();")  # root can look at everybody
    assert has_more(start(code), 99)


def test_who_has_ended_and_was_not_waited_for_holds_none(start):
    """An ordinary user is let look into none that has ended, as into one that hides."""
    child = start(f"{ENDED}print('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not open_files.hold_more([child.pid], 0, WATCHES)


def test_of_whom_many_are_ending_all_the_while_nothing_is_found(start):
    child = start(f"print('made', flush=True)\n{ENDING}")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not any(open_files.hold_more([child.pid], 0, WATCHES) for _ in range(12))


def test_what_threads_share_counts_once(start):
    child = start(f"{MAKE}watch()\n{THREADS}print('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert open_files.hold_more([child.pid], 99, WATCHES)
    assert not open_files.hold_more([child.pid], 100, WATCHES)


def test_who_sends_descriptors_that_arrive_hides_nothing(start):
    child = start(f"{MAKE}print('made', flush=True)\n{SENDING}")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not any(open_files.hold_more([child.pid], 99, WATCHES) for _ in range(20))


def test_an_ordinary_program_holds_few(start):
    child = start(f"{MAKE}poller.register(reading)\nkept = socket.socketpair()\nprint('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not open_files.hold_more([child.pid], 99, WATCHES)


def test_of_who_is_gone_nothing_is_found(start):
    child = start("")
    child.kill()
    child.wait()
    assert not open_files.hold_more([child.pid], 0, WATCHES)


def test_as_a_rule_there_are_watches_to_be_had():
    assert not open_files.are_watches_exhausted()
    assert not open_files.has_many_watches([os.getpid()])
