"""P13, the reference monitor: decided, written down, done, written down; else not done."""

import json
from typing import get_args

import pytest

from gloveport.audit.log import AuditLog
from gloveport.errors import AuditError, Denied, UpstreamError
from gloveport.guard import Guard
from gloveport.model import Action, Execute, Grant
from gloveport.model.egress import Api, Connect, Egress, Fetch, Rule

ACTION = Execute(language="python", code_bytes=3, code_sha256="0" * 64)
FETCH = Fetch(method="GET", scheme="https", host="api.example.com", port=443, path="/items")
CONNECT = Connect(host="db.example.com", port=5432)
API = Api(
    hosts=("api.example.com", "tcp://db.example.com:5432"),
    rules=(Rule(action="ask", methods=("DELETE",)), Rule(action="allow")),
)
GRANT = Grant(languages={"python"}, egress=Egress(apis={"service": API}))


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


@pytest.mark.parametrize("action", [ACTION, FETCH, CONNECT], ids=lambda action: action.kind)
def test_every_kind_of_action_is_written_down_whole(guard, tmp_path, action):
    """T6: each of its fields, as plain JSON."""
    with guard.admit(action):
        pass
    (before, after), kind = written(tmp_path), action.kind
    assert (before["kind"], after["kind"]) == (f"{kind}.admitted", f"{kind}.ended")
    facts = action.model_dump(mode="json", exclude={"kind"})
    assert list(before)[3:-2] == ["caller", "run", *facts, "rule"]
    assert {name: before[name] for name in facts} == facts
    assert list(after)[3:-2] == ["caller", "run"]


def test_no_kind_of_action_is_left_out_above():
    assert {type(action) for action in (ACTION, FETCH, CONNECT)} == set(get_args(Action))


def test_what_the_owner_is_to_be_asked_about_is_written_down_and_not_done(guard, tmp_path):
    """T1, T6."""
    with pytest.raises(Denied) as caught, guard.admit(FETCH.model_copy(update={"method": "DELETE"})):
        pytest.fail("it was done")
    (record,) = written(tmp_path)
    assert caught.value.code == record["code"] == "approval_required"
    assert (record["kind"], record["rule"], record["method"]) == ("fetch.denied", "api.service.rules[0]", "DELETE")


def test_a_request_that_failed_says_why_and_what_was_known_until_then(guard, tmp_path):
    def act(ending):
        ending.fields["api"] = "service"
        raise UpstreamError("upstream_timeout", "too late")

    with pytest.raises(UpstreamError), guard.admit(FETCH) as ending:
        act(ending)
    record = written(tmp_path)[-1]
    assert (record["kind"], record["status"], record["code"]) == ("fetch.ended", "failed", "upstream_timeout")
    assert record["api"] == "service"


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


def test_an_ending_that_can_not_be_written_down_is_an_error_to_whoever_waits(guard):
    with pytest.raises(AuditError), guard.admit(ACTION):
        guard.audit.close()


def test_an_ending_that_can_not_be_written_down_does_not_hide_how_it_ended(guard):
    def act():
        guard.audit.close()
        raise OSError("disk")

    with pytest.raises(AuditError) as caught, guard.admit(ACTION):
        act()
    assert str(caught.value.__context__) == "disk"
