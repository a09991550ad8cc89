"""Audits the start and the stop of a server."""

import contextlib
import os
from collections.abc import AsyncIterator

import anyio

from gloveport.engine.caller import Transport
from gloveport.engine.execution import Engine
from gloveport.model.json_value import JsonValue
from gloveport.server.server_offer import version_of_gloveport


@contextlib.asynccontextmanager
async def record_lifetime(engine: Engine, transport: Transport) -> AsyncIterator[None]:
    """Audit that a server starts, and, when all of its runs have ended, that it stops.

    Raises:
        AuditError: The log can't be written, so the server must not start.
    """
    facts: dict[str, JsonValue] = {"version": version_of_gloveport(), "transport": transport, "pid": os.getpid()}
    engine.audit.append("server.start", facts)
    try:
        yield
    finally:
        with anyio.CancelScope(shield=True):
            await engine.runs.end()
        engine.audit.append("server.stop", facts)
