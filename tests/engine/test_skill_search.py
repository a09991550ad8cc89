"""The search among very many skills, some of them somebody else's: each call of it is bounded. S1."""

import os
import tempfile
from pathlib import Path

import pytest

from gloveport.engine.skill_search import SkillSearch
from gloveport.errors import Denied
from gloveport.model.skill import SkillGrant
from gloveport.skills import skill_store
from gloveport.skills.skill_files import make_files
from gloveport.skills.skill_library import make_library

MANY = 10_000
REPORT = make_files("report", "Sums up sales.", "python", "MONTH = 11  # parameter\nMONTH\n", grant=SkillGrant())


@pytest.fixture(scope="module")
def many():
    """A library whose workspace brings 10,000 skills."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as directory:
        place = Path(directory, "workspace/.agents/skills")
        place.mkdir(parents=True)
        for number in range(MANY):
            skill = place / f"theirs-{number}"
            skill.mkdir()
            (skill / "SKILL.md").write_text(f"---\nname: {skill.name}\ndescription: Counts stock.\n---\n")
        yield make_library(Path(directory, "skills"), Path(directory, "records"), Path(directory, "workspace"))


def test_a_search_reads_some_of_ten_thousand_skills_says_so_and_the_next_goes_on(many):
    search = SkillSearch(library=many, read_seconds=0.1)
    first = search.search("stock", 10)
    assert 0 < first.total == MANY - first.unread < MANY
    kept = many.save("report", REPORT, owner="")
    second = search.search("sales", 10)
    assert [(one.indexed.name, one.state, one.origin) for one in second.best] == [("report", "candidate", "saved here")]
    assert second.unread < first.unread
    next_server = SkillSearch(library=many, read_seconds=0.1)
    assert next_server.search("stock", 10).unread < second.unread, "what has been read is kept"
    many.approve(kept, uid=0, without_asking=False)
    assert [one.state for one in search.search("sales", 10).best] == ["approved"]
    many.mark(kept, "an example has failed")
    assert [one.state for one in search.search("sales", 10).best] == ["stale"]
    (many.own.directory / "report/scripts/main.py").write_text("evil")
    assert [one.state for one in search.search("sales", 10).best] == ["candidate"], "any byte revokes"
    assert not many.is_empty
    assert many.find("theirs-7777").state == "candidate"
    assert sum(1 for _ in many.places()) == MANY + 1


def test_of_more_skills_than_may_be_saved_no_more_are_listed_and_none_is_added(many, monkeypatch):
    monkeypatch.setattr(skill_store, "MOST_SKILLS", MANY - 1)
    assert len(many.others[0].names()) == MANY - 1
    full = make_library(many.others[0].directory, many.records.directory, None)
    with pytest.raises(Denied) as refused:
        full.save("report", REPORT, owner="")
    assert refused.value.code == "too_many_skills"
    assert full.find("theirs-9999").origin == "saved here"
