"""Answers of clients to our own questions that are no answers: a program hears of it at once, over both transports."""

import json

import httpx2
import pytest
from tests.e2e.conftest import INITIALIZE

ASK = """
try:
    llm.ask("why?")
except ToolError as error:
    print("code:", error.code)
"""
MALFORMED = {
    "null": {"result": None},
    "nothing": {},
    "a text": {"result": "because"},
    "an error of text": {"error": "no"},
}
HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
HELLO = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": INITIALIZE | {"capabilities": {"sampling": {}}}}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture
def environ(environ, tmp_path):
    """The environment of a server whose programs may ask the client's model, and wait for it for long."""
    path = tmp_path / "sampling.toml"
    path.write_text("[pool]\nforked = 0\nbooted = 0\n[sampling]\nenabled = true\ntimeout_seconds = 100\n")
    path.chmod(0o600)
    return {**environ, "GLOVEPORT_CONFIG": str(path)}


def call(request_id: int) -> dict:
    """A call whose program asks the model."""
    arguments = {"language": "python", "code": ASK, "timeout_seconds": 30}
    params = {"name": "execute_code", "arguments": arguments}
    return {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
def test_over_stdio_a_malformed_answer_ends_the_question_and_not_the_call_of_the_same_number(stdio, answer):
    server = stdio()

    def send(message: dict) -> None:
        server.process.stdin.write(json.dumps(message) + "\n")
        server.process.stdin.flush()

    send(HELLO)
    send(INITIALIZED)
    server.wait_started()
    send(call(1))
    answers = []
    while not answers:
        message = json.loads(server.process.stdout.readline())
        if message.get("method") == "sampling/createMessage":
            assert message["id"] == 1, "the client's call has the same number"
            send({"jsonrpc": "2.0", "id": message["id"], **answer})
        elif message.get("id") == 1:
            answers.append(message)
    assert "code: client_failed" in json.dumps(answers[0]["result"])


@pytest.mark.parametrize("answer", MALFORMED.values(), ids=MALFORMED)
async def test_over_http_a_malformed_answer_ends_the_question(serve, answer):
    served = serve()
    async with httpx2.AsyncClient(headers=HEADERS, timeout=60) as client:
        begun = await client.post(served.url, json=HELLO)
        client.headers |= {"mcp-protocol-version": "2025-11-25", "mcp-session-id": begun.headers["mcp-session-id"]}
        await client.post(served.url, json=INITIALIZED)
        async with client.stream("POST", served.url, json=call(1)) as stream:
            async for line in stream.aiter_lines():
                message = json.loads(line.removeprefix("data: ")) if line.startswith("data: {") else {}
                if message.get("method") == "sampling/createMessage":
                    body = json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer})
                    assert (await client.post(served.url, content=body)).status_code == 202
                elif "result" in message:
                    break
    assert "code: client_failed" in json.dumps(message["result"])
