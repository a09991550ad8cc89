"""First process of a session's sandbox: keeps interpreters and their checkpoints, and does what the host asks, in turn.

    host → supervisor   {"call": n, "language", "do": "run", …}   for the interpreter of that language; see there
                        {"interrupt": n}, {"kill": n}             the call n, if it still goes on
                        {"call": n, "do": "rewind"}               back to before the last call
    supervisor → host   {"call": n, "report", …, "state": "kept" | "rewound" | "lost", "why", "undone": [m…]}

Each call has one answer, and the next is taken when that is sent and a checkpoint is made. The streams of all
interpreters, and of whatever they start, are this process's own: they stay when a call ends.

After a call a Python interpreter forks a twin, and what lies in the session's directory is copied. The last two are
kept: of the state as it is, and as it was before the last call. Who kills a call, or loses its interpreter, goes on
from the former. Nothing here is believed by the host. Standard library only.
"""

import ctypes
import os
import select
import signal
import socket

PR_SET_CHILD_SUBREAPER, PR_SET_PDEATHSIG = 36, 1
BREATH_SECONDS = 0.004  # a fork at once would keep the host, on a busy processor, from taking the answer
KEPT = 2
"""Checkpoints: of the state as it is, and of that before."""


class Process:
    """An interpreter's process, awake or asleep.

    Attributes:
        calls: Numbers of the calls whose effects it has, the latest last.
    """

    def __init__(self, pid, link, calls=()):
        self.pid = pid
        self.link = link
        self.calls = calls
        self.descriptor = os.pidfd_open(pid)

    def has_ended(self):
        """Whether it is dead."""
        return bool(select.select([self.descriptor], [], [], 0)[0])

    def kill(self):
        """End it, and wait until it is dead."""
        signal.pidfd_send_signal(self.descriptor, signal.SIGKILL)
        select.select([self.descriptor], [], [])

    def close(self):
        """Let go of it. A twin that sleeps ends."""
        self.link.close()
        os.close(self.descriptor)


def receive_or_none(link):
    """What comes from an interpreter. Who writes nonsense there is as good as dead."""
    try:
        return link.receive()
    except (ValueError, OSError):
        return None


class Checkpoint:
    """A twin that sleeps, and the files of the same moment, where they could be kept."""

    def __init__(self, twin, files):
        self.twin = twin
        self.files = files


