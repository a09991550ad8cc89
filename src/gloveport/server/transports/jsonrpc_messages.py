"""Parses JSON-RPC messages that can be answered without the SDK; the SDK parses all others."""

import pydantic_core

from gloveport.server.fast_path import ClientMessage

_KEYS = frozenset({"jsonrpc", "id", "method", "params"})


def parse_message(line: bytes) -> ClientMessage | None:
    """Parse a request or a notification of the plainest shape; None for all else, malformed or not."""
    try:
        message = pydantic_core.from_json(line.decode(errors="replace"))
    except ValueError:
        return None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not message.keys() <= _KEYS:
        return None
    method, params, request = message.get("method"), message.get("params"), message.get("id")
    params = {} if params is None else params
    if not isinstance(method, str) or not isinstance(params, dict):
        return None
    if "id" in message and (isinstance(request, bool) or not isinstance(request, str | int)):
        return None
    return ClientMessage(method, params, request)
