"""The part of the demo about packages: environments from the index, packages that a program asks for, a typo-squat.

The indexes are those of this user's own uv or pip, and npm. Where one can't be reached, nothing is shown.
"""

import ipaddress
import json
import os
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters

from gloveport.environments.indexes import find_indexes
from gloveport.environments.registries import find_registries

CONFIGURATION = """\
[environments.small]
python = ["six", "humanize", "tabulate"]

[environments.checks]
npm = ["zod"]

[packages]
ask = ["*"]
"""
IN_AN_ENVIRONMENT = """\
import humanize, six, tabulate
print(tabulate.tabulate([["a gigabyte", humanize.naturalsize(10**9)]]))
"""
IN_TYPESCRIPT = """\
import { z } from "zod";
z.object({ size: z.coerce.number() }).parse({ size: "3" })
"""
ASKS = """\
# /// script
# dependencies = ["python-slugify"]
# ///
import slugify
slugify.slugify("Ask first, then install")
"""
SQUATS = """\
# /// script
# dependencies = ["reqeusts"]
# ///
import reqeusts
"""


async def shown(gloveport: Sequence[str], directory: Path, state: str) -> bool | None:
    """Show it; tell whether all was as it should be, or None where the index can't be reached."""
    print("\n── Packages: an environment, packages that a program asks for, a typo-squat (examples/packages.py) ──")
    config, places = directory / "packages.toml", _find_places(_list_hosts())
    if places is None:
        return None
    config.write_text(CONFIGURATION + places)
    # What its own uv, pip and npm are configured with, the server looks up as they do.
    server = StdioServerParameters(
        command=gloveport[0],
        args=[*gloveport[1:], "serve", "--config", str(config)],
        env={**os.environ, "GLOVEPORT_STATE": state},
    )
    async with Client(server) as client:
        built = await _call(client, "execute_code", language="python", code=IN_AN_ENVIRONMENT, environment="small")
        if built.get("error", {}).get("type") == "packages_unresolved":
            return None
        checked = await _call(client, "execute_code", language="typescript", code=IN_TYPESCRIPT, environment="checks")
        asked = await _call(client, "execute_code", language="python", code=ASKS)
        for command in (["list"], ["approve", "--yes", *asked.get("approvals", ())]):
            print(f"  $ gloveport approvals {' '.join(command)}")
            environ = {**os.environ, "GLOVEPORT_STATE": state}
            answer = await anyio.run_process([*gloveport, "approvals", *command], env=environ, check=False)
            print("".join(f"    {line}\n" for line in (answer.stdout + answer.stderr).decode().splitlines()), end="")
        ended = await _call(client, "wait_run", run_id=asked["run_id"])
        squatted = await _call(client, "execute_code", language="python", code=SQUATS)
    return (
        "1.0 GB" in built.get("stdout", {}).get("text", "")
        and checked.get("value") == {"size": 3}
        and asked.get("status") == "waiting"
        and ended.get("value") == "ask-first-then-install"
        and squatted.get("error", {}).get("type") == "package_resembles"
    )


async def _call(client: Client, tool: str, **arguments: object) -> dict[str, Any]:
    told = (await client.call_tool(tool, {**arguments, "wait_seconds": 120})).structured_content or {}
    said = told.get("stdout", {}).get("text", "") or told.get("value") or told.get("error", {}).get("message", "")
    print(f"  {told.get('status')}  {told.get('environment', '')}")
    print("".join(f"    {line}\n" for line in str(said).splitlines()), end="")
    return told


def _list_hosts() -> tuple[str, ...]:
    return (*find_indexes((), os.environ).hosts, *find_registries(None, {}, os.environ).hosts)


def _find_places(listed: Sequence[str]) -> str | None:
    """The indexes as the owner of some that are not public grants them; nothing to say of those that are."""
    networks = []
    for host in listed:
        name, _, port = host.rpartition("://")[2].partition(":")
        try:
            found = {address[4][0] for address in socket.getaddrinfo(name, int(port or 443), socket.AF_INET)}
        except OSError:
            return None
        networks += [f"{address}/32" for address in found if not ipaddress.ip_address(address).is_global]
    if not networks:
        return ""
    hosts, rules = json.dumps(listed), '[{ action = "allow", methods = ["GET", "HEAD"] }]'
    return f"\n[api.index]\nhosts = {hosts}\nnetworks = {json.dumps(sorted(set(networks)))}\nrules = {rules}\n"
