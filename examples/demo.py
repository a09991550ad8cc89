"""The main job, shown: an MCP client starts Gloveport over stdio and asks for programs.

Two of them call an HTTPS API that demands a key: one honestly, one to steal it. Two call other MCP servers:
one joins what two of them know, one deletes something, for which it has to be approved. Then a second server has
sessions beside a workspace, a third builds an environment of packages, and a fourth has a repository, in which a
failing test is repaired. Prints what was asked, what
came back, and what the audit log says.
Exits non-zero when anything is not as it should be.
"""

import os
import signal

signal.signal(signal.SIGINT, lambda *_: os._exit(130))  # while modules are imported: nothing has begun

import base64
import json
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

import anyio
import api
import packages
import repair
import sessions
import upstream
import watch
from mcp import Client, StdioServerParameters

import skills
from gloveport.egress.transport.ca import CertificateAuthority

EXAMPLES = Path(__file__).parent
PROGRAMS = [
    ("A data analysis over a CSV file the operator mounted", "python", "analyse.py"),
    ("A chart, which comes back as a picture", "python", "plot.py"),
    ("A TypeScript program", "typescript", "words.ts"),
    ("A program that tries to break out", "shell", "escape.sh"),
    ("A program that calls an API, and shows all that it can see", "python", "forecast.py"),
    ("A program that wants the API's key", "python", "steal.py"),
]
GLOVEPORT = [str(Path(sys.executable).with_name("gloveport"))]
CONFIGURATION = """\
[[policy.mounts]]
source = "{data}"
target = "/data"

[api.weather]
description = "Weather forecasts"
hosts = ["weather.example:{port}"]
addresses = ["127.0.0.1"]      # of the demo's own server: there is no such host
ca_file = "{ca}"
auth = [{{kind = "bearer", secret = "env:DEMO_KEY"}}]

[api.other]
description = "Another server, which gets no key"
hosts = ["other.example:{other}"]
addresses = ["127.0.0.1"]
ca_file = "{ca}"
"""


async def show(client: Client, title: str, language: str, name: str, places: str) -> dict:
    """Ask for one program and print what came back."""
    code = (EXAMPLES / name).read_text()
    if "API" in code:
        code = places + code
    answer = await client.call_tool("execute_code", {"language": language, "code": code})
    result = answer.structured_content
    print(f"\n── {title} (examples/{name}) ──")
    for stream in ("stdout", "stderr"):
        for line in result.get(stream, {}).get("text", "").splitlines():
            print(f"  {stream}  {line}")
    print(f"  status  {result['status']}" + (f"   value  {result['value']}" if "value" in result else ""))
    for request in result.get("requests", ()):
        print(f"  asked   {request['method']} {request['url']}: {request.get('code') or request.get('status')}")
    for one in result.get("artifacts", {}).get("files", ()):
        await show_artifact(client, one)
    usage = result["usage"]
    peak = usage.get("peak_memory_bytes")
    print(f"  used    {usage['wall_ms']} ms" + (f", {peak / 2**20:.1f} MiB at most" if peak else ""))
    return result


async def show_artifact(client: Client, one: dict) -> None:
    """Read a file that a program has left, and print what came."""
    answer = await client.call_tool("read_artifact", {"uri": one["uri"]})
    for block in answer.content:
        if block.type == "image":
            one["picture"] = base64.b64decode(block.data)
            print(f"  came    {block.mime_type}, {len(one['picture'])} bytes")
        else:
            print(f"  left    {block.text}")


def log_in(directory: Path) -> str:
    """The whole audit log."""
    return "".join(file.read_text() for file in directory.glob("*.jsonl"))


