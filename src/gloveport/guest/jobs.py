"""Run as the program of a sandbox that may write to nothing of the host: runs one program after another.

    python -I -S -B jobs.py

On the standard input, for each: four bytes of length, most significant first, JSON, and as many bytes as it says under
``stdin``, which the program is to read. It writes to the same standard output and error as this one. When it has ended,
the ``mark`` of the job follows on both, 16 bytes that no program knows, and its exit code, one byte.

A program can start no other and has no thread but its own, so nothing goes on when it has ended; and of this process,
which is the same user's, it can read and write nothing. Standard library only.
"""

import ctypes
import json
import os
import resource
import signal

PR_SET_DUMPABLE = 4
HEAD_BYTES = 4
NOT_THERE = 127
THIS_AND_THE_PROGRAM = 2, 2  # processes and threads of the sandbox: a program finds them used up


def exit_code(job, text):
    """Run the program: its exit code, 128 + the signal where one has ended it. Raises OSError where there is none."""
    with open(os.memfd_create("stdin", os.MFD_CLOEXEC), "wb") as memory:
        memory.write(text)
        memory.seek(0)
        os.chdir(job["directory"])
        child = os.posix_spawn(  # a fork would take longer than many a program
            job["argv"][0],
            job["argv"],
            {**os.environ, **job["variables"]},
            file_actions=[(os.POSIX_SPAWN_DUP2, memory.fileno(), 0)],
            setsigdef=[signal.SIGPIPE],  # which Python ignores
        )
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else 128 - code


def main():
    """See the module."""
    if ctypes.PyDLL(None, use_errno=True).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "PR_SET_DUMPABLE")
    resource.setrlimit(resource.RLIMIT_NPROC, THIS_AND_THE_PROGRAM)
    with open(0, "rb", closefd=False) as jobs:
        while head := jobs.read(HEAD_BYTES):
            job = json.loads(jobs.read(int.from_bytes(head, "big")))
            text = jobs.read(job["stdin"])
            try:
                code = exit_code(job, text)
            except (OSError, ValueError) as error:
                os.write(2, f"{job['argv'][0]}: {getattr(error, 'strerror', error)}\n".encode())
                code = NOT_THERE
            for stream in (1, 2):
                os.write(stream, bytes.fromhex(job["mark"]) + bytes([code]))  # less than a pipe takes at once


if __name__ == "__main__":
    main()
