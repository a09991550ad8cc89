"""``gloveport skills``: makes, shows, approves and exchanges skills.

Programs, agents and strangers wrote the shown texts, so all of them are escaped for the terminal.
"""

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from gloveport.cli.config_loading import load_with_origins
from gloveport.cli.folded_lines import echo_lines
from gloveport.cli.options import AsJson, ConfigOption, Yes, confirm, escape_unencodable, recording
from gloveport.cli.run_options import language_of
from gloveport.cli.skill_editor import edit_text, read_text
from gloveport.cli.skill_exchange import export_skill, find_elsewhere, import_skill
from gloveport.cli.skill_review import list_row, review_lines
from gloveport.cli.skill_runs import audit_facts, learn_skill, read_arguments, replay_examples, run_skill, show_result
from gloveport.errors import Denied
from gloveport.real_paths import real
from gloveport.untrusted_text import one_line, printable

if TYPE_CHECKING:
    from gloveport.config import Loaded
    from gloveport.model import Language
    from gloveport.skills.skill_library import KeptSkill, SkillLibrary

app = typer.Typer(no_args_is_help=True)

Name: TypeAlias = Annotated[str, typer.Argument(metavar="NAME", help="Of a skill; see `list`.")]

_TEMPLATES: "dict[Language, str]" = {
    "python": 'NAME = "world"  # parameter: whom to greet\n\nf"Hello, {NAME}"\n',
    "typescript": 'const NAME: string = "world"; // parameter: whom to greet\n\n`Hello, ${NAME}`;\n',
    "javascript": 'const NAME = "world"; // parameter: whom to greet\n\n`Hello, ${NAME}`;\n',
    "shell": 'NAME="world" # parameter: whom to greet\n\necho "Hello, $NAME"\n',
}


@app.callback()
def skills() -> None:
    """Keep programs under names, and say what each may do."""
    escape_unencodable()


