"""Our server, as ``gloveport serve --http`` builds it, with what the official conformance suites look for.

Usage: python tests/conformance/server.py DESCRIPTOR, of a socket that listens
"""

import base64
import os
import socket
import sys
import tempfile
from typing import Annotated

import anyio
import mcp_types as T  # noqa: N812 - the wire's names, briefly
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel, Field

from gloveport.bootstrap import app
from gloveport.config import Config
from gloveport.server.protocol import make_server

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")


def text(words: str) -> T.TextContent:
    return T.TextContent(type="text", text=words)


def image() -> T.ImageContent:
    return T.ImageContent(type="image", data=base64.b64encode(PNG).decode(), mime_type="image/png")


def embedded(uri: str, mime_type: str, content: str) -> T.EmbeddedResource:
    return T.EmbeddedResource(
        type="resource", resource=T.TextResourceContents(uri=uri, mime_type=mime_type, text=content)
    )


def form(message: str, **properties) -> T.ElicitRequest:
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    return T.ElicitRequest(params=T.ElicitRequestFormParams(message=message, requested_schema=schema))


def sample(words: str, max_tokens: int) -> T.CreateMessageRequest:
    message = T.SamplingMessage(role="user", content=text(words))
    return T.CreateMessageRequest(params=T.CreateMessageRequestParams(messages=[message], max_tokens=max_tokens))


def string() -> dict:
    return {"type": "string"}


# ---- content ---------------------------------------------------------------------------------------------------


def add_content_tools(server: MCPServer) -> None:  # noqa: C901 - a list of tools
    @server.tool()
    def test_simple_text() -> T.CallToolResult:
        """Text."""
        return T.CallToolResult(content=[text("This is a simple text response for testing.")])

    @server.tool()
    def test_image_content() -> T.CallToolResult:
        """An image."""
        return T.CallToolResult(content=[image()])

    @server.tool()
    def test_audio_content() -> T.CallToolResult:
        """Audio."""
        data = base64.b64encode(WAV).decode()
        return T.CallToolResult(content=[T.AudioContent(type="audio", data=data, mime_type="audio/wav")])

    @server.tool()
    def test_embedded_resource() -> T.CallToolResult:
        """A resource."""
        content = "This is an embedded resource content."
        return T.CallToolResult(content=[embedded("test://embedded-resource", "text/plain", content)])

    @server.tool()
    def test_multiple_content_types() -> T.CallToolResult:
        """All of it."""
        resource = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
        return T.CallToolResult(content=[text("Multiple content types test:"), image(), resource])

    @server.tool()
    def test_error_handling() -> str:
        """An error."""
        raise ToolError("This tool intentionally returns an error for testing")

    @server.tool()
    async def test_tool_with_logging(ctx: Context) -> str:
        """Log messages."""
        for words in ("Tool execution started", "Tool processing data", "Tool execution completed"):
            await ctx.log("info", words)
            await anyio.sleep(0.05)
        return "done"

    @server.tool()
    async def test_tool_with_progress(ctx: Context) -> str:
        """Progress."""
        for done in (0, 50, 100):
            await ctx.report_progress(done, 100)
            await anyio.sleep(0.05)
        return "done"

    @server.tool()
    async def test_reconnection(ctx: Context) -> str:
        """Close the stream; the client comes back for the answer."""
        await ctx.close_sse_stream()
        await anyio.sleep(0.1)
        return "Reconnection test completed successfully"

    address = {
        "$anchor": "addressDef",
        "type": "object",
        "properties": {"street": string(), "city": string()},
    }

    @server.tool()
    def test_custom_header(region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})]) -> str:
        """An argument that a header repeats."""
        return region

    @server.tool()
    def json_schema_2020_12_tool() -> str:
        """A schema with all of draft 2020-12."""
        return "done"

    # A schema that no signature gives, put where the SDK's high level offers no way to put it.
    server._tool_manager.get_tool("json_schema_2020_12_tool").parameters = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": address},
        "properties": {
            "name": string(),
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": string(),
            "email": string(),
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    }


# ---- asking the client, handshake protocols ----------------------------------------------------------------------


class User(BaseModel):
    username: str
    email: str


DEFAULTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": True},
    },
    "required": [],
}
OPTIONS = ["option1", "option2", "option3"]


def titled(word: str) -> list:
    return [
        {"const": f"value{number}", "title": f"{name} {word}"}
        for number, name in enumerate(("First", "Second", "Third"), 1)
    ]


ENUMS = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    },
    "required": [],
}


