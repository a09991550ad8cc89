"""First process of a session's sandbox: keeps the interpreters of its languages, and serves the host's requests.

    host → supervisor   {"call": n, "branch": b, "language", "do": "run", …}   for the interpreter of that language
                        {"interrupt": n}, {"kill": n}             the call n, if it still goes on
                        {"call": n, "branch": b, "do": "rewind"}  back to before the last call of that branch
                        {"call": n, "branch": b, "do": "branch", "into": c, "live": [b…]}   others before c are over
                        {"call": n, "branch": b, "do": "close"}
                        {"call": n, "branch": 0, "do": "attend"}  the host has called Python itself, and waits long
    supervisor → host   {"call": n, "report", …, "state": "kept" | "rewound" | "lost", "why", "undone": [m…]}

Each call has one answer; the next call is taken when the answer is sent and a checkpoint is made. All interpreters, and
the programs that they start, share this process's streams, which stay open when a call ends. ``state`` is that of the
call's language alone: ``python.py``, ``shell.py`` and ``deno.py`` say what each keeps. There is one shell and one Deno;
of Python there may be several, one for each branch. The session begins with branch 0.

As long as there are no branches, the host calls a Python whose state is checkpointed directly, and Python answers it
directly (``python/interpreter.py``). This process hears of such a call only when it is over, or, if it takes long,
before it is interrupted or killed.

The host trusts nothing here, and the supervisor no interpreter: nobody waits for the rest of half an answer, an answer
to a call that is over is dropped, and an interpreter that writes nonsense is killed. Standard library only.
"""

import ctypes
import math
import os
import select
import time

PR_SET_CHILD_SUBREAPER = 36
BREATH_SECONDS = 0.001  # on a busy processor, an immediate fork would keep the host from taking the answer
ANSWER_SECONDS = 5.0
KEPT_STATE = {"state": "kept", "why": "", "undone": []}
DENO = "deno"
INTERPRETERS = {"python": "python", "shell": "shell", "typescript": DENO, "javascript": DENO}


