"""P8: who holds the epoll watches of a user of the host is found, wherever they are."""

import os
import time

import pytest

from gloveport.sandbox.cgroups import open_files
from gloveport.sandbox.cgroups.open_files import WATCHES
from gloveport.sandbox.cgroups.process_family import find_family

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
for _ in range(9): socket.send_fds(ours, [b"x"], [poller.fileno()])
poller.close()
""",
    "in a process that can't be looked at": "watch(); libc.prctl(4, 0)",
}


def has_more(child, most):
    """Whether it has, as soon as it has; False if it has not after a while."""
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "begun\n"
    deadline = time.monotonic() + 20
    while not (more := open_files.hold_more(find_family([child.pid]), most, WATCHES)) and time.monotonic() < deadline:
        time.sleep(0.01)
    return more


@pytest.mark.parametrize("place", HIDES)
def test_watches_are_found(start, place):
    code = f"print('begun', flush=True)\n{MAKE}{HIDES[place]}\ntime.sleep(1000)"
    if os.geteuid() == 0 and "looked at" in place:
        code = code.replace("watch();", "watch(); watch();")  # root can look at everybody
    assert has_more(start(code), 99)


def test_an_ordinary_program_holds_few(start):
    child = start(f"{MAKE}poller.register(reading)\nkept = socket.socketpair()\nprint('made', flush=True)\ninput()")
    print(file=child.stdin, flush=True)
    assert child.stdout.readline() == "made\n"
    assert not open_files.hold_more(find_family([child.pid]), 99, WATCHES)


def test_of_who_is_gone_nothing_is_found(start):
    child = start("")
    child.kill()
    child.wait()
    assert not open_files.hold_more([child.pid], 0, WATCHES)


def test_as_a_rule_there_are_watches_to_be_had():
    assert not open_files.are_watches_exhausted()
    assert not open_files.has_many_watches([os.getpid()])
