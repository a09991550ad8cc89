"""Makes ``server_offer.json``: tools, resource templates and prompts as the SDK lists them."""

import json
from typing import Any

from mcp.server import MCPServer
from mcp.server.mcpserver.tools import Tool
from pydantic import BaseModel

from gloveport.server.protocol import add_resources
from gloveport.server.tools.artifact_tool import ArtifactTool
from gloveport.server.tools.code import Tools, describe
from gloveport.server.tools.offer import describe_tools
from gloveport.server.tools.skill_resources import SkillTexts, add_skill_texts
from gloveport.server.tools.skill_tools import describe_skill_tools

_NOBODY: Any = None
"""Stands for the engine and other dependencies of the tools, none of which is called."""


async def render_offer() -> str:
    """Return the content of the file."""
    tools = Tools(engine=_NOBODY, inspection=_NOBODY, transport="stdio")
    server: MCPServer[Any] = MCPServer("listing")
    add_resources(server, tools, ArtifactTool(engine=_NOBODY, transport="stdio"))
    skills: MCPServer[Any] = MCPServer("listing")
    add_skill_texts(skills, SkillTexts(library=_NOBODY, transport="stdio"))
    listing = {
        "code": await _list_tools(describe(tools)),
        "skills": await _list_tools(describe_skill_tools(tools)),
        "workspace": await _list_tools(describe_tools(_NOBODY, "")),
        "templates": [_plain(one) for one in await server.list_resource_templates()],
        "skill_templates": [_plain(one) for one in await skills.list_resource_templates()],
        "skill_prompts": [_plain(one) for one in await skills.list_prompts()],
    }
    return json.dumps(listing, indent=1, ensure_ascii=False) + "\n"


async def _list_tools(tools: list[Tool]) -> list[dict[str, Any]]:
    server: MCPServer[Any] = MCPServer("listing", tools=tools)
    return [_plain(one) for one in await server.list_tools()]


def _plain(model: BaseModel) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
