"""A client of MCP over standard streams that is as small as one can be: what it takes itself is next to nothing.

It blocks, so nothing else goes on in this process while a server works for it.
"""

import contextlib
import json
import os
import select
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.measure import WrongAnswer

_PROTOCOL = "2025-11-25"
_PATIENCE_SECONDS = 60
_END_SECONDS = 20
_PIPE = 1 << 20


class LineClient:
    """The near end of one server."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid = process.pid
        self._in, self._out = process.stdin.fileno(), process.stdout.fileno()
        self._asked = 0
        self._came = bytearray()

    def call(self, tool: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call a tool: its structured content.

        Raises:
            WrongAnswer: It gives none, or says that it has failed.
        """
        answer = self.ask("tools/call", {"name": tool, "arguments": arguments})
        told = answer.get("result", {})
        if told.get("isError") or "structuredContent" not in told:
            raise WrongAnswer(f"{tool}: {json.dumps(answer)[:1000]}")
        content: dict[str, Any] = told["structuredContent"]
        return content

    def ask(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and wait for its answer. What else comes is passed over."""
        self._asked += 1
        self._send({"jsonrpc": "2.0", "id": self._asked, "method": method, "params": params})
        while True:
            message: dict[str, Any] = json.loads(self._line())
            if message.get("id") == self._asked:
                return message

    def greet(self) -> None:
        """Shake hands."""
        client = {"name": "mcp", "version": "1"}  # a program, which gets structured content
        self.ask("initialize", {"protocolVersion": _PROTOCOL, "capabilities": {}, "clientInfo": client})
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _send(self, message: Mapping[str, Any]) -> None:
        left = memoryview(json.dumps(message).encode() + b"\n")
        while left:
            left = left[os.write(self._in, left) :]

    def _line(self) -> bytes:
        while (end := self._came.find(b"\n")) < 0:
            if not select.select([self._out], [], [], _PATIENCE_SECONDS)[0]:
                raise WrongAnswer(f"a server gave no answer within {_PATIENCE_SECONDS} s")
            came = os.read(self._out, _PIPE)
            if not came:
                raise WrongAnswer("a server has ended")
            self._came += came
        line = bytes(self._came[:end])
        del self._came[: end + 1]
        return line


@contextlib.contextmanager
def connected(command: Sequence[str], variables: Mapping[str, str], log: Path) -> Iterator[LineClient]:
    """A server that was started and greeted. On leaving it is ended.

    Args:
        variables: What its environment holds besides ours.
        log: Where its standard error goes.

    Raises:
        WrongAnswer: It has not started; the end of its log says why.
    """
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env={**os.environ, **variables},
            bufsize=0,
        ) as process,
    ):
        client = LineClient(process)
        try:
            client.greet()
            yield client
        except (WrongAnswer, BrokenPipeError) as error:
            raise WrongAnswer(f"{error}\n{log.read_text(errors='replace')[-1000:]}") from error
        finally:
            process.stdin.close()  # type: ignore[union-attr] - a pipe, see above
            try:
                process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