class Supervisor:
    """Does what the host asks until it is gone.

    Attributes:
        python: The interpreter that is awake; None before the first call and where it has been lost.
        checkpoints: The latest last.
        statuses: Wait status of each interpreter that has died, by its number.
    """

    def __init__(self, host, load, settings, start_python):
        self.link_class = load("session.link", "session/link.py").Link
        self.files = load("session.files", "session/files.py")
        self.host = self.link_class(host)
        self.settings = settings
        self.start_python = start_python
        self.python = None
        self.checkpoints = []
        self.first_files = self.latest_files = None
        self.reapable = []
        self.statuses = {}
        ctypes.PyDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def serve(self):
        """See the class."""
        while (message := self.host.receive()) is not None:
            if "call" not in message:  # it was for a call that is over
                continue
            answer = self.rewind(message) if message["do"] == "rewind" else self.call(message)
            self.host.send(answer)
            if not self.host.has_frame():
                select.select([self.host], [], [], BREATH_SECONDS)
            if not answer.get("checkpoint"):  # which says why none can be made
                self.make_checkpoint()
            self.reap()

    # -- Interpreters ------------------------------------------------------------------------------------------------

    def fork_python(self):
        """An interpreter with nothing in it: a fork of this process, in which everything is imported already."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self.host.close()
                for checkpoint in self.checkpoints:
                    checkpoint.twin.close()
                self.start_python(self.link_class(theirs))
            finally:
                os._exit(1)
        theirs.close()
        return Process(pid, self.link_class(ours))

    def reap(self):
        """Take notice of who has died: also of what programs have left behind."""
        ours = {process.pid for process in (self.python, *(one.twin for one in self.checkpoints)) if process}
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in ours:
                    self.statuses[ended[0]] = ended[1]
        except ChildProcessError:
            pass

    def explain_death(self, process):
        """How an interpreter has ended, in words."""
        self.reap()
        status = self.statuses.pop(process.pid, None)
        if status is None:
            return "its interpreter has died"
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return f"its interpreter has exited with {code}"
        try:
            return f"its interpreter was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"its interpreter was ended by signal {-code}"

    # -- Calls -------------------------------------------------------------------------------------------------------

    def call(self, message):
        """Run a call, and answer."""
        number = message["call"]
        state, why, undone = "kept", "", []
        if self.python is not None and self.python.has_ended():
            why = self.explain_death(self.python)
            state, undone = self.go_back()
        if self.python is None:
            self.python = self.fork_python()
            self.first_files = self.first_files or self.keep_files()
        answer, failure = self.attend(message)
        if answer is None:
            answer = {"report": None}
            why = failure
            self.python.calls += (number,)
            state, undone = self.go_back()
        elif message["do"] == "run":
            self.python.calls += (number,)
        return {**answer, "call": number, "state": state, "why": why, "undone": undone}

    def attend(self, message):
        """Pass a call on, and wait for what it comes to: that, or None and why there is none."""
        number, process = message["call"], self.python
        is_killed = False
        try:
            process.link.send(message)
        except OSError:
            return None, self.explain_death(process)
        while True:
            sources = [self.host, process.link, process.descriptor]
            ready = [self.host] if self.host.has_frame() else select.select(sources, [], [])[0]
            if process.link in ready:
                answer = receive_or_none(process.link)
                if answer is not None:
                    return answer, ""
                process.kill()
            if self.host in ready:
                is_killed |= self.take_note(number)
            if process.has_ended():
                why = self.explain_death(process)
                return None, "the call did not stop, and was killed" if is_killed else why

    def take_note(self, number):
        """Do what the host wants of the call that goes on; whether it was killed for it."""
        note = self.host.receive()
        if note is None:
            os._exit(0)
        if note.get("interrupt") == number:
            signal.pidfd_send_signal(self.python.descriptor, signal.SIGINT)
        if note.get("kill") == number:
            self.python.kill()
        return note.get("kill") == number

    # -- Checkpoints -------------------------------------------------------------------------------------------------

    def make_checkpoint(self):
        """Keep the state as it is."""
        python = self.python
        if python is None or python.has_ended():
            return
        if self.checkpoints and self.checkpoints[-1].twin.calls == python.calls:
            return
        while len(self.checkpoints) >= KEPT:
            self.drop(self.checkpoints.pop(0))
        try:
            python.link.send({"checkpoint": True, "reap": self.reapable})
            self.reapable = []
            made = python.link.receive()
        except (OSError, ValueError):
            return
        if not made or not isinstance(made.get("checkpoint"), int) or not python.link.descriptors:
            return
        try:
            twin = Process(made["checkpoint"], self.take_link(python), python.calls)
        except OSError:
            return
        self.checkpoints.append(Checkpoint(twin, self.keep_files()))

    def take_link(self, process):
        """The socket that has come from an interpreter."""
        number, *others = process.link.descriptors
        process.link.descriptors = []
        for other in others:
            os.close(other)
        return self.link_class(socket.socket(fileno=number))

    def keep_files(self):
        """What lies in the session's directory; None where it is too much."""
        if self.latest_files is not None and self.files.is_current(self.latest_files):
            return self.latest_files
        former, self.latest_files = self.latest_files, None
        self.release(former)
        try:
            self.latest_files = self.files.take(self.settings["directory"], self.settings["file_bytes"])
        except (self.files.TooMuchError, OSError):
            return None
        return self.latest_files

    def release(self, files):
        """Forget files that nobody would go back to."""
        in_use = [self.first_files, self.latest_files, *(one.files for one in self.checkpoints)]
        if files is not None and all(other is not files for other in in_use):
            files.close()

    def drop(self, checkpoint):
        """Forget a checkpoint, which is in the list no more."""
        self.reapable.append(checkpoint.twin.pid)
        checkpoint.twin.close()
        self.release(checkpoint.files)

    def go_back(self):
        """Go on from the latest checkpoint in the place of the dead interpreter: the state, and what is undone."""
        dead, self.python = self.python, None
        dead.close()
        while self.checkpoints:
            checkpoint = self.checkpoints.pop()
            try:
                checkpoint.twin.link.connection.sendall(b"W")
            except OSError:  # somebody has killed it
                self.drop(checkpoint)
                continue
            self.python = checkpoint.twin
            self.bring_back(checkpoint.files)
            self.release(checkpoint.files)
            return "rewound", [call for call in dead.calls if call not in self.python.calls]
        if len(dead.calls) > 1:
            return "lost", [*dead.calls]
        self.bring_back(self.first_files)
        return "rewound", [*dead.calls]

    def bring_back(self, files):
        """Have the files of the session's directory as they were, where that is known."""
        if files is not None:
            self.files.bring_back(files)

    def rewind(self, message):
        """Go back to before the last call."""
        number = message["call"]
        if self.python is not None and not self.python.has_ended():
            while self.checkpoints and self.checkpoints[-1].twin.calls == self.python.calls:
                self.drop(self.checkpoints.pop())
            if not self.checkpoints and len(self.python.calls) > 1:
                why = "there is no checkpoint of the state before the last call"
                return {"call": number, "state": "kept", "why": why, "undone": []}
            self.python.kill()
        if self.python is None:
            return {"call": number, "state": "kept", "why": "no Python ran in it", "undone": []}
        state, undone = self.go_back()
        return {"call": number, "state": state, "why": "as asked", "undone": undone}


def serve(host, load, settings, start_python):
    """Be the supervisor, for good."""
    Supervisor(host, load, settings, start_python).serve()
    os._exit(0)
