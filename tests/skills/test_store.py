"""Saving, approving and removing skills: whole or not at all, and bound to every byte. P42."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from skills_ref.validator import validate

from gloveport.errors import ConfigError, Denied
from gloveport.model.skill import GrantedRequests, SkillGrant
from gloveport.skills import skill_store, snapshot
from gloveport.skills.skill_files import Example, make_files, parse_skill, with_code
from gloveport.skills.skill_library import make_library
from gloveport.skills.skill_records import SkillRecords

GRANT = SkillGrant(
    requests=(GrantedRequests(place="api.example", methods=("GET",), paths=("/reports/*",)),), tools=("shop/list",)
)


def test_what_is_saved_is_an_agent_skill_and_reads_back(save, library):
    """S1."""
    example = Example(arguments={"month": 3}, value=6)
    kept = save(description="Sums: up\nthe 'sales'", grant=GRANT, examples=[example], made_by="run-1")
    assert validate(library.own.directory / "sales-report") == []
    read = library.find("sales-report")
    assert read.skill.snapshot.sha256 == kept.skill.snapshot.sha256
    assert (read.skill.grant, read.skill.examples, read.skill.language) == (GRANT, (example,), "python")
    assert read.skill.head.description == "Sums: up the 'sales'"
    assert [(one.name, one.type, one.default) for one in read.skill.parameters] == [("month", "integer", 11)]
    assert (read.state, read.record.owner) == ("candidate", "stdio")
    again = library.replace(read, with_code(read.skill, "MONTH = 'x'  # parameter\nMONTH\n"))
    assert validate(library.own.directory / "sales-report") == []
    assert (again.skill.version, again.skill.parameters[0].type) == (2, "string")


def test_an_approval_is_of_every_byte_and_every_name(save, library):
    """S2: whatever changes, nothing is approved any more; and the same bytes again are."""
    save(grant=GRANT, examples=[Example(value=22)])
    library.approve(library.find("sales-report"), uid=7, without_asking=True)
    rights = library.find("sales-report").rights
    assert (rights.grant, rights.without_asking) == (GRANT, True)
    directory = library.own.directory / "sales-report"
    for file in sorted(path for path in directory.rglob("*") if path.is_file()):
        before = file.read_bytes()
        file.write_bytes(before + b" ")
        assert library.find("sales-report").rights is None, file
        file.write_bytes(before)
    (directory / "notes").touch()
    assert library.find("sales-report").state == "candidate"
    (directory / "notes").unlink()
    assert library.find("sales-report").state == "approved"
    library.mark(library.find("sales-report"), "an example has failed")
    assert library.find("sales-report").state == "stale"
    library.revoke(library.find("sales-report"))
    library.mark(library.find("sales-report"), "")
    assert library.find("sales-report").state == "candidate"


def test_what_runs_is_what_was_hashed_though_the_file_changes_meanwhile(save, library):
    save()
    library.approve(library.find("sales-report"), uid=7, without_asking=False)
    kept = library.find("sales-report")
    (library.own.directory / "sales-report/scripts/main.py").write_text("evil")
    assert kept.rights.sha256 == parse_skill(kept.skill.snapshot).snapshot.sha256
    assert kept.skill.code.startswith("MONTH")


def test_a_skill_of_the_same_name_in_another_directory_is_not_approved(save, library, tmp_path):
    save()
    library.approve(library.find("sales-report"), uid=7, without_asking=False)
    other = make_library(tmp_path / "other", tmp_path / "records", None)
    other.own.save("sales-report", library.find("sales-report").skill.snapshot.files)
    assert other.find("sales-report").state == "candidate"


def test_who_is_removed_or_saved_anew_begins_as_a_candidate(save, library):
    save()
    library.approve(library.find("sales-report"), uid=7, without_asking=False)
    library.remove(library.find("sales-report"))
    with pytest.raises(Denied):
        library.find("sales-report")
    assert save().state == "candidate"


def test_who_saves_again_and_again_does_not_fill_the_disk(save, library, monkeypatch):
    monkeypatch.setattr(skill_store, "MOST_STORED_BYTES", 5000)
    kept = save()
    save("another")
    for attempt in (
        lambda: save("third", code=f"{'#' * 3000}\n"),
        lambda: library.replace(kept, with_code(kept.skill, f"{'#' * 3000}\n")),
    ):
        with pytest.raises(Denied) as refused:
            attempt()
        assert refused.value.code == "skills_too_large"
    assert library.own.names() == ["another", "sales-report"]
    library.remove(library.find("another"))
    save("third", code=f"{'#' * 500}\n")


def test_two_writers_at_once_lose_nothing_and_mix_nothing(save, library):
    kept = save()
    outcomes, refusals = [], []

    def write(number):
        try:
            library.replace(kept, with_code(kept.skill, f"{number}\n"))
            outcomes.append(number)
        except Denied as denial:
            refusals.append(denial.code)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 1
    assert refusals == ["skill_changed"] * 7
    assert library.find("sales-report").skill.code == f"{outcomes[0]}\n"
    with pytest.raises(Denied):
        save()


SAVER = """
import os, sys
from pathlib import Path
import gloveport.skills.skill_store as store
from gloveport.skills.skill_library import make_library
from gloveport.skills.skill_files import with_code
root = Path(sys.argv[1])
calls = at = 0
def killed(function):
    def call(*arguments, **named):
        global calls
        calls += 1
        if calls == at:
            os.kill(os.getpid(), 9)
        return function(*arguments, **named)
    return call
