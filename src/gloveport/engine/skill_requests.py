"""Callers' requests about skills: save, change, delete and run one. Each is recorded.

Everybody may run an approved skill. A candidate is code that one caller has written: nobody else runs, changes or
deletes it, unless a person has put it there.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from msgspec import Struct

from gloveport.audit.log import AuditLog
from gloveport.engine.recent_runs import RecentRuns
from gloveport.engine.run_context import SkillRun
from gloveport.engine.skill_replay import example_of
from gloveport.errors import Denied
from gloveport.fairness import compute
from gloveport.model import Language, Request
from gloveport.model.json_value import JsonValue, is_longer
from gloveport.model.skill import SkillGrant
from gloveport.policy.decisions.skill_grant import MOST_USED, learn_grant
from gloveport.policy.wording import quote_sent
from gloveport.skills.parameters import MOST_ARGUMENT_BYTES, bind_arguments, find_parameters
from gloveport.skills.search_replace import apply_blocks, parse_blocks
from gloveport.skills.skill_files import make_files, with_code
from gloveport.skills.skill_library import KeptSkill, SkillLibrary
from gloveport.skills.skill_threads import SKILL_READS

_MOST_PATCH: Final = 1 << 20
_SMALL_CHARACTERS: Final = 4096
"""Of arguments: to write so many as literals takes a few milliseconds."""


class SkillRequests(Struct, frozen=True, kw_only=True):
    """The skills of one server, for its callers. These methods read and write files."""

    library: SkillLibrary
    recent: RecentRuns
    audit: AuditLog

    def save(self, name: str, description: str, *, code: str, language: Language, caller: str, owner: str) -> KeptSkill:
        """Save a program that has not run here. Its learned grant is empty.

        Raises:
            Denied: There is a skill of this name, or this would be no valid skill.
            ConfigError, AuditError: It can't be written.
        """
        files = make_files(name, description, language, code, grant=SkillGrant())
        return self._save(name, files, caller=caller, owner=owner)

    def save_run(self, name: str, description: str, *, run_id: str, caller: str, owner: str) -> KeptSkill:
        """Save the program of a successful run, with the rights it used as its grant, and the run as an example.

        Raises:
            Denied: As ``save``; or this owner has no such run, or it used too many rights.
            ConfigError, AuditError: It can't be written.
        """
        run = self.recent.find(run_id, owner)
        if run is None:
            raise Denied(
                "unknown_run",
                f"There is no run {quote_sent(run_id)} of yours that succeeded, or no longer.",
                hint="Run the program again, outside of a session, and save that run.",
            )
        if len(run.used) > MOST_USED:
            raise Denied(
                "too_much_used",
                f"The run has done more than {MOST_USED} different things: no grant can be learned from it.",
                hint="Save a run that does less, or save the code.",
            )
        language, code = run.request.language, run.request.code
        defaults = {one.parameter.name: one.parameter.default for one in find_parameters(language, code)}
        files = make_files(
            name,
            description,
            language,
            code,
            grant=learn_grant(run.used, defaults, run.mounts, code, run.request.environment or ""),
            examples=[example_of(run.result, arguments={}, files=run.request.files, exact=not run.used)],
            made_by=run_id,
        )
        return self._save(name, files, caller=caller, owner=owner)

    def update(self, name: str, patch: str, *, caller: str, owner: str) -> KeptSkill:
        """Change a skill's program by blocks of SEARCH and REPLACE. It becomes a candidate.

        Raises:
            Denied: It is another caller's or read-only, or the patch does not fit.
            ConfigError, AuditError: It can't be written.
        """
        if len(patch) > _MOST_PATCH:
            raise Denied("malformed_patch", f"A patch has {_MOST_PATCH} characters at most.")
        entry = self._own(name, owner)
        code = apply_blocks(entry.skill.code, parse_blocks(patch))
        changed = self.library.replace(entry, with_code(entry.skill, code))
        self._record("skill.saved", changed, caller)
        return changed

    def delete(self, name: str, *, caller: str, owner: str) -> None:
        """Delete a skill.

        Raises:
            Denied: There is none, or it is another caller's or read-only. ConfigError, AuditError: It can't be deleted,
                or not recorded.
        """
        entry = self._own(name, owner)
        self._record("skill.removed", entry, caller)
        self.library.remove(entry)

    def prepare(self, name: str, arguments: Mapping[str, JsonValue], *, owner: str) -> tuple[Request, SkillRun]:
        """The program of a skill with these arguments, and its rights: read once, now.

        Raises:
            Denied: There is none that runs, it is another caller's candidate, or the arguments do not fit.
            ConfigError: Its record can't be read.
        """
        return self._bind(self.library.find_to_run(name), arguments, owner)

    def prepare_unchanged(
        self, name: str, arguments: Mapping[str, JsonValue], *, owner: str
    ) -> tuple[Request, SkillRun] | None:
        """The same, quickly, if the skill has not changed since ``prepare`` and the arguments are small; else None. May
        be called on the event loop.

        Raises:
            Denied, ConfigError: As ``prepare``.
        """
        entry = None if is_longer(arguments, _SMALL_CHARACTERS) else self.library.find_unchanged(name)
        return None if entry is None else self._bind(entry, arguments, owner)

    async def prepare_in_thread(
        self, name: str, arguments: Mapping[str, JsonValue], *, owner: str
    ) -> tuple[Request, SkillRun]:
        """As ``prepare``, in a thread: it reads files, and large arguments take long to be written as literals."""
        work = partial(self.prepare, name, arguments, owner=owner)
        if is_longer(arguments, _SMALL_CHARACTERS):
            return await compute(MOST_ARGUMENT_BYTES, work)
        return await SKILL_READS.run(work)

    def _bind(self, entry: KeptSkill, arguments: Mapping[str, JsonValue], owner: str) -> tuple[Request, SkillRun]:
        skill, rights, name = entry.skill, entry.rights, entry.skill.name
        if rights is None:
            _require_owner(entry, owner)
        if skill.language is None:
            raise Denied(
                "no_program", f"The skill {name} has no program that runs here.", hint=f"Read skill://{name}/SKILL.md."
            )
        request = Request(
            language=skill.language,
            code=bind_arguments(skill.language, skill.code, skill.marked, arguments),
            environment=skill.grant.environment or None,
        )
        return request, SkillRun(name=name, sha256=skill.snapshot.sha256, rights=rights)

    def _save(self, name: str, files: Mapping[str, bytes], *, caller: str, owner: str) -> KeptSkill:
        entry = self.library.save(name, files, owner=owner)
        self._record("skill.saved", entry, caller)
        return entry

    def _own(self, name: str, owner: str) -> KeptSkill:
        entry = self.library.find(name)
        _require_owner(entry, owner)
        if not entry.record.owner:
            raise Denied(
                "skill_of_the_owner",
                f"The skill {name} was put there by the owner of this computer.",
                hint="Tell them, or save one of another name.",
            )
        return entry

    def _record(self, kind: str, entry: KeptSkill, caller: str) -> None:
        skill = entry.skill
        facts: dict[str, JsonValue] = {
            "caller": caller,
            "skill": skill.name,
            "sha256": skill.snapshot.sha256,
            "version": skill.version,
        }
        self.audit.append(kind, facts)


def _require_owner(entry: KeptSkill, owner: str) -> None:
    if entry.record.owner not in ("", owner):
        raise Denied(
            "skill_of_another",
            f"The skill {entry.skill.name} is a candidate of another caller's.",
            hint="The owner of this computer may approve it: gloveport skills approve "
            f"{entry.skill.name}. Or save your own under another name.",
        )
