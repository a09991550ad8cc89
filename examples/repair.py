"""The part of the demo about a workspace: a failing test is found, patched and passes, through the tools alone.

The repository is a hostile one: its configuration names a program that git would start to ask what has changed.
"""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

PRICE = '''\
"""What a parcel costs, in cents."""

BASE, PER_KILOGRAM = 500, 120


def price(grams):
    """The price of a parcel; what is begun of a kilogram counts whole."""
    return BASE + PER_KILOGRAM * (grams // 1000)
'''
TEST = """\
import unittest

from price import price


class Prices(unittest.TestCase):
    def test_what_is_begun_of_a_kilogram_counts_whole(self):
        self.assertEqual(price(1001), 740)
"""
PATCH = """\
*** Begin Patch
*** Update File: price.py
@@ def price(grams):
-    return BASE + PER_KILOGRAM * (grams // 1000)
+    return BASE + PER_KILOGRAM * -(-grams // 1000)
*** End Patch
"""
GIT = ("git", "-c", "user.name=demo", "-c", "user.email=demo@localhost")


def repository(directory: Path) -> list[Path]:
    """Make it. What git starts leaves these files behind, in it and beside it."""
    traces = [directory / "fsmonitor-was-here", directory.parent / "fsmonitor-was-here"]
    directory.mkdir()
    (directory / "price.py").write_text(PRICE)
    (directory / "test_price.py").write_text(TEST)
    (directory / ".gitignore").write_text("__pycache__/\n")
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "Prices of parcels"]):
        subprocess.run([*GIT, *arguments], cwd=directory, check=True, process_group=0)
    monitor = directory / ".git/monitor"
    monitor.write_text(f"#!/bin/sh\ntouch {' '.join(map(str, traces))}\n")
    monitor.chmod(0o755)
    subprocess.run([*GIT, "config", "core.fsmonitor", str(monitor)], cwd=directory, check=True, process_group=0)
    return traces


class Tools:
    """Calls tools, and prints a line of each."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """The structured answer."""
        result = await self._client.call_tool(tool, arguments)
        return result.structured_content or {}

    async def test(self) -> int:
        """Run the tests of the repository: their exit code."""
        told = await self.call("exec_command", cmd="python3 -m unittest -q")
        last = told["stderr"].strip().splitlines()
        said = next((line for line in last if line.startswith("AssertionError")), "")
        print(f"  exec_command  python3 -m unittest: {last[-1]}{said and f' ({said})'}, {told['elapsed_ms']} ms")
        return int(told["exit_code"])


async def shown(gloveport: Sequence[str], directory: Path, state: str) -> bool:
    """Show it; tell whether all was as it should be."""
    root = directory / "parcels"
    traces = repository(root)
    server = StdioServerParameters(
        command=gloveport[0],
        args=[*gloveport[1:], "serve", "--workspace", str(root), "--toolsets", "workspace"],
        env={"GLOVEPORT_STATE": state, "GLOVEPORT_CONFIG": str(_empty(directory))},
    )
    print("\n── A test that fails, in a repository of somebody else's (examples/repair.py) ──")
    async with Client(server) as client:
        tools = Tools(client)
        before = await tools.test()
        found = (await tools.call("search_text", query="def price"))["matches"][0]
        print(f"  search_text   {found['path']}:{found['line']}: {found['preview']}")
        read = await tools.call("read_file", path=found["path"], start_line=found["line"])
        print(f"  read_file     {read['content'].splitlines()[-1].strip()}")
        patched = await tools.call("apply_patch", patch=PATCH)
        print(f"  apply_patch   {patched['summary'].strip()} (+{patched['additions']} -{patched['removals']})")
        after = await tools.test()
        changed = [entry["path"] for entry in (await tools.call("git_status"))["entries"]]
        lines = (await tools.call("git_diff"))["diff"].splitlines()
        print(f"  git_status    changed: {', '.join(changed)}")
        for line in lines:
            if line.startswith(("-  ", "+  ")):
                print(f"  git_diff      {line}")

        print("\n── A command that destroys ──")
        refused = (await tools.call("exec_command", cmd="git reset --hard")).get("error", {})
        print(f"  exec_command  git reset --hard: {refused.get('code')}")
        for reason in refused.get("details", {}).get("reasons", ()):
            print(f"    {reason['permission']}: {reason['why']}\n    instead: {reason['instead']}")
        print(f"    {refused.get('details', {}).get('retry_hint')}")

    started = [trace for trace in traces if trace.exists()]
    print("\n── What a program of the repository did, which git starts to ask what has changed (core.fsmonitor) ──")
    print(f"  here          {', '.join(map(str, started)) or 'nothing: it was never started'}")
    await anyio.run_process([*GIT, "status"], cwd=root)
    would = all(trace.exists() for trace in traces)
    print(f"  elsewhere     git status, outside of Gloveport: {'it ran, and wrote two files' if would else 'nothing'}")
    kept = "-(-grams // 1000)" in (root / "price.py").read_text()
    seen = (before, after, changed, refused.get("code"), kept, started, would)
    return seen == (1, 0, ["price.py"], "PERMISSION_REQUIRED", True, [], True)


def _empty(directory: Path) -> Path:
    """A configuration that says nothing: that of whoever runs the demo shall not count."""
    file = directory / "empty.toml"
    file.write_text("")
    return file
