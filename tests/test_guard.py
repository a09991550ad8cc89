"""P13, the reference monitor: decided, written down, done, written down; else not done."""

import hashlib
import json
from typing import get_args

import anyio
import pytest
from msgspec.structs import replace

from gloveport.approvals.question import Verdict
from gloveport.audit.log import AuditLog
from gloveport.audit.retention import RetentionBounds
from gloveport.errors import AuditError, Denied, UnrecordedEndError, UpstreamError
from gloveport.guard import Guard
from gloveport.model import Action, Execute, Grant
from gloveport.model.egress import Api, Connect, Egress, Fetch, Rule
from gloveport.model.hub import CallTool, Sample, Sampling, ServerPolicy, Toolbox, ToolRule
from gloveport.model.packages import Install, LockedPackage
from gloveport.model.workspace import GateHit, PathChange, RunCommand, WorkspacePolicy, WriteFiles

ACTION = Execute(language="python", code_bytes=3, code_sha256="0" * 64)
FETCH = Fetch(method="GET", scheme="https", host="api.example.com", port=443, path="/items")
CONNECT = Connect(host="db.example.com", port=5432)
API = Api(
    hosts=("api.example.com", "tcp://db.example.com:5432"),
    rules=(Rule(action="ask", methods=("DELETE",)), Rule(action="allow")),
)
TOOLBOX = Toolbox(servers={"files": ServerPolicy(rules=(ToolRule(action="allow", tools=("read_*",)),))})
ARGUMENTS = b'{"path":"/secret-plan"}'
CALL = CallTool(
    server="files",
    tool="read_file",
    arguments=json.loads(ARGUMENTS),
    bytes=len(ARGUMENTS),
    sha256=hashlib.sha256(ARGUMENTS).hexdigest(),
    addresses={"a.test": ("192.0.2.1",)},
)
NEED = GateHit(gate="network", piece="pip", why="'pip' needs the network.", instead="Do without.")
COMMAND = RunCommand(
    command=f"echo {'x' * 3000}",
    workdir="src",
    tty=True,
    stdin_bytes=3,
    stdin_sha256="1" * 64,
    variables=("WORD",),
    hosts=("pypi.org",),
    needs=(NEED,),
)
WRITE = WriteFiles(changes=(PathChange(operation="edit", path="a.py"),), bytes=7, sha256="2" * 64)
SAMPLE = Sample(model="small", prompt_bytes=10, max_tokens=100)
GRANT = Grant(
    languages={"python"},
    egress=Egress(apis={"service": API}),
    toolbox=TOOLBOX,
    sampling=Sampling(enabled=True, models=("small",)),
    workspace=WorkspacePolicy(gates={"network": "allow"}),
)


@pytest.fixture
def guard(tmp_path):
    with AuditLog.open(tmp_path / "audit", max_file_bytes=1 << 20) as log:
        yield Guard(grant=GRANT, audit=log, caller="me", run_id="run-1")


def written(tmp_path):
    lines = [line for path in sorted((tmp_path / "audit").glob("*.jsonl")) for line in path.read_text().splitlines()]
    return [json.loads(line) for line in lines]


async def test_an_allowed_action_is_written_down_before_and_after(guard, tmp_path):
    """T6."""
    async with guard.admit(ACTION) as ending:
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


async def test_a_denied_action_is_written_down_and_not_done(guard, tmp_path):
    """T1, T6: ``Grant()`` may do nothing."""
    nothing = Guard(grant=Grant(), audit=guard.audit, caller="me", run_id="run-1")
    with pytest.raises(Denied) as caught:
        async with nothing.admit(ACTION):
            pytest.fail("it was done")
    assert caught.value.code == "language_not_allowed"
    assert [(record["kind"], record["code"]) for record in written(tmp_path)] == [
        ("execute.denied", "language_not_allowed")
    ]


async def test_a_refusal_on_the_way_is_written_down(guard, tmp_path):
    with pytest.raises(Denied):
        async with guard.admit(ACTION):
            raise Denied("queue_full", "too many")
    assert written(tmp_path)[-1]["kind"] == "execute.denied"
    assert written(tmp_path)[-1]["code"] == "queue_full"


WITH_FILES = ACTION.model_copy(
    update={
        "files": {"sales.csv": "1" * 64},
        "files_bytes": 3,
        "skill": "report",
        "skill_sha256": "2" * 64,
        "approved": True,
        "parent": "run-1",
    }
)


@pytest.mark.parametrize("action", [WITH_FILES, FETCH, CONNECT, SAMPLE], ids=lambda action: action.kind)
async def test_every_kind_of_action_is_written_down_whole(guard, tmp_path, action):
    """T6: each of its fields, as plain JSON."""
    async with guard.admit(action):
        pass
    (before, after), kind = written(tmp_path), action.kind
    assert (before["kind"], after["kind"]) == (f"{kind}.admitted", f"{kind}.ended")
    facts = action.model_dump(mode="json", exclude={"kind"})
    assert list(before)[3:-2] == ["caller", "run", *facts, "rule"]
    assert {name: before[name] for name in facts} == facts
    assert list(after)[3:-2] == ["caller", "run", "of"]
    assert after["of"] == before["seq"]


