"""``gloveport doctor``: what this host enforces, what it lacks, and what repairs it."""

import json
import os
from typing import TYPE_CHECKING

import typer

from gloveport.cli.config_loading import load_config
from gloveport.cli.file_limit import raise_file_limit
from gloveport.cli.options import AsJson, ConfigOption

if TYPE_CHECKING:
    from gloveport.sandbox.detection.probe import Check

_COLOURS = {"enforced": typer.colors.GREEN, "weaker": typer.colors.YELLOW, "missing": typer.colors.RED}


def doctor(
    as_json: AsJson = False,
    config: ConfigOption = None,
) -> None:
    """Try every layer of the sandbox on this host. Fetch every secret, and show none. Look for the servers' commands.

    The exit code is 0 when no layer is missing, else 4.
    """
    from gloveport.bootstrap.configured_parts import inspect_proxy, inspect_secrets, inspect_servers
    from gloveport.bootstrap.inspection import inspect
    from gloveport.event_loop import run

    raise_file_limit()
    found = load_config(config)
    checks = run(inspect, found, os.environ)
    checks += run(inspect_secrets, found, os.environ)
    checks += inspect_servers(found, os.environ) + inspect_proxy(found, os.environ)
    if as_json:
        typer.echo(json.dumps([check.model_dump() for check in checks], indent=2))
    else:
        for line in _table(checks):
            typer.echo(line, color=False if os.environ.get("NO_COLOR") else None)
    raise typer.Exit(4 if any(check.state == "missing" for check in checks) else 0)


def _table(checks: "list[Check]") -> list[str]:
    width = max(len(check.name) for check in checks)
    lines = []
    for check in checks:
        state = typer.style(f"{check.state:<8}", fg=_COLOURS[check.state])
        lines.append(f"{check.name:<{width}}  {state}  {check.detail}")
        if check.repair:
            lines.append(f"{'':<{width}}  {'':<8}  repair: {check.repair}")
    return lines
