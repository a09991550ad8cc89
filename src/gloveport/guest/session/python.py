"""The Python interpreter of a session: a fork of the supervisor, which forks checkpoints of itself.

After a call the interpreter forks a twin that sleeps, and the files in the session's directory are copied. Two such
checkpoints are kept: of the present state, and of the state before the last call. When a call is killed, or the
interpreter is lost, the session continues from the former. A twin that is woken beside the interpreter is a branch,
which runs by itself. From then on all branches share the files, which are no longer restored. Standard library only.
"""

import contextlib
import os
import select
import signal
import socket
import time

MOST_CHECKPOINTS = 2
"""Checkpoints: of the present state, and of the one before."""

ANSWER_SECONDS = 5.0
"""How long to wait for a checkpoint: the program may keep it from being made."""


class Checkpoint:
    """A sleeping twin, its socket, the calls whose effects it has, and the files of the same moment, if kept."""

    def __init__(self, twin, link, calls, files):
        self.twin = twin
        self.link = link
        self.calls = calls
        self.files = files

    def close(self):
        """Close its descriptors, so that the twin ends."""
        self.link.close()
        self.twin.close()


class ForkedPython:
    """See the module.

    Attributes:
        process: The interpreter that is awake; None before the first call and after a loss.
        link: Socket to that interpreter.
        calls: Numbers of the calls whose effects it has, the latest last.
        checkpoints: The latest last.
        keeps_files: Whether checkpoints include files.
        parent: Of a branch: the branch whose interpreter has forked its own.
        direct: On which the host calls the interpreter that is awake; None where there is no such channel.
        last_direct_call: Number of the last direct call that is over.
    """

    name = "interpreter"

    def __init__(self, *, link_class, tools, files, deaths, settings, start_python, close_others, direct):
        self.direct = direct
        self.last_direct_call = 0
        self.link_class = link_class
        self.tools = tools
        self.files = files
        self.deaths = deaths
        self.settings = settings
        self.start_python = start_python
        self.close_others = close_others
        self.process = self.link = None
        self.calls = ()
        self.checkpoints = []
        self.first_files = self.latest_files = None
        self.keeps_files = True
        self.parent = None
        self.reapable = []

    @property
    def source(self):
        """The socket on which answers come."""
        return self.link

    def close(self):
        """Close all descriptors, in a fork that has no use for them."""
        for one in (self.link, self.process, *self.checkpoints):
            if one is not None:
                one.close()

    # -- Calls -------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Start an interpreter if none is alive. Returns the state, and why and which calls are undone if one died."""
        state, why, undone = "kept", "", []
        if self.process is not None and self.process.has_ended():
            why = self.explain_death()
            state, undone = self.go_back()
        if self.process is None:
            former, self.first_files = self.first_files, self.keep_files()  # first: the host may have called already
            self.release(former)
            self.fork()
        return state, why, undone

    def fork(self):
        """Start an empty interpreter: a fork of this process, which has imported everything already."""
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                ours.close()
                self.close_others()
                self.tools.set_limits(self.settings["rlimits"])
                self.start_python(self.link_class(theirs), self.direct)
            finally:
                os._exit(1)
        theirs.close()
        self.process, self.link, self.calls = self.tools.Process(pid), self.link_class(ours), ()
        self.deaths.expect(self.process)

    def send(self, message):
        """Pass a call on. Raises OSError where the interpreter is dead."""
        self.link.send(message)
        if message["do"] == "run":
            self.calls += (message["call"],)

    def take_answer(self, number):
        """The answer to a call; None while there is none. Raises EOFError, ValueError where none will come."""
        answer = self.link.receive_now()
        while answer is not None and answer.get("call") != number:
            answer = self.link.receive_now() if self.link.has_frame() else None
        return answer

    def take_direct_note(self, number):
        """The interpreter's note on a direct call of the host; None while there is none.

        Raises:
            EOFError, ValueError, RecursionError: None will come.
        """
        while (answer := self.link.receive_now()) is not None:
            if answer.get("call") == number:
                self.last_direct_call = number
                self.calls += (number,)
                return answer
        return None

    def take_unread(self, number=None):
        """Take a direct call that the interpreter has not taken: this one, or any."""
        if self.direct is None or (number is not None and (self.direct.peek() or {}).get("call") != number):
            return None
        return self.direct.take()

    def recover(self, number, cause):
        """The answer to a call in which the interpreter has died: for ``cause``, if that is known."""
        if number not in self.calls:  # the call was no run
            self.calls += (number,)
        why = self.explain_death()
        state, undone = self.go_back()
        return {"report": None, "state": state, "why": cause or why, "undone": undone}

    def explain_death(self):
        """How the interpreter has ended, in words."""
        return self.tools.explain_end(self.name, self.deaths.code_of(self.process))

    def settle(self, answer):
        """Checkpoint the state after a call, unless the answer says why that is impossible."""
        if not answer.get("checkpoint"):
            self.make_checkpoint()
        elif self.process is not None:
            with contextlib.suppress(OSError):  # it has died
                self.link.send({"checkpoint": False})

    # -- Checkpoints -------------------------------------------------------------------------------------------------

    def make_checkpoint(self):
        """See ``settle``."""
        if self.process is None or self.process.has_ended():
            return
        if self.checkpoints and self.checkpoints[-1].calls == self.calls:
            return
        files = self.keep_files()  # first: after the fork of the twin, the interpreter may take a call
        twin = self.fork_twin()
        if twin is not None:
            self.checkpoints.append(Checkpoint(*twin, self.calls, files))
        while len(self.checkpoints) > MOST_CHECKPOINTS:  # last: else the next call would wait for its end
            self.drop(self.checkpoints.pop(0))

    def fork_twin(self):
        """Have the interpreter fork a sleeping twin: its process and its socket; None where it makes none."""
        self.close_descriptors()  # of a checkpoint that came too late
        try:
            self.link.send({"checkpoint": True, "reap": self.reapable})
            self.reapable = []
            answer = self.take_checkpoint_answer()
            if not answer or not isinstance(answer.get("checkpoint"), int) or not self.link.descriptors:
                return None
            return self.tools.Process(answer["checkpoint"]), self.take_link()
        except (OSError, ValueError, EOFError, RecursionError):
            return None

    def take_checkpoint_answer(self):
        """The interpreter's answer about the checkpoint; None where it does not come in time."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while (seconds := deadline - time.monotonic()) > 0:
            if self.link.has_frame() or select.select([self.link], [], [], seconds)[0]:
                answer = self.link.receive_now()
                if answer is not None and "call" not in answer:
                    return answer
        return None

    def take_link(self):
        """The socket that has come from the interpreter."""
        number = self.link.descriptors.pop(0)
        self.close_descriptors()
        return self.link_class(socket.socket(fileno=number))

    def close_descriptors(self):
        """Close descriptors that have come from the interpreter and nobody has taken."""
        while self.link.descriptors:
            os.close(self.link.descriptors.pop())

    def keep_files(self):
        """A copy of the session's directory; None where that is too large, or files are no longer kept."""
        if not self.keeps_files:
            return None
        if self.latest_files is not None and self.files.is_current(self.latest_files):
            return self.latest_files
        former, self.latest_files = self.latest_files, None
        self.release(former)
        try:
            self.latest_files = self.files.take(self.settings["directory"], self.settings["file_bytes"])
        except (self.files.TooMuchError, OSError):
            return None
        return self.latest_files

    def keep_files_of_others(self):
        """Update the latest checkpoint's files after a call of another language: a rewind does not undo that call."""
        if self.checkpoints:
            former, self.checkpoints[-1].files = self.checkpoints[-1].files, self.keep_files()
            self.release(former)

    def forget_files(self):
        """Stop restoring files."""
        self.keeps_files = False
        self.first_files, first = None, self.first_files
        self.latest_files, latest = None, self.latest_files
        copies = [first, latest]
        for checkpoint in self.checkpoints:
            copies.append(checkpoint.files)
            checkpoint.files = None
        for files in copies:
            self.release(files)

    def release(self, files):
        """Forget files that nothing would restore."""
        in_use = [self.first_files, self.latest_files, *(one.files for one in self.checkpoints)]
        if files is not None and all(other is not files for other in in_use):
            files.close()

    def drop(self, checkpoint):
        """Forget a checkpoint that has been taken out of the list.

        The twin is killed, since it may never see its socket close: a program can keep a descriptor of the socket, and
        the interpreter would then wait for its own twin when it reaps it.
        """
        checkpoint.twin.send_signal(signal.SIGKILL)
        self.reapable.append(checkpoint.twin.pid)
        checkpoint.close()
        self.release(checkpoint.files)

    def go_back(self):
        """Wake the latest checkpoint in place of the dead interpreter. Returns the state, and what calls are undone."""
        dead = self.calls
        self.take_unread()  # or the woken twin would take it
        self.process.close()
        self.link.close()
        self.process, self.link, self.calls = None, None, ()
        while self.checkpoints:
            checkpoint = self.checkpoints.pop()
            try:
                checkpoint.link.connection.sendall(b"W")
            except OSError:  # somebody has killed it
                self.drop(checkpoint)
                continue
            self.process, self.link, self.calls = checkpoint.twin, checkpoint.link, checkpoint.calls
            self.deaths.expect(self.process)
            self.bring_back(checkpoint.files)
            self.release(checkpoint.files)
            return "rewound", [call for call in dead if call not in self.calls]
        if len(dead) > 1:
            return "lost", [*dead]
        self.bring_back(self.first_files)
        return "rewound", [*dead]

    def bring_back(self, files):
        """Restore the files of the session's directory, if they were kept."""
        if files is not None:
            self.files.bring_back(files)

    def rewind(self):
        """Go back to before the last call. Returns the state, why, and which calls are undone."""
        if self.process is None or not (self.calls or self.process.has_ended()):
            return "kept", "no Python ran in it", []
        if not self.process.has_ended():
            while self.checkpoints and self.checkpoints[-1].calls == self.calls:
                self.drop(self.checkpoints.pop())
            if not self.checkpoints and len(self.calls) > 1:
                return "kept", "there is no checkpoint of the state before the last call", []
            self.process.kill()
        state, undone = self.go_back()
        return state, "as asked", undone

    # -- Branches ----------------------------------------------------------------------------------------------------

    def wake_twin(self, branch):
        """Start ``branch``, which has no interpreter yet, from the present state; tells whether that worked."""
        twin = None if self.process is None or self.process.has_ended() else self.fork_twin()
        if twin is None:
            return False
        branch.process, branch.link = twin
        branch.calls, branch.keeps_files, branch.parent = self.calls, False, self
        try:
            branch.link.connection.sendall(b"W")
        except OSError:  # somebody has killed it
            return False
        branch.deaths.expect(branch.process)
        branch.make_checkpoint()
        return True

    def end(self):
        """End a branch for good."""
        while self.checkpoints:
            self.drop(self.checkpoints.pop())
        if self.process is not None:
            self.process.kill()
            self.deaths.code_of(self.process)
            self.parent.reapable.append(self.process.pid)
        self.close()

    def interrupt(self):
        """Interrupt what runs."""
        self.process.send_signal(signal.SIGINT)