class Supervisor:
    """Serves the host's requests until the host is gone.

    Attributes:
        interpreters: By name; of Python that of branch 0.
        branches: The Python of each branch, by its number.
        last: Name of the interpreter of the last call of each branch.
        direct: On which the host calls Python directly; None where it does not.
        broken: The link to a Python interpreter that will send nothing more.
        over: Number of the last call that it has heard of. Calls are counted from 1.
        next: A request that came while the supervisor attended to a direct call; else None.
    """

    def __init__(self, host, load, settings, start_python, direct):
        links = load("session.link", "session/link.py")
        link_class = links.Link
        self.direct = None if direct is None else links.DirectChannel(direct)
        self.broken = None
        self.over = 0
        self.next = None
        tools = load("session.process", "session/process.py")
        self.host = link_class(host)
        self.deaths = tools.Deaths()
        self.last = {}
        self.settings = settings
        common = {"tools": tools, "deaths": self.deaths, "settings": settings}
        python = load("session.python", "session/python.py").ForkedPython
        files = load("session.files", "session/files.py")
        self.make_python = lambda: python(
            **common,
            link_class=link_class,
            files=files,
            start_python=start_python,
            close_others=self.close,
            direct=self.direct,
        )
        self.python = self.make_python()
        self.branches = {0: self.python}
        self.interpreters = {"python": self.python}
        if settings["shell"]:
            shell = load("session.shell", "session/shell.py").LastingShell
            self.interpreters["shell"] = shell(**common, **settings["shell"])
        if settings["deno"]:
            deno = load("session.deno", "session/deno.py").LastingDeno
            self.interpreters[DENO] = deno(**common, **settings["deno"])
        ctypes.PyDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def close(self):
        """Close all descriptors, in a fork that has no use for them."""
        self.host.close()
        for interpreter in {*self.interpreters.values(), *self.branches.values()}:
            interpreter.close()

    def serve(self):
        """See the class."""
        if self.settings["first"] == "python":  # while the host prepares the first call
            self.python.prepare()
        while (message := self.wait()) is not None:
            if "call" in message:
                self.take(message)
                self.deaths.reap()
            elif message.get("kill", math.inf) <= self.python.last_direct_call:  # the host takes only ours then
                self.host.send({"call": message["kill"], **KEPT_STATE})

    def wait(self):
        """Wait for the host's next message; meanwhile take Python's notes on direct calls."""
        if self.next is not None:
            message, self.next = self.next, None
            return message
        while True:
            self.take_direct_notes()  # the socket won't become readable for what is buffered already
            if self.host.has_frame():
                return self.host.take()
            sources = [self.host, self.python.link] if self.can_be_told() else [self.host]
            if self.host in select.select(sources, [], [])[0] and not self.host.read():
                return None

    def can_be_told(self):
        """Whether Python may send a note by itself."""
        return self.direct is not None and self.python.link not in (None, self.broken)

    def take_direct_notes(self):
        """Take Python's notes on direct calls, and checkpoint the state that the calls have left."""
        link = self.python.link
        try:
            while self.can_be_told() and self.python.link is link:
                answer = self.python.take_direct_note(self.over + 1)
                if answer is None:
                    return
                self.over += 1
                self.finish(self.python, {"call": answer["call"], "do": "attend"}, {**KEPT_STATE, **answer})
        except (OSError, EOFError, ValueError, RecursionError):  # it counts as dead: the next call will find out
            self.broken = link

    def wait_direct_notes(self, number):
        """Wait until Python has told of all calls before this one, or never will."""
        ends = time.monotonic() + ANSWER_SECONDS
        self.take_direct_notes()
        while self.can_be_told() and self.over < number - 1:
            seconds = ends - time.monotonic()
            ready = select.select([self.python.link, self.python.process.descriptor], [], [], max(0, seconds))[0]
            self.take_direct_notes()
            if self.python.link not in ready:
                break

    def take(self, message):
        """Do what a message asks for, and answer it."""
        branch, do = message["branch"], message["do"]
        self.wait_direct_notes(message["call"])
        self.over = max(self.over, message["call"])  # an "attend" may come long after its call's end
        if branch not in self.branches:
            answer = {"state": "lost", "why": "there is no such branch", "undone": []}
            self.host.send({"call": message["call"], **answer})
        elif do == "rewind":
            self.host.send(self.rewind(message))
            self.branches[branch].make_checkpoint()
        elif do == "branch":
            self.host.send(self.branch(message))
        elif do == "close":
            self.host.send(self.close_branch(message))
        elif do == "attend":
            self.attend_direct(message)
        else:
            self.call(message)

    def call(self, message):
        """Run a call, and answer; then checkpoint the state."""
        name = INTERPRETERS[message["language"]]
        interpreter = self.branches[message["branch"]] if name == "python" else self.interpreters[name]
        state, why, undone = interpreter.prepare()
        answer = {"state": state, "why": why, "undone": undone, **self.pass_on(interpreter, message)}
        self.finish(interpreter, message, answer)
        if message["do"] == "run":
            self.last[message["branch"]] = name
            if name != "python":
                self.python.keep_files_of_others()

    def pass_on(self, interpreter, message):
        """Pass a call on, and wait for its answer."""
        try:
            interpreter.send(message)
        except OSError as error:
            interpreter.process.kill()
            return interpreter.recover(message["call"], f"it took no call ({error.strerror})")
        return self.attend(interpreter, message)

    def finish(self, interpreter, message, answer):
        """Answer, unless the host has the answer of a direct call already; then checkpoint the state."""
        if message["do"] != "attend" or not answer.get("is_told"):
            self.host.send({**answer, "why": self.explain(answer), "call": message["call"]})
            if not self.host.has_frame():
                sources = [self.host] if self.direct is None else [self.host, self.direct]
                select.select(sources, [], [], BREATH_SECONDS)
        interpreter.settle(answer)

    def attend_direct(self, message):
        """Attend to a direct call as to any other."""
        python = self.python
        if python.last_direct_call >= message["call"]:
            return
        if (unread := python.take_unread(message["call"])) is not None:  # it has died, or waits for a message of ours
            self.call({**unread, "branch": 0})
        else:
            answer = {**KEPT_STATE, **self.attend(python, message)}
            if answer["state"] == "kept":
                python.calls += (message["call"],)
            self.finish(python, message, answer)
        python.last_direct_call = max(python.last_direct_call, message["call"])

    def attend(self, interpreter, message):
        """Wait for the answer to a call that was passed on; meanwhile serve the host's messages about it."""
        number = message["call"]
        cause = ""
        while True:
            try:
                answer = interpreter.take_answer(number)
                if answer is None and (has_ended := interpreter.process.has_ended()):
                    answer = interpreter.take_answer(number)  # its last message
            except (OSError, EOFError, ValueError, RecursionError):  # it sent nonsense, or will send nothing more
                interpreter.process.kill()
                select.select([interpreter.process.descriptor], [], [])
                return interpreter.recover(number, cause)
            if answer is not None:
                return answer
            if has_ended:
                return interpreter.recover(number, cause)
            while self.next is None and (self.host.has_frame() or select.select([self.host], [], [], 0)[0]):
                if self.take_note(number, interpreter):
                    cause = "the call did not stop, and was killed"
            hosts = [self.host] if self.next is None else []
            select.select([*hosts, interpreter.source, interpreter.process.descriptor], [], [])

    def take_note(self, number, interpreter):
        """Do what the host asks about the running call; tells whether it was killed."""
        note = self.host.receive()
        if note is None:
            os._exit(0)
        if "call" in note:  # the host already has the answer of the running call
            self.next = note
        if note.get("interrupt") == number:
            interpreter.interrupt()
        if note.get("kill") == number:
            interpreter.process.kill()
        return note.get("kill") == number

    def rewind(self, message):
        """Go back to before the last call."""
        if self.last.get(message["branch"], "python") == "python":
            state, why, undone = self.branches[message["branch"]].rewind()
        else:
            state, why, undone = "kept", "the last call was not in Python: no other language can be rewound", []
        answer = {"call": message["call"], "state": state, "why": why, "undone": undone}
        return {**answer, "why": self.explain(answer)}

    def explain(self, answer):
        """Why the state has changed, and what the change does not bring back."""
        if answer["state"] == "rewound" and not self.python.keeps_files:
            return f"{answer['why']}; files are everybody's since there were branches, and are as they are"
        return answer["why"]

    def branch(self, message):
        """Start another branch from the state of this one; from now on all branches share the files."""
        for number in [n for n in self.branches if 0 < n < message["into"] and n not in message["live"]]:
            self.branches.pop(number).end()  # the host has not waited for it
        former = self.branches[message["branch"]]
        state, why, undone = former.prepare()
        new = self.make_python()
        is_made = message["into"] not in self.branches and former.wake_twin(new)
        if is_made:
            self.branches[message["into"]] = new
            for one in self.branches.values():
                one.forget_files()
        answer = {"call": message["call"], "state": state, "why": why, "undone": undone}
        return {**answer, "is_branched": is_made}

    def close_branch(self, message):
        """End a branch; the first one ends only with the sandbox."""
        if message["branch"]:
            self.branches.pop(message["branch"]).end()
        return {"call": message["call"], "state": "kept", "why": "", "undone": []}


def serve(host, load, settings, start_python, direct=None):
    """Run as the supervisor. Never returns."""
    Supervisor(host, load, settings, start_python, direct).serve()
    os._exit(0)
