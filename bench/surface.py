"""``python -m bench.surface``: what a client loads of Gloveport, against what it would load of the servers behind it.

All names, descriptions, schemas and instructions, in tokens of the o200k vocabulary. Exits with 1 when ours are more
than 1,500, or the count can't be made.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
from mcp import Client, StdioServerParameters, stdio_client

from bench.subjects import GLOVEPORT

MOST: Final = 1500

_NPM = Path(__file__).parents[1] / "tests/npm"
_SERVERS = {
    "everything": ["mcp-server-everything"],
    "files": ["mcp-server-filesystem", "/tmp"],
    "memory": ["mcp-server-memory"],
}


async def loaded(server: StdioServerParameters) -> str:
    """All that a client loads of a server before it asks for anything."""
    with tempfile.TemporaryFile("w") as nowhere:
        async with Client(stdio_client(server, errlog=nowhere)) as client:
            tools = (await client.list_tools()).tools
            templates = (await client.list_resource_templates()).resource_templates if _is_ours(server) else []
            texts = [one.model_dump_json(by_alias=True, exclude_none=True) for one in (*tools, *templates)]
            return "\n".join([*texts, client.instructions or ""])


def _is_ours(server: StdioServerParameters) -> bool:
    return server.command == GLOVEPORT


def tokens(texts: list[str]) -> list[int]:
    """How many each text costs."""
    counted = subprocess.run(
        ["node", "count.mjs"], input=json.dumps(texts), cwd=_NPM, capture_output=True, text=True, check=True
    )
    return [int(number) for number in json.loads(counted.stdout)]


async def main() -> int:
    """See the module."""
    if not (_NPM / "node_modules").exists():
        print("the servers and the tokenizer are not installed\nhint: install npm, then make setup", file=sys.stderr)
        return 1
    commands = {name: [str(_NPM / "node_modules/.bin" / tool), *rest] for name, (tool, *rest) in _SERVERS.items()}
    naive = [
        await loaded(StdioServerParameters(command=command, args=arguments))
        for command, *arguments in commands.values()
    ]
    with tempfile.TemporaryDirectory(prefix="gloveport-surface-") as directory:
        config = Path(directory, "gloveport.toml")
        config.write_text(  # noqa: ASYNC240 - nothing else goes on
            "".join(f"[servers.{name}]\ncommand = {json.dumps(command)}\n" for name, command in commands.items())
        )
        environ = {"GLOVEPORT_STATE": f"{directory}/state"}
        arguments = ["serve", "--config", str(config)]
        ours = await loaded(StdioServerParameters(command=GLOVEPORT, args=arguments, env=environ))
    *each, own = tokens([*naive, ours])
    for name, number in zip(commands, each, strict=True):
        print(f"{number:6}  {name}, loaded as it is")
    print(f"{sum(each):6}  all of them")
    print(f"{own:6}  Gloveport with all of them behind it; at most {MOST}")
    return 0 if own <= MOST else 1


if __name__ == "__main__":
    sys.exit(anyio.run(main))