async def main() -> int:
    """See the module."""
    authority, key = CertificateAuthority(), f"demo-key-{secrets.token_hex(12)}"
    with (
        tempfile.TemporaryDirectory(prefix="gloveport-demo-", dir="/var/tmp") as directory,
        api.served(authority.context("weather.example"), key) as weather,
        api.served(authority.context("other.example"), key) as other,
    ):
        data, ca = Path(directory) / "data", Path(directory) / "ca.pem"
        data.mkdir()
        (data / "anscombe.csv").write_bytes((EXAMPLES / "anscombe.csv").read_bytes())
        ca.write_text(authority.certificate)
        for place in (Path(directory), data):
            place.chmod(0o755)
        ports = {"port": weather.server_port, "other": other.server_port}
        config = Path(directory) / "gloveport.toml"
        config.write_text(CONFIGURATION.format(data=data, ca=ca, **ports))
        others = upstream.Upstream(Path(directory)) if upstream.is_installed() else None
        if others is not None:
            config.write_text(config.read_text() + others.configuration)
        places = "API, OTHER = 'weather.example:{port}', 'other.example:{other}'; ".format(**ports)
        server = StdioServerParameters(
            command=GLOVEPORT[0],
            args=[*GLOVEPORT[1:], "serve", "--config", str(config)],
            env={"GLOVEPORT_STATE": f"{directory}/state", "DEMO_KEY": key},
        )
        async with Client(server) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            print(f"An MCP client over stdio, protocol {client.protocol_version}; tools: {', '.join(tools)}")
            results = [await show(client, *program, places) for program in PROGRAMS]
            joined = await upstream.shown(client, others, GLOVEPORT, f"{directory}/state") if others else None
        watched = await watch.shown(GLOVEPORT, Path(directory), f"{directory}/state")
        lasting = await sessions.shown(GLOVEPORT, Path(directory), f"{directory}/state")
        kept = await skills.shown(GLOVEPORT, Path(directory), f"{directory}/state")
        repaired = await repair.shown(GLOVEPORT, Path(directory), f"{directory}/state") if shutil.which("git") else None
        packed = await packages.shown(GLOVEPORT, Path(directory), f"{directory}/state")
        print("\n── What was written down ──")
        for command in (["tail", "-n", "8"], ["verify"]):
            asked = [*GLOVEPORT, "audit", *command, "--directory", f"{directory}/state/audit"]
            audit = await anyio.run_process(asked, check=False)
            print(audit.stdout.decode(), end="")
        written = log_in(Path(directory, "state/audit"))
    analysis, chart, words, escape, forecast, steal = results
    as_expected = (
        analysis["value"]["I"]["correlation"] == 0.816
        and chart["status"] == "ok"
        and chart["artifacts"]["files"][0].pop("picture", b"").startswith(b"\x89PNG")
        and words["value"]["the"] == 3
        and escape["status"] == "error"
        and "stdout" not in escape
        and forecast["value"]["forecast"] == "sunny"
        and steal["status"] == "ok"
        and steal["value"] == []
        and key not in json.dumps(results) + written + str(other.seen)
        and any(key in str(headers) for headers in weather.seen)
        and audit.returncode == 0
        and lasting
        and kept
        and watched is not False
        and packed is not False
        and joined is not False
        and repaired is not False
    )
    if as_expected:
        print(
            "\nThe honest programs ran, one of them by a key that it has not seen. Of nine attempts to break out and"
            "\nfive to steal the key none succeeded. All is written down, but for the key."
        )
        if joined:
            print("What destroys has waited for its owner.")
        else:
            print("The part with other MCP servers was left out: it needs npm.\nhint: sudo apt-get install npm")
        if not watched:
            print("The part with a watch mode was left out: it needs Node.\nhint: sudo apt-get install nodejs")
        if packed is None:
            print("The part with packages was left out: the index of packages can't be reached.")
        if not repaired:
            print("The part with a repository was left out: it needs git.\nhint: sudo apt-get install git")
    else:
        print("\nNOT as it should be.")
    return 0 if as_expected else 1


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sys.exit(anyio.run(main))
    except KeyboardInterrupt:
        sys.exit(130)
