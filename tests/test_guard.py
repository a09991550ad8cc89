"""P13, the reference monitor: decided, written down, done, written down; else not done."""

import json

import pytest

from gloveport.audit.log import AuditLog
from gloveport.errors import AuditError, Denied
from gloveport.guard import Guard
from gloveport.model import Execute, Grant

ACTION = Execute(language="python", code_bytes=3, code_sha256="0" * 64)
GRANT = Grant(languages={"python"})


@pytest.fixture
def guard(tmp_path):
    with AuditLog.open(tmp_path / "audit", max_file_bytes=1 << 20) as log:
        yield Guard(grant=GRANT, audit=log, caller="me", run_id="run-1")


def written(tmp_path):
    lines = [line for path in sorted((tmp_path / "audit").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


def test_an_allowed_action_is_written_down_before_and_after(guard, tmp_path):
    """T6."""
    with guard.admit(ACTION) as ending:
        assert [record["kind"] for record in written(tmp_path)] == ["execute.admitted"]
        ending.fields["status"] = "ok"
    before, after = written(tmp_path)
    assert (before["rule"], before["code_sha256"], before["caller"], before["run"]) == (
        "policy.languages",
        "0" * 64,
        "me",
        "run-1",
    )
    assert (after["kind"], after["status"]) == ("execute.ended", "ok")


def test_a_denied_action_is_written_down_and_not_done(guard, tmp_path):
    """T1, T6: ``Grant()`` may do nothing."""
    nothing = Guard(grant=Grant(), audit=guard.audit, caller="me", run_id="run-1")
    with pytest.raises(Denied) as caught, nothing.admit(ACTION):
        pytest.fail("it was done")
    assert caught.value.code == "language_not_allowed"
    assert [(record["kind"], record["code"]) for record in written(tmp_path)] == [
        ("execute.denied", "language_not_allowed")
    ]


def test_a_refusal_on_the_way_is_written_down(guard, tmp_path):
    with pytest.raises(Denied), guard.admit(ACTION):
        raise Denied("queue_full", "too many")
    assert written(tmp_path)[-1]["kind"] == "execute.denied"
    assert written(tmp_path)[-1]["code"] == "queue_full"


@pytest.mark.parametrize(("error", "status"), [(OSError("disk"), "failed"), (KeyboardInterrupt(), "cancelled")])
def test_however_an_action_ends_its_end_is_written_down(guard, tmp_path, error, status):
    with pytest.raises(type(error)), guard.admit(ACTION):
        raise error
    assert (written(tmp_path)[-1]["kind"], written(tmp_path)[-1]["status"]) == ("execute.ended", status)


def test_what_can_not_be_written_down_is_not_done(guard):
    """A1, T3: an unwritable log stops new runs."""
    guard.audit.close()
    with pytest.raises(AuditError), guard.admit(ACTION):
        pytest.fail("it was done")
