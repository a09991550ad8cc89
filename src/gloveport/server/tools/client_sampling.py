"""Asks a client's model what a program asks, by MCP sampling, and reads its answer."""

from typing import Any

import mcp_types as wire
from mcp.server.mcpserver import Context

from gloveport.errors import UpstreamError
from gloveport.sampling.model_question import Answer, ModelQuestion


def can_sample(ctx: Context[Any, Any]) -> bool:
    """Whether the client offers its model."""
    return ctx.client_capabilities is not None and ctx.client_capabilities.sampling is not None


def params_of(question: ModelQuestion) -> wire.CreateMessageRequestParams:
    """What the client is asked."""
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
    """What the client has answered. It does not say how many tokens: as many count as it was allowed."""
    if not isinstance(result.content, wire.TextContent):
        return UpstreamError("client_failed", "The client's model has answered with something that is no text.")
    return Answer(
        text=result.content.text,
        model=result.model,
        stop_reason=result.stop_reason or "",
        tokens=question.max_tokens,
    )