def add_asking_tools(server: MCPServer) -> None:
    @server.tool()
    async def test_sampling(prompt: str, ctx: Context) -> str:
        """Sampling."""
        message = T.SamplingMessage(role="user", content=text(prompt))
        answer = await ctx.session.create_message(messages=[message], max_tokens=100, related_request_id=ctx.request_id)
        return f"LLM response: {answer.content.text}"

    @server.tool()
    async def test_elicitation(message: str, ctx: Context) -> str:
        """Elicitation."""
        answer = await ctx.elicit(message, User)
        content = answer.data.model_dump_json() if answer.action == "accept" else "{}"
        return f"User response: action={answer.action} content={content}"

    async def ask(ctx: Context, schema: dict) -> str:
        answer = await ctx.session.elicit_form("Please fill in", schema, related_request_id=ctx.request_id)
        return f"Elicitation completed: action={answer.action}, content={answer.content}"

    @server.tool()
    async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
        """Defaults."""
        return await ask(ctx, DEFAULTS)

    @server.tool()
    async def test_elicitation_sep1330_enums(ctx: Context) -> str:
        """Enumerations."""
        return await ask(ctx, ENUMS)


# ---- asking the client, 2026-07-28 -------------------------------------------------------------------------------

Round = T.CallToolResult | T.InputRequiredResult


def answers(ctx: Context) -> dict:
    return dict(ctx.input_responses or {})


def field(answer: object, name: str) -> object:
    content = getattr(answer, "content", None)
    return content.get(name) if getattr(answer, "action", None) == "accept" and isinstance(content, dict) else None


def done(words: str) -> T.CallToolResult:
    return T.CallToolResult(content=[text(words)])


def require(ctx: Context, name: str) -> None:
    declared = ctx.client_capabilities
    if declared is None or getattr(declared, name) is None:
        data = {"requiredCapabilities": {name: {}}}
        raise MCPError(code=T.MISSING_REQUIRED_CLIENT_CAPABILITY, message=f"{name} is needed", data=data)


def add_rounds(server: MCPServer) -> None:  # noqa: C901 - a list of tools
    @server.tool()
    async def test_input_required_result_elicitation(ctx: Context) -> Round:
        """One form."""
        if name := field(answers(ctx).get("user_name"), "name"):
            return done(f"Hello, {name}!")
        return T.InputRequiredResult(input_requests={"user_name": form("What is your name?", name=string())})

    @server.tool()
    async def test_input_required_result_sampling(ctx: Context) -> Round:
        """One question to a model."""
        if answer := answers(ctx).get("capital_question"):
            return done(f"The model says: {answer.content}")
        return T.InputRequiredResult(input_requests={"capital_question": sample("What is the capital of France?", 100)})

    @server.tool()
    async def test_input_required_result_list_roots(ctx: Context) -> Round:
        """The roots."""
        if (answer := answers(ctx).get("client_roots")) is not None:
            return done(f"Roots: {[str(root.uri) for root in answer.roots]}")
        return T.InputRequiredResult(input_requests={"client_roots": T.ListRootsRequest()})

    async def confirm(ctx: Context) -> Round:
        if ctx.request_state and field(answers(ctx).get("confirm"), "ok") is not None:
            return done(f"state-ok: {ctx.request_state}")
        question = form("Please confirm", ok={"type": "boolean"})
        return T.InputRequiredResult(input_requests={"confirm": question}, request_state="first")

    @server.tool()
    async def test_input_required_result_request_state(ctx: Context) -> Round:
        """A form and a state."""
        return await confirm(ctx)

    @server.tool()
    async def test_input_required_result_tampered_state(ctx: Context) -> Round:
        """A state that must come back as it was."""
        return await confirm(ctx)

    @server.tool()
    async def test_input_required_result_multiple_inputs(ctx: Context) -> Round:
        """Three at once."""
        given = answers(ctx)
        if {"user_name", "greeting", "client_roots"} <= given.keys():
            return done(f"{field(given['user_name'], 'name')}: all answered")
        requests = {
            "user_name": form("What is your name?", name=string()),
            "greeting": sample("Generate a greeting", 50),
            "client_roots": T.ListRootsRequest(),
        }
        return T.InputRequiredResult(input_requests=requests, request_state="multiple")

    @server.tool()
    async def test_input_required_result_multi_round(ctx: Context) -> Round:
        """Two rounds."""
        given, state = answers(ctx), ctx.request_state or ""
        if state.startswith("second:") and (colour := field(given.get("step2"), "color")):
            return done(f"{state.removeprefix('second:')} likes {colour}")
        if state == "first" and (name := field(given.get("step1"), "name")):
            question = form("Step 2: What is your favorite color?", color=string())
            return T.InputRequiredResult(input_requests={"step2": question}, request_state=f"second:{name}")
        question = form("Step 1: What is your name?", name=string())
        return T.InputRequiredResult(input_requests={"step1": question}, request_state="first")

    @server.tool()
    async def test_input_required_result_capabilities(ctx: Context) -> Round:
        """Ask only for what the client can do."""
        declared, given = ctx.client_capabilities, answers(ctx)
        requests = {}
        if declared and declared.elicitation is not None:
            requests["user_name"] = form("What is your name?", name=string())
        if declared and declared.sampling is not None:
            requests["greeting"] = sample("Generate a greeting", 50)
        if not requests:
            require(ctx, "elicitation")
        if requests.keys() <= given.keys():
            return done("all answered")
        return T.InputRequiredResult(input_requests=requests)

    @server.tool()
    async def test_missing_capability(ctx: Context) -> str:
        """Needs sampling."""
        require(ctx, "sampling")
        return "sampling is there"


