"""Runs the Deno of a session, for TypeScript and JavaScript: see ``deno/session.mjs``, which runs in it.

    supervisor → deno   a line of JSON, the call's message with the ``path`` of its text instead of the text
    deno → supervisor   a line of JSON, ``{"call": n, "report", "variables"}``

Both lines go over pipes without a name, once Deno has opened them. Nobody can fork a Deno, so there is no checkpoint:
where it ends, its variables are lost. Standard library only.
"""

import contextlib
import json
import os
import signal
import time

TYPES_SECONDS = 10


class LastingDeno:
    """See the module.

    Attributes:
        process: Deno; None before the first call, and where it has been lost.
        calls: Numbers of the calls whose effects it has.
    """

    name = "Deno"

    def __init__(self, *, tools, deaths, settings, argv, variables, types):
        self.tools = tools
        self.deaths = deaths
        self.settings = settings
        self.argv = argv
        self.variables = variables
        self.types = types
        self.process = self.source = self.requests = None
        self.calls = ()
        self.text = ""

    def close(self):
        """Close all descriptors, in a fork that has no use for them."""
        if self.process is not None:
            self.process.close()
            os.close(self.source.descriptor)
            os.close(self.requests)

    # -- Calls -------------------------------------------------------------------------------------------------------

    def prepare(self):
        """Start a Deno if none is alive. Returns the state, and why and which calls are undone if the last one died."""
        state, why, undone = "kept", "", []
        if self.process is not None and self.process.has_ended():
            code = self.deaths.code_of(self.process)
            state, why, undone = self.lose(self.tools.explain_end(self.name, code))
        if self.process is None:
            self.start()
        return state, why, undone

    def start(self):
        """Start Deno, and give it both pipes."""
        os.makedirs(self.settings["private"], mode=0o700, exist_ok=True)
        paths = [os.path.join(self.settings["private"], name) for name in ("calls", "answers")]
        for path in paths:
            self.tools.remove(path)
            os.mkfifo(path, 0o600)
        # Opened for reading and writing, so that no open blocks, and no pipe ends when Deno does.
        self.requests, answers = (os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC) for path in paths)
        self.source = self.tools.Lines(answers)
        self.process = self.tools.start([*self.argv, *paths], self.variables, {}, {})
        self.deaths.expect(self.process)
        if self.types:
            ahead = {"call": 0, "do": "run", "language": "typescript", "name": "types.ts", "source": self.types}
            self.send({**ahead, "value_bytes": 0, "wall_seconds": TYPES_SECONDS})
            self.calls = ()

    def send(self, message):
        """Pass a call on. Raises OSError."""
        message = {**message, "until": time.time() + message["wall_seconds"]}  # Deno may have to start before that
        if message["do"] == "run":
            self.calls += (message["call"],)
            self.text = self.tools.write_text(self.settings["private"], message["name"], message.pop("source"))
            message["path"] = self.text
        os.write(self.requests, json.dumps(message).encode("ascii") + b"\n")

    def take_answer(self, number):
        """The answer to a call; None while there is none. Raises ValueError where it is malformed."""
        while (line := self.source.take()) is not None:
            answer = json.loads(line)
            if isinstance(answer, dict) and answer.get("call") == number:
                return answer
        return None

    def recover(self, _number, cause):
        """The answer to a call in which Deno has ended: for ``cause``, if that is known."""
        code = self.deaths.code_of(self.process)
        state, why, undone = self.lose(cause or self.tools.explain_end(self.name, code))
        return {"report": self.tools.report_end(code), "state": state, "why": why, "undone": undone}

    def lose(self, how):
        """Clean up after a dead Deno. Returns the state, why, and which calls are undone."""
        undone, self.calls = [*self.calls], ()
        self.close()
        self.process = None
        return "lost", f"{how}: the variables of TypeScript are gone, and nothing else", undone

    def settle(self, _answer):
        """Remove the call's text."""
        self.tools.remove(self.text)

    def interrupt(self):
        """Interrupt a call that waits. V8 itself ends one that only computes, when the call's time is over."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.process.descriptor, signal.SIGINT)
