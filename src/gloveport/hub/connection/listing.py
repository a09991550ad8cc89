"""Lists all tools that a server offers, page by page, within bounds.

The SDK's session never sees the listing: it would store the schemas, and check answers by them.
"""

import logging
from collections.abc import Mapping

import mcp_types as wire
from anyio import to_thread
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gloveport.errors import UpstreamError
from gloveport.hub.connection.unreadable import TOO_LARGE
from gloveport.hub.connection.wire import Headers
from gloveport.hub.definition import Definition, definition_of
from gloveport.policy.wording import quote_sent
from gloveport.untrusted_text import is_visible

_MOST_PAGES, _MOST_TOOLS = 200, 10_000
_MOST_NAME_CHARS = 128
_MOST_TOOL_BYTES, _MOST_TOOLS_BYTES = 256 << 10, 2 << 20
"""Most bytes of one tool with its schemas, and of all: comparing, indexing and declaring them takes time by size."""

_log = logging.getLogger(__name__)


async def list_tools(server: str, client: Client, most: int) -> tuple[tuple[Definition, ...], Mapping[str, Headers]]:
    """Request all pages, which may have ``most`` bytes together.

    Return the accepted tools, in the server's order, and which arguments of a tool are repeated in HTTP headers, by the
    name of the tool.

    A tool is left out if its name is empty, long, not printable or a repetition; if it is larger than 256 KiB; or if
    its headers break the protocol. All others together may have 2 MiB.

    Raises:
        UpstreamError: The listing is too large, does not end, or is no list of tools.
        MCPError: The server refuses.
    """
    if client.server_capabilities.tools is None:
        return (), {}
    found: dict[str, wire.Tool] = {}
    cursors: set[str] = set()
    cursor: str | None = None
    size = count = fit_bytes = 0
    for _ in range(_MOST_PAGES):
        page = await _page(server, client, cursor)
        sizes = await to_thread.run_sync(_sizes, page)
        size, count = size + sum(sizes), count + len(page.tools)
        if size > most or count > _MOST_TOOLS:
            raise _fault(server, f"lists more than {_MOST_TOOLS} tools or {most} bytes")
        for tool, bytes_ in zip(page.tools, sizes, strict=True):
            if bytes_ <= _MOST_TOOL_BYTES and _is_fit(tool, client) and tool.name not in found:
                found[tool.name] = tool
                fit_bytes += bytes_
        if fit_bytes > _MOST_TOOLS_BYTES:
            raise _fault(server, f"lists tools of more than {_MOST_TOOLS_BYTES} bytes together")
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in cursors:
            raise _fault(server, "lists the same page of its tools again")
        cursors.add(cursor)
    else:
        raise _fault(server, f"lists its tools on more than {_MOST_PAGES} pages")
    if left_out := count - len(found):
        _log.warning("server %s: %d of its tools are left out for their names, size or headers", server, left_out)
    repeating = found if client.protocol_version in MODERN_PROTOCOL_VERSIONS else {}
    headers = {name: x_mcp_header_map(tool.input_schema) for name, tool in repeating.items()}
    tools = await to_thread.run_sync(lambda: tuple(definition_of(server, tool) for tool in found.values()))
    return tools, {name: repeated for name, repeated in headers.items() if repeated}


async def _page(server: str, client: Client, cursor: str | None) -> wire.ListToolsResult:
    request = wire.ListToolsRequest(params=wire.PaginatedRequestParams(cursor=cursor))
    try:
        return await client.session.send_request(request, wire.ListToolsResult)
    except ValidationError as error:
        raise _fault(server, "answers with what is no list of tools") from error
    except MCPError as error:
        if error.code != TOO_LARGE:
            raise
        raise _fault(server, f"lists tools on a page of {error.message}") from error


def _sizes(page: wire.ListToolsResult) -> list[int]:
    """Bytes of each tool, schemas included."""
    return [len(tool.model_dump_json(exclude_none=True)) for tool in page.tools]


def _is_fit(tool: wire.Tool, client: Client) -> bool:
    if not (0 < len(tool.name) <= _MOST_NAME_CHARS and is_visible(tool.name)):
        return False
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    return not modern or find_invalid_x_mcp_header(tool.input_schema) is None


def _fault(server: str, what: str) -> UpstreamError:
    return UpstreamError("bad_answer", f"The server {quote_sent(server)} {what}.", hint="It is not used as it is.")
