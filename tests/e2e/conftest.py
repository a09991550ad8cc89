"""Real servers as processes of their own, and what is needed to speak to them byte by byte."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from tests import remembered
from tests.forked import Gloveport

INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "mcp", "version": "1"},  # whose programs get structured content
}


class Stdio:
    """A server on pipes, to which JSON lines are written; ``start`` starts it."""

    def __init__(self, start: Callable[..., subprocess.Popen], environ: dict[str, str]) -> None:
        pipe = subprocess.PIPE
        self.process = start(stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, **environ}, text=True)

    def send(self, method: str, params: dict, request_id: int | str | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request_id is not None:
            message["id"] = request_id
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def answer(self, request_id: int | str) -> dict:
        """The next answer to this request; what comes before it is passed over."""
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == request_id:
                return message

    def shake_hands(self) -> None:
        self.send("initialize", INITIALIZE, 0)
        self.answer(0)
        self.send("notifications/initialized", {})
        self.wait_started()

    def wait_started(self) -> None:
        """Return when calls are answered: the handshake does not wait for that. Nothing is run for it."""
        files = {"x": "base64:?"}
        arguments = {"language": "shell", "code": "", "files": files}
        self.send("tools/call", {"name": "execute_code", "arguments": arguments}, "started")
        self.answer("started")

    def execute(self, request_id: int, language: str, code: str) -> None:
        self.send("tools/call", {"name": "execute_code", "arguments": {"language": language, "code": code}}, request_id)

    def end(self, number: signal.Signals | None = None) -> tuple[int, str, str]:
        """Close the server's input, or send a signal; return exit code and what is left of its output."""
        if number is None:
            self.process.stdin.close()
            self.process.stdin = None
        else:
            self.process.send_signal(number)
        stdout, stderr = self.process.communicate(timeout=30)
        return self.process.returncode, stdout, stderr


class Served:
    """A server of streamable HTTP on a free port."""

    def __init__(self, gloveport: Gloveport, environ: dict[str, str], *arguments: str) -> None:
        pipe, environ = subprocess.PIPE, {**os.environ, **environ}
        command = ["serve", "--http", "--port", "0", *arguments]
        self.process = gloveport.start(*command, stderr=pipe, stdout=pipe, env=environ, text=True)
        self.url = self.process.stderr.readline().split()[-1]
        self.port = int(self.url.rpartition(":")[2].partition("/")[0])


@pytest.fixture(scope="session")
def nothing_waits(tmp_path_factory) -> str:
    """A configuration under which no sandbox waits ahead of need: most tests start a server for a program or two."""
    path = tmp_path_factory.mktemp("configuration") / "nothing-waits.toml"
    path.write_text("[pool]\nforked = 0\nbooted = 0\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def environ(environ, nothing_waits):
    """The environment of a server for which nothing waits."""
    with remembered.lent(Path(environ["GLOVEPORT_STATE"])):
        yield {**environ, "GLOVEPORT_CONFIG": nothing_waits}


@pytest.fixture
def stdio(gloveport, environ):
    """Start ``gloveport serve``, or another command that serves stdio."""
    started = []

    def start(*arguments: str, command: list[str] | None = None) -> Stdio:
        serve = partial(gloveport.start, "serve", *arguments) if command is None else partial(subprocess.Popen, command)
        started.append(Stdio(serve, environ))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.communicate()


@pytest.fixture
def serve(gloveport, environ):
    """Start a server with these arguments."""
    started = []

    def start(*arguments: str) -> Served:
        started.append(Served(gloveport, environ, *arguments))
        return started[-1]

    yield start
    for server in started:
        server.process.kill()
        server.process.communicate()


@pytest.fixture
def no_bubblewrap(tmp_path) -> Path:
    """A configuration for which this host has no sandbox."""
    path = tmp_path / "gloveport.toml"
    path.write_text('[sandbox]\nbubblewrap = "/nonexistent/bwrap"\n')
    return path
