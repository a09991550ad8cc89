"""The part of the demo about the tools of other MCP servers: a join of two, its price in tokens, and an approval."""

import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import anyio
from mcp import Client, StdioServerParameters, stdio_client
from mcp_types import CallToolResult

EXAMPLES = Path(__file__).parent
NPM = EXAMPLES.parent / "tests/npm"
ORDERS, CUSTOMERS = 60, 20
COUNTRIES = ("Switzerland", "Portugal", "Japan", "Ghana")

CONFIGURATION = """
[servers.files]
description = "Files of the sales department"
command = ["{bin}/mcp-server-filesystem", "{orders}"]

[servers.memory]
description = "What is known of customers"
command = ["{bin}/mcp-server-memory"]
env = {{MEMORY_FILE_PATH = "{memory}"}}
"""


class Upstream:
    """Two real MCP servers with data of ours."""

    def __init__(self, directory: Path) -> None:
        self.orders, self.memory = directory / "orders", directory / "memory.jsonl"
        self.orders.mkdir()
        for number in range(ORDERS):
            order = {
                "customer": f"Customer {number % CUSTOMERS}",
                "cents": 1000 + 37 * number,
                "status": "paid" if number % 5 else "open",
                "lines": [{"article": f"A-{number}-{line}", "quantity": line + 1} for line in range(12)],
            }
            (self.orders / f"order-{number:03}.json").write_text(json.dumps(order))
        nodes = [
            {
                "type": "entity",
                "name": f"Customer {number}",
                "entityType": "customer",
                "observations": [f"country: {COUNTRIES[number % len(COUNTRIES)]}", f"since {1990 + number}"],
            }
            for number in range(CUSTOMERS)
        ]
        self.memory.write_text("".join(json.dumps(node) + "\n" for node in nodes))

    @property
    def configuration(self) -> str:
        """What says of them in a configuration of Gloveport."""
        return CONFIGURATION.format(bin=NPM / "node_modules/.bin", orders=self.orders, memory=self.memory)

    @property
    def revenue(self) -> str:
        """What the join has to find."""
        sums: Counter[str] = Counter()
        for path in sorted(self.orders.iterdir()):
            order = json.loads(path.read_text())
            if order["status"] == "paid":
                sums[COUNTRIES[int(order["customer"].split()[1]) % len(COUNTRIES)]] += order["cents"]
        return ", ".join(f"{place} {cents / 100:,.2f}" for place, cents in sums.most_common(3))

    def program(self, name: str) -> str:
        """One of the examples."""
        return f"ORDERS = {str(self.orders)!r}; {(EXAMPLES / name).read_text()}"

    @property
    def servers(self) -> list[StdioServerParameters]:
        """The same servers, for a client that connects by itself."""
        place = NPM / "node_modules/.bin"
        return [
            StdioServerParameters(command=str(place / "mcp-server-filesystem"), args=[str(self.orders)]),
            StdioServerParameters(command=str(place / "mcp-server-memory"), env={"MEMORY_FILE_PATH": str(self.memory)}),
        ]


def is_installed() -> bool:
    """Whether the servers are there, and what counts tokens."""
    return (NPM / "node_modules/.installed").exists()


def tokens(texts: Sequence[str]) -> int:
    """What they cost a model, with the o200k vocabulary."""
    counted = subprocess.run(
        ["node", "count.mjs"],
        input=json.dumps(texts),
        cwd=NPM,
        capture_output=True,
        text=True,
        check=True,
        process_group=0,  # Ctrl-C is the demo's
    )
    return sum(json.loads(counted.stdout))


async def surface(client: Client) -> list[str]:
    """All that a client loads of a server before it asks for anything."""
    listed = (await client.list_tools()).tools
    texts = [tool.model_dump_json(by_alias=True, exclude_none=True) for tool in listed]
    return [*texts, client.instructions or ""]


def text_of(result: CallToolResult) -> str:
    """What a model is shown of an answer."""
    return "\n".join(block.text for block in result.content if block.type == "text")


async def without_gloveport(upstream: Upstream) -> list[str]:
    """All that goes through a model that does the same with the two servers themselves: tools, calls, answers."""
    seen: list[str] = []
    with tempfile.TemporaryFile("w") as nowhere:
        files, memory = upstream.servers
        async with Client(stdio_client(files, errlog=nowhere)) as client:
            seen += await surface(client)
            calls = [("list_directory", {"path": str(upstream.orders)})]
            calls += [("read_text_file", {"path": str(path)}) for path in sorted(upstream.orders.iterdir())]
            for name, arguments in calls:
                seen += [name, json.dumps(arguments), text_of(await client.call_tool(name, arguments))]
        async with Client(stdio_client(memory, errlog=nowhere)) as client:
            seen += await surface(client)
            seen += ["read_graph", "{}", text_of(await client.call_tool("read_graph", {}))]
    return seen


async def shown(client: Client, upstream: Upstream, gloveport: Sequence[str], state: str) -> bool:
    """Show both programs; tell whether all was as it should be."""
    print("\n── A program that joins what two other MCP servers know (examples/join.py) ──")
    code = upstream.program("join.py")
    joined = await client.call_tool("execute_code", {"language": "python", "code": code})
    result = joined.structured_content or {}
    named = ", ".join(sorted({call["tool"] for call in result.get("tool_calls", ())}))
    print(f"  called  {named}: {result.get('tool_calls_total')} calls, {result['usage']['wall_ms']} ms")
    print(f"  value   {result.get('value')}")
    naive = tokens(await without_gloveport(upstream))
    ours = tokens([*await surface(client), code, text_of(joined)])
    print(f"  tokens  {ours} with everything that a model is shown; {naive} if it had called these tools itself")

    print("\n── A program that deletes something there (examples/tidy.py) ──")
    asked = await client.call_tool("execute_code", {"language": "python", "code": upstream.program("tidy.py")})
    waiting = asked.structured_content or {}
    print(f"  status  {waiting.get('status')}   {waiting.get('hint')}")
    for command in (["list"], ["approve", "--yes", *waiting.get("approvals", ())]):
        print(f"  $ gloveport approvals {' '.join(command)}")
        answer = await anyio.run_process(
            [*gloveport, "approvals", *command], env={**os.environ, "GLOVEPORT_STATE": state}, check=False
        )
        print("".join(f"    {line}\n" for line in (answer.stdout + answer.stderr).decode().splitlines()), end="")
    before = upstream.memory.read_text()
    ended = (await client.call_tool("wait_run", {"run_id": waiting["run_id"]})).structured_content or {}
    print(f"  status  {ended.get('status')}   value  {ended.get('value')}")
    return (
        result.get("value") == upstream.revenue
        and ours < naive
        and waiting.get("status") == "waiting"
        and (ended.get("status"), ended.get("value")) == ("ok", CUSTOMERS - 1)
        and 'Customer 1"' not in upstream.memory.read_text()
        and answer.returncode == 0
        and bool(before)
    )
