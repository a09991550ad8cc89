"""A real server, and who calls it: an honest caller, again and again, and another one with hostile programs."""

import contextlib
import math
import os
import subprocess
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import anyio
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from bench.measure import WrongAnswer
from bench.siege.case import Case
from bench.siege.samples import Samples
from bench.subjects import GLOVEPORT

_START_SECONDS: Final = 60
_END_SECONDS: Final = 30
_PATIENCE_SECONDS: Final = 60
_PAUSE_SECONDS: Final = 0.1
_GRACE_SECONDS: Final = 4
_LATE_SECONDS: Final = 30
_LEAST_SECONDS: Final = 1.5
_UIDS: Final = 1024
_SAID: Final = 100
_HONEST: Final[tuple[tuple[str, str, Mapping[str, Any]], ...]] = (
    ("python", "execute_code", {"language": "python", "code": "print(sum(range(1000)))"}),
    ("shell", "execute_code", {"language": "shell", "code": "echo 499500"}),
    ("command", "exec_command", {"cmd": "echo 499500", "yield_time_ms": 30_000}),
)
"""What the honest caller asks, again and again; each says 499500."""


@dataclass(frozen=True, kw_only=True)
class Server:
    """One that runs. Its limits are the defaults.

    Attributes:
        uids: Those of its sandboxes, when it runs as root: no other server's, so that they can be told.
    """

    url: str
    pid: int
    workspace: Path
    uids: range


@contextlib.asynccontextmanager
async def serving(scratch: Path) -> AsyncIterator[Server]:
    """``gloveport serve`` over HTTP, with a workspace."""
    first_uid = 1_800_000_000 + os.getpid() % 100_000 * _UIDS
    workspace, config, log = scratch / "workspace", scratch / "gloveport.toml", scratch / "server.log"
    workspace.mkdir()
    config.write_text(f'[workspace]\nroot = "{workspace}"\n[sandbox]\nfirst_uid = {first_uid}\nuid_count = {_UIDS}\n')
    config.chmod(0o600)
    command = [GLOVEPORT, "serve", "--config", str(config), "--http", "--port", "0"]
    environ = {**os.environ, "GLOVEPORT_STATE": str(scratch / "state")}
    with log.open("wb") as errors:
        process = subprocess.Popen(  # noqa: ASYNC220 - nothing else goes on yet
            command, stdin=subprocess.DEVNULL, stderr=errors, env=environ
        )
    try:
        with anyio.fail_after(_START_SECONDS):
            while not (said := log.read_text()).endswith("/mcp\n"):
                if process.poll() is not None:
                    raise WrongAnswer(said)
                await anyio.sleep(0.1)
        uids = range(first_uid, first_uid + _UIDS)
        yield Server(url=said.split()[-1], pid=process.pid, workspace=workspace, uids=uids)
    finally:
        process.terminate()
        try:
            await anyio.to_thread.run_sync(process.wait, _END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise WrongAnswer(f"the server had not ended {_END_SECONDS} s after SIGTERM") from None


@dataclass(kw_only=True)
class Honest:
    """The honest caller."""

    samples: Samples
    client: Client
    _turn: anyio.Lock = field(default_factory=anyio.Lock)

    async def go_on(self) -> None:
        """Call until cancelled."""
        while True:
            for name, tool, arguments in _HONEST:
                async with self._turn:
                    await self._ask(name, tool, arguments)
                await anyio.sleep(_PAUSE_SECONDS / len(_HONEST))

    @contextlib.asynccontextmanager
    async def silenced(self) -> AsyncIterator[None]:
        """It asks nothing while this lasts."""
        async with self._turn:
            yield

    async def _ask(self, name: str, tool: str, arguments: Mapping[str, Any]) -> None:
        began = time.monotonic()
        try:
            with self.samples.timed(name):
                answer = await self.client.call_tool(tool, dict(arguments), read_timeout_seconds=_PATIENCE_SECONDS)
            said = _said(answer.structured_content)
            if said.strip() != "499500":
                self.samples.faults.append((began, f"{name}: {_told(answer)[:_SAID]}"))
        except MCPError as error:
            self.samples.faults.append((began, f"{name}: {error}"))


async def attack(client: Client, server: Server, case: Case, settings: Mapping[str, Any]) -> list[str]:
    """Let hostile runs go on for some seconds; what each said of itself in the end.

    Args:
        client: The hostile caller's.
        settings: Those of ``Case.program``.
    """
    program = case.program(**settings)
    deadline = time.monotonic() + settings["seconds"]
    said: list[str] = []
    if case.tool == "exec_command":
        (server.workspace / "hostile").write_text(program)

    async def keep_running() -> None:
        while (left := deadline - time.monotonic()) > _LEAST_SECONDS:
            seconds = left + _GRACE_SECONDS
            if case.tool == "exec_command":
                interpreter = {"python": "python3", "shell": "bash"}[case.language]
                arguments = {"cmd": f"{interpreter} hostile", "timeout_ms": math.ceil(1000 * seconds)}
                arguments["yield_time_ms"] = 30_000
            else:
                arguments = {"language": case.language, "code": program, "timeout_seconds": seconds}
            try:
                answer = await client.call_tool(case.tool, arguments, read_timeout_seconds=seconds + _LATE_SECONDS)
            except MCPError as error:
                said.append(f"FAULT no answer {_LATE_SECONDS} s after its deadline: {error}")
                return
            said.append(_told(answer))

    async with anyio.create_task_group() as tasks:
        for _ in range(case.runs):
            tasks.start_soon(keep_running)
    return said


def _said(content: Mapping[str, Any] | None) -> str:
    """The standard output in an answer of either tool."""
    output = (content or {}).get("stdout", "")
    return str(output.get("text", "") if isinstance(output, dict) else output)


def _told(answer: CallToolResult) -> str:
    """How a run ended, and the last that it said."""
    content = answer.structured_content or {}
    texts = [_said(content), str(content.get("stderr", "") or ""), str(content.get("error") or "")]
    last = [line for line in texts[0].splitlines() if line.strip()][-1:] or [" ".join(texts[1:]).strip()]
    status = content.get("status") or str(answer.content)
    return f"{status}: {last[0][:_SAID]}"