for name in ("mkdir", "open", "fsync"):
    setattr(os, name, killed(getattr(os, name)))
store.rename, store._remove_tree = killed(store.rename), killed(store._remove_tree)
library = make_library(root / "skills", root / "records", None)
status = None
while status != 0:
    calls, at = 0, at + 1
    if (child := os.fork()) == 0:
        kept = library.find("sales-report")
        library.replace(kept, with_code(kept.skill, "new\\n"))
        os._exit(0)
    _, status = os.waitpid(child, 0)
    calls, before = 0, at
    at = -1
    print(status, library.find("sales-report").skill.code.split()[0], flush=True)
    at = before
"""


def test_a_save_that_is_killed_anywhere_leaves_the_old_skill_or_the_new_one(save, library, tmp_path):
    """At each of its system calls in turn, until one survives."""
    save()
    done = subprocess.run(
        [sys.executable, "-c", SAVER, str(tmp_path)], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    outcomes = [line.split() for line in done.stdout.splitlines()]
    assert len(outcomes) > 20
    assert {status for status, _ in outcomes[:-1]} == {str(int(signal.SIGKILL))}
    assert {code for _, code in outcomes} == {"MONTH", "new"}
    assert outcomes[-1] == ["0", "new"]
    save("another")
    assert {path.name for path in library.own.directory.iterdir()} == {"sales-report", "another"}


def test_a_record_that_is_damaged_or_a_place_that_can_not_be_written_is_an_error_with_a_remedy(save, library):
    save()
    (record,) = Path(library.records.directory).glob("*.json")
    record.write_text("{")
    with pytest.raises(Exception, match="remove it: the skill is a candidate then"):
        library.find("sales-report")
    blocked = make_library(record, library.records.directory, None)
    with pytest.raises(Exception, match="make the directory writable"):
        blocked.save("a", make_files("a", "x", "shell", "true", grant=SkillGrant()), owner="")


def test_what_is_remembered_of_a_skill_is_used_only_while_no_byte_of_it_has_changed(library, save, monkeypatch):
    """What ran is what was hashed; a size and a time of writing that are as before hide no change."""
    kept = save()
    library.approve(kept, uid=0, without_asking=False)
    assert library.find_to_run("sales-report").rights is not None
    assert library.find_unchanged("sales-report") is None  # it was written just now: the next change may have its time
    monkeypatch.setattr(snapshot, "_SETTLED_NS", 0)
    library.find_to_run("sales-report")
    assert library.find_unchanged("sales-report").rights is not None
    library.revoke(kept)
    assert library.find_unchanged("sales-report").rights is None
    directory = library.own.directory / "sales-report"
    program = directory / "scripts/main.py"

    def change_byte():
        before = program.stat()
        while program.stat().st_ctime_ns == before.st_ctime_ns:  # the kernel's clock ticks
            program.write_bytes(program.read_bytes().replace(b"* 2", b"* 3"))
            os.utime(program, ns=(before.st_atime_ns, before.st_mtime_ns))

    for change in (
        change_byte,
        (directory / "scripts/more.py").touch,
        lambda: (directory / "scripts").rename(directory / "other"),
        lambda: directory.rename(directory.with_name("gone")),
    ):
        library.find_to_run("sales-report")
        assert library.find_unchanged("sales-report") is not None
        change()
        assert library.find_unchanged("sales-report") is None, change
        if (directory / "other").exists():
            (directory / "other").rename(directory / "scripts")
    for name in ("../sales-report", "sales-report/scripts", "Sales", ""):
        assert library.own.fingerprint(name) is None


def test_a_skill_is_nobodys_at_no_moment(save, library, monkeypatch):
    """P42: else a candidate of one caller could be read, and run, by another who removes one of its name meanwhile."""
    seen = []

    def is_locked():
        descriptor = os.open(library.own.directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(descriptor)
        return False

    def watch(method):
        def call(self, place, name, *rest):
            seen.append((method.__name__, library.own.has(name), is_locked()))
            return method(self, place, name, *rest)

        monkeypatch.setattr(SkillRecords, method.__name__, call)

    watch(SkillRecords.change)
    watch(SkillRecords.forget)
    save()
    library.remove(library.find("sales-report"))
    assert seen == [("change", False, True), ("forget", False, True)]


def test_an_approval_that_others_could_have_written_is_not_believed(save, library):
    """P17: another user may have made the state directory before its first use."""
    save()
    library.approve(library.find("sales-report"), uid=0, without_asking=True)
    (record,) = Path(library.records.directory).glob("*.json")
    record.chmod(0o622)
    with pytest.raises(ConfigError, match="can be changed by others"):
        library.find("sales-report")
    record.unlink()
    os.mkfifo(record, 0o600)
    with pytest.raises(ConfigError, match="not a regular file"):
        library.find("sales-report")
