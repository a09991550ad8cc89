"""The part of the demo about watch modes: a test runner in the sandbox runs again when a file of the workspace changes.

It needs Node, whose own runner it shows.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters

NODE = "/usr/bin/node"
"""Where commands find it."""

COMMAND = "node --test --watch"
PRICE = "export const price = (grams) => Math.floor(grams / 1000) * 2\n"
TEST = """\
import assert from "node:assert"
import test from "node:test"
import { price } from "./price.mjs"
test("what is begun of a kilogram counts whole", () => assert.equal(price(1200), 4))
"""
PATCH = """\
*** Begin Patch
*** Update File: price.mjs
@@
-export const price = (grams) => Math.floor(grams / 1000) * 2
+export const price = (grams) => Math.ceil(grams / 1000) * 2
*** End Patch
"""
MOST_LOOKS = 20


async def shown(gloveport: Sequence[str], directory: Path, state: str) -> bool | None:
    """Show it; tell whether all was as it should be. None where there is no Node."""
    if shutil.which(NODE) is None:
        return None
    root, config = directory / "watch", directory / "watch.toml"
    root.mkdir()
    root.chmod(0o755)
    config.write_text("")
    (root / "price.mjs").write_text(PRICE)
    (root / "price.test.mjs").write_text(TEST)
    server = StdioServerParameters(
        command=gloveport[0],
        args=[*gloveport[1:], "serve", "--workspace", str(root)],
        env={"GLOVEPORT_STATE": state, "GLOVEPORT_CONFIG": str(config)},
    )
    async with Client(server) as client:
        print("\n── A test runner that watches (examples/watch.py) ──")
        told = await _call(client, "exec_command", cmd=COMMAND, yield_time_ms=1000)
        failed = await _wait(client, told, "# fail ")
        print(f"  exec_command  {COMMAND}: {failed}")
        patched = await _call(client, "apply_patch", patch=PATCH)
        print(f"  apply_patch   {patched.get('summary', '').strip()}")
        passed = await _wait(client, await _look(client, told), "# fail ")
        print(f"  write_stdin   it ran again by itself: {passed}")
        await _call(client, "kill_command", command_id=told.get("command_id", ""))
    return (failed, passed) == ("# fail 1", "# fail 0")


async def _call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    return (await client.call_tool(tool, arguments)).structured_content or {}


async def _wait(client: Client, told: dict[str, Any], word: str) -> str:
    """The next line of the command that begins with this; empty where none comes."""
    for _ in range(MOST_LOOKS):
        for line in told.get("stdout", "").splitlines():
            if line.startswith(word):
                return line
        told = await _look(client, told)
    return ""


async def _look(client: Client, told: dict[str, Any]) -> dict[str, Any]:
    """What the command has said since; nothing where it has ended."""
    if "command_id" not in told:
        return {}
    return await _call(client, "write_stdin", command_id=told["command_id"], wait_for="output", yield_time_ms=500)
