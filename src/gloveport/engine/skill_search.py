"""Finds skills by words, among thousands, in an index: each skill is read once, and again after a change."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct, field

from gloveport.atomic_file import replace_file
from gloveport.errors import ConfigError, Denied
from gloveport.hub.catalog import Catalog
from gloveport.hub.definition import Definition
from gloveport.model import Value
from gloveport.model.reading import read_value
from gloveport.model.skill import SkillState
from gloveport.skills.skill_files import parse_skill
from gloveport.skills.skill_library import SkillLibrary
from gloveport.skills.skill_store import SkillStore
from gloveport.untrusted_text import one_line
from gloveport.user_directories import make_private_directory, read_private

Stamp: TypeAlias = tuple[int, int, int]

_FILE: Final = "index.json"
_MOST_BYTES: Final = 64 << 20
_DEFAULT_CHARACTERS: Final = 40


class IndexedSkill(Value):
    """A skill in search results. Its texts are untrusted: its author wrote them."""

    name: str
    description: str = ""
    """Empty if the skill can't be used."""
    takes: Mapping[str, str] = {}
    """Its parameters: type and default, long ones cut."""
    runs: bool = False
    """Whether it has a program that runs here."""
    stamp: Stamp


class FoundSkill(Struct, frozen=True, kw_only=True):
    """A skill that was found, and its present state."""

    indexed: IndexedSkill
    state: SkillState
    origin: str


class FoundSkills(NamedTuple):
    """The result of a search."""

    best: Sequence[FoundSkill]
    total: int
    unread: int = 0
    """Skills that are not read yet, to keep this search short: the next search continues with them."""


class SkillSearch(Struct, kw_only=True):
    """The search over one library. For any thread.

    Attributes:
        read_seconds: How long one search may read new skills, for each place.
    """

    library: SkillLibrary
    read_seconds: float = 1.0
    _catalog: Catalog = field(default_factory=Catalog)
    _skills: dict[Path, dict[str, IndexedSkill]] = field(default_factory=dict)
    _change_times: dict[Path, int] = field(default_factory=dict)
    _turn: threading.Lock = field(default_factory=threading.Lock)

    def search(self, query: str, limit: int, owner: str = "") -> FoundSkills:
        """The best skills for these words; without words, all by name. Other callers' candidates are only counted."""
        with self._turn:
            unread = self._refresh()
            ranked, total = self._catalog.search(query, limit)
            if self._read_again([tool.name for tool in ranked]):
                ranked, total = self._catalog.search(query, limit)
            found = [self._find(tool.name, owner) for tool in ranked]
        return FoundSkills([one for one in found if one is not None], total, unread)

    def _find(self, name: str, owner: str) -> FoundSkill | None:
        """A skill and its state; if it was ever approved or marked as failing, the state is checked by all of its
        bytes.
        """
        for store in self._stores():
            if (one := self._skills.get(store.directory, {}).get(name)) is None:
                continue
            try:
                record = self.library.records.get(store.directory, name)
                if record.approval is None and record.stale is None and record.owner in ("", owner):
                    return FoundSkill(indexed=one, state="candidate", origin=record.origin or store.origin)
                entry = self.library.find_unchanged(name) or self.library.find_to_run(name)
                return (
                    FoundSkill(indexed=one, state=entry.state, origin=entry.origin)
                    if entry.is_shown_to(owner)
                    else None
                )
            except (ConfigError, Denied):
                return None
        return None

    def _stores(self) -> tuple[SkillStore, ...]:
        return (self.library.own, *self.library.others)

    def _refresh(self) -> int:
        """Read skills that were added, removed or saved since the last time, as the directories tell; return how many
        there was no time for.
        """
        if not self._change_times:
            self._skills = self._load()
        changed = {store.directory: store.change_time() for store in self._stores()}
        if changed == self._change_times:
            return 0
        is_new, unread = False, 0
        for store in self._stores():
            if changed[store.directory] != self._change_times.get(store.directory):
                read, rest = self._read_store(store)
                is_new |= read
                unread += rest
                if rest:
                    del changed[store.directory]  # so that the next search continues
        if is_new or not self._change_times:
            self._index()
        if is_new:
            self._save()
        self._change_times = changed
        return unread

    def _read_store(self, store: SkillStore) -> tuple[bool, int]:
        """Whether anything is new, and how many skills there was no time for. The latest are read first."""
        skills, stamps = self._skills.setdefault(store.directory, {}), store.stamps()
        removed_names = skills.keys() - stamps.keys()
        for name in removed_names:
            del skills[name]
        new = [name for name, stamp in stamps.items() if name not in skills or skills[name].stamp != stamp]
        new.sort(key=stamps.__getitem__, reverse=True)
        deadline = time.monotonic() + self.read_seconds
        for number, name in enumerate(new):
            if number and time.monotonic() > deadline:
                return True, len(new) - number
            skills[name] = _read(store, name, stamps[name])
        return bool(removed_names or new), 0

    def _read_again(self, names: Sequence[str]) -> bool:
        """Re-read those of these skills that were edited in place, which the directory's time does not tell."""
        is_new = False
        for store in self._stores():
            skills = self._skills.get(store.directory, {})
            for name, stamp in store.stamps([name for name in names if name in skills]).items():
                if skills[name].stamp != stamp:
                    skills[name] = _read(store, name, stamp)
                    is_new = True
        if is_new:
            self._index()
            self._save()
        return is_new

    def _index(self) -> None:
        unique: dict[str, IndexedSkill] = {}
        for store in self._stores():
            for name, one in self._skills.get(store.directory, {}).items():
                unique.setdefault(name, one)
        self._catalog.replace(
            "skills",
            "",
            [
                Definition(
                    server="skills",
                    name=name,
                    description=one.description,
                    input_schema={"properties": {key: {} for key in one.takes}},
                )
                for name, one in unique.items()
                if one.description
            ],
        )

    def _load(self) -> dict[Path, dict[str, IndexedSkill]]:
        """Load the index of an earlier server. Unreadable parts are read again from the skills."""
        try:
            stored = json.loads(read_private(self.library.records.directory / _FILE, _MOST_BYTES))
            return {
                Path(place): {name: read_value(IndexedSkill, one) for name, one in skills.items()}
                for place, skills in stored.items()
            }
        except (OSError, ValueError, RecursionError, TypeError, AttributeError):
            return {}

    def _save(self) -> None:
        stored: Mapping[str, object] = {
            str(place): {name: one.model_dump(mode="json") for name, one in skills.items()}
            for place, skills in self._skills.items()
        }
        try:
            make_private_directory(self.library.records.directory)
            replace_file(self.library.records.directory / _FILE, json.dumps(stored).encode())
        except OSError:
            return  # the next server reads the skills


def _read(store: SkillStore, name: str, stamp: Stamp) -> IndexedSkill:
    try:
        skill = parse_skill(store.read(name))
    except Denied:
        return IndexedSkill(name=name, stamp=stamp)
    return IndexedSkill(
        name=name,
        description=skill.head.description,
        takes={
            one.name: f"{one.type} = {one_line(json.dumps(one.default), _DEFAULT_CHARACTERS)}"
            for one in skill.parameters
        },
        runs=skill.language is not None,
        stamp=stamp,
    )
