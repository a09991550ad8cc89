"""W3: edits by line number mean the file as it was read."""

import pytest
from pydantic import ValidationError
from tests.cases import for_each

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.changes import Change, Edit, check_changes
from gloveport.workspace.patch.operations import find_splices


def result(lines: str, *edits: dict) -> str:
    after = list(lines)
    for splice in reversed(find_splices([Edit(**edit) for edit in edits], len(lines), "f")):
        after[splice.start : splice.end] = splice.lines
    return ",".join(after)


def test_all_numbers_mean_the_lines_that_were_read():
    assert (
        result(
            "1234",
            {"op": "insert_after", "line": 4, "content": "five\r\nsix"},
            {"op": "replace", "start_line": 2, "content": "two\n"},
            {"op": "delete", "start_line": 1},
            {"op": "insert_before", "line": 4, "content": "x"},
        )
        == "two,,3,x,4,five,six"
    )


def test_edits_may_touch():
    assert (
        result(
            "1234",
            {"op": "replace", "start_line": 2, "end_line": 3, "content": "R"},
            {"op": "insert_after", "line": 3, "content": "after"},
            {"op": "insert_before", "line": 2, "content": "before"},
        )
        == "1,before,R,after,4"
    )
    assert result("12", {"op": "replace", "start_line": 1, "end_line": 2, "content": ""}) == ""
    assert result("", {"op": "insert_after", "line": 0, "content": "a"}) == "a"
    assert result("1", {"op": "insert_before", "line": 2, "content": "a"}) == "1,a"


REPLACE = {"op": "replace", "start_line": 2, "end_line": 3, "content": "x"}


@pytest.mark.parametrize(
    "other",
    [
        {"op": "delete", "start_line": 3},
        {"op": "delete", "start_line": 1, "end_line": 4},
        {"op": "insert_after", "line": 2, "content": "q"},
        REPLACE,
    ],
)
def test_edits_of_the_same_lines_are_refused(other):
    with pytest.raises(WorkspaceError) as refusal:
        result("1234", REPLACE, other)
    assert (refusal.value.code, refusal.value.details["edit_indexes"]) == ("PATCH_HUNKS_OVERLAP", [0, 1])


def test_two_insertions_at_one_place_are_refused():
    edits = {"op": "insert_before", "line": 2, "content": "A"}, {"op": "insert_after", "line": 1, "content": "B"}
    with pytest.raises(WorkspaceError, match="same lines"):
        result("12", *edits)


@for_each(
    "edit",
    [
        {"op": "delete", "start_line": 3},
        {"op": "replace", "start_line": 1, "end_line": 3, "content": ""},
        {"op": "insert_after", "line": 3, "content": ""},
        {"op": "insert_before", "line": 4, "content": ""},
        {"op": "insert_before", "line": 0, "content": ""},
    ],
)
def test_a_line_that_is_not_there_is_worth_another_look(edit):
    with pytest.raises(WorkspaceError) as refusal:
        result("12", edit)
    assert (refusal.value.code, refusal.value.retryable) == ("INVALID_ARGUMENT", True)
    assert refusal.value.details["total_lines"] == 2


def edit(**fields) -> dict:
    return {"action": "edit", "path": "f", "revision": "r", "edits": [fields]}


@for_each(
    "change",
    [
        {"action": "create", "path": "f"},
        {"action": "create", "path": "f", "content": "", "revision": "r"},
        {"action": "write", "path": "f"},
        {"action": "write", "path": "f", "content": "", "destination": "g"},
        {"action": "edit", "path": "f", "revision": "r"},
        {"action": "move", "path": "f", "revision": "r"},
        {"action": "copy", "path": "f", "revision": "r", "destination": "g", "content": ""},
        {"action": "delete", "path": "f", "revision": "r", "content": ""},
        edit(op="replace", start_line=1),
        edit(op="replace", line=1, content=""),
        edit(op="replace", start_line=2, end_line=1, content=""),
        edit(op="delete", start_line=1, content=""),
        edit(op="insert_after", line=1),
        edit(op="insert_after", start_line=1, line=1, content=""),
    ],
)
def test_each_action_takes_its_own_fields(change):
    with pytest.raises(WorkspaceError) as refusal:
        check_changes([Change.model_validate(change)])
    assert refusal.value.code == "INVALID_ARGUMENT"


@for_each(
    "change",
    [
        {"action": "create", "path": "f", "content": ""},
        {"action": "write", "path": "f", "content": ""},
        {"action": "write", "path": "f", "content": "", "revision": "r"},
        {"action": "delete", "path": "f"},
        {"action": "move", "path": "f", "destination": "g"},
        edit(op="delete", start_line=1, end_line=1),
    ],
)
def test_what_an_action_needs_is_enough(change):
    check_changes([Change.model_validate(change)])


@for_each(
    "change",
    [
        {"action": "chmod", "path": "f"},
        {"action": "delete", "path": ""},
        {"action": "delete", "path": "f", "mode": 1},
        {"action": "edit", "path": "f", "edits": []},
        {"action": "edit", "path": "f", "edits": [{"op": "delete", "start_line": 1}] * 201},
        edit(op="delete", start_line=0),
        edit(op="delete", start_line=True),
    ],
)
def test_the_shape_has_bounds(change):
    with pytest.raises(ValidationError):
        Change.model_validate(change)


def test_a_call_without_changes_or_with_too_many_is_refused():
    with pytest.raises(WorkspaceError, match="empty"):
        check_changes([])
    with pytest.raises(WorkspaceError, match="more than 100"):
        check_changes([Change(action="delete", path="f")] * 101)
