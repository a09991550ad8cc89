"""All tools that a server offers, page by page, within bounds.

The SDK's session is not told of them: it would keep what it is told, and check answers by it.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import mcp_types as wire
from mcp import Client
from mcp.shared.inbound import find_invalid_x_mcp_header, x_mcp_header_map
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError

from gloveport.errors import UpstreamError
from gloveport.hub.connection.wire import Headers
from gloveport.hub.definition import Definition, definition_of
from gloveport.policy.wording import shown

_MOST_PAGES, _MOST_TOOLS = 200, 10_000
_MOST_NAME_CHARS = 128

_log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Listing:
    """What a server offers.

    Attributes:
        tools: In the server's order.
        headers: Arguments that have to be repeated in headers, by the name of the tool.
    """

    tools: tuple[Definition, ...] = ()
    headers: Mapping[str, Headers]


async def list_tools(server: str, client: Client, most: int) -> Listing:
    """Ask for all pages.

    A tool is left out whose name is empty, long or not printable, or was there before; or whose headers are not as
    the protocol wants them.

    Args:
        server: What the operator calls it.
        client: Connected with it.
        most: Bytes of all pages together.

    Raises:
        UpstreamError: It is too much, or does not end, or is no list of tools.
        MCPError: The server refuses.
    """
    if client.server_capabilities.tools is None:
        return Listing(headers={})
    found: dict[str, wire.Tool] = {}
    cursors: set[str] = set()
    cursor: str | None = None
    size = count = 0
    for _ in range(_MOST_PAGES):
        page = await _page(server, client, cursor)
        size, count = size + len(page.model_dump_json()), count + len(page.tools)
        if size > most or count > _MOST_TOOLS:
            raise _fault(server, f"lists more than {_MOST_TOOLS} tools or {most} bytes")
        for tool in page.tools:
            if _is_fit(tool, client) and tool.name not in found:
                found[tool.name] = tool
        cursor = page.next_cursor
        if cursor is None:
            break
        if cursor in cursors:
            raise _fault(server, "lists the same page of its tools again")
        cursors.add(cursor)
    else:
        raise _fault(server, f"lists its tools on more than {_MOST_PAGES} pages")
    if left_out := count - len(found):
        _log.warning("server %s: %d of its tools are left out for their names or headers", server, left_out)
    repeating = found if client.protocol_version in MODERN_PROTOCOL_VERSIONS else {}
    headers = {name: x_mcp_header_map(tool.input_schema) for name, tool in repeating.items()}
    return Listing(
        tools=tuple(definition_of(server, tool) for tool in found.values()),
        headers={name: repeated for name, repeated in headers.items() if repeated},
    )


async def _page(server: str, client: Client, cursor: str | None) -> wire.ListToolsResult:
    request = wire.ListToolsRequest(params=wire.PaginatedRequestParams(cursor=cursor))
    try:
        return await client.session.send_request(request, wire.ListToolsResult)
    except ValidationError as error:
        raise _fault(server, "answers with what is no list of tools") from error


def _is_fit(tool: wire.Tool, client: Client) -> bool:
    if not (0 < len(tool.name) <= _MOST_NAME_CHARS and tool.name.isprintable()):
        return False
    modern = client.protocol_version in MODERN_PROTOCOL_VERSIONS
    return not modern or find_invalid_x_mcp_header(tool.input_schema) is None


def _fault(server: str, what: str) -> UpstreamError:
    return UpstreamError("bad_answer", f"The server {shown(server)} {what}.", hint="It is not used as it is.")