INSTALL = Install(
    environment="web", requested_names=("a",), packages=(LockedPackage(name="a", version="1"),), lock_sha256="0" * 64
)


async def test_an_installation_is_written_down_with_every_package(guard, tmp_path):
    """T6, E8."""
    async with guard.admit(INSTALL):
        pass
    before = written(tmp_path)[0]
    assert {name: before[name] for name in ("kind", "environment", "asked", "packages", "lock_sha256", "rule")} == {
        "kind": "install.admitted",
        "environment": "web",
        "asked": ["a"],
        "packages": ["a==1"],
        "lock_sha256": "0" * 64,
        "rule": "environments.web",
    }


def test_no_kind_of_action_is_left_out_above():
    assert {type(action) for action in (ACTION, FETCH, CONNECT, SAMPLE, CALL, COMMAND, WRITE, INSTALL)} == set(
        get_args(Action)
    )


async def test_a_command_is_written_down_with_what_it_came_to(guard, tmp_path):
    """T6, W5, A1: its text as far as a line of the log has room, and the digest of all of it."""
    async with guard.admit(COMMAND):
        pass
    before = written(tmp_path)[0]
    assert {name: before[name] for name in ("command", "workdir", "tty", "variables", "hosts", "needs")} == {
        "command": f"echo {'x' * 1995}",
        "workdir": "src",
        "tty": True,
        "variables": ["WORD"],
        "hosts": ["pypi.org"],
        "needs": ["network"],
    }
    assert (before["stdin_bytes"], before["stdin_sha256"]) == (3, "1" * 64)
    assert before["bytes"] == len(COMMAND.command)
    assert before["sha256"] == hashlib.sha256(COMMAND.command.encode()).hexdigest()


async def test_a_write_is_written_down_with_its_paths(guard, tmp_path):
    """T6, W3, A1"""
    async with guard.admit(WRITE):
        pass
    before = written(tmp_path)[0]
    assert (before["kind"], before["changes"]) == ("write.admitted", [{"operation": "edit", "path": "a.py"}])
    assert (before["bytes"], before["sha256"]) == (7, "2" * 64)


async def test_by_which_permission_a_command_passes_is_written_down_and_what_it_asks_for_has_its_own_rule(
    guard, tmp_path
):
    """A1, W5: of the command itself and of nothing that it does on its way."""
    permitted = replace(guard, permits=("grant-1",))
    for action in (COMMAND, WRITE, FETCH):
        async with permitted.admit(action):
            pass
    async with guard.admit(COMMAND):
        pass
    admitted = [record for record in written(tmp_path) if record["kind"].endswith(".admitted")]
    assert [record.get("permission") for record in admitted] == [["grant-1"], ["grant-1"], None, None]


async def test_of_a_calls_arguments_the_log_has_size_and_digest_alone(guard, tmp_path):
    """A1, H5: they may hold anything."""
    async with guard.admit(CALL):
        pass
    before = written(tmp_path)[0]
    assert (before["server"], before["tool"], before["addresses"]) == ("files", "read_file", {"a.test": ["192.0.2.1"]})
    assert before["arguments"] == {"bytes": len(ARGUMENTS), "sha256": hashlib.sha256(ARGUMENTS).hexdigest()}
    assert "secret-plan" not in json.dumps(written(tmp_path))


class Person:
    """Somebody who answers every question alike."""

    def __init__(self, verdict, clock):
        self.verdict, self.clock, self.asked, self.stood = verdict, clock, [], []

    async def ask(self, text, **about):
        self.stood.append(self.clock.is_paused)
        self.asked.append((text, about))
        return self.verdict


@pytest.fixture
def asking(guard):
    """The guard of a run that can ask a person who says this."""

    def make(**verdict):
        person = Person(Verdict(**verdict), guard.clock)
        return person, replace(guard, asker=person, session="mine")

    return make


DELETE = FETCH.model_copy(update={"method": "DELETE"})


async def test_where_nobody_can_be_asked_the_answer_is_no(guard, tmp_path):
    """T1, T6, H8, P23."""
    with pytest.raises(Denied) as caught:
        async with guard.admit(DELETE):
            pytest.fail("it was done")
    (record,) = written(tmp_path)
    assert caught.value.code == record["code"] == "approval_denied"
    assert (record["kind"], record["rule"], record["method"]) == ("fetch.denied", "api.service.rules[0]", "DELETE")