# ---- resources, prompts, completion ------------------------------------------------------------------------------


def add_resources(server: MCPServer) -> None:
    @server.resource("test://static-text", mime_type="text/plain", description="Text.")
    def static_text() -> str:
        return "This is the content of the static text resource."

    @server.resource("test://static-binary", mime_type="image/png", description="An image.")
    def static_binary() -> bytes:
        return PNG

    @server.resource("test://watched-resource", mime_type="text/plain", description="Watched.")
    def watched() -> str:
        return "watched"

    @server.resource("test://template/{id}/data", mime_type="application/json", description="A template.")
    def template(id: str) -> dict:  # noqa: A002 - the suite's name
        return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


def add_prompts(server: MCPServer) -> None:
    @server.prompt()
    def test_simple_prompt() -> str:
        """Simple."""
        return "This is a simple prompt for testing."

    @server.prompt()
    def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
        """With arguments."""
        return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"

    @server.prompt()
    def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:  # noqa: N803 - the suite's name
        """With a resource."""
        content = "Embedded resource content for testing."
        return [
            UserMessage(content=embedded(resourceUri, "text/plain", content)),
            UserMessage(content=text("Please process the embedded resource above.")),
        ]

    @server.prompt()
    def test_prompt_with_image() -> list[UserMessage]:
        """With an image."""
        return [UserMessage(content=image()), UserMessage(content=text("Please analyze the image above."))]

    @server.prompt()
    async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | T.InputRequiredResult:
        """Asks first."""
        if context := field(answers(ctx).get("user_context"), "context"):
            return [UserMessage(content=text(f"Context: {context}"))]
        question = form("What context should the prompt use?", context=string())
        return T.InputRequiredResult(input_requests={"user_context": question})

    @server.completion()
    async def complete(ref, argument, context) -> T.Completion:
        return T.Completion(values=["paris", "park", "party"], total=150, has_more=False)


def accept_handshake_methods(server: MCPServer) -> None:
    """The SDK's high level has no way to serve these, which ended with the handshake protocols. Only the suites ask."""

    async def accept(ctx, params) -> T.EmptyResult:
        return T.EmptyResult()

    low = server._lowlevel_server
    low.add_request_handler("logging/setLevel", T.SetLevelRequestParams, accept)
    low.add_request_handler("resources/subscribe", T.SubscribeRequestParams, accept)
    low.add_request_handler("resources/unsubscribe", T.UnsubscribeRequestParams, accept)


class Events(EventStore):
    """Every event of every stream, in memory."""

    def __init__(self) -> None:
        self.events: list[tuple[str, object]] = []

    async def store_event(self, stream_id, message):
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        start = int(last_event_id)
        stream = self.events[start - 1][0]
        for number, (owner, message) in enumerate(self.events[start:], start + 1):
            if owner == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


async def main(listener: socket.socket) -> None:
    with tempfile.TemporaryDirectory() as state:
        environ = {**os.environ, "GLOVEPORT_STATE": state}
        async with app.assemble(Config(), environ) as engine:
            server = make_server(engine, Config(), environ, "http")
            add_content_tools(server)
            add_asking_tools(server)
            add_rounds(server)
            add_resources(server)
            add_prompts(server)
            accept_handshake_methods(server)
            web = server.streamable_http_app(event_store=Events(), retry_interval=500)
            await uvicorn.Server(uvicorn.Config(web, log_level="error")).serve([listener])


if __name__ == "__main__":
    anyio.run(main, socket.socket(fileno=int(sys.argv[1])))
