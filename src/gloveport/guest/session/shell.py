"""The shell of a session: one bash that takes call after call; when it ends, another one restores its state.

    supervisor → bash   lines of commands, on the pipe that is its script: they ``source`` a file with the call's text
    bash → supervisor   "CALL STATUS DIRECTORY", on a pipe that it opens for each answer

Programs that a call starts inherit none of these descriptors: bash closes its script's on exec, and opens the others
below /proc/PID/fd of the supervisor while no call runs. Whatever a program writes to any stream is output.

The rules for scripts apply: ``exit``, a failure after ``set -e``, an unset variable after ``set -u`` and SIGINT end a
bash. At its end and after each call, bash saves its variables, functions, options and directory, alternating between
two places; the next bash starts from the latest complete one. Jobs can't be saved: they keep running, but nobody can
``wait`` for them any more.

SIGINT goes to bash and its foreground programs; bash has its background programs ignore it. A SIGINT before a program
has begun ends bash alone, which then waits for that program in the middle of saving its state. So the next SIGINT goes
to all but bash, or the saving would end there. Standard library only.
"""

import os
import shlex
import signal

WHOLE = b"\n# whole "
MARK_BYTES = 64


class LastingShell:
    """See the module.

    Attributes:
        process: Bash; None before the first call.
        saved: Two memory files that take turns with the state after a call; the next bash restores the later whole one.
        turn: How many calls there have been.
        last_words: Memory file with the state that bash saved when it ended.
        directory: Where the last call ended, as bash quotes it.
        text: Path of the last call's text.
    """

    name = "bash"

    def __init__(self, *, tools, deaths, settings, argv, setup, variables, directory):
        self.tools = tools
        self.deaths = deaths
        self.settings = settings
        self.argv = argv
        self.setup = setup
        self.variables = variables
        self.first_directory = directory
        self.process = None
        self.saved, self.turn = (), 0
        self.last_words = self.script = self.source = self.answers = None
        self.directory = os.fsencode(directory)
        self.text = ""

    def close(self):
        """Close all descriptors, in a fork that has no use for them."""
        if self.process is not None:
            self.process.close()
            for descriptor in (*self.saved, self.last_words, self.script, self.source.descriptor, self.answers):
                os.close(descriptor)

    # -- Calls -------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Start a bash if none is alive. Returns the state, and why and which calls are undone if the last one died."""
        if self.process is None:
            self.open()
            self.start()
        elif self.process.has_ended():
            how = self.tools.explain_end(self.name, self.deaths.code_of(self.process))
            is_latest = self.turn in map(turn_of, self.saved)
            state, why = self.restart()
            return "kept" if is_latest else state, f"{how}: {why}", []
        return "kept", "", []

    def open(self):
        """Open the pipes and memory files that each bash uses."""
        reading, self.answers = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self.source = self.tools.Lines(reading)
        names = ("saved-0", "saved-1", "last-words")
        *self.saved, self.last_words = (os.memfd_create(name, os.MFD_CLOEXEC) for name in names)

    def start(self):
        """Start a bash with the saved state."""
        reading, self.script = os.pipe2(os.O_CLOEXEC)
        self.process = self.tools.start(self.argv, self.variables, self.settings["rlimits"], {3: reading})
        self.deaths.expect(self.process)
        os.close(reading)
        self.write(
            "exec 3<&-",
            f"builtin source {self.setup}",
            f"builtin cd -- {shlex.quote(self.first_directory)}",
            # A child that a signal ends before it has begun its program runs this trap as well.
            f"builtin trap '((${{BASHPID:-$$}} != $$)) || __gloveport_save 0 >|{self.path(self.last_words)}' EXIT",
            f"builtin source {self.path(self.saved[self.turn % 2])} 2>/dev/null",
        )

    def write(self, *lines):
        """Send bash lines of commands. They must be shorter than its pipe takes at once."""
        os.write(self.script, "".join(f"{line}\n" for line in lines).encode())

    def path(self, descriptor):
        """The path at which other processes of this sandbox open a descriptor of this process."""
        return f"/proc/{os.getpid()}/fd/{descriptor}"

    def send(self, message):
        """Pass a call on. Raises OSError."""
        number = message["call"]
        self.turn += 1
        ways = f"{self.path(self.answers)} {self.turn} {self.path(self.saved[self.turn % 2])}"
        self.text = self.tools.write_text(self.settings["private"], message["name"], message["source"])
        self.write(
            f"\\builtin source {self.text}",
            f'{{ __gloveport_end {number} "$?" {ways}; }} 2>/dev/null',
            # A call may have redirected them: the next one starts with the session's streams again.
            f"\\exec </dev/null >>{self.path(1)} 2>>{self.path(2)}",
        )

    def take_answer(self, number):
        """The answer to a call; None while there is none. Raises ValueError where it is malformed."""
        while (line := self.source.take()) is not None:
            call, status, directory = line.split(b" ", 2)
            if int(call) == number:
                return {"report": self.tools.report_end(int(status)), "variables": self.describe(directory)}
        return None

    def describe(self, directory):
        """The effect of a call, as the answer tells it: its new directory."""
        changed = []
        if directory != self.directory:
            changed.append({"name": "PWD", "type": "path", "preview": directory[:200].decode("utf-8", "replace")})
            self.directory = directory
        return {"changed": changed, "removed": [], "is_complete": True}

    def recover(self, _number, cause):
        """The answer to a call in which bash has ended: for ``cause``, if that is known."""
        code = self.deaths.code_of(self.process)
        state, why = self.restart()
        how = cause or self.tools.explain_end(self.name, code)
        return {"report": self.tools.report_end(code), "state": state, "why": f"{how}: {why}"}

    def restart(self):
        """Start another bash in place of the dead one. Returns in words with which state."""
        self.process.close()
        os.close(self.script)
        is_whole = turn_of(self.last_words) >= 0
        source = self.last_words if is_whole else max(self.saved, key=turn_of)
        state, mark, _ = read_memory(source).rpartition(WHOLE) if turn_of(source) >= 0 else (b"", b"", b"")
        for memory in (*self.saved, self.last_words):
            write_memory(memory, b"")
        write_memory(self.saved[self.turn % 2], state + (mark and b"%s%d\n" % (mark, self.turn)))
        self.start()
        if is_whole:
            return "kept", "another has its variables, functions and directory, but not its jobs"
        return "rewound", "another has the variables, functions and directory from before; files are as they are"

    def settle(self, _answer):
        """Remove the call's text. Bash saves its state by itself."""
        self.tools.remove(self.text)

    def interrupt(self):
        """Interrupt the foreground programs."""
        if os.fstat(self.last_words).st_size:
            self.tools.signal_others(self.process.pid, signal.SIGINT)
        else:
            self.process.send_signal(signal.SIGINT)


def turn_of(descriptor):
    """The number of the call after which a state was saved, from its last line; -1 where it is incomplete."""
    end = os.pread(descriptor, MARK_BYTES, max(0, os.fstat(descriptor).st_size - MARK_BYTES))
    _, mark, turn = end.rpartition(WHOLE)
    return int(turn) if mark and turn.endswith(b"\n") and turn[:-1].isdigit() else -1


def read_memory(descriptor):
    """The whole content of a memory file."""
    return os.pread(descriptor, os.fstat(descriptor).st_size, 0)


def write_memory(descriptor, data):
    """Replace the content of a memory file."""
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, data, 0)