async def test_what_a_person_allows_is_done_and_written_down_with_who_said_so(asking, tmp_path):
    """H8, T6: the question, the answer, the end; the run's clock stands meanwhile and goes on then."""
    person, guard = asking(allowed=True, by="gloveport approvals (uid 0)", scope="run")
    async with guard.admit(DELETE):
        assert not guard.clock.is_paused
    asked, admitted, _ = written(tmp_path)
    assert (asked["kind"], admitted["kind"]) == ("fetch.asked", "fetch.admitted")
    assert (admitted["by"], admitted["scope"]) == ("gloveport approvals (uid 0)", "run")
    assert person.stood == [True]
    ((_, about),) = person.asked
    assert about["subject"].startswith("fetch DELETE https://api.example.com")
    assert (about["run"], about["caller"], about["session"]) == ("run-1", "me", "mine")


async def test_what_a_person_does_not_allow_is_not_done(asking, tmp_path):
    """H8."""
    _, guard = asking(allowed=False, by="timeout")
    with pytest.raises(Denied) as caught:
        async with guard.admit(DELETE):
            pytest.fail("it was done")
    assert "Nobody has answered" in caught.value.reason
    assert "when the owner is there" in caught.value.hint
    assert [record["kind"] for record in written(tmp_path)] == ["fetch.asked", "fetch.denied"]


async def test_what_can_not_be_shown_whole_is_denied_and_nobody_is_asked(asking, tmp_path):
    """H8, P23."""
    person, guard = asking(allowed=True, by="gloveport approvals (uid 0)")
    with pytest.raises(Denied):
        async with guard.admit(CALL.model_copy(update={"tool": "write", "arguments": {"a": "x" * 20_000}})):
            pytest.fail("it was done")
    (record,) = written(tmp_path)
    assert (record["kind"], record["code"], person.asked) == ("call.denied", "too_large_to_ask", [])


async def test_a_question_that_the_end_of_a_run_interrupts_is_written_down_as_over(guard, tmp_path):
    """T6."""

    class Nobody:
        async def ask(self, _text, **_about):
            await anyio.sleep_forever()

    with anyio.CancelScope() as scope:
        scope.cancel()
        async with replace(guard, asker=Nobody()).admit(DELETE):
            pytest.fail("it was done")
    assert [record["kind"] for record in written(tmp_path)] == ["fetch.asked", "fetch.ended"]
    assert written(tmp_path)[-1]["status"] == "cancelled"


async def test_a_request_that_failed_says_why_and_what_was_known_until_then(guard, tmp_path):
    def act(ending):
        ending.fields["api"] = "service"
        raise UpstreamError("upstream_timeout", "too late")

    with pytest.raises(UpstreamError):
        async with guard.admit(FETCH) as ending:
            act(ending)
    record = written(tmp_path)[-1]
    assert (record["kind"], record["status"], record["code"]) == ("fetch.ended", "failed", "upstream_timeout")
    assert record["api"] == "service"


@pytest.mark.parametrize(("error", "status"), [(OSError("disk"), "failed"), (KeyboardInterrupt(), "cancelled")])
async def test_however_an_action_ends_its_end_is_written_down(guard, tmp_path, error, status):
    with pytest.raises(type(error)):
        async with guard.admit(ACTION):
            raise error
    assert (written(tmp_path)[-1]["kind"], written(tmp_path)[-1]["status"]) == ("execute.ended", status)


async def test_what_can_not_be_written_down_is_not_done(guard):
    """A1, T3: an unwritable log stops new runs."""
    guard.audit.close()
    with pytest.raises(AuditError):
        async with guard.admit(ACTION):
            pytest.fail("it was done")


async def test_an_ending_that_can_not_be_written_down_is_an_error_to_whoever_waits(guard):
    with pytest.raises(UnrecordedEndError, match="what it has done stands"):
        async with guard.admit(ACTION):
            guard.audit.close()


async def test_an_ending_that_can_not_be_written_down_does_not_hide_how_it_ended(guard):
    def act():
        guard.audit.close()
        raise OSError("disk")

    with pytest.raises(UnrecordedEndError) as caught:
        async with guard.admit(ACTION):
            act()
    assert str(caught.value.__cause__.__context__) == "disk"


async def test_refusals_of_one_kind_are_counted_after_the_first_and_the_end_of_the_run_says_how_many(tmp_path):
    """P13, the knob audit.refusals_per_run: to be refused costs a program nothing, and would fill the log."""
    bounds = RetentionBounds(refusals=3)
    with AuditLog.open(tmp_path / "audit", max_file_bytes=1 << 20, bounds=bounds) as log:
        guard = Guard(grant=GRANT, audit=log, caller="me", run_id="run-1")
        async with guard.admit(ACTION):
            for number in range(9):
                guard.deny("fetch", Denied("host_not_granted", "No."), {"path": f"/{number}"})
            for _ in range(3):
                guard.deny("fetch", Denied("port_not_granted", "No."), {})
            with pytest.raises(Denied):
                guard.admit_now(SAMPLE.model_copy(update={"model": "large"})).__enter__()
    records = written(tmp_path)
    assert [record.get("code") for record in records].count("host_not_granted") == 3
    assert [record.get("path") for record in records if "further" in record] == ["/2", None]
    assert (records[-1]["kind"], records[-1]["refused"]) == ("execute.ended", {"fetch host_not_granted": 9})
