"""Finds skills by words, among thousands, without reading them: what they say was read once, and is read anew when it
has changed.
"""

import json
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

from pydantic import ValidationError

from gloveport.atomic_file import replace_file
from gloveport.errors import ConfigError, Denied
from gloveport.hub.catalog import Catalog
from gloveport.hub.definition import Definition
from gloveport.model import Value
from gloveport.model.skill import SkillParameter, SkillState
from gloveport.skills.parameters import schema_of
from gloveport.skills.skill_library import SkillLibrary
from gloveport.skills.skill_store import SkillStore

Stamp: TypeAlias = tuple[int, int, int]

_FILE: Final = "index.json"


class IndexedSkill(Value):
    """What a search tells of a skill. Its texts are those of whoever has written it."""

    name: str
    description: str
    parameters: tuple[SkillParameter, ...] = ()
    sha256: str = ""
    """Digest of all of it when it was read."""
    runs: bool = False
    """Whether it has a program that runs here."""
    stamp: tuple[int, int, int]


@dataclass(frozen=True, kw_only=True)
class FoundSkill:
    """A skill that was found, and how it stands now."""

    indexed: IndexedSkill
    state: SkillState
    origin: str


@dataclass(kw_only=True)
class SkillSearch:
    """The search over one library. For any thread."""

    library: SkillLibrary
    _catalog: Catalog = field(default_factory=Catalog, init=False)
    _known: dict[Path, dict[str, IndexedSkill]] = field(default_factory=dict, init=False)
    _seen: dict[Path, int] = field(default_factory=dict, init=False)
    _turn: threading.Lock = field(default_factory=threading.Lock, init=False)

    def search(self, query: str, limit: int) -> tuple[Sequence[FoundSkill], int]:
        """The best skills for these words, and how many there are; without words, all by name."""
        with self._turn:
            self._refresh()
            ranked, total = self._catalog.search(query, limit, lambda _: True)
            if self._read_again([tool.name for tool in ranked]):
                ranked, total = self._catalog.search(query, limit, lambda _: True)
            found = [self._find(tool.name) for tool in ranked]
        return [one for one in found if one is not None], total

    def _find(self, name: str) -> FoundSkill | None:
        """A skill, and how what was indexed of it stands. What runs is read anew, and judged by what it is then."""
        for store in self._stores():
            one = self._known.get(store.directory, {}).get(name)
            if one is not None and one.sha256:
                try:
                    record = self.library.records.get(store.directory, name)
                except ConfigError:
                    return None
                return FoundSkill(indexed=one, state=record.state(one.sha256), origin=record.origin or store.origin)
        return None

    def _stores(self) -> tuple[SkillStore, ...]:
        return (self.library.own, *self.library.others)

    def _refresh(self) -> None:
        """Read what has come, gone or been saved anew since the last time, as the directories tell."""
        if not self._seen:
            self._known = self._load()
        changed = {store.directory: store.change_time() for store in self._stores()}
        if changed == self._seen:
            return
        is_new = False
        for store in self._stores():
            if changed[store.directory] != self._seen.get(store.directory):
                is_new |= self._read_store(store)
        if is_new or not self._seen:
            self._index()
        if is_new:
            self._save()
        self._seen = changed

    def _read_store(self, store: SkillStore) -> bool:
        known, stamps = self._known.setdefault(store.directory, {}), store.stamps()
        gone = known.keys() - stamps.keys()
        for name in gone:
            del known[name]
        stale = [name for name, stamp in stamps.items() if name not in known or known[name].stamp != stamp]
        for name in stale:
            known[name] = _read(self.library, store, name, stamps[name])
        return bool(gone or stale)

    def _read_again(self, names: Sequence[str]) -> bool:
        """Read those of these skills that somebody has changed where they are, which no directory tells."""
        is_new = False
        for store in self._stores():
            known = self._known.get(store.directory, {})
            for name, stamp in store.stamps([name for name in names if name in known]).items():
                if known[name].stamp != stamp:
                    known[name] = _read(self.library, store, name, stamp)
                    is_new = True
        if is_new:
            self._index()
            self._save()
        return is_new

    def _index(self) -> None:
        unique: dict[str, IndexedSkill] = {}
        for store in self._stores():
            for name, one in self._known.get(store.directory, {}).items():
                unique.setdefault(name, one)
        self._catalog.replace(
            "skills",
            "",
            [
                Definition(
                    server="skills", name=name, description=one.description, input_schema=schema_of(one.parameters)
                )
                for name, one in unique.items()
            ],
        )

    def _load(self) -> dict[Path, dict[str, IndexedSkill]]:
        """What an earlier server has read. What can't be read of it is read anew from the skills."""
        try:
            stored = json.loads((self.library.records.directory / _FILE).read_bytes())
            return {
                Path(place): {name: IndexedSkill.model_validate(one) for name, one in known.items()}
                for place, known in stored.items()
            }
        except (OSError, ValueError, TypeError, AttributeError, ValidationError):
            return {}

    def _save(self) -> None:
        stored: Mapping[str, object] = {
            str(place): {name: one.model_dump(mode="json") for name, one in known.items()}
            for place, known in self._known.items()
        }
        try:
            self.library.records.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.library.records.directory / _FILE, json.dumps(stored).encode())
        except OSError:
            return  # the next server reads the skills


def _read(library: SkillLibrary, store: SkillStore, name: str, stamp: Stamp) -> IndexedSkill:
    try:
        kept = library.find(name)
    except (Denied, ConfigError):
        return IndexedSkill(name=name, description="", stamp=stamp)
    if kept.store.directory != store.directory:
        return IndexedSkill(name=name, description="", stamp=stamp)
    return IndexedSkill(
        name=name,
        description=kept.skill.head.description,
        parameters=tuple(kept.skill.parameters),
        sha256=kept.skill.snapshot.sha256,
        runs=kept.skill.language is not None,
        stamp=stamp,
    )
