"""W1, W3: patches and changes as folders: what was there, what was asked, and what is there then, or the refusal."""

import json
import shutil
from hashlib import sha256
from pathlib import Path

import pytest

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.changes import Change
from gloveport.workspace.patch.writer import WriteOptions, Writer, WriteResult

SCENARIOS = sorted((Path(__file__).parent / "scenarios").iterdir())


def contents(root: Path) -> dict[str, bytes | None]:
    """All there is; a directory has no content."""
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def asked(scenario: Path, root: Path, writer: Writer, order: WriteOptions) -> WriteResult:
    if (scenario / "patch").exists():
        return writer.apply_patch((scenario / "patch").read_text(), order)
    changes = json.loads((scenario / "changes.json").read_text())
    for change in changes:
        if change.get("revision") == "current":
            change["revision"] = sha256((root / change["path"]).read_bytes()).hexdigest()
    return writer.apply_changes([Change.model_validate(change) for change in changes], order)


def told(answer: dict, expected: dict) -> dict:
    files = [{name: value for name, value in file.items() if name != "revision"} for file in answer["affected_files"]]
    return {name: files if name == "affected_files" else answer[name] for name in expected}


@pytest.fixture
def writer(tree, tmp_path) -> Writer:
    return Writer(tree, tmp_path / "state")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.name)
def test_a_scenario_ends_as_its_folder_says(scenario, root, writer):
    shutil.copytree(scenario / "input", root, dirs_exist_ok=True)
    before = contents(root)
    if (scenario / "error.json").exists():
        expected = json.loads((scenario / "error.json").read_text())
        for order in (WriteOptions(dry_run=True), WriteOptions()):
            with pytest.raises(WorkspaceError) as refusal:
                asked(scenario, root, writer, order)
            assert refusal.value.code == expected["code"]
            assert refusal.value.details | expected["details"] == refusal.value.details
            json.dumps(refusal.value.details)
            assert contents(root) == before
        return
    tried = asked(scenario, root, writer, WriteOptions(dry_run=True))
    assert contents(root) == before
    outcome = asked(scenario, root, writer, WriteOptions())
    after = contents(root)
    assert {path: content for path, content in after.items() if content is not None} == {
        path: content for path, content in contents(scenario / "expected").items() if content is not None
    }
    assert tried.answer == {**outcome.answer, "dry_run": True}
    assert outcome.answer["clean"] is True
    for file in outcome.answer["affected_files"]:
        there = after.get(file["path"])
        assert file.get("revision") == (None if there is None else sha256(there).hexdigest())
    if (scenario / "answer.json").exists():
        expected = json.loads((scenario / "answer.json").read_text())
        assert told(outcome.answer, expected) == expected
    if after != before:
        assert {*outcome.written} == {path for path in after if after[path] not in {before.get(path), None}}
        writer.undo()
        assert contents(root) == before
