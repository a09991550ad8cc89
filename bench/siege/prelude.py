# Stands before each hostile program in Python, below SCALE, SECONDS, SEED, NUMBERS and POOLS.
import ctypes
import errno
import fcntl
import mmap
import os
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

DEADLINE = time.monotonic() + SECONDS
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def scaled(number):
    """So many, or fewer when the siege is a small one."""
    return max(1, int(number * SCALE))


def call(name, *arguments):
    """Make a system call: its answer, or the number of its error below zero."""
    answer = libc.syscall(NUMBERS[name], *(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
    return -ctypes.get_errno() if answer == -1 else answer


def require(answer):
    """Raise when a call has failed."""
    if answer < 0:
        raise OSError(-answer, os.strerror(-answer))
    return answer


def swarm(work, count=56):
    """Fork children, as many as there may be by default. Each goes through the generator ``work(index)`` until the
    time is over, and keeps what it has until then. Prints how often they have yielded, and their first error.
    """
    counters = mmap.mmap(-1, 8 * count)
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for index in range(count):
        try:
            if os.fork():
                continue
        except OSError as error:
            os.write(writing, f"fork: {error}\n".encode())
            break
        try:
            done = 0
            kept = work(index)
            for _ in kept:
                done += 1
                struct.pack_into("q", counters, 8 * index, done)
                if time.monotonic() > DEADLINE:
                    break
        except BaseException as error:
            try:
                os.write(writing, f"{type(error).__name__}: {error}\n".encode()[:500])
            except OSError:
                pass
        time.sleep(max(0, DEADLINE - time.monotonic()))
        os._exit(0)
    time.sleep(max(0, DEADLINE - time.monotonic()))
    os.write(writing, b"\n")
    fault = os.read(reading, 4096).decode().split("\n")[0]
    print(f"{sum(struct.unpack(f'{count}q', counters[:]))} done by {count}", fault, flush=True)
