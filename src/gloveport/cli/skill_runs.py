"""Runs skills for a person at a terminal: once, to learn what one does, or its examples again."""

import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import typer

from gloveport.errors import Denied
from gloveport.untrusted_text import printable, printable_lines

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from pydantic import JsonValue

    from gloveport.config import Config
    from gloveport.engine.execution import Engine
    from gloveport.model import Result
    from gloveport.policy.decisions.skill_grant import UsedRight
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary


def audit_facts(kept: "KeptSkill") -> "dict[str, str | int]":
    """What the audit log says of a skill."""
    return {"skill": kept.skill.name, "sha256": kept.skill.snapshot.sha256, "version": kept.skill.version}


async def replay_examples(config: "Config", library: "SkillLibrary", chosen: "list[KeptSkill]") -> bool:
    """Run every example of these; whether all came out as they should. Nobody is asked meanwhile."""
    from gloveport.engine.skill_replay import find_deviation

    passed = True
    async with _engine(config) as engine:
        for kept in chosen:
            why = ""
            for number, example in enumerate(kept.skill.examples, 1):
                result = await _execute(engine, kept, example.arguments, example.files, None)
                if deviation := find_deviation(example, result):
                    why = why or f"example {number}: {deviation}"
            engine.audit.append(
                "skill.tested", {**audit_facts(kept), "passed": not why, "by": f"cli (uid {os.getuid()})"}
            )
            library.mark(kept, why)
            typer.echo(printable_lines(f"{kept.skill.name}: {why or 'ok'}"))
            passed &= not why
    return passed


async def run_skill(
    config: "Config",
    kept: "KeptSkill",
    arguments: "dict[str, JsonValue]",
    used: "set[UsedRight] | None",
    environment: str | None = None,
) -> "Result":
    """Run it, under its own rights, or to learn what it does, in this environment, as any program does."""
    async with _engine(config) as engine:
        return await _execute(engine, kept, arguments, {}, used, asks=True, environment=environment)


def _engine(config: "Config") -> "AbstractAsyncContextManager[Engine]":
    from gloveport.bootstrap import app as composition
    from gloveport.cli.backend import choose_connect
    from gloveport.config.schema import PoolSettings

    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})
    return composition.assemble(alone, os.environ, choose_connect(config))


async def _execute(
    engine: "Engine",
    kept: "KeptSkill",
    arguments: "Mapping[str, JsonValue]",
    files: "Mapping[str, str]",
    used: "set[UsedRight] | None",
    *,
    asks: bool = False,
    environment: str | None = None,
) -> "Result":
    """One run of exactly what was read. What a rule asks about is put into the queue, or, without ``asks``, refused.

    ``environment``: the one to learn it in, where that is not its own.
    """
    import base64
    from dataclasses import replace

    from gloveport.engine.run_context import RunContext, SkillRun
    from gloveport.model import Request
    from gloveport.skills.parameters import bind_arguments

    skill = kept.skill
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
    rights = kept.rights if used is None else None
    context = RunContext(skill=SkillRun(name=skill.name, sha256=skill.snapshot.sha256, rights=rights), used=used)

    def tell() -> None:
        for question in engine.desk.pending(context.run_id):
            typer.echo(f"gloveport: {printable(question.text)}", err=True)
            typer.echo(f"hint: gloveport approvals approve {question.id}", err=True)

    if asks:
        context = replace(context, asker=engine.desk.asker(tell))
    return await engine.execute(request, caller=f"cli (uid {os.getuid()})", context=context)


def read_arguments(given: "list[str] | None") -> "dict[str, JsonValue]":
    """The arguments of ``--set NAME=VALUE``: JSON, or else text. Raises ``typer.BadParameter``."""
    arguments: dict[str, JsonValue] = {}
    for word in given or ():
        name, equals, text = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"{word!r}: write NAME=VALUE", param_hint="--set")
        try:
            arguments[name] = json.loads(text)
        except ValueError:
            arguments[name] = text
    return arguments


def show_result(result: "Result") -> None:
    """Print what a run came to; exit with 1 where it failed, 3 where it was refused."""
    from gloveport.server.rendering.result_text import failure_text, refusals, value_text

    typer.echo(result.stdout.text, nl=False)
    typer.echo(result.stderr.text, err=True, nl=False)
    if value := value_text(result):
        typer.echo(value)
    for line in (*([failure_text(result.error)] if result.error else []), *refusals(result)):
        typer.echo(line, err=True)
    if result.status != "ok":
        raise typer.Exit(3 if result.status == "denied" else 1)
