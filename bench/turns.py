"""``python -m bench.turns``: turns and tokens that an agent needs for one task, here and with coding-tools-mcp.

Both servers are asked by a real MCP client, each about a copy of the same project from PyPI, to do what
``bench.turns_task`` says, and every answer is looked at; both copies must end in the same commit. A turn is one message
of the model, which may hold several calls that need no answer of each other. Tokens are those of o200k: what the model
is told of the tools (names, descriptions, parameters), what it writes in its calls, and what its client shows it of the
answers. ``counted`` is what a provider counts: what goes to the model in all turns, where each has again what came
before, and what it writes. The goal is of that; ``once`` has each token once, however many turns it is sent in.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Final

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult, Implementation, TextContent
from msgspec import Struct

from bench.agents import AGENTS
from bench.installed import cache, installed
from bench.measure import Unavailable, WrongAnswer
from bench.subjects import GLOVEPORT
from bench.surface import tokens
from bench.turns_task import PROJECT, SCRIPTS, Turn

GOAL: Final = 0.7
THEIRS: Final = ("coding-tools-mcp", "0.5.0")
_GOES_ON: Final = re.compile(r"""^Status: running[\s\S]*command_id=['"]([\w-]+)""")
_CLIENT: Final = Implementation(name="claude-code", version="1")
_TOLD: Final = {"name", "description", "input_schema"}
_SHOWN_BY: Final = ("Claude Code", "opencode")
"""One that shows its model the structured content of an answer, where there is any, and one that shows the text."""


class Dialogue(Struct, frozen=True):
    """What passed between a model and a server.

    Attributes:
        told: Of the tools.
        turns: The calls of each message, as they are written, with their answers.
    """

    told: str
    turns: list[list[tuple[str, CallToolResult]]]


class Count(Struct, frozen=True):
    """Of a dialogue: messages, calls, and tokens."""

    turns: int
    calls: int
    told: int
    written: int
    read: int
    sent: int
    """What goes to the model in all turns."""

    @property
    def counted(self) -> int:
        """What a provider counts."""
        return self.sent + self.written

    @property
    def once(self) -> int:
        """All of them, each once."""
        return self.told + self.written + self.read


def fetch(directory: Path) -> Path:
    """The source of the project, as its release has it.

    Raises:
        Unavailable: It can't be had.
    """
    name, version = PROJECT
    pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", name, f"{name}=={version}"]
    try:
        subprocess.run([*pip, "-d", str(directory)], check=True)
    except subprocess.CalledProcessError as error:
        raise Unavailable(f"{name} can't be had: {error}", "pip has to reach an index") from error
    return next(directory.glob("*.tar.gz"))


def prepare(project: Path, source: Path) -> None:
    """A repository of the project, and what its tests need."""
    project.mkdir()
    commands: tuple[tuple[str, ...], ...] = (
        ("tar", "xzf", str(source), "--strip-components", "1"),
        ("git", "init", "-q"),
        ("git", "config", "user.name", "bench"),
        ("git", "config", "user.email", "bench@localhost"),
        ("git", "add", "."),
        ("git", "commit", "-q", "-m", "Release"),
        (sys.executable, "-m", "venv", ".venv"),
        (".venv/bin/python", "-m", "pip", "install", "-q", "-e", ".", "pytest<9"),
    )
    (project / ".gitignore").write_text(".venv/\n__pycache__/\n*.egg-info/\n")
    for command in commands:
        subprocess.run(command, cwd=project, check=True)


async def work(server: StdioServerParameters, script: Sequence[Turn]) -> Dialogue:
    """Have an agent do the task.

    Raises:
        WrongAnswer: A call did not do what it was asked for.
    """
    with tempfile.TemporaryFile("w") as nowhere:
        async with Client(stdio_client(server, errlog=nowhere), mode="legacy", client_info=_CLIENT) as client:
            tools = (await client.list_tools()).tools
            told = [one.model_dump_json(by_alias=True, exclude_none=True, include=_TOLD) for one in tools]
            turns = [calls for turn in script async for calls in _take(client, turn)]
            return Dialogue("\n".join([*told, client.instructions or ""]), turns)


async def _take(client: Client, turn: Turn) -> AsyncIterator[list[tuple[str, CallToolResult]]]:
    """A turn, and those that wait for its commands."""

    async def ask(tool: str, arguments: dict[str, object]) -> tuple[str, CallToolResult]:
        return f"{tool} {json.dumps(arguments, ensure_ascii=False)}", await client.call_tool(tool, arguments)

    answered = [await ask(call.tool, dict(call.arguments)) for call in turn]
    yield answered
    for call, (_, answer) in zip(turn, answered, strict=True):
        said = last = _text(answer)
        while goes_on := _GOES_ON.search(last):
            waited = await ask("write_stdin", {"command_id": goes_on[1], "yield_time_ms": 30_000})
            yield [waited]
            said += (last := _text(waited[1]))
        if not re.search(call.says, said):
            raise WrongAnswer(f"{call.tool} {call.arguments}: {said[-3000:]}")


def count(dialogue: Dialogue, agent: str) -> Count:
    """What a model is shown by this client, and writes."""
    show = AGENTS[agent][1]
    calls = [call for turn in dialogue.turns for call in turn]
    each = tokens([dialogue.told, *(written for written, _ in calls), *(show(answer) for _, answer in calls)])
    told, written, read = each[0], each[1 : 1 + len(calls)], each[1 + len(calls) :]
    context, sent, done = told, 0, 0
    for turn in dialogue.turns:
        sent += context
        context += sum(written[done : done + len(turn)]) + sum(read[done : done + len(turn)])
        done += len(turn)
    return Count(len(dialogue.turns), len(calls), told, sum(written), sum(read), sent)


def _text(answer: CallToolResult) -> str:
    return "\n".join(block.text for block in answer.content if isinstance(block, TextContent))


def _servers(program: str, scratch: Path) -> tuple[StdioServerParameters, StdioServerParameters]:
    """Gloveport, and the other: each with its defaults, but for what the latter tells its makers."""
    config = scratch / "gloveport.toml"
    config.write_text("")
    arguments = ["serve", "--config", str(config), "--workspace", str(scratch / "ours"), "--toolsets", "workspace"]
    ours = {**os.environ, "GLOVEPORT_STATE": str(scratch / "state")}
    silence = {"CODING_TOOLS_MCP_TELEMETRY": "off", "DO_NOT_TRACK": "1"}
    theirs = {**os.environ, **silence, "CODING_TOOLS_MCP_RUNTIME_ROOT": str(scratch / "runtime")}
    return (
        StdioServerParameters(command=GLOVEPORT, args=arguments, env=ours),
        StdioServerParameters(command=program, args=["--stdio", "--workspace", str(scratch / "theirs")], env=theirs),
    )


async def compare(way: str, program: str, source: Path) -> tuple[Dialogue, Dialogue]:
    """Do it with Gloveport and with the other, each in a new copy.

    Raises:
        WrongAnswer: A call did not do its work, or the copies are not the same in the end.
    """
    # Not in /tmp: commands of Gloveport see such a workspace elsewhere, and an environment names its own place.
    with tempfile.TemporaryDirectory(prefix="turns-", dir=cache()) as directory:
        scratch = Path(directory)
        dialogues, trees = [], set()
        for name, server, script in zip(("ours", "theirs"), _servers(program, scratch), SCRIPTS[way], strict=True):
            prepare(scratch / name, source)
            dialogues.append(await work(server, script))
            tree = ["git", "-C", str(scratch / name), "rev-parse", "HEAD^{tree}"]
            trees.add((await anyio.run_process(tree)).stdout)
        if len(trees) > 1:
            raise WrongAnswer("the copies differ in the end")
        ours, theirs = dialogues
        return ours, theirs


async def main() -> None:
    """See the module."""
    program = await installed(*THEIRS, THEIRS[0])
    row = "{:26}{:>6}{:>6}{:>7}{:>9}{:>7}{:>8}{:>9}"
    print(row.format("", "turns", "calls", "told", "written", "read", "once", "counted"))
    with tempfile.TemporaryDirectory(prefix="gloveport-turns-") as directory:
        source = fetch(Path(directory))
        for way in SCRIPTS:
            dialogues = await compare(way, program, source)
            for agent in _SHOWN_BY:
                print(f"{way}, as {agent} shows it")
                ours, theirs = (count(dialogue, agent) for dialogue in dialogues)
                for who, one in (("Gloveport", ours), (" ".join(THEIRS), theirs)):
                    used = (one.turns, one.calls, one.told, one.written, one.read, one.once, one.counted)
                    print(row.format(f"  {who}", *used))
                ratios = (ours.turns / theirs.turns, ours.counted / theirs.counted, ours.once / theirs.once)
                text = "  turns {:.2f}, tokens {:.2f} (wanted: {}); each once {:.2f}"
                print(text.format(*ratios[:2], GOAL, ratios[2]), flush=True)


if __name__ == "__main__":
    try:
        anyio.run(main)
    except Unavailable as error:
        print(*error.args, sep="\nhint: ", file=sys.stderr)
        sys.exit(1)
