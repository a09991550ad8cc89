"""Leads the session of a person's program: starts it as a job, passes signals on to it, and tells when it is stopped.

A program that led its session itself could not be stopped: no process could continue it, so the kernel drops the signal
of Ctrl-Z. Like a shell, this process keeps the program in a process group of its own, and that group in the foreground
of the terminal. Each time the program is stopped, this process writes a byte to the host, which later sends SIGCONT. A
program that attacks this process can only end the sandbox.
"""

import _signal as signal  # as ``zygote.py``: enumerations and ``contextlib`` take longer than the start of a program
import os

PASSED = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP, signal.SIGTSTP, signal.SIGCONT})
WAITED = PASSED | {signal.SIGCHLD, signal.SIGTTIN, signal.SIGTTOU}
INPUT = 0


def lead(execute, program, inputs, notices):
    """Run a program to its end, and end the same way. ``execute``: the function of ``init.py``."""
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
    except OSError:  # it has done so itself, and has called exec by now
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
    """Send the program's group a signal. A program that continues gets the terminal back."""
    try:
        if number == signal.SIGCONT and has_terminal:
            os.tcsetpgrp(INPUT, job)
        os.killpg(job, number)
    except OSError:  # it has ended
        pass


def let_go(inputs, has_terminal):
    """Close the program's pipes, or readers of its output would not see it end before this process does."""
    for descriptor in inputs.values():
        os.close(descriptor)
    if not has_terminal:
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number in range(3):
            os.dup2(null, number, inheritable=False)
        os.close(null)
