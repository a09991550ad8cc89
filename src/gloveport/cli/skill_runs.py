"""Runs skills for a person at a terminal: a single run, a run to learn a grant, or a replay of examples."""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

import typer

from gloveport.cli.run_printing import make_teller
from gloveport.errors import Denied
from gloveport.untrusted_text import printable, printable_lines

if TYPE_CHECKING:
    from gloveport.config import Loaded
    from gloveport.engine.execution import Engine
    from gloveport.model import Result
    from gloveport.model.json_value import JsonValue
    from gloveport.model.skill import SkillGrant
    from gloveport.policy.decisions.skill_grant import UsedRight
    from gloveport.skills.skill_files import Example
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary


def audit_facts(kept_skill: "KeptSkill") -> "dict[str, str | int]":
    """Describe a skill for the audit log."""
    skill = kept_skill.skill
    return {"skill": skill.name, "sha256": skill.snapshot.sha256, "version": skill.version}


async def replay_examples(found: "Loaded", library: "SkillLibrary", chosen: "list[KeptSkill]") -> bool:
    """Run every example of these skills; return whether all have the expected results. Nobody is asked meanwhile."""
    from gloveport.engine.skill_replay import find_deviation

    passed = True
    async with _open_engine(found) as engine:
        for kept_skill in chosen:
            why = ""
            for number, example in enumerate(kept_skill.skill.examples, 1):
                result = await _execute(engine, kept_skill, example.arguments, example.files, None)
                if deviation := find_deviation(example, result):
                    why = why or f"example {number}: {deviation}"
            engine.audit.append(
                "skill.tested", {**audit_facts(kept_skill), "passed": not why, "by": f"cli (uid {os.getuid()})"}
            )
            library.mark(kept_skill, why)
            typer.echo(printable_lines(f"{kept_skill.skill.name}: {why or 'ok'}"))
            passed &= not why
    return passed


async def run_skill(found: "Loaded", kept_skill: "KeptSkill", arguments: "dict[str, JsonValue]") -> "Result":
    """Run a skill: an approved one with its own grant, another one as any program."""
    async with _open_engine(found) as engine:
        return await _execute(engine, kept_skill, arguments, {}, None, asks=True)


async def learn_skill(
    found: "Loaded", kept_skill: "KeptSkill", arguments: "dict[str, JsonValue]", environment: str
) -> "tuple[SkillGrant, Example]":
    """Run a skill in this environment, as any program, to learn what it does.

    Raises:
        typer.Exit: The skill has failed.
        Denied: It did more things than a grant may have.
    """
    from gloveport.engine.skill_replay import example_of
    from gloveport.policy.decisions.skill_grant import MOST_USED, learn_grant

    used: set[UsedRight] = set()
    async with _open_engine(found) as engine:
        result = await _execute(engine, kept_skill, arguments, {}, used, asks=True, environment=environment)
        mounts = [mount.target for mount in engine.policy.mounts]
    if result.status != "ok":
        show_result(result)
    if len(used) > MOST_USED:
        raise Denied("too_much_used", f"It has done more than {MOST_USED} different things: no grant can be learned.")
    values = {one.name: one.default for one in kept_skill.skill.parameters} | arguments
    grant = learn_grant(used, values, mounts, kept_skill.skill.code, environment)
    return grant, example_of(result, arguments=arguments, files={}, exact=not used)


@contextlib.asynccontextmanager
async def _open_engine(found: "Loaded") -> "AsyncIterator[Engine]":
    """Open an engine for a few runs. Its programs see the workspace read-only, as those of a server do."""
    from gloveport.bootstrap.app import assemble_on
    from gloveport.bootstrap.host_setup import open_host
    from gloveport.cli.backend import choose_connect, show_workspace
    from gloveport.config.schema import PoolSettings

    alone = found.config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})
    with open_host(alone, os.environ) as host:
        view_config = show_workspace(alone, host, found)
        async with assemble_on(host, view_config, os.environ, choose_connect(alone)) as engine:
            yield engine


async def _execute(
    engine: "Engine",
    kept_skill: "KeptSkill",
    arguments: "Mapping[str, JsonValue]",
    files: "Mapping[str, str]",
    used: "set[UsedRight] | None",
    *,
    asks: bool = False,
    environment: str | None = None,
) -> "Result":
    """Run exactly the skill that was read. Questions go to the queue, or are refused without ``asks``.

    ``environment``: another environment than the skill's own, to learn it in.
    """
    import base64

    from msgspec.structs import replace

    from gloveport.engine.run_context import RunContext, SkillRun
    from gloveport.model import Request
    from gloveport.skills.parameters import bind_arguments

    skill = kept_skill.skill
    if skill.language is None:
        raise Denied(
            "bad_skill", f"{skill.name} has no program that runs here.", hint="Read it: gloveport skills show."
        )
    request = Request(
        language=skill.language,
        code=bind_arguments(skill.language, skill.code, skill.marked, arguments),
        files={name: base64.b64decode(text) for name, text in files.items()},
        environment=(skill.grant.environment if environment is None else environment) or None,
    )
    rights = kept_skill.rights if used is None else None
    context = RunContext(skill=SkillRun(name=skill.name, sha256=skill.snapshot.sha256, rights=rights), used=used)
    if asks:
        tell = make_teller(engine, context.run_id, lambda line: typer.echo(printable(line), err=True))
        context = replace(context, asker=engine.desk.asker(tell))
    return await engine.execute(request, caller=f"cli (uid {os.getuid()})", context=context)


def read_arguments(kept_skill: "KeptSkill", assignments: "list[str] | None") -> "dict[str, JsonValue]":
    """Parse the arguments of ``--set NAME=VALUE``: JSON, or else text; for a text parameter JSON only if quoted.

    Raises:
        typer.BadParameter: An argument has no such form.
    """
    texts = {one.name for one in kept_skill.skill.parameters if one.type == "string"}
    arguments: dict[str, JsonValue] = {}
    for word in assignments or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r}: write NAME=VALUE", param_hint="--set")
        try:
            arguments[name] = text if name in texts and not text.startswith('"') else json.loads(text)
        except ValueError:
            arguments[name] = text
    return arguments


def show_result(result: "Result") -> None:
    """Print the result of a run; exit with 1 if it failed, 3 if it was refused."""
    from gloveport.server.rendering.result_text import failure_text, refusals, value_text

    typer.echo(result.stdout.text, nl=False)
    typer.echo(result.stderr.text, err=True, nl=False)
    if value := value_text(result):
        typer.echo(value)
    for line in (*([failure_text(result.error)] if result.error else []), *refusals(result)):
        typer.echo(line, err=True)
    if result.status != "ok":
        raise typer.Exit(3 if result.status == "denied" else 1)
