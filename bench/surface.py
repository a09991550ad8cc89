"""``python -m bench.surface``: what a client loads of Gloveport, against what it would load of the servers behind it.

All names, descriptions, schemas and instructions; and then what the models of four agents read of the answers to ten
ordinary calls. In tokens of the o200k vocabulary. Exits with 1 when ours are more than 2,000, an agent's answers more
than their budget, or the count can't be made.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import Implementation

from bench import agents
from bench.subjects import GLOVEPORT

MOST: Final = 2000
MOST_OF_ANSWERS: Final = 600
"""That any agent's model reads of all ten."""

_AGENT: Final = Implementation(name="claude-code", version="1")

_NPM = Path(__file__).parents[1] / "tests/npm"
_SERVERS = {
    "everything": ["mcp-server-everything"],
    "files": ["mcp-server-filesystem", "/tmp"],
    "memory": ["mcp-server-memory"],
}


async def loaded(server: StdioServerParameters) -> str:
    """All that a client loads of a server before it asks for anything."""
    with tempfile.TemporaryFile("w") as nowhere:
        async with Client(stdio_client(server, errlog=nowhere), client_info=_AGENT) as client:
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
    read = await answers()
    return 0 if own <= MOST and read <= MOST_OF_ANSWERS else 1


async def answers() -> int:
    """Print what each agent's model reads of ten ordinary calls; how much that is where it is most."""
    table: dict[str, list[int]] = {}
    with tempfile.TemporaryDirectory(prefix="gloveport-answers-") as directory:
        config, workspace = Path(directory, "gloveport.toml"), Path(directory, "workspace")
        config.write_text('[workspace]\nmode = "dangerous"\n[pool]\nforked = 1\nbooted = 1\n')  # noqa: ASYNC240
        workspace.mkdir()  # noqa: ASYNC240
        environ = {"GLOVEPORT_STATE": f"{directory}/state"}
        arguments = ["serve", "--config", str(config), "--workspace", str(workspace)]
        server = StdioServerParameters(command=GLOVEPORT, args=arguments, env=environ)
        for agent in agents.AGENTS:
            agents.prepare(workspace)
            table[agent] = tokens([text async for text in agents.shown(server, agent)])
    print("\nWhat a model reads of an answer:\n" + " ".join(f"{agent:>12}" for agent in table))
    for number, (what, _, _) in enumerate(agents.CALLS):
        print(" ".join(f"{column[number]:12}" for column in table.values()), what, sep="  ")
    sums = [sum(column) for column in table.values()]
    print(" ".join(f"{number:12}" for number in sums), f"all of them; at most {MOST_OF_ANSWERS}", sep="  ")
    return max(sums)


if __name__ == "__main__":
    sys.exit(anyio.run(main))
