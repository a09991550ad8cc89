"""Remembers what does not change between tests of one process, and takes longer to make than all else of an engine."""

import copy
import functools
import inspect
import os
import ssl
from collections.abc import Callable
from typing import Any

import httpcore2
from mcp.server.mcpserver.tools import Tool

from gloveport.runtimes import python

_make_context = functools.cache(lambda trust_env, *_: _default_ssl_context(_trust_env=trust_env))
_default_ssl_context = httpcore2.default_ssl_context
_from_function = Tool.from_function
_tools: dict[str, Tool] = {}


def remember() -> None:
    """Do so from now on."""
    python._query = functools.cache(python._query)  # what an interpreter says of itself
    httpcore2.default_ssl_context = _share_context
    Tool.from_function = _describe


def _share_context(*, _trust_env: bool = True) -> ssl.SSLContext:
    """The authorities of this host, which each client would read, also one that speaks no TLS."""
    return _make_context(_trust_env, *map(os.environ.get, ("SSL_CERT_FILE", "SSL_CERT_DIR")))


def _describe(function: Callable[..., Any], **more: Any) -> Tool:
    """What the same function with the same words was described as, for this server's."""
    key = repr((function.__module__, function.__qualname__, function.__doc__, inspect.signature(function), more))
    if key not in _tools:
        _tools[key] = _from_function(function, **more)
    known = _tools[key]
    return known.model_copy(update={"fn": function, "parameters": copy.deepcopy(known.parameters)})
