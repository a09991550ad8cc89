"""Who gets structured content: a client that shows it to its model instead of the text must not."""

import json

import mcp_types as wire
from mcp import Client
from tests.server.eras import both_eras

from gloveport.config import Config
from gloveport.config.schema import Clients
from gloveport.model import Policy
from gloveport.server.protocol import make_server

SHELL_ALONE = Config(policy=Policy(languages=frozenset({"shell"})))
"""Each language that health looks at takes a while."""

PROGRAM = {"language": "python", "code": "print('hello'); {'a': [1, 2]}"}
AGENTS = ("claude-code", "codex-mcp-client", "gemini-cli-mcp-client", "opencode", "")


def named(name) -> wire.Implementation:
    return wire.Implementation(name=name, version="1")


async def test_an_agent_gets_content_blocks_alone_and_no_schema_that_promises_more(connect):
    for name in AGENTS:
        async with connect(client_info=named(name)) as client:
            answer = await client.call_tool("execute_code", PROGRAM)
            refused = await client.call_tool("execute_code", {"language": "python", "code": "#" * 2_000_000})
            schemas = [tool.output_schema for tool in (await client.list_tools()).tools]
        assert (answer.structured_content, refused.structured_content) == (None, None), name
        assert answer.content[0].text.splitlines()[1:] == ['value: {"a": [1, 2]}', "stdout:", "hello"], name
        assert set(schemas) == {None}, name


async def test_a_program_gets_what_its_schema_promises_without_constants(connect):
    for name in ("mcp", "fastmcp", "mcporter"):
        async with connect(SHELL_ALONE if name == "mcp" else None, client_info=named(name)) as client:
            tools = {tool.name: tool for tool in (await client.list_tools()).tools}
            told = (await client.call_tool("execute_code", PROGRAM)).structured_content
            assert told.keys() == {"run_id", "language", "status", "exit_code", "value", "stdout", "usage"}, name
            assert tools["execute_code"].output_schema["properties"].keys() >= told.keys()
            assert tools["health"].output_schema["additionalProperties"] is False
            if name == "mcp":
                assert (await client.call_tool("health", {})).structured_content["status"] == "ok"


@both_eras
async def test_a_call_asks_for_it(connect):
    async with connect(client_info=named("agent")) as client:
        asked = await client.call_tool("execute_code", PROGRAM, meta={"gloveport/structured": True})
        other = await client.call_tool("execute_code", PROGRAM, meta={"gloveport/structured": "no"})
    assert asked.structured_content["value"] == {"a": [1, 2]}
    assert other.structured_content is None


async def test_the_operator_says_who_gets_it(engine, environ, era):
    for patterns, name, gets in ((("*",), "x", True), ((), "mcp", False), (("my-*",), "my-app", True)):
        config = Config(clients=Clients(structured=patterns))
        server = make_server(engine, config, environ, "stdio")
        async with Client(server, mode=era, client_info=named(name)) as client:
            schema = (await client.list_tools()).tools[0].output_schema
            told = (await client.call_tool("execute_code", PROGRAM)).structured_content
        assert (told is not None) == gets
        assert (schema is not None) == gets


async def test_an_answer_to_a_simple_program_is_short(connect):
    """An agent reads nothing but this."""
    async with connect(client_info=named("claude-code")) as client:
        answer = await client.call_tool("execute_code", PROGRAM)
    assert len(json.dumps(answer.model_dump(mode="json", exclude_none=True)["content"])) < 200
