"""``gloveport env``: builds, shows, checks and removes the environments of the configuration."""

import json
import os
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

import typer

from gloveport.cli.config_loading import load_config
from gloveport.cli.options import AsJson, ConfigOption, recording
from gloveport.cli.progress_bar import show_progress
from gloveport.errors import ConfigError
from gloveport.untrusted_text import one_line

if TYPE_CHECKING:
    from gloveport.config import Config
    from gloveport.engine.advisories import Advisory
    from gloveport.engine.environment_provider import Environments
    from gloveport.environments.environment_store import BuiltTree
    from gloveport.environments.locks import Lock
    from gloveport.guard import Guard
    from gloveport.model.packages import LockedPackage

app = typer.Typer(no_args_is_help=True, help="Build, show, check and remove environments of packages.")

NamesArgument: TypeAlias = Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Default: all.")]

_ADVISORY_CHARACTERS: Final = 300
_NONE: Final = "there are none: write an [environments.NAME] with python = [...] or npm = [...]"


@app.command()
def build(names: NamesArgument = None, config: ConfigOption = None) -> None:
    """Build environments, where they are not there. What programs name is built by their first run otherwise."""

    async def build_all(environments: "Environments", guard: "Guard") -> None:
        if not environments.named and not names:
            typer.echo(_NONE)
        for name in _choose_names(environments, names):
            with show_progress(name) as on_progress:
                opened = await environments.open_named(name, guard, on_progress)
            for tree in (one.tree for one in opened.trees):
                size = f"{len(tree.packages)} packages, {tree.bytes >> 20} MiB"
                typer.echo(f"{name}: {size}, lock {tree.lock_sha256[:12]}")

    _run(config, build_all)


@app.command()
def lock(names: NamesArgument = None, config: ConfigOption = None) -> None:
    """Resolve requirements anew, so that the next build has what is there now. Prints what changes."""

    async def lock_all(environments: "Environments", guard: "Guard") -> None:
        for name in _choose_names(environments, names):
            old = _versions(lock for lock, _ in environments.find_built(name))
            with show_progress(name) as on_progress:
                after = await environments.relock(name, guard, on_progress)
            new = _versions(after)
            typer.echo(f"{name}: {len(new)} packages, lock {' '.join(lock.sha256[:12] for lock in after)}")
            for one in sorted({*old, *new}):
                if old.get(one) != new.get(one):
                    typer.echo(f"  {one} {old.get(one, '(none)')} -> {new.get(one, '(none)')}")

    _run(config, lock_all)


@app.command("list")
def list_all(as_json: AsJson = False, config: ConfigOption = None) -> None:
    """List environments, and the built trees that belong to none: what programs have asked for, and former ones."""
    environments = _open(config)
    built = {name: _trees(environments, name) for name in sorted(environments.named)}
    named = {tree.address for trees in built.values() for tree in trees}
    others = [one for one in environments.store.list_trees() if one.address not in named]
    if as_json:
        listed = {name: [tree.model_dump() for tree in trees] for name, trees in built.items()}
        typer.echo(json.dumps({"environments": listed, "others": [one.model_dump() for one in others]}, indent=2))
        return
    for name, trees in built.items():
        count = sum(len(tree.packages) for tree in trees)
        state = f"{count} packages" if environments.is_built(name) else f"not built: gloveport env build {name}"
        typer.echo(f"{name:<24} {state}")
    for one in others:
        what = ", ".join(f"{package.name} {package.version}" for package in one.packages[:4])
        typer.echo(f"{'(' + one.address[:12] + ')':<24} {what or 'nothing'}")
    if not built and not others:
        typer.echo(_NONE)


@app.command()
def show(name: str, as_json: AsJson = False, config: ConfigOption = None) -> None:
    """Show the packages of an environment, and when each was uploaded."""
    environments = _open(config)
    [name] = _choose_names(environments, [name])
    found = environments.find_built(name)
    if as_json:
        rows = [{"lock": lock.model_dump(), "tree": tree.model_dump() if tree else None} for lock, tree in found]
        typer.echo(json.dumps(rows, indent=2))
        return
    if not found:
        typer.echo(f"{name} is not built: gloveport env build {name}")
        raise typer.Exit(1)
    for lock, tree in found:
        typer.echo(f"{name}: lock {lock.sha256}")
        for one in lock.packages:
            typer.echo(f"  {one.name:<32} {one.version:<16} {one.uploaded or 'nobody says when it was uploaded'}")
        if tree is not None:
            typer.echo(f"built {datetime.fromtimestamp(tree.built, UTC):%Y-%m-%d %H:%M} UTC, {tree.bytes >> 20} MiB")
            for path in tree.left_out:
                typer.echo(f"left out: {path}")


@app.command()
def verify(names: NamesArgument = None, config: ConfigOption = None) -> None:
    """Compare every file of built environments with what was built. The exit code is 1 where one differs."""
    environments = _open(config)
    different = False
    for name in _choose_names(environments, names):
        if not environments.is_built(name):
            typer.echo(f"{name}: not built")
            continue
        faults = [fault for tree in _trees(environments, name) for fault in environments.store.verify(tree)]
        different |= bool(faults)
        typer.echo(f"{name}: {'as it was built' if not faults else f'{len(faults)} files differ'}")
        for fault in faults:
            typer.echo(f"  {fault}")
    raise typer.Exit(1 if different else 0)


