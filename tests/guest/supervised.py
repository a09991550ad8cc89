"""A session's supervisor and its interpreters as plain processes, without walls, and the host's end of it."""

import contextlib
import json
import os
import signal
import socket
import subprocess
from pathlib import Path

from deno import find_deno_bin

GUEST = Path(__file__).parents[2] / "src/gloveport/guest"
BASH = ["/bin/bash", "--noprofile", "--norc", "/proc/self/fd/3"]
DENO = ["run", "--no-prompt", "--no-check", "--no-remote", "--no-npm", "--no-config", "--no-lock", "--allow-read"]
DENO += ["--allow-write", "--allow-net", "--allow-sys=inspector", str(GUEST / "deno/session.mjs"), "", ""]
SETTINGS = {
    "shell": {"argv": BASH, "setup": str(GUEST / "shell/session.sh")},
    "deno": {"argv": [find_deno_bin(), *DENO], "variables": {"NO_COLOR": "1"}, "types": ""},
}
SUFFIXES = {"python": "py", "shell": "sh", "typescript": "ts", "javascript": "js"}
DRIVER = f"""
import os, socket, sys
from importlib.util import module_from_spec, spec_from_file_location
spec = spec_from_file_location("init", {str(GUEST / "init.py")!r})
init = module_from_spec(spec)
spec.loader.exec_module(init)
init.TOOLS_DOOR = "NONE"
host = socket.socket(fileno=int(sys.argv[1]))
supervisor = init.load("session.supervisor", "session/supervisor.py")
settings = {{"directory": sys.argv[2], "file_bytes": 1 << 20, "private": sys.argv[3], "rlimits": {{}}}}
settings |= {{"first": "python"}} | {SETTINGS!r}
settings["shell"] |= {{"variables": {{}}, "directory": sys.argv[2]}}
supervisor.serve(host, init.load, settings, init.start_python, int(sys.argv[4]))
"""


class Session:
    """The host's end of one."""

    def __init__(self, connection, direct, process, language):
        self.connection = connection
        self.direct = direct
        self.process = process
        self.number = 0
        self.language = language

    def send(self, message):
        body = json.dumps(message).encode()
        self.connection.sendall(len(body).to_bytes(4, "big") + body)

    def receive(self):
        size = int.from_bytes(self.connection.recv(4, socket.MSG_WAITALL), "big")
        return json.loads(self.connection.recv(size, socket.MSG_WAITALL))

    def begin(self, source="", do="run", language=None, **rest):
        self.send(self.message(source, do, language, **rest))

    def message(self, source="", do="run", language=None, **rest):
        self.number += 1
        language = language or self.language
        more = {"branch": 0, "value_bytes": 4096, "heap_bytes": 64 << 20, "wall_seconds": 20}
        more |= {"language": language, "name": f"call-{self.number}.{SUFFIXES[language]}"}
        return {"call": self.number, "do": do, "source": source, **more, **rest}

    def begin_directly(self, source):
        """Call Python past the supervisor."""
        self.direct.send(json.dumps(self.message(source)).encode())

    def call_directly(self, source):
        self.begin_directly(source)
        return json.loads(self.direct.recv(1 << 16))

    def attend(self):
        """Have the supervisor attend to the call that it was passed by with; its answer."""
        self.send({"call": self.number, "branch": 0, "language": "python", "do": "attend"})
        return self.receive()

    def call(self, source="", do="run", **rest):
        self.begin(source, do, **rest)
        return self.receive()

    def value(self, source):
        answer = self.call(source)
        assert answer["report"]["error"] is None, answer
        return answer["report"]["value"]

    def kill(self):
        self.send({"kill": self.number})
        return self.receive()

    def line(self):
        """The next line of the standard output."""
        return self.process.stdout.readline().decode().removesuffix("\n")

    def wait_running(self):
        """Wait until the call that has begun says on the standard output that it runs."""
        assert self.line() == "running"

    def interrupt(self):
        """As the host does: again after a second, since a program may have begun when the first had come."""
        self.connection.settimeout(1)
        for _ in range(20):
            self.send({"interrupt": self.number})
            with contextlib.suppress(TimeoutError):
                return self.receive()
        raise TimeoutError


@contextlib.contextmanager
def open_session(tmp_path, python, language):
    """One whose supervisor runs in this Python, with this language unless a call says another."""
    ours, theirs = socket.socketpair()
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(20)
    near.settimeout(20)
    directory = tmp_path / "directory"
    directory.mkdir()
    with ours, theirs, near, far:
        arguments = [python, "-I", "-c", DRIVER, str(theirs.fileno()), str(directory), str(tmp_path / "private")]
        arguments += [str(far.fileno())]
        process = subprocess.Popen(
            arguments,
            pass_fds=[theirs.fileno(), far.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=directory,
            start_new_session=True,
        )
        theirs.close()
        far.close()
        try:
            yield Session(ours, near, process, language)
        finally:
            end(process)


def end(process):
    """Kill it with all that it has started."""
    with process.stdout, process.stderr:
        process.send_signal(signal.SIGSTOP)  # whoever loses its parent now becomes its child, and starts nothing
        while alive := [pid for pid in descendants(process.pid) if not is_dead(pid)]:
            for pid in alive:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process.kill()
        process.wait()


def descendants(pid):
    """Whatever a process has started, and what that has."""
    found = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *descendants(int(child))]
    return found


def is_dead(pid):
    """Whether nobody but its parent knows of it any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
