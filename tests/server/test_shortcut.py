"""Which calls are answered without the SDK, and that the answer is the same."""

import mcp_types as wire
import pytest
from mcp_types import JSONRPCNotification, JSONRPCRequest, jsonrpc_message_adapter

from gloveport.server.shortcut import Shortcut

RESULT = wire.CallToolResult(
    content=[wire.TextContent(type="text", text="é")], structured_content={"ok": True, "x": None}
)


def request(method, params, number=7):
    return JSONRPCRequest(jsonrpc="2.0", id=number, method=method, params=params)


def call(**more):
    return request("tools/call", {"name": "look", "arguments": {"a": 1}, **more})


def begun(version="2025-11-25", result=RESULT):
    asked = []

    def look(arguments):
        asked.append(arguments)
        return result

    shortcut = Shortcut(tools={"look": look})
    assert shortcut.answer(request("initialize", {"protocolVersion": version}, 1)) is None
    assert shortcut.answer(JSONRPCNotification(jsonrpc="2.0", method="notifications/initialized")) is None
    return shortcut, asked


def test_a_call_that_can_be_answered_at_once_is():
    """W1, O4: a line of the protocol."""
    shortcut, asked = begun()
    line = shortcut.answer(call())
    assert (line.endswith(b"\n"), line.count(b"\n")) == (True, 1)
    answer = jsonrpc_message_adapter.validate_json(line)
    assert (answer.id, answer.result["isError"]) == (7, False)
    assert answer.result["structuredContent"] == {"ok": True, "x": None}
    assert answer.result["content"] == [{"type": "text", "text": "é"}]
    assert asked == [{"a": 1}]


@pytest.mark.parametrize(
    "message",
    [
        call(name="other"),
        call(arguments=[1]),
        call(_meta={"progressToken": 1}),
        call(more=1),
        request("tools/list", {"name": "look", "arguments": {}}),
        JSONRPCNotification(jsonrpc="2.0", method="tools/call", params={"name": "look", "arguments": {}}),
    ],
)
def test_what_is_anything_else_goes_the_usual_way(message):
    """O4"""
    shortcut, asked = begun()
    assert shortcut.answer(message) is None
    assert asked == []


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2026-07-28", None, 5])
def test_a_session_whose_results_look_otherwise_goes_the_usual_way(version):
    """O4"""
    shortcut, _ = begun(version)
    assert shortcut.answer(call()) is None


def test_a_session_that_has_not_begun_goes_the_usual_way():
    """O4: the SDK says what is wrong."""
    shortcut = Shortcut(tools={"look": lambda _: RESULT})
    assert shortcut.answer(call()) is None
    shortcut.answer(request("initialize", {"protocolVersion": "2025-11-25"}))
    assert shortcut.answer(call()) is None


def test_what_the_tool_can_not_do_at_once_goes_the_usual_way():
    """W1"""
    shortcut, asked = begun(result=None)
    assert shortcut.answer(call()) is None
    assert asked == [{"a": 1}]
