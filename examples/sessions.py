"""The part of the demo about sessions: what one call leaves, the next one has; an endless loop costs nothing of it.

A program's session sees the workspace read-only; one of commands may write to it, as commands may.
"""

import base64
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

COPY = "cp {workspace}/anscombe.csv . && wc -l anscombe.csv"
PLOT = """\
import pandas, matplotlib.pyplot as plt
table = pandas.read_csv("anscombe.csv")
table.plot.scatter("x", "y")
plt.show()
"""
LOOP = "while True: pass"
LEFT = "len(table)"
PAGE = "it works"
SERVE = (
    "python3 -m http.server --bind 127.0.0.1 8000 >/tmp/log 2>&1 & until : </dev/tcp/127.0.0.1/8000; do sleep 0.1; done"
)
FETCH = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8000/page\").read().decode())'"


class Calls:
    """Calls one tool in one session, and prints a line of each call and of each answer."""

    def __init__(self, client: Client, tool: str) -> None:
        self._client = client
        self._tool = tool
        self._session = "new"

    async def call(self, shown: str, **arguments: object) -> dict[str, Any]:
        """The structured answer."""
        arguments["session"] = self._session
        told = (await self._client.call_tool(self._tool, arguments)).structured_content or {}
        session = told.get("session", {})
        self._session = session.get("id", self._session)
        said = told.get("stdout", "")
        said = (said if isinstance(said, str) else said["text"]).strip() or str(told.get("value", ""))
        print(f"  {shown}\n    {told.get('status')}, session {session.get('state', 'kept')}{said and f': {said}'}")
        return told


async def shown(gloveport: Sequence[str], directory: Path, state: str) -> bool:
    """Show it; tell whether all was as it should be."""
    root, config = directory / "sessions", directory / "sessions.toml"
    root.mkdir()
    root.chmod(0o755)
    config.write_text("")
    (root / "anscombe.csv").write_bytes(Path(__file__).with_name("anscombe.csv").read_bytes())
    (root / "page").write_text(PAGE)
    server = StdioServerParameters(
        command=gloveport[0],
        args=[*gloveport[1:], "serve", "--workspace", str(root)],
        env={"GLOVEPORT_STATE": state, "GLOVEPORT_CONFIG": str(config)},
    )
    async with Client(server) as client:
        print("\n── A session: shell, Python, and a loop without end (examples/sessions.py) ──")
        programs = Calls(client, "execute_code")
        copied = await programs.call(
            "shell   copies a table of the workspace", language="shell", code=COPY.format(workspace=root)
        )
        drawn = await programs.call("python  plots it", language="python", code=PLOT)
        picture = b""
        for one in drawn.get("artifacts", {}).get("files", ()):
            (block,) = [
                block
                for block in (await client.call_tool("read_artifact", {"uri": one["uri"]})).content
                if block.type == "image"
            ]
            picture = base64.b64decode(block.data)
            print(f"    {block.mime_type}, {len(picture)} bytes: {picture[:8]!r}…")
        looped = await programs.call(f"python  {LOOP}", language="python", code=LOOP, timeout_seconds=0.5)
        left = await programs.call(f"python  {LEFT}", language="python", code=LEFT)

        print("\n── A server that one command starts answers the next ──")
        commands = Calls(client, "exec_command")
        await commands.call(SERVE.partition(" >")[0], cmd=SERVE)
        fetched = await commands.call("fetches a page of it", cmd=FETCH)
    seen = (copied["status"], picture[:4], looped["status"], left.get("value"), fetched.get("stdout", "").strip())
    return seen == ("ok", b"\x89PNG", "timeout", 44, PAGE)
