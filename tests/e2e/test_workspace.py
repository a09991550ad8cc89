"""``gloveport serve --workspace``: an agent finds a failing test in a real project, repairs it and commits the repair.

Over stdio and over HTTP, by a real client; nothing but the tools is used.
"""

import contextlib
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from tests import forked

pytestmark = pytest.mark.anyio

PROJECTS = Path(__file__).parent / "projects"
OWNER = 54_321
"""For root, whose the project is: an ordinary user's."""


def git(root, *arguments):
    own = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LANG": "C.UTF-8"}
    own |= {f"GIT_{who}_{what}": "owner@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    command = ["git", "-c", "safe.directory=*", "-c", "commit.gpgsign=false", *arguments]
    return subprocess.run(command, cwd=root, env=own, check=True, capture_output=True, text=True).stdout


@dataclass(frozen=True)
class Agent:
    """A client that works in a project."""

    client: Client
    root: Path

    async def call(self, tool, **arguments):
        answer = await self.client.call_tool(tool, arguments)
        assert not answer.is_error, answer.content
        return answer.structured_content

    async def run(self, cmd):
        told = await self.call("exec_command", cmd=cmd, yield_time_ms=30_000)
        assert told["status"] == "exited", told
        return told["exit_code"], told["stdout"] + told["stderr"]

    async def commit(self, message):
        """Look at what has changed, and commit it."""
        status = await self.call("git_status")
        assert not status["clean"]
        diff = await self.call("git_diff")
        assert await self.run(f"git add -A && git commit -qm '{message}'") == (0, "")
        assert (await self.call("git_status"))["clean"]
        (last,) = (await self.call("git_log", max_count=1))["commits"]
        assert last["subject"] == message
        return [one["path"] for one in status["entries"]], diff["diff"]


@pytest.fixture
def agent(tmp_path, environ, serve):
    """``async with agent("python", …)``: a repository of its own with a commit, served to a client."""

    @contextlib.asynccontextmanager
    async def working(name, mode, transport):
        root = tmp_path / name
        shutil.copytree(PROJECTS / name, root, ignore=shutil.ignore_patterns("__pycache__"))
        git(root, "init", "-q", "-b", "main")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "the project")
        if os.geteuid() == 0:
            for path in (root, *root.rglob("*")):
                os.chown(path, OWNER, OWNER)
        arguments = ["--workspace", str(root), "--toolsets", "workspace"]
        if transport == "stdio":
            command, *words = forked.command("gloveport", "serve", *arguments)
            target = StdioServerParameters(command=command, args=words, env=environ)
        else:
            target = serve(*arguments).url
        async with Client(target, mode=mode) as client:
            yield Agent(client, root)
        owner = OWNER if os.geteuid() == 0 else os.geteuid()
        assert {path.lstat().st_uid for path in (root, *root.rglob("*"))} == {owner}
        assert git(root, "status", "--porcelain") == ""

    return working


async def test_a_test_of_a_python_project_is_found_failing_and_repaired(agent):
    """W1, W3, W4."""
    async with agent("python", "2026-07-28", "stdio") as working:
        code, said = await working.run("python3 -m unittest")
        assert code == 1
        assert "FAILED (failures=1)" in said
        (failing,) = re.findall(r"FAIL: (\w+)", said)
        (found, *_) = (await working.call("search_text", query=failing))["matches"]
        test = await working.call("read_file", path=found["path"])
        (module,) = re.findall(r"from bill\.(split) import", test["content"])
        source = await working.call("read_file", path=f"bill/{module}.py")
        assert "each for _ in range(people)" in source["content"]
        patch = """*** Begin Patch
*** Update File: bill/split.py
@@ def shares(cents: int, people: int) -> list[int]:
-    each = cents // people
-    return [each for _ in range(people)]
+    each, left = divmod(cents, people)
+    return [each + (place < left) for place in range(people)]
*** End Patch
"""
        written = await working.call("apply_patch", patch=patch)
        assert written["affected_files"][0]["match_quality"] == "exact"
        code, said = await working.run("python3 -m unittest")
        assert (code, "OK" in said) == (0, True)
        changed, diff = await working.commit("No cent is lost")
        assert changed == ["bill/split.py"]
        assert "+    each, left = divmod(cents, people)" in diff
        assert git(working.root, "log", "-1", "--format=%s %an").split() == ["No", "cent", "is", "lost", "agent"]


@pytest.mark.skipif(shutil.which("node", path="/usr/bin") is None, reason="no node where sandboxes look for one")
async def test_a_test_of_a_node_project_is_found_failing_and_repaired(agent):
    """W1, W3, W4."""
    async with agent("node", "legacy", "http") as working:
        code, said = await working.run("node --test")
        assert code == 1
        assert "# fail 1" in said
        (match,) = (await working.call("search_text", query="no dash is at an end"))["matches"]
        assert match["path"] == "test/slug.test.js"
        files = await working.call("list_files", glob="lib/*.js")
        assert [one["path"] for one in files["files"]] == ["lib/slug.js", "lib/unique.js"]
        source = await working.call("read_file", path="lib/slug.js")
        line = source["content"].splitlines().index('  return plain.replace(/[^a-z0-9]+/g, "-").slice(0, LONGEST);') + 1
        edit = {
            "op": "replace",
            "start_line": line,
            "content": '  const parts = plain.replace(/[^a-z0-9]+/g, "-").slice(0, LONGEST);\n'
            '  return parts.replace(/^-|-$/g, "");',
        }
        change = {"action": "edit", "path": "lib/slug.js", "revision": source["revision"], "edits": [edit]}
        await working.call("apply_changes", changes=[change])
        code, said = await working.run("npm test" if shutil.which("npm", path="/usr/bin") else "node --test")
        assert (code, "# fail 0" in said) == (0, True)
        changed, diff = await working.commit("No dash is at an end")
        assert changed == ["lib/slug.js"]
        assert "+  return parts.replace" in diff
