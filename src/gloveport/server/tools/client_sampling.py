"""Passes a program's question to the client's model by MCP sampling, and reads the answer."""

from typing import Any

import mcp_types as wire
from mcp.server.mcpserver import Context

from gloveport.errors import UpstreamError
from gloveport.sampling.model_question import Answer, ModelQuestion


def can_sample(ctx: Context[Any, Any]) -> bool:
    """Whether the client offers its model."""
    return ctx.client_capabilities is not None and ctx.client_capabilities.sampling is not None


def params_of(question: ModelQuestion) -> wire.CreateMessageRequestParams:
    """Make the parameters of the sampling request."""
    hints = [wire.ModelHint(name=question.model)] if question.model else None
    return wire.CreateMessageRequestParams(
        messages=[
            wire.SamplingMessage(role=message.role, content=wire.TextContent(type="text", text=message.content))
            for message in question.messages
        ],
        system_prompt=question.system or None,
        max_tokens=question.max_tokens,
        model_preferences=wire.ModelPreferences(hints=hints) if hints else None,
    )


def answer_of(result: wire.CreateMessageResult, question: ModelQuestion) -> Answer | UpstreamError:
    """Read the client's answer. It does not say how many tokens were used, so the allowed number counts."""
    if not isinstance(result.content, wire.TextContent):
        return UpstreamError("client_failed", "The client's model has answered with something that is no text.")
    return Answer(
        text=result.content.text,
        model=result.model,
        stop_reason=result.stop_reason or "",
        tokens=question.max_tokens,
    )
