"""The tools for skills: one thin function each. Each refusal says how to correct the call."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import mcp_types as wire
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.tools import Tool
from msgspec import Struct

from gloveport.errors import GloveportError
from gloveport.model import Language
from gloveport.policy.decisions.skill_grant import describe_grant
from gloveport.sandbox.run.capture import plain
from gloveport.server.rendering.replies import error_reply, text_reply, to_wire
from gloveport.server.rendering.run_reply import RunReply, reply_refusal
from gloveport.server.request_caller import caller_of
from gloveport.server.tools.argument_check import takes
from gloveport.server.tools.client_sampling import can_sample
from gloveport.server.tools.code import ACTS, RunId, Tools, describe_tool
from gloveport.server.tools.elicitation import Reply
from gloveport.server.tools.run_calls import RunSkillArguments
from gloveport.skills.skill_library import KeptSkill
from gloveport.skills.skill_threads import SKILL_WRITES

Item = TypeVar("Item")


class SkillTools(Struct, frozen=True, kw_only=True):
    """The tools for skills, and what they need."""

    tools: Tools

    async def save_skill(
        self,
        ctx: Context[Any, Any],
        name: str,
        description: str,
        from_run: RunId | None = None,
        code: str | None = None,
        language: Language | None = None,
    ) -> wire.CallToolResult:
        """Keep a program as a skill: that of a run that succeeded, whose rights it gets once approved, or code. Lines
        `MONTH = 11  # parameter: …` (`//` in TypeScript) are its parameters.
        """
        skills = self.tools.engine.skill_requests
        save: Callable[..., KeptSkill]
        if from_run is not None and code is None and language is None:
            save = partial(skills.save_run, run_id=from_run)
        elif from_run is None and code is not None and language is not None:
            save = partial(skills.save, code=code, language=language)
        else:
            return error_reply("save_skill was not carried out", "hint: give from_run alone, or code and language")
        return await self._answer(ctx, partial(save, name, description), lambda entry: _saved_text(entry, "saved"))

    async def update_skill(self, ctx: Context[Any, Any], name: str, patch: str) -> wire.CallToolResult:
        """Patch a skill's program: blocks of lines `<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE`, exact."""
        update = partial(self.tools.engine.skill_requests.update, name, patch)
        return await self._answer(ctx, update, lambda entry: _saved_text(entry, "updated"))

    async def delete_skill(self, ctx: Context[Any, Any], name: str) -> wire.CallToolResult:
        """Delete it."""
        delete = partial(self.tools.engine.skill_requests.delete, name)
        return await self._answer(ctx, delete, lambda _: f"deleted: {name}")

    @takes(RunSkillArguments)
    async def run_skill(
        self, ctx: Context[Any, Any], arguments: RunSkillArguments
    ) -> wire.CallToolResult | wire.InputRequiredResult:
        """Run a skill; search_tools finds them. Programs import it: `from skills import my_skill`."""
        if ctx.request_state is not None:
            return await self.tools.again(ctx)
        caller = caller_of(ctx, self.tools.transport)
        run = await self.tools.calls.begin_skill(arguments, caller, can_sample=can_sample(ctx))
        if isinstance(run, RunReply):
            return to_wire(run)
        return await self.tools.attend(ctx, run, arguments.wait_seconds)

    async def _answer(
        self, ctx: Context[Any, Any], work: Callable[..., Item], text: Callable[[Item], str]
    ) -> wire.CallToolResult:
        caller = caller_of(ctx, self.tools.transport)
        try:
            item = await SKILL_WRITES.run(partial(work, caller=caller.name, owner=caller.share))
        except GloveportError as error:
            refused = reply_refusal(error).text  # it may quote the skill
            return error_reply(self.tools.engine.clean(plain(refused)))
        return text_reply(self.tools.engine.clean(text(item)))


def describe_skill_tools(tools: Tools) -> list[Tool]:
    """Describe the tools for clients."""
    skills = SkillTools(tools=tools)
    offered: list[tuple[Callable[..., Awaitable[Reply]], str]] = [
        (skills.save_skill, "Save a skill"),
        (skills.update_skill, "Update a skill"),
        (skills.delete_skill, "Delete a skill"),
        (skills.run_skill, "Run a skill"),
    ]
    return [describe_tool(function, title, ACTS) for function, title in offered]


def _saved_text(entry: KeptSkill, done: str) -> str:
    skill = entry.skill
    lines = [f"{done}: {skill.name}, version {skill.version}, a candidate (skill://{skill.name}/SKILL.md)"]
    if skill.parameters:
        lines.append(f"takes: {', '.join(f'{one.name}: {one.type}' for one in skill.parameters)}")
    lines += [f"would be granted: {line}" for line in describe_grant(skill.grant)]
    lines.append(f"Until the owner approves it (gloveport skills approve {skill.name}) it runs as any program does.")
    return "\n".join(lines)
