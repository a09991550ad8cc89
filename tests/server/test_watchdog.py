"""Issue 15: an event loop that stands still is told of, and ends when it is asked to."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

STANDS_STILL = """
import asyncio, ctypes, sys, time
from gloveport.server.process.signals import on_end_signal
from gloveport.server.process.watchdog import watch_loop

def stand_still_in_c():
    print("still", flush=True)
    libc, lock = ctypes.PyDLL(None), ctypes.create_string_buffer(256)
    for _ in range(2):
        libc.pthread_mutex_lock(lock)  # it has it, and waits for ever, under the interpreter's lock

def stand_still_in_python():
    print("still", flush=True)
    while True:
        time.sleep(0.001)

async def main():
    with on_end_signal(lambda: None), watch_loop():
        await asyncio.sleep(0)
        globals()[sys.argv[1]]()

asyncio.run(main())
"""
GOES_ON = """
import asyncio, sys
from gloveport.server.process.signals import on_end_signal

async def main():
    over = asyncio.Event()
    with on_end_signal(over.set) as came:
        print("on", flush=True)
        await over.wait()
    print(*map(int, came), flush=True)

asyncio.run(main())
"""


def started(code, *arguments):
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize(
    ("how", "number"), [("stand_still_in_c", signal.SIGTERM), ("stand_still_in_python", signal.SIGINT)]
)
def test_a_signal_ends_a_server_whose_event_loop_stands_still(how, number):
    with started(STANDS_STILL, how) as server:
        assert server.stdout.readline() == "still\n"
        server.send_signal(number)
        _, told = server.communicate(timeout=120)
    assert server.returncode == -signal.SIGKILL
    assert f"in {how}" in told, "its stack was to be written"
    assert told.count("Timeout") == 1
    assert "has not been heard" in told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_event_loop_that_goes_on_is_told_of_each_signal(number):
    with started(GOES_ON) as server:
        assert server.stdout.readline() == "on\n"
        server.send_signal(number)
        said, told = server.communicate(timeout=120)
    assert (server.returncode, said) == (0, f"{number.value}\n")
    assert "killed" not in told


def test_a_server_under_nohup_goes_on_when_its_terminal_is_closed():
    with started("import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + GOES_ON) as server:
        assert server.stdout.readline() == "on\n"
        server.send_signal(signal.SIGHUP)
        server.send_signal(signal.SIGTERM)
        said, _ = server.communicate(timeout=120)
    assert (server.returncode, said) == (0, f"{signal.SIGTERM.value}\n")


def test_what_kills_a_server_goes_when_the_server_has_gone():
    with started(GOES_ON) as server:
        assert server.stdout.readline() == "on\n"
        (child,) = Path(f"/proc/{server.pid}/task/{server.pid}/children").read_text().split()
        watching = os.pidfd_open(int(child))
        server.kill()
        server.communicate(timeout=120)
        assert select.select([watching], [], [], 120)[0]
        os.close(watching)
