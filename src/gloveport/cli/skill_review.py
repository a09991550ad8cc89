"""Renders a skill for a person's review: everything that an approval covers, and what the policy allows of it now."""

import contextlib
import json
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gloveport.errors import ConfigError, Denied
from gloveport.untrusted_text import one_line, printable

if TYPE_CHECKING:
    from gloveport.config import Config
    from gloveport.model import Action
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary


def review_lines(kept_skill: "KeptSkill", config: "Config") -> list[str]:
    """Render everything that an approval covers, escaped."""
    skill = kept_skill.skill
    lines = [
        f"{skill.name}, version {skill.version}: {kept_skill.state}",
        f"  from      {kept_skill.origin}"
        + (f", by the caller {kept_skill.record.owner}" if kept_skill.record.owner else ""),
        f"  says      {one_line(skill.head.description, 1024)}",
        f"  sha256    {skill.snapshot.sha256}",
        *(
            f"  takes     {one.name}: {one.type} = {json.dumps(one.default)}  {one.description}"
            for one in skill.parameters
        ),
        *(
            f"  example   {json.dumps(one.arguments)} -> {json.dumps(one.stdout if one.value is None else one.value)}"[
                :400
            ]
            for one in skill.examples
        ),
    ]
    if kept_skill.record.stale is not None and kept_skill.state == "stale":
        lines.append(f"  stale     {one_line(kept_skill.record.stale.why, 500)}")
    lines += [f"  may       {line}" for line in _grant_lines(kept_skill, config)]
    if skill.language is not None:
        lines += ["", f"{skill.language}:", *(f"  {line}" for line in skill.code.rstrip("\n").split("\n"))]
    lines += ["", "SKILL.md, which models read:", *(f"  {line}" for line in skill.body.strip().split("\n"))]
    shown_paths = {"SKILL.md", skill.head.metadata.get("gloveport.entry", "")}
    others = [path for path in skill.snapshot.files if path not in shown_paths]
    lines += ["", *(f"  file      {path} ({len(skill.snapshot.files[path])} bytes)" for path in sorted(others))]
    return [printable(line) for line in lines]  # escaped line ends: no text can forge a line of ours


def _grant_lines(kept_skill: "KeptSkill", config: "Config") -> Iterator[str]:
    """Render each right of the skill, with the policy's present decision about it."""
    from gloveport.policy.decisions.skill_grant import describe_grant, sample_actions

    grant = kept_skill.skill.grant
    if not describe_grant(grant):
        yield "reach nothing"
    for line, action in sample_actions(grant, _natures_of_tools(grant.tools, config)):
        yield f"{line}  ({_verdict(config, action)})"
    for mount in grant.mounts:
        yield f"files {mount}  ({_mount_verdict(config, mount)})"
    decided = {"requests": (), "connections": (), "tools": (), "sampling": False, "mounts": ()}
    yield from describe_grant(grant.model_copy(update=decided))
    if grant.environment and grant.environment not in config.environments:
        yield f"(refused: there is no environment {grant.environment})"


def _verdict(config: "Config", action: "Action | None") -> str:
    from gloveport.model import Allow, Ask, Grant
    from gloveport.model.hub import CallTool
    from gloveport.policy.decisions.decide import decide
    from gloveport.policy.decisions.tools import depends_on_arguments, toolbox_of

    if action is None:
        return "refused: there is no such place"
    toolbox = toolbox_of(config.servers)
    if isinstance(action, CallTool) and depends_on_arguments(toolbox, action):
        return f"its arguments decide: servers.{action.server}.rules"
    match decide(Grant(egress=config.way_out, toolbox=toolbox, sampling=config.sampling), action):
        case Allow(rule=rule):
            return f"allowed: {rule}"
        case Ask(rule=rule):
            return f"ASKS: {rule}"
        case denial:
            return f"refused: {denial.reason}"


def _mount_verdict(config: "Config", target: str) -> str:
    from gloveport.bootstrap.workspace_plans import ELSEWHERE

    workspace = config.workspace
    if any(target == mount.target for mount in config.policy.mounts):
        return "allowed, to read: policy.mounts"
    if workspace.root and target in (str(workspace.root), ELSEWHERE) and workspace.programs != "none":
        return f"allowed, to {workspace.programs}: workspace.programs"
    return "refused: no directory is shown there"


def _natures_of_tools(names: "tuple[str, ...]", config: "Config") -> "dict[str, tuple[bool, bool]]":
    """Look up, in the accepted definitions of these tools, whether each only reads and whether it may destroy."""
    from gloveport.config import state_directory
    from gloveport.hub.pins import Pins, identity_of

    pins = Pins(state_directory(os.environ) / "servers")
    natures: dict[str, tuple[bool, bool]] = {}
    for server in {name.partition("/")[0] for name in names} & config.servers.keys():
        with contextlib.suppress(ConfigError):
            for tool in pins.load(server, identity_of(config.servers[server])) or ():
                natures[f"{server}/{tool.name}"] = tool.read_only, tool.destructive
    return natures


def list_row(library: "SkillLibrary", name: str) -> dict[str, str]:
    """Describe a skill for the list, even one that can't be read."""
    try:
        kept_skill = library.find(name)
    except Denied as denial:
        return {"name": name, "state": "unusable", "origin": "", "description": denial.reason}
    return {
        "name": name,
        "state": kept_skill.state,
        "origin": kept_skill.origin,
        "description": kept_skill.skill.head.description,
    }
