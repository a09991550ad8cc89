"""``python -m tests.projects [NAME…] [--toolchain DIRECTORY…]``: real projects by the tools of a workspace alone.

Each is unpacked, its dependencies are installed through presets, it is tested, broken, watched while it is mended, its
server is asked, and it is committed. Prints a table of seconds, and exits with 1 where something did not go through.
Not part of the tests: it takes what registries serve today. Where a host of a registry leads to an address that is not
public, a mirror of whoever runs this, that is granted as its owner would grant it. Where those of Rust, Go or Java lead
nowhere, they are led to stand-ins (``stand_ins``), and the table says so.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import anyio
import tomlkit
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import Implementation
from tests.projects.registries import addresses_of, hosts_of, mirrors
from tests.projects.stand_ins import network
from tests.projects.stand_ins.network import StandInHost

STEPS: Final = ("unpack", "refused", "install", "test", "edit", "watch", "serve", "commit")
GLOVEPORT: Final = str(Path(sys.executable).with_name("gloveport"))
SECONDS: Final = 600
_ANOTHER: Final = ["@debian"]
"""What is granted where a registry is not, but another: requests are refused then, not names unknown."""


class StepError(Exception):
    """A step did not go through."""


@dataclass
class Work:
    """Work on one project.

    Attributes:
        client: Of the server that it is done with.
        failed: Whether a step did not go through.
        seconds: What each step took.
        calls: How many calls of tools it took.
        read: How many characters of answers.
    """

    project: Mapping[str, Any]
    client: Client = field(init=False)
    failed: bool = False
    seconds: dict[str, float] = field(default_factory=dict)
    calls: int = 0
    read: int = 0

    async def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """What a tool tells."""
        answer = await self.client.call_tool(tool, arguments)
        self.calls += 1
        self.read += sum(len(getattr(block, "text", "")) for block in answer.content)
        if answer.is_error:
            raise StepError(answer.content[0].text)
        return answer.structured_content

    async def run(self, cmd: str, **more: Any) -> dict[str, Any]:
        """A command, to its end."""
        told = await self.call("exec_command", cmd=cmd, timeout_ms=SECONDS * 1000, yield_time_ms=30_000, **more)
        said = told["stdout"] + told["stderr"]
        while told["status"] == "running":
            told = await self.call("write_stdin", command_id=told["command_id"], yield_time_ms=30_000)
            said += told["stdout"] + told["stderr"]
        return {**told, "said": said}

    async def expect(self, cmd: str, says: str = "", **more: Any) -> None:
        """A command that says this; one of which nothing is expected ends well."""
        told = await self.run(cmd, **more)
        if not re.search(says, told["said"]) if says else told["exit_code"]:
            diagnostics = "".join(f"\n{one['evidence']}" for one in told.get("diagnostics", ()))
            raise StepError(f"{cmd}\nexit code {told['exit_code']}: {told['said'][-1500:]}{diagnostics}")

    async def replace(self, path: str, old: str, new: str) -> None:
        """Edit a file."""
        await self.call("edit_file", path=path, old_string=old, new_string=new)

    async def unpack(self) -> None:
        """The files, in a repository."""
        if files := self.project.get("files"):
            added = "".join(
                f"*** Add File: {path}\n" + "".join(f"+{line}\n" for line in text.strip("\n").split("\n"))
                for path, text in files.items()
            )
            await self.call("apply_patch", patch=f"*** Begin Patch\n{added}*** End Patch\n")
        await self.expect(self.project["unpack"])
        await self.expect("git add -A && git commit -qm first")

    async def refused(self) -> None:
        """What it depends on, before it is granted: the answer names the host, and the line that grants it."""
        told = await self.run(self.project["install"])
        line = f'hosts = ["{self.project["hosts"][0]}"] in [workspace]'
        diagnostics = told.get("diagnostics", ())
        if not any(self.project["refused"] in one["evidence"] and line in one["suggested_fix"] for one in diagnostics):
            raise StepError(f"exit code {told['exit_code']}: {told['said'][-1500:]}\n{diagnostics}")

    async def install(self) -> None:
        """What it depends on."""
        await self.expect(self.project["install"])

    async def test(self) -> None:
        """Its tests."""
        await self.expect(*self.project["test"])

    async def edit(self) -> None:
        """An edit that its tests notice, and another that takes it back, where nothing watches for that."""
        await self.replace(*self.project["edit"])
        await self.expect(self.project["test"][0], self.project["broken"])
        if "watch" not in self.project:
            await self._mend()
            await self.test()

    async def _mend(self) -> None:
        path, old, new = self.project["edit"]
        await self.replace(path, new, old)

    async def watch(self) -> None:
        """What watches its files runs the tests again when the edit is taken back."""
        told = await self.call("exec_command", cmd=self.project["watch"], yield_time_ms=0, tty=True)
        told = await self._until(told, self.project["broken"], told["stdout"])
        await self._mend()
        told = await self._until(told, self.project["watched"])
        await self.call("kill_command", command_id=told["command_id"], signal="KILL")

    async def _until(self, told: dict[str, Any], says: str, said: str = "") -> dict[str, Any]:
        until = time.monotonic() + SECONDS / 4
        while not re.search(says, said):
            if told["status"] != "running" or time.monotonic() > until:
                raise StepError(f"{self.project['watch']}\nhas not said {says!r}: {said[-1500:]}")
            told = await self.call("write_stdin", command_id=told["command_id"], wait_for="output")
            said += told["stdout"]
        return told

    async def serve(self) -> None:
        """A server that answers the next command of its session."""
        cmd, ask, says = self.project["serve"]
        begun = await self.run(f"{cmd} >/tmp/served 2>&1 &", session="new")
        until = f"for i in $(seq 100); do {ask} && break; sleep 0.2; done || cat /tmp/served"
        await self.expect(until, re.escape(says), session=begun["session"]["id"])

    async def commit(self) -> None:
        """What has changed."""
        await self.expect("echo done > DONE && git add -A && git commit -qm second && git log --oneline", "second")


def has_step(project: Mapping[str, Any], step: str) -> bool:
    """Whether it is done with this project."""
    return step in project or step == "commit"


@cache
def counts_memory() -> bool:
    """Whether sandboxes are in cgroups here, by what ``gloveport doctor`` says."""
    with tempfile.NamedTemporaryFile(suffix=".toml") as config:
        command = [GLOVEPORT, "doctor", "--json", "--config", config.name]
        layers = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=False).stdout)
    return {layer["name"]: layer["state"] for layer in layers}["cgroups"] == "enforced"


async def work_on(
    project: Mapping[str, Any], directory: Path, toolchains: Sequence[str], host: StandInHost | None
) -> Work:
    """Do all of it; what went wrong is told, and the work returned as it stood."""
    work = Work(project)
    (directory / "project").mkdir()
    servers = [(project.get("hosts", []), STEPS)]
    if "refused" in project:
        servers = [([], ("unpack", "refused")), (_ANOTHER, ("refused",)), (project["hosts"], STEPS[2:])]
    for hosts, steps in servers:
        async with _serving(project, directory, hosts, toolchains, host) as work.client:
            await _take(work, steps)
        if work.failed:
            break
    return work


@contextlib.asynccontextmanager
async def _serving(
    project: Mapping[str, Any], directory: Path, hosts: list[str], toolchains: Sequence[str], host: StandInHost | None
) -> AsyncIterator[Client]:
    """A client of a server that grants these hosts to commands."""
    config = directory / "gloveport.toml"
    memory = "4GiB" if "addresses" not in project or counts_memory() else project["addresses"]
    workspace = {"hosts": hosts, "mode": "trusted", "toolchains": [*toolchains], "limits": {"memory_bytes": memory}}
    config.write_text(tomlkit.dumps({"workspace": workspace, "api": mirrors(project)}))
    config.chmod(0o600)
    root, enter, environ = str(directory / "project"), host.enter if host else (), host.environ if host else {}
    command = [*enter, GLOVEPORT, "serve", "--config", str(config), "--workspace", root, "--toolsets", "workspace"]
    environ = {**os.environ, "GLOVEPORT_STATE": str(directory / "state"), **environ}
    server = StdioServerParameters(command=command[0], args=command[1:], env=environ)
    # A name whose programs get structured content.
    async with Client(stdio_client(server), client_info=Implementation(name="mcp", version="1")) as client:
        yield client


async def _take(work: Work, steps: Sequence[str]) -> None:
    for step in steps:
        if has_step(work.project, step):
            began = time.monotonic()
            try:
                await getattr(work, step)()
            except StepError as error:
                print(f"\n{work.project['name']}, {step}: {error}\n", file=sys.stderr)
                work.seconds[step], work.failed = -1.0, True
                return
            work.seconds[step] = work.seconds.get(step, 0.0) + time.monotonic() - began


def cell(work: Work, step: str) -> str:
    """What the table says of a step."""
    if not has_step(work.project, step):
        return "-"
    seconds = work.seconds.get(step)
    return "" if seconds is None else "FAILED" if seconds < 0 else f"{seconds:.1f} s"


def _exists(pattern: str) -> bool:
    return any(Path("/").glob(pattern.removeprefix("/")))


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.projects")
    parser.add_argument("names", nargs="*", help="projects or languages; all by default")
    parser.add_argument(
        "--toolchain", action="append", default=[], help="a directory that commands see, as in toolchains"
    )
    asked = parser.parse_args()
    every = tomllib.loads(Path(__file__).with_name("projects.toml").read_text())["projects"]
    path = os.pathsep.join([*(f"{one}/bin" for one in asked.toolchain), os.environ.get("PATH", "")])
    wanted = [one for one in every if not asked.names or {one["name"], one["language"]} & {*asked.names}]
    row = "{:<16}{:<12}" + "{:>10}" * len(STEPS) + "{:>7}{:>9}"
    print(row.format("project", "language", *STEPS, "calls", "read"))
    failed = False
    for project in wanted:
        unknown = [one for one in hosts_of(project) if not addresses_of(one)]
        lacking = [one for one in project["needs"] if shutil.which(one, path=path) is None]
        lacking += [one for one in project.get("paths", ()) if not _exists(one)]
        if unknown and "stand_in" in project:
            lacking += [*network.lacking(), *(one for one in project["stand_in"] if not _exists(one))]
        else:
            lacking += unknown
        if lacking:
            print(f"{project['name']:<16}{project['language']:<12}  not tried: no {', '.join(lacking)} here")
            continue
        note = "  stand-in registry" if unknown else ""
        if "watcher" in project and shutil.which(project["watcher"], path=path) is None:
            project.pop("watch")
            note += f"  no {project['watcher']}"
        with contextlib.ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gloveport-projects-")))
            directory.chmod(0o755)
            host = stack.enter_context(network.stand_in_host(directory / "stand-in")) if unknown else None
            work = anyio.run(work_on, project, directory, asked.toolchain, host)
        failed = failed or work.failed
        cells = [cell(work, step) for step in STEPS]
        print(row.format(project["name"], project["language"], *cells, work.calls, work.read) + note, flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
