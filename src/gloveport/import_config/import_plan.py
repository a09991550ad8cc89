"""Plans an import: which servers would be added, changed and skipped."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from gloveport.config.sources.layers import Table
from gloveport.config.toml_text import printable
from gloveport.errors import ConfigError
from gloveport.import_config.drafts import ServerDraft
from gloveport.import_config.entries import draft_of, name_of, require_sound
from gloveport.import_config.file_reader import ClientEntry
from gloveport.secrets.secret_files import read_text

Outcome: TypeAlias = Literal["added", "changed", "same", "skipped"]

_WAYS = {
    "command": ("url", "transport", "headers", "auth", "ca_file"),
    "url": ("command", "env", "secret_env", "directory"),
}


class Step(Struct, frozen=True, kw_only=True):
    """The plan for one entry.

    Attributes:
        name: Our name of it, or the client's if it can't have one here.
        reason: Why it is skipped, and perhaps what to do.
        draft: The entry in our terms; None for a skipped one.
        keys: The keys of the present table that would be set.
        removed: The keys that would be removed.
    """

    entry: ClientEntry
    name: str
    outcome: Outcome
    reason: str = ""
    draft: ServerDraft | None = None
    keys: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class Here(Struct, frozen=True, kw_only=True):
    """The present configuration here.

    Attributes:
        servers: The tables of servers in the present file.
        secrets: The directory of all secrets.
        environ: Resolves references to variables.
    """

    servers: Mapping[str, Table]
    secrets: Path
    home: Path
    environ: Mapping[str, str]


def plan(entries: Iterable[ClientEntry], here: Here, *, only: Sequence[str] = ()) -> list[Step]:
    """Compare entries with the present configuration. Of several with one name, the first keeps it. ``only`` has the
    names to import, in the clients' spelling or ours; empty for all.
    """
    steps: list[Step] = []
    steps_by_name: dict[str, Step] = {}
    for entry in entries:
        step = _step(entry, here)
        if only and not {entry.name, step.name} & {*only}:
            continue
        if step.draft is not None and (first := steps_by_name.setdefault(step.name, step)) is not step:
            step = _second(step, first)
        steps.append(step)
    return steps


def _step(entry: ClientEntry, here: Here) -> Step:
    name = entry.name
    try:
        name = name_of(entry)
        draft = draft_of(entry, home=here.home, environ=here.environ, secrets=here.secrets)
        if name != entry.name:
            draft.note(f"called {entry.name!r} there")
        return _compare(entry, name, draft, here.servers.get(name))
    except ConfigError as error:
        hint = f" ({error.hint})" if error.hint else ""
        return Step(entry=entry, name=name, outcome="skipped", reason=printable(f"{error.args[0]}{hint}", limit=400))


def _compare(entry: ClientEntry, name: str, draft: ServerDraft, present: Table | None) -> Step:
    if present is None:
        return Step(entry=entry, name=name, outcome="added", draft=draft, keys=tuple(draft.table))
    if (present.get("auth") or present.get("rules")) and _leads_elsewhere(present.get("url"), draft.table.get("url")):
        raise ConfigError(
            "it leads to another server than the one of that name here, whose credentials and rules it would get",
            hint=f"where that one has moved, change the url of [servers.{name}] by hand",
        )
    if present.get("rules") and draft.table.get("rules") not in (None, present["rules"]):
        del draft.table["rules"]
        draft.note("its list of tools is left out: there are rules here already")
    keys = tuple(key for key, value in draft.table.items() if present.get(key) != value)
    strange = _WAYS["command" if "command" in draft.table else "url"]
    removed = tuple(key for key in strange if key in present)
    require_sound(name, {key: value for key, value in present.items() if key not in removed} | draft.table)
    if keys or removed or any(_is_new(draft.directory / file, value) for file, value in draft.secrets.items()):
        if entry.place.is_checked_in:
            raise ConfigError("another of that name is here", hint="name the file with --from, if it is to be changed")
        return Step(entry=entry, name=name, outcome="changed", draft=draft, keys=keys, removed=removed)
    return Step(entry=entry, name=name, outcome="same", draft=draft)


def _leads_elsewhere(present: object, url: object) -> bool:
    if not present or not url:
        return False
    before, after = (urlsplit(str(one)) for one in (present, url))
    # Some hosts serve the servers of many, by their paths.
    return (before.scheme, before.netloc.lower(), before.path) != (after.scheme, after.netloc.lower(), after.path)


def _is_new(path: Path, value: str) -> bool:
    try:
        return read_text(str(path)) != value.removesuffix("\n")
    except ConfigError:
        return True


def _second(step: Step, first: Step) -> Step:
    assert step.draft is not None  # noqa: S101 - entries without a draft are not passed here
    assert first.draft is not None  # noqa: S101 - as above
    alike = (step.draft.table, step.draft.secrets) == (first.draft.table, first.draft.secrets)
    where = printable(str(first.entry.place.path))
    reason = (
        f"the same is in {where}" if alike else f"another of that name is in {where} (choose with --from and --only)"
    )
    return Step(entry=step.entry, name=step.name, outcome="skipped", reason=reason)
