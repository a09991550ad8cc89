"""Which calls are answered without the SDK, and that the answer is the same."""

import pytest
from mcp_types import jsonrpc_message_adapter
from msgspec.structs import replace

from gloveport.server.fast_path import ClientMessage, FastAnswer, FastPath
from gloveport.server.rendering.run_reply import RunReply

RESULT = RunReply("é", structured={"ok": True, "x": None})


def request(method, params, number=7):
    return ClientMessage(method, params, number)


def call(**more):
    return request("tools/call", {"name": "look", "arguments": {"a": 1}, **more})


def begun(version="2025-11-25", result=RESULT, **more):
    asked, left = [], []

    def look(call):
        asked.append(call)
        return result and FastAnswer(result, lambda: left.append("done"))

    shortcut = FastPath(tools={"look": look}, structured=("m*",))
    start = {"protocolVersion": version, "clientInfo": {"name": "me", "version": "1"}, **more}
    shortcut.note_handshake(request("initialize", start, 1))
    shortcut.note_handshake(ClientMessage("notifications/initialized", {}))
    return shortcut, asked, left


def test_a_call_that_can_be_answered_at_once_is():
    """W1, O4: a line of the protocol."""
    shortcut, asked, left = begun()
    line, afterwards = shortcut.answer(call())
    assert (line.endswith(b"\n"), line.count(b"\n")) == (True, 1)
    answer = jsonrpc_message_adapter.validate_json(line)
    assert (answer.id, answer.result["isError"]) == (7, False)
    assert answer.result["structuredContent"] == {"ok": True, "x": None}
    assert answer.result["content"] == [{"type": "text", "text": "é"}]
    assert [(one.caller.name, one.request, one.arguments) for one in asked] == [
        ("stdio (claims to be me 1)", "7", {"a": 1})
    ]
    assert left == []
    afterwards()
    assert left == ["done"]


def test_what_a_client_says_of_its_call_is_no_reason_for_another_way():
    """E6: agents name each call in ``_meta``, and ask for progress."""
    shortcut, asked, _ = begun()
    assert shortcut.answer(call(_meta={"agent.example/toolUseId": "x", "progressToken": "mine"})) is not None
    assert asked[0].progress_token == "mine"


async def test_only_listed_clients_get_structured_content():
    """An agent would show its model that instead of the text; at once and after work alike."""
    shortcut, _, _ = begun(clientInfo={"name": "agent", "version": "1"})
    line, _ = shortcut.answer(call())
    assert jsonrpc_message_adapter.validate_json(line).result == {
        "content": [{"type": "text", "text": "é"}],
        "isError": False,
    }

    async def work():
        return RESULT

    shortcut.tools["look"] = lambda _call: work
    assert "structuredContent" not in jsonrpc_message_adapter.validate_json(await shortcut.answer(call())()).result


def test_what_is_left_to_do_is_done_also_where_the_answer_can_not_be_sent():
    """W3: else nobody could write any more."""
    shortcut, _, left = begun(result=replace(RESULT, structured={"x": object()}))
    with pytest.raises(ValueError, match="serialize"):
        shortcut.answer(call())
    assert left == ["done"]


@pytest.mark.parametrize("claim", [None, "me", {}, {"name": 5, "version": "1"}])
def test_who_does_not_say_who_they_are_goes_the_usual_way(claim):
    """O4, T6: the log names whoever calls, and the SDK says what is wrong."""
    shortcut, asked, _ = begun(clientInfo=claim)
    assert shortcut.answer(call()) is None
    assert asked == []


@pytest.mark.parametrize(
    "message",
    [
        call(name="other"),
        call(arguments=[1]),
        call(_meta={"gloveport/structured": True}),
        call(_meta={"io.modelcontextprotocol/x": 1}),
        call(_meta={"progressToken": [1]}),
        call(_meta=[1]),
        call(more=1),
        request("tools/list", {"name": "look", "arguments": {}}),
        ClientMessage("tools/call", {"name": "look", "arguments": {}}),
    ],
)
def test_what_is_anything_else_goes_the_usual_way(message):
    """O4"""
    shortcut, asked, _ = begun()
    assert shortcut.answer(message) is None
    assert asked == []


ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "me", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def test_a_request_that_says_all_of_its_client_needs_no_session():
    """O4: and what it is told is what the protocol has all results say then."""
    shortcut, asked, _ = begun()
    shortcut = FastPath(tools=shortcut.tools, structured=shortcut.structured)
    line, _ = shortcut.answer(call(_meta={**ENVELOPE, "agent.example/x": 1}))
    result = jsonrpc_message_adapter.validate_json(line).result
    assert (result["resultType"], result["structuredContent"]["ok"]) == ("complete", True)
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "gloveport"
    assert [one.caller.name for one in asked] == ["stdio (claims to be me 1)"]


@pytest.mark.parametrize(
    "other",
    [
        {"io.modelcontextprotocol/protocolVersion": "2027-01-01"},
        {"io.modelcontextprotocol/protocolVersion": ["2026-07-28"]},
        {"io.modelcontextprotocol/clientInfo": {"name": "me"}},
        {"io.modelcontextprotocol/clientInfo": None},
        {"io.modelcontextprotocol/clientCapabilities": []},
        {"io.modelcontextprotocol/logLevel": "debug"},
        {"gloveport/structured": True},
        {"progressToken": 1},
    ],
)
def test_a_request_that_says_more_or_less_of_its_client_goes_the_usual_way(other):
    """O4"""
    shortcut, asked, _ = begun()
    shortcut = FastPath(tools=shortcut.tools)
    assert shortcut.answer(call(_meta={**ENVELOPE, **other})) is None
    for name in ENVELOPE:
        assert shortcut.answer(call(_meta={key: value for key, value in ENVELOPE.items() if key != name})) is None
    assert asked == []


def test_what_a_request_of_a_session_says_of_another_client_is_for_the_sdk_to_judge():
    """O4: also where the session has not begun yet."""
    for shortcut in (begun()[0], begun("2024-11-05")[0], begun(None)[0]):
        assert shortcut.answer(call(_meta=ENVELOPE)) is None


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2026-07-28", None, 5])
def test_a_session_whose_results_look_otherwise_goes_the_usual_way(version):
    """O4"""
    shortcut, _, _ = begun(version)
    assert shortcut.answer(call()) is None


def test_a_session_that_has_not_begun_goes_the_usual_way():
    """O4: the SDK says what is wrong."""
    shortcut = FastPath(tools={"look": lambda _: RESULT})
    assert shortcut.answer(call()) is None
    shortcut.note_handshake(
        request("initialize", {"protocolVersion": "2025-11-25", "clientInfo": {"name": "me", "version": "1"}})
    )
    assert shortcut.answer(call()) is None


def test_what_the_tool_can_not_do_at_once_goes_the_usual_way():
    """W1"""
    shortcut, asked, _ = begun(result=None)
    assert shortcut.answer(call()) is None
    assert len(asked) == 1
