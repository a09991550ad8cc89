"""W1: a request that is sent twice is done once."""

import threading

import pytest
from pydantic import ValidationError

from gloveport.workspace.errors import WorkspaceError
from gloveport.workspace.patch.changes import Change
from gloveport.workspace.patch.writer import MAX_KEYS, WriteOptions, Writer

APPEND = "*** Begin Patch\n*** Update File: a\n@@\n+x\n*** End Patch"
KEY = WriteOptions(idempotency_key="k")


@pytest.fixture
def writer(tree, root, tmp_path) -> Writer:
    (root / "a").write_text("1\n")
    return Writer(tree, tmp_path / "state")


def test_the_second_request_gets_the_answer_of_the_first(root, writer):
    first, second = writer.apply_patch(APPEND, KEY), writer.apply_patch(APPEND, KEY)
    assert second.answer == {**first.answer, "idempotent_replay": True}
    assert (first.written, second.written) == (("a",), ())
    assert (root / "a").read_text() == "1\nx\n"


def test_other_arguments_with_the_same_key_are_refused(writer):
    writer.apply_patch(APPEND, KEY)
    for patch, order in ((APPEND.replace("x", "y"), KEY), (APPEND, WriteOptions(dry_run=True, idempotency_key="k"))):
        with pytest.raises(WorkspaceError) as refusal:
            writer.apply_patch(patch, order)
        assert refusal.value.code == "IDEMPOTENCY_KEY_REUSED"
        assert refusal.value.details == {"tool": "apply_patch", "idempotency_key": "k"}


def test_each_tool_has_keys_of_its_own(root, writer):
    writer.apply_patch(APPEND, KEY)
    writer.apply_changes([Change(action="create", path="b", content="")], KEY)
    assert (root / "b").exists()


def test_a_dry_run_and_a_failure_leave_the_key_free(root, writer):
    writer.apply_patch(APPEND, WriteOptions(dry_run=True, idempotency_key="k"))
    with pytest.raises(WorkspaceError):
        writer.apply_patch(APPEND.replace("File: a", "File: z"), KEY)
    assert "idempotent_replay" not in writer.apply_patch(APPEND, KEY).answer
    assert (root / "a").read_text() == "1\nx\n"


def test_callers_with_one_key_wait_and_one_of_them_acts(root, writer):
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(writer.apply_patch(APPEND, KEY).answer), daemon=True)
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted("idempotent_replay" in answer for answer in answers) == [False] + [True] * 7
    assert (root / "a").read_text() == "1\nx\n"


def test_the_keys_used_last_are_kept(root, writer):
    def is_done_once_more(number: int) -> bool:
        patch = f"*** Begin Patch\n*** Add File: n\n+{number}\n*** End Patch"
        return "idempotent_replay" not in writer.apply_patch(patch, WriteOptions(idempotency_key=str(number))).answer

    assert all(is_done_once_more(number) for number in range(MAX_KEYS))
    assert not is_done_once_more(0)
    assert is_done_once_more(MAX_KEYS)  # the one that was used least lately is 1
    assert not is_done_once_more(0)
    assert is_done_once_more(1)


def test_nobody_is_refused_or_answered_for_the_keys_of_another(root, writer):
    """Two clients may both count their requests."""
    writer.apply_patch(APPEND, KEY, "one")
    assert "idempotent_replay" not in writer.apply_patch(APPEND, KEY, "other").answer
    for number in range(MAX_KEYS):
        patch = f"*** Begin Patch\n*** Add File: n\n+{number}\n*** End Patch"
        writer.apply_patch(patch, WriteOptions(idempotency_key=str(number)), "other")
    assert writer.apply_patch(APPEND, KEY, "one").answer["idempotent_replay"], "nobody drives it out"


@pytest.mark.parametrize("key", ["", "k" * 129])
def test_a_key_has_bounds(key):
    with pytest.raises(ValidationError):
        WriteOptions(idempotency_key=key)