@app.command()
def audit(names: NamesArgument = None, as_json: AsJson = False, config: ConfigOption = None) -> None:
    """Ask what is known about the packages of built environments. Exit code 1: something is; 3: nobody could tell.

    Without names also about what programs have asked for. The service of `packages.advisories`, else the public one of
    OSV, is told names and versions.
    """
    found: list[tuple[LockedPackage, tuple[Advisory, ...]]] = []
    count = 0

    async def audit_all(environments: "Environments", guard: "Guard") -> None:
        nonlocal count
        chosen: list[BuiltTree] = []
        for name in _choose_names(environments, names):
            if not environments.is_built(name):
                typer.echo(f"{name}: not built", err=as_json)
            chosen += _trees(environments, name)
        trees = chosen if names else environments.store.list_trees()
        packages = sorted({one for tree in trees for one in tree.packages}, key=lambda one: (one.name, one.version))
        count = len(packages)
        found.extend(await environments.audit(packages, guard))

    _run(config, audit_all)
    if as_json:
        rows = [
            {"name": one.name, "version": one.version, "advisories": [_dump(a) for a in some]} for one, some in found
        ]
        typer.echo(json.dumps({"packages": count, "found": rows}, indent=2))
        raise typer.Exit(1 if found else 0)
    for one, some in found:
        for advisory in some:
            kind = "does harm on purpose: " if advisory.is_malware else ""
            names_of = ", ".join((advisory.id, *advisory.aliases))
            typer.echo(
                one_line(f"{one.name} {one.version}: {kind}{names_of}: {advisory.summary}", _ADVISORY_CHARACTERS)
            )
    typer.echo(f"{count} packages, something is known about {len(found)}")
    raise typer.Exit(1 if found else 0)


@app.command()
def remove(name: str, config: ConfigOption = None) -> None:
    """Remove what was built of an environment. Programs that run in it lose it; the next one builds it again."""
    environments = _open(config)
    [name] = _choose_names(environments, [name])
    with recording(config) as record:
        trees = _trees(environments, name)
        if not trees:
            typer.echo(f"{name} is not built")
            return
        for tree in trees:
            record("environments.removed", {"environment": name, "address": tree.address})
            environments.store.remove(tree)
    size = sum(tree.bytes for tree in trees) >> 20
    typer.echo(f"{name}: removed {size} MiB, as far as no other environment has the same files")


@app.command()
def gc(
    days: Annotated[float, typer.Option(min=0, help="Remove what nobody has used for so many days.")] = 30,
    config: ConfigOption = None,
) -> None:
    """Remove built trees that the configuration does not name and nobody has used for a while, and their files."""
    environments = _open(config)
    trees = [tree for name in environments.named for tree in _trees(environments, name)]
    with recording(config) as record:
        removed, freed = environments.store.collect(trees, days * 86_400)
        record("environments.collected", {"trees": [one.address for one in removed], "bytes": freed})
    typer.echo(f"removed {len(removed)} environments, and {freed >> 20} MiB of files and wheels")


def _dump(advisory: "Advisory") -> dict[str, object]:
    return {**advisory.model_dump(), "is_malware": advisory.is_malware}


def _trees(environments: "Environments", name: str) -> "list[BuiltTree]":
    """List the built trees of an environment: one for Python packages, and one for npm packages."""
    return [tree for _, tree in environments.find_built(name) if tree is not None]


def _versions(locks: "Iterable[Lock]") -> dict[str, str]:
    """Join the versions of each package: an npm package can have several."""
    found: dict[str, list[str]] = {}
    for one in (package for lock in locks for package in lock.packages):
        found.setdefault(one.name, []).append(one.version)
    return {name: ", ".join(versions) for name, versions in found.items()}


def _choose_names(environments: "Environments", names: list[str] | None) -> list[str]:
    """Return the given names, each of which must exist; without names, all."""
    for name in names or ():
        if name not in environments.named:
            there = ", ".join(sorted(environments.named)) or "none"
            raise typer.BadParameter(f"there is no environment {name!r}; there are: {there}")
    return names or sorted(environments.named)


def _open(config: "ConfigOption") -> "Environments":
    """Open the configured environments for reading; they can't build."""
    from gloveport.bootstrap.environment_setup import environments_of
    from gloveport.bootstrap.host_setup import init_of

    found = load_config(config)
    environments = environments_of(found, init_of(found, os.environ), os.environ)
    try:
        environments.store.create()
    except OSError as error:
        raise ConfigError(
            f"{environments.store.root} can't be used: {error.strerror}",
            hint="run as its owner, or set GLOVEPORT_STATE to a directory of your own",
        ) from error
    return environments


def _run(config_path: "ConfigOption", do: "Callable[[Environments, Guard], Awaitable[None]]") -> None:
    from gloveport.event_loop import run

    config = load_config(config_path)
    run(_run_with_engine, config, do)


async def _run_with_engine(config: "Config", do: "Callable[[Environments, Guard], Awaitable[None]]") -> None:
    from gloveport.bootstrap import app as bootstrap
    from gloveport.config.schema import PoolSettings
    from gloveport.engine.run_context import RunContext
    from gloveport.guard import Guard
    from gloveport.model import Grant

    alone = config.model_copy(update={"pool": PoolSettings(forked=0, booted=0), "servers": {}})
    async with bootstrap.assemble(alone, os.environ) as engine:
        for warning in engine.environments.warnings:
            typer.echo(f"gloveport: {warning}", err=True)
        caller = f"cli (uid {os.getuid()})"
        guard = Guard(grant=Grant(), audit=engine.audit, caller=caller, run_id=RunContext().run_id)
        await do(engine.environments, guard)
