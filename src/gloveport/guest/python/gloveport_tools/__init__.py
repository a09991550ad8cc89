"""The package by which a program in the sandbox calls tools and skills. Standard library only; asks over the door."""

import sys

from gloveport_tools.channel import Channel
from gloveport_tools.code_executor import code_executor
from gloveport_tools.host import HostClient
from gloveport_tools.language_model import language_model
from gloveport_tools.results import PLAIN, SkillError, ToolError, ToolResult
from gloveport_tools.skills import SkillsFinder
from gloveport_tools.tree import ToolsModule

__all__ = ["PLAIN", "install"]


def install(address):
    """Make the module ``tools``, and return the further names of a program. Nothing is requested before it is needed.
    ``address`` is where the host listens, such as ``127.0.0.3:3128``.
    """
    channel = Channel(address)
    host = HostClient(channel)
    functions = code_executor(host)
    tools = ToolsModule(host, ToolError=ToolError, ToolResult=ToolResult, search_tools=functions["search_tools"])
    sys.modules["tools"] = tools  # before any file of that name: programs get the documented module
    sys.meta_path.append(SkillsFinder(HostClient(channel, SkillError)))
    return {"tools": tools, "llm": language_model(host), "ToolError": ToolError, **functions}
