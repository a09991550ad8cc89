"""The library of all skills: the user's own, which can be saved, and those of a workspace, which are read-only.

An own skill hides one of the same name: a repository can't replace an approved skill.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from gloveport.errors import Denied
from gloveport.late_module import late_module
from gloveport.model.skill import SkillRights, SkillState
from gloveport.skills.frontmatter import check_name
from gloveport.skills.skill_records import Approval, SkillRecord, SkillRecords, Staleness
from gloveport.skills.skill_store import SkillStore
from gloveport.skills.snapshot import Fingerprint, Snapshot, unknown_skill

if TYPE_CHECKING:
    from gloveport.skills import skill_files
    from gloveport.skills.skill_files import Skill
else:
    skill_files = late_module("gloveport.skills.skill_files")

_MOST_PARSED: Final = 32
_SMALL_BYTES: Final = 64 * 1024


class KeptSkill(Struct, frozen=True, kw_only=True):
    """A skill, with its store and its record."""

    skill: "Skill"
    store: SkillStore
    record: SkillRecord

    @property
    def state(self) -> SkillState:
        """The state of the skill as it was just read."""
        return self.record.state(self.skill.snapshot.sha256)

    @property
    def origin(self) -> str:
        """Where it comes from, in words."""
        return self.record.origin or self.store.origin

    @property
    def rights(self) -> SkillRights | None:
        """Its rights, if exactly this version was approved."""
        sha256 = self.skill.snapshot.sha256
        approval = self.record.approval_of(sha256)
        if approval is None:
            return None
        return SkillRights(
            name=self.skill.name, sha256=sha256, grant=self.skill.grant, without_asking=approval.without_asking
        )

    def is_shown_to(self, owner: str) -> bool:
        """Whether a caller may see its contents: another caller's candidate shows what that caller has done."""
        return self.record.owner in ("", owner) or self.rights is not None


