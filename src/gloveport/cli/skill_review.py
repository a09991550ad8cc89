"""What a person reads of a skill before it is approved: all that the approval is of, and what it may do now."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gloveport.errors import Denied
from gloveport.untrusted_text import one_line, printable_lines

if TYPE_CHECKING:
    from gloveport.config import Config
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary


def review_lines(kept: "KeptSkill", config: "Config") -> list[str]:
    """Everything that an approval is of, escaped."""
    skill = kept.skill
    lines = [
        f"{skill.name}, version {skill.version}: {kept.state}",
        f"  from      {kept.origin}" + (f", by the caller {kept.record.owner}" if kept.record.owner else ""),
        f"  says      {one_line(skill.head.description, 1024)}",
        f"  sha256    {skill.snapshot.sha256}",
        *(
            f"  takes     {one.name}: {one.type} = {json.dumps(one.default)}  {one.description}"
            for one in skill.parameters
        ),
        *(f"  example   {json.dumps(one.arguments)} -> {json.dumps(one.value)}"[:400] for one in skill.examples),
    ]
    if kept.record.stale is not None and kept.state == "stale":
        lines.append(f"  stale     {one_line(kept.record.stale.why, 500)}")
    lines += [f"  may       {line}" for line in _grant_lines(kept, config)]
    if skill.language is not None:
        lines += ["", f"{skill.language}:", *(f"  {line}" for line in skill.code.rstrip("\n").split("\n"))]
    lines += ["", "SKILL.md, which models read:", *(f"  {line}" for line in skill.body.strip().split("\n"))]
    told = {"SKILL.md", skill.head.metadata.get("gloveport.entry", "")}
    others = [path for path in skill.snapshot.files if path not in told]
    lines += ["", *(f"  file      {path} ({len(skill.snapshot.files[path])} bytes)" for path in sorted(others))]
    return [printable_lines(line) for line in lines]


def _grant_lines(kept: "KeptSkill", config: "Config") -> Iterator[str]:
    """What it may do, each with what the policy says of it just now."""
    from gloveport.model import Allow, Ask
    from gloveport.policy.decisions.outbound import decide_fetch
    from gloveport.policy.decisions.skill_grant import describe_grant, sample_actions

    grant = kept.skill.grant
    if not describe_grant(grant):
        yield "reach nothing"
    for line, action in sample_actions(grant):
        match decide_fetch(config.way_out, action):
            case Allow(rule=rule):
                yield f"{line}  (allowed: {rule})"
            case Ask(rule=rule):
                yield f"{line}  (ASKS: {rule})"
            case denial:
                yield f"{line}  (refused: {denial.reason})"
    yield from describe_grant(grant.model_copy(update={"requests": ()}))
    if grant.environment and grant.environment not in config.environments:
        yield f"(refused: there is no environment {grant.environment})"


def list_row(library: "SkillLibrary", name: str) -> dict[str, str]:
    """What a list says of a skill, also of one that can't be read."""
    try:
        kept = library.find(name)
    except Denied as denial:
        return {"name": name, "state": "unusable", "origin": "", "description": denial.reason}
    return {
        "name": name,
        "state": kept.state,
        "origin": kept.origin,
        "description": kept.skill.head.description,
    }
