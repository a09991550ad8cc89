"""Calls of tools from inside a sandbox: the names, the commands, and the door behind them. The same warm or cold."""

import functools
import json

import pytest
from tests.sandbox.test_doors import outcome_of

from gloveport import door, rpc
from gloveport.model import GUEST, Grant
from gloveport.sandbox.plan import Network

pytestmark = pytest.mark.anyio

DOOR = ("127.0.0.3", 3128)
NETWORK = Network(doors=(DOOR,), env={"GLOVEPORT_HUB": f"{DOOR[0]}:{DOOR[1]}"})


async def call(asked):
    return {"kind": "structured", "value": {asked["tool"]: asked["arguments"]}, "blocks": []}


async def tree(_asked):
    return {"servers": [{"name": "github", "exposed": "github", "description": "Issues", "state": "ready"}]}


async def sample(asked):
    return {"text": asked["messages"][0]["content"].upper(), "model": "m", "stop_reason": "end", "tokens": 1}


ANSWER = functools.partial(rpc.answer, {"call": call, "tree": tree, "sample": sample}, rpc.Room())


@pytest.fixture
def run(sandboxes):
    """Run one program in a sandbox whose door to the tools answers; return what it printed, and its value."""

    async def run_one(language, code, network=NETWORK):
        made = sandboxes(language, network, Grant(languages=frozenset({language})))
        async with made.build() as child, door.open_door(child.doors, ANSWER):
            return await outcome_of(child, made.prepare(code))

    return run_one


PYTHON = """
import asyncio, subprocess
from concurrent.futures import ThreadPoolExecutor
many = await asyncio.gather(*(tools.github.number.aio(n=n) for n in range(100)))
with ThreadPoolExecutor(8) as pool:
    threads = [*pool.map(lambda n: tools.github.number(n=n), range(100))]
command = subprocess.run(["tools", "github", "number", "--json", '{"n": 1}'], capture_output=True, text=True).stdout
[many == threads, many[99], llm.ask("a"), str(tools).splitlines()[0], command]
"""


async def test_a_python_program_calls_tools(run):
    """H2, H7: in parallel, from threads, and by the command."""
    _, value = await run("python", PYTHON)
    assert value == [True, {"number": {"n": 99}}, "A", "tools.github  ready  Issues", '{"number":{"n":1}}\n']


async def test_a_shell_program_calls_tools(run):
    """H2, H7: the commands are found, and may be executed."""
    printed, _ = await run("shell", "type -p tools llm; tools; tools github number --json '{\"n\": 1}' | cat; llm a")
    shell = f"{GUEST}/shell"
    assert printed == f'{shell}/tools\n{shell}/llm\ngithub  ready  Issues\n{{"number":{{"n":1}}}}\nA\n'


async def test_without_the_door_there_is_nothing_to_call(run):
    """H2."""
    names = "import sys\n[name for name in ('tools', 'llm', 'ToolError') if name in globals() or name in sys.modules]"
    assert await run("python", names, Network()) == ("", [])
    printed, _ = await run("shell", "tools 2>&1; echo $?; tools --help | head -n 1 | cut -c 1-12", Network())
    hint = "hint: This sandbox has been granted no servers and no skills."
    lines = ["tools: there are none", hint, "1", "usage: tools"]
    assert printed.splitlines() == lines


async def test_what_a_program_says_on_the_door_by_itself_is_no_more_than_a_request(run):
    """H2, P21: nobody but the host listens there, whatever else is sent."""
    code = """
import json, os, socket
host, port = os.environ["GLOVEPORT_HUB"].split(":")
found = []
for frame in (b"\\xff\\xff\\xff\\xff", b"\\0\\0\\0\\1{", b"\\0\\0\\0\\2[]"):
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(frame)
        connection.shutdown(socket.SHUT_WR)
        found.append(connection.recv(100) == b"")
[*found, tools.github.number(n=1)]
"""
    _, value = await run("python", code)
    assert json.dumps(value) == '[true, true, true, {"number": {"n": 1}}]'
