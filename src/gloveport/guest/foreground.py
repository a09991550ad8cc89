"""Leads the session of a person's program: starts it as a job, passes signals on to it, and tells when it is stopped.

A program that led its session itself could not be stopped: nobody would be there to let it go on, so the kernel drops
what Ctrl-Z sends. As a shell does, this process keeps the program in a process group of its own, and that in the
foreground of the terminal. Each time that the program is stopped, it writes a byte to the host, which sends SIGCONT in
the end. What the program does to this process ends the sandbox, and nothing else.
"""

import _signal as signal  # as ``zygote.py``: enumerations and ``contextlib`` take longer than the start of a program
import os

PASSED = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT})
WAITED = PASSED | {signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}
INPUT = 0


def lead(execute, program, inputs, notices):
    """Run a program to its end, and end as it has ended. ``execute``: that of ``init.py``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, WAITED)
    has_terminal = bool(program["terminal"])
    job = os.fork()
    if job == 0:
        os.setpgid(0, 0)
        if has_terminal:
            os.tcsetpgrp(INPUT, os.getpid())
            os.environ.pop("NO_COLOR", None)  # a person reads it
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # the interpreter's own handler would end it as a failure
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        execute(program, inputs)
    try:
        os.setpgid(job, job)
    except OSError:  # it has done so itself, and is another program by now
        pass
    let_go(inputs, has_terminal)
    while True:
        number = signal.sigwait(WAITED)
        if number in PASSED:
            pass_on(job, number, has_terminal)
        while number == signal.SIGCHLD:
            pid, status = os.waitpid(job, os.WNOHANG | os.WUNTRACED)
            if pid == 0:
                break
            if not os.WIFSTOPPED(status):
                code = os.waitstatus_to_exitcode(status)
                os._exit(code if code >= 0 else 128 - code)
            os.write(notices, b"\0")


def pass_on(job, number, has_terminal):
    """Send the program's group a signal. One that goes on gets the terminal back."""
    try:
        if number == signal.SIGCONT and has_terminal:
            os.tcsetpgrp(INPUT, job)
        os.killpg(job, number)
    except OSError:  # it has ended
        pass


def let_go(inputs, has_terminal):
    """Close the program's pipes, or who reads its output would not see it end before we do."""
    for descriptor in inputs.values():
        os.close(descriptor)
    if not has_terminal:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number in range(3):
            os.dup2(null, number, inheritable=False)
        os.close(null)