@app.command()
def new(
    name: Name,
    description: Annotated[str, typer.Option("-d", "--description", help="What it does, and when to use it.")],
    language: Annotated[
        str | None, typer.Option("-l", "--language", help="Default: by the file's name, else python.")
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", help="Its program. Default: an example.")] = None,
    config: ConfigOption = None,
) -> None:
    """Make a skill from a program. It is a candidate, and was granted nothing."""
    from gloveport.model import LANGUAGES
    from gloveport.model.skill import SkillGrant
    from gloveport.skills.skill_files import make_files

    known_language = next((one for one in LANGUAGES if one == (language or language_of(file))), None)
    if known_language is None:
        raise typer.BadParameter(f"there are: {', '.join(LANGUAGES)}", param_hint="--language")
    code = _TEMPLATES[known_language] if file is None else read_text(file)
    _, library = _open(config)
    files = make_files(name, description, known_language, code, grant=SkillGrant())
    with recording(config) as record:
        kept_skill = library.save(name, files, owner="")
        record("skill.saved", audit_facts(kept_skill))
    typer.echo(f"saved {kept_skill.store.directory / name}\nhint: gloveport skills edit {name}")


@app.command("list")
def list_(config: ConfigOption = None, as_json: AsJson = False) -> None:
    """Print each skill, whether it is approved, where it comes from and what it is for."""
    _, library = _open(config)
    rows = [list_row(library, name) for name, _ in library.places()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        typer.echo("no skill is kept; `gloveport skills new` makes one, and agents save what has worked")
    width = max((len(row["name"]) for row in rows), default=0)
    echo_lines(
        f"{row['name'].ljust(width)}  {row['state'].ljust(9)}  "
        f"{one_line(row['origin'], 60)}  {one_line(row['description'], 100)}"
        for row in rows
    )


@app.command()
def show(name: Name, config: ConfigOption = None, as_json: AsJson = False) -> None:
    """Print what a skill is, what it may do, and its program."""
    found, library = _open(config)
    kept_skill = library.find(name)
    if as_json:
        skill = kept_skill.skill
        fields = {
            **list_row(library, name),
            "sha256": skill.snapshot.sha256,
            "files": dict(skill.snapshot.digests),
            "language": skill.language,
            "parameters": [one.model_dump(mode="json") for one in skill.parameters],
            "grant": skill.grant.model_dump(mode="json", exclude_defaults=True),
            "examples": len(skill.examples),
        }
        typer.echo(json.dumps(fields, indent=2))
        return
    echo_lines(review_lines(kept_skill, found.config))


@app.command()
def edit(
    name: Name,
    file: Annotated[Path | None, typer.Option("--file", help="Take its program from here, without an editor.")] = None,
    config: ConfigOption = None,
) -> None:
    """Change a skill's program in your editor. It is a candidate then, whatever it was."""
    from gloveport.config import environ_outside
    from gloveport.skills.skill_files import with_code

    found, library = _open(config)
    kept_skill = library.find(name)
    environ = environ_outside(found.config, os.environ)
    with contextlib.nullcontext(read_text(file)) if file else edit_text(kept_skill, environ) as code:
        if code == kept_skill.skill.code:
            typer.echo("nothing has changed")
            return
        with recording(config) as record:
            kept_skill = library.replace(kept_skill, with_code(kept_skill.skill, code))
            record("skill.saved", audit_facts(kept_skill))
    typer.echo(f"saved version {kept_skill.skill.version}: a candidate\nhint: gloveport skills approve {name}")


@app.command()
def run(
    name: Name,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An argument, as JSON.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run a skill: an approved one under its own grant, a candidate as any program."""
    from gloveport.event_loop import run as run_loop

    found, library = _open(config)
    kept_skill = library.find(name)
    show_result(run_loop(run_skill, found, kept_skill, read_arguments(kept_skill, assignments)))


@app.command()
def learn(
    name: Name,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="An argument, as JSON.")
    ] = None,
    environment: Annotated[
        str | None, typer.Option("--env", metavar="NAME", help="The environment that it needs; empty for none.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run a skill as any program; keep what it did as its grant, and the run as an example. It is a candidate then."""
    from gloveport.event_loop import run as run_loop
    from gloveport.policy.decisions.skill_grant import describe_grant
    from gloveport.skills.skill_files import with_grant

    found, library = _open(config)
    kept_skill = library.find(name)
    environment = kept_skill.skill.grant.environment if environment is None else environment
    grant, example = run_loop(learn_skill, found, kept_skill, read_arguments(kept_skill, assignments), environment)
    with recording(config) as record:
        kept_skill = library.replace(kept_skill, with_grant(kept_skill.skill, grant, example))
        record("skill.saved", audit_facts(kept_skill))
    for line in describe_grant(grant) or ["nothing"]:
        typer.echo(printable(f"it would be granted: {line}"))
    typer.echo(f"hint: gloveport skills approve {name}")


@app.command("test")
def replay(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all but a workspace's candidates.")
    ] = None,
    config: ConfigOption = None,
) -> None:
    """Run the examples of skills again, and mark those as stale of which one fails.

    The exit code is 1 where one does.
    """
    from gloveport.event_loop import run as run_loop

    found, library = _open(config)
    chosen = [library.find(name) for name in names] if names else [*_usable(library)]
    with_examples = [one for one in chosen if one.skill.language is not None and one.skill.examples]
    if not chosen:
        typer.echo("no skill to test; those of a workspace that nobody has approved are tested by name")
    without = {one.skill.name for one in chosen} - {one.skill.name for one in with_examples}
    for name in sorted(without):
        typer.echo(f"{name}: no example")
    if with_examples and not run_loop(replay_examples, found, library, with_examples):
        raise typer.Exit(1)


@app.command()
def approve(
    name: Name,
    config: ConfigOption = None,
    without_asking: Annotated[
        bool, typer.Option("--without-asking", help="Also say yes, for good, to what a rule would ask about.")
    ] = False,
    yes: Yes = False,
) -> None:
    """Approve a skill exactly as it is printed now. It runs under what is printed, and no more, from then on."""
    found, library = _open(config)
    kept_skill = library.find(name)
    if kept_skill.skill.language is None:
        raise Denied("bad_skill", f"{name} has no program that runs here.", hint="There is nothing to approve.")
    lines = review_lines(kept_skill, found.config)
    echo_lines(lines)
    if without_asking:
        typer.echo("\nwhat a rule asks about is allowed to it WITHOUT ASKING each time")
    if not yes:
        confirm(f"\napprove this, all {len(lines)} lines of it?")
    with recording(config) as record:
        record("skill.approved", {**audit_facts(kept_skill), "without_asking": without_asking})
        library.approve(kept_skill, uid=os.getuid(), without_asking=without_asking)
    typer.echo(f"approved: {name}")


@app.command()
def revoke(name: Name, config: ConfigOption = None) -> None:
    """Take an approval back. The skill is a candidate again."""
    _, library = _open(config)
    kept_skill = library.find(name)
    with recording(config) as record:
        library.revoke(kept_skill)
        record("skill.revoked", audit_facts(kept_skill))
    typer.echo(f"revoked: {name}")


@app.command("import")
def import_(
    paths: Annotated[list[Path] | None, typer.Argument(metavar="[DIRECTORY]...", help="Of a skill each.")] = None,
    config: ConfigOption = None,
) -> None:
    """Copy skills of other clients here, as candidates. Without a directory, print those that are found."""
    _, library = _open(config)
    if not paths:
        found = [*find_elsewhere()]
        for one in found:
            typer.echo(f"gloveport skills import {shlex.quote(printable(str(one)))}")
        if not found:
            typer.echo("no skill of another client was found; name the directory of one")
        return
    for path in paths:
        with recording(config) as record:
            kept_skill = import_skill(library, real(path))
            record("skill.imported", {**audit_facts(kept_skill), "origin": str(real(path))})
        runs = "" if kept_skill.skill.language else ", without a program that runs here"
        typer.echo(f"imported {kept_skill.skill.name}: a candidate{runs}")


@app.command()
def export(
    name: Name,
    directory: Annotated[Path, typer.Argument(help="Where to put its directory, such as .agents/skills.")],
    config: ConfigOption = None,
) -> None:
    """Copy a skill to where other clients find it. What was approved is not copied."""
    _, library = _open(config)
    export_skill(library.find(name), real(directory))
    typer.echo(f"exported: {printable(str(directory / name))}")


@app.command()
def remove(name: Name, config: ConfigOption = None, yes: Yes = False) -> None:
    """Remove a skill, and what was approved of it."""
    _, library = _open(config)
    kept_skill = library.find(name)
    if not yes:
        confirm(f"remove {name}?")
    with recording(config) as record:
        library.remove(kept_skill)
        record("skill.removed", audit_facts(kept_skill))
    typer.echo(f"removed: {name}")


def _open(config_path: Path | None) -> "tuple[Loaded, SkillLibrary]":
    from gloveport.bootstrap.skill_places import open_library

    found = load_with_origins(config_path)
    library = open_library(found.config, os.environ)
    library.own.require_readable()
    return found, library


def _usable(library: "SkillLibrary") -> "Iterator[KeptSkill]":
    for name, store in library.places():
        with contextlib.suppress(Denied):
            kept_skill = library.find(name)
            # An unapproved skill of a workspace runs only by its name.
            if store.writable or kept_skill.rights is not None:
                yield kept_skill
