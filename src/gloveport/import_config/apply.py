"""Applies an import to the configuration file: reads its present content, and writes the new one."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gloveport.config.loading.edit import Secrets, ServerEdit, Written, edit_text, read_text_of, write
from gloveport.config.loading.load import load
from gloveport.config.sources.layers import parse_toml
from gloveport.config.sources.selection import sources
from gloveport.import_config.import_plan import Here, Step

SECRETS = "secrets"
"""Name of the directory of secrets, beside the configuration file."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Target:
    """The file to change: the operator's own, or the one that was named.

    Attributes:
        content: None where the file does not exist yet.
    """

    file: Path
    content: bytes | None = field(repr=False)
    text: str = field(repr=False)
    here: Here


def target(config_path: Path | None, *, cwd: Path, home: Path, environ: Mapping[str, str]) -> Target:
    """Find the file that an import changes, and read it. It is never a project's file. The parameters are those of
    ``load``; ``environ`` resolves references in clients' files, too.

    Raises:
        ConfigError: It can't be trusted, or has faults.
    """
    found = sources(config_path, cwd=cwd, environ=environ).operator
    file = Path(os.path.normpath(cwd / found))  # so that references to files beside it have no ..
    content, text = read_text_of(file)
    if content is not None:
        load(file, cwd=cwd, environ=environ)
    servers = parse_toml(file, text).get("servers")
    here = Here(
        servers=servers if isinstance(servers, dict) else {},
        secrets=file.parent / SECRETS,
        home=home,
        environ=environ,
    )
    return Target(file=file, content=content, text=text, here=here)


def apply(target: Target, steps: Sequence[Step], *, environ: Mapping[str, str]) -> Written | None:
    """Carry out a plan; None where there is nothing to write.

    Raises:
        ConfigError: The file can't be written, or would be no valid configuration. Nothing has changed then.
    """
    edits: dict[str, ServerEdit] = {}
    values: dict[Path, str] = {}
    for step in steps:
        if step.draft is not None and step.outcome in {"added", "changed"}:
            edits[step.name] = ServerEdit(set={key: step.draft.table[key] for key in step.keys}, removed=step.removed)
            values |= {step.draft.directory / file: value for file, value in step.draft.secrets.items()}
    if not edits:
        return None
    text = edit_text(target.file, target.text, edits)
    return write(target.file, target.content, text, Secrets(values=values), environ=environ)