@dataclass(frozen=True, kw_only=True)
class SkillLibrary:
    """The skill stores of one server or command, with their records.

    Attributes:
        own: Where skills are saved.
        others: Read-only stores.
    """

    own: SkillStore
    records: SkillRecords
    others: tuple[SkillStore, ...] = ()
    _parsed: dict[str, "Skill"] = field(default_factory=dict, init=False, compare=False)
    """Recently parsed small skills, by digest: parsing one takes as long as reading it."""

    _unchanged: dict[str, tuple[Fingerprint, "Skill"]] = field(default_factory=dict, init=False, compare=False)
    """Small own skills that ran recently, by name."""

    @property
    def is_empty(self) -> bool:
        """Whether there is no skill at all, without looking at each."""
        return all(store.is_empty() for store in (self.own, *self.others))

    def find(self, name: str) -> KeptSkill:
        """Read the skill of this name as a whole.

        Raises:
            Denied: There is none, or it can't be used.
            ConfigError: Its record can't be read.
        """
        check_name(name)
        for store in (self.own, *self.others):
            if store.has(name):
                skill = self._parse(store.read(name))
                return KeptSkill(skill=skill, store=store, record=self.records.get(store.directory, name))
        raise unknown_skill(name)

    def find_to_run(self, name: str) -> KeptSkill:
        """As ``find``, and remember it for ``find_unchanged``."""
        fingerprint = self.own.fingerprint(name)  # before it is read: a change meanwhile gives another fingerprint
        entry = self.find(name)
        if fingerprint is not None and entry.store is self.own and entry.skill.snapshot.bytes <= _SMALL_BYTES:
            _make_room(self._unchanged)
            self._unchanged[name] = fingerprint, entry.skill
        return entry

    def find_unchanged(self, name: str) -> KeptSkill | None:
        """The skill of this name as it was read before, if nothing has changed since. Fast.

        Raises:
            ConfigError: Its record can't be read.
        """
        fingerprint, skill = self._unchanged.get(name, ((), None))
        if skill is None or not self.own.is_unchanged(name, fingerprint):
            return None
        return KeptSkill(skill=skill, store=self.own, record=self.records.get(self.own.directory, name))

    def _parse(self, snapshot: Snapshot) -> "Skill":
        cached_skill = self._parsed.get(snapshot.sha256)
        if cached_skill is not None:
            return cached_skill
        skill = skill_files.parse_skill(snapshot)
        if snapshot.bytes <= _SMALL_BYTES:
            _make_room(self._parsed)
            self._parsed[snapshot.sha256] = skill
        return skill

    def places(self) -> Iterator[tuple[str, SkillStore]]:
        """Every name of a possible skill, with its store, sorted by name."""
        found: dict[str, SkillStore] = {}
        for store in (self.own, *self.others):
            for name in store.names():
                found.setdefault(name, store)
        yield from sorted(found.items())

    def save(self, name: str, files: Mapping[str, bytes], *, owner: str, origin: str = "") -> KeptSkill:
        """Save a new skill, without any approval.

        Raises:
            Denied: There is a skill of this name, or this would be no valid skill.
            ConfigError: It can't be written.
        """
        if any(store.has(name) for store in self.others):
            raise Denied("skill_exists", f"The workspace has a skill {name!a}.", hint="Use another name.")
        record = SkillRecord(owner=owner, origin=origin)
        # Without a record anybody may read and run it; whoever removes one of this name must not forget this one's.
        snapshot = self.own.save(
            name, files, record=lambda: self.records.change(self.own.directory, name, lambda _: record)
        )
        return KeptSkill(skill=skill_files.parse_skill(snapshot), store=self.own, record=record)

    def replace(self, entry: KeptSkill, files: Mapping[str, bytes]) -> KeptSkill:
        """Change a skill, if it is still as it was read.

        Raises:
            Denied: It has changed, is read-only, or would be no valid skill.
            ConfigError: It can't be written.
        """
        _require_writable(entry)
        snapshot = entry.store.save(entry.skill.name, files, instead_of=entry.skill.snapshot.sha256)
        return KeptSkill(skill=skill_files.parse_skill(snapshot), store=entry.store, record=entry.record)

    def remove(self, entry: KeptSkill) -> None:
        """Remove a skill, if it is still as it was read, and its approval.

        Raises:
            Denied: It has changed, or is read-only.
            ConfigError: It can't be removed.
        """
        _require_writable(entry)
        name, directory = entry.skill.name, entry.store.directory
        entry.store.remove(
            name, sha256=entry.skill.snapshot.sha256, forget=lambda: self.records.forget(directory, name)
        )

    def is_approved(self, name: str, sha256: str) -> bool:
        """Whether there is an approval of exactly this version of a skill. Fast. Raises ConfigError as ``find``."""
        store = next((store for store in (self.own, *self.others) if store.has(name)), None)
        return store is not None and self.records.get(store.directory, name).approval_of(sha256) is not None

    def approve(self, entry: KeptSkill, *, uid: int, without_asking: bool) -> None:
        """Approve the skill as it was read, which a person has seen. Raises ConfigError if it can't be written down."""
        approval = Approval(
            sha256=entry.skill.snapshot.sha256, without_asking=without_asking, uid=uid, at=datetime.now(UTC)
        )
        self._change(entry, approval=approval, stale=None)

    def revoke(self, entry: KeptSkill) -> None:
        """Take an approval back. Raises ConfigError if it can't be written down."""
        self._change(entry, approval=None)

    def mark(self, entry: KeptSkill, why: str) -> None:
        """Record that an example fails, or, without a reason, that none does.

        Raises:
            ConfigError: It can't be written down.
        """
        self._change(entry, stale=Staleness(sha256=entry.skill.snapshot.sha256, why=why[:500]) if why else None)

    def _change(self, entry: KeptSkill, **fields: object) -> None:
        self.records.change(entry.store.directory, entry.skill.name, lambda record: record.model_copy(update=fields))


def _make_room(cache: dict[str, Any]) -> None:
    for oldest in [*cache][: 1 - _MOST_PARSED]:  # another thread may do the same now
        cache.pop(oldest, None)


def make_library(own: Path, records: Path, workspace: Path | None) -> SkillLibrary:
    """The library of these directories, and of a workspace's ``.agents/skills``."""
    others: tuple[SkillStore, ...] = ()
    if workspace is not None:
        others = (SkillStore(directory=workspace / ".agents/skills", origin="the workspace", root=workspace),)
    return SkillLibrary(
        own=SkillStore(directory=own, origin="saved here", writable=True), records=SkillRecords(records), others=others
    )


def _require_writable(entry: KeptSkill) -> None:
    if not entry.store.writable:
        raise Denied(
            "skill_read_only",
            f"{entry.skill.name!a} comes from {entry.store.origin}, and is only read here.",
            hint="Save a skill of another name.",
        )
