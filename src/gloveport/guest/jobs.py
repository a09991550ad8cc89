"""Runs one program after another in a sandbox that can't write to the host's files.

    python -I -S -B jobs.py

Standard input has, for each program: four bytes of length, most significant first, JSON, and the program's input, of as
many bytes as ``stdin`` in the JSON says. The program writes to this process's standard output and error. When it has
ended, both get the job's ``mark``, 16 bytes that no program knows, and one byte with the exit code.

A program can start no process or thread, so nothing runs on when it has ended. It can't read or write anything of this
process, though both have the same user. If it has changed this process's limits or priority, or has left anything in
the scratch directory, no other program follows. Standard library only.
"""

import ctypes
import json
import os
import resource
import signal

PR_SET_DUMPABLE = 4
HEAD_BYTES = 4
NOT_THERE = 127
THIS_AND_THE_PROGRAM = 2, 2  # limit of processes and threads in the sandbox: a program finds it used up
SCRATCH = "/tmp", "/dev/shm"
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


def exit_code(job, text, streams):
    """Run the program; returns its exit code, or 128 + the signal that ended it. Raises OSError where it can't start.

    ``streams``: copies of our own. The program gets them opened anew, since flags and the owner of signals belong to
    the open file description, and would stay for the next program.
    """
    with open(os.memfd_create("stdin", os.MFD_CLOEXEC), "wb") as memory:
        memory.write(text)
        memory.seek(0)
        os.chdir(job["directory"])
        child = os.posix_spawn(  # a fork would take longer than many a program
            job["argv"][0],
            job["argv"],
            {**os.environ, **job["variables"]},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, memory.fileno(), 0),
                *((os.POSIX_SPAWN_OPEN, n, f"/proc/self/fd/{copy}", os.O_WRONLY, 0) for n, copy in streams.items()),
            ],
            setsigdef=[signal.SIGPIPE],  # which Python ignores
        )
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def standing():
    """The settings of this process that another process of this user could change."""
    limits = [resource.getrlimit(limit) for limit in LIMITS]
    return limits, os.sched_getaffinity(0), os.sched_getscheduler(0), os.getpriority(os.PRIO_PROCESS, 0)


def main():
    """See the module."""
    if ctypes.PyDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_DUMPABLE")
    resource.setrlimit(resource.RLIMIT_NPROC, THIS_AND_THE_PROGRAM)
    streams = {number: os.dup(number) for number in (1, 2)}
    before = standing()
    with open(0, "rb", closefd=False) as jobs:
        while head := jobs.read(HEAD_BYTES):
            job = json.loads(jobs.read(int.from_bytes(head, "big")))
            text = jobs.read(job["stdin"])
            try:
                code = exit_code(job, text, streams)
            except (OSError, ValueError) as error:
                os.write(2, f"{job['argv'][0]}: {getattr(error, 'strerror', error)}\n".encode())
                code = NOT_THERE
            if standing() != before:
                return
            for stream in streams:
                os.write(stream, bytes.fromhex(job["mark"]) + bytes([code]))  # less than a pipe takes at once
            if any(map(os.listdir, SCRATCH)):
                return


if __name__ == "__main__":
    main()
