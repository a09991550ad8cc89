"""Skills that programs call (S1, S2, P47), on the real kernel, where only one place is free: each in a sandbox of its
own, under no more than what calls it may do, and at its cost.
"""

import json
import time

import anyio
import pytest
from tests import shared_host
from tests.hub.upstreams import until

from gloveport.audit import read
from gloveport.config import Config
from gloveport.config.schema import AdmissionSettings, Audit, PoolSettings
from gloveport.engine import execution, skill_calls
from gloveport.engine.run_context import RunContext
from gloveport.hub import discovery
from gloveport.model import Narrowing, Request
from gloveport.model.hub import Sampling
from gloveport.model.skill import SkillGrant
from gloveport.sampling.model_question import Answer
from gloveport.skills import snapshot
from gloveport.skills.skill_files import make_files

pytestmark = pytest.mark.anyio

REPORT = 'MONTH = 11  # parameter: which month\nNAME = "x"  # parameter\n{"month": MONTH, "name": NAME}\n'

RAW = """import json, os, socket
host, _, port = os.environ["GLOVEPORT_HUB"].partition(":")
def ask(**request):
    with socket.create_connection((host, int(port))) as connection:
        body = json.dumps({"id": 1, **request}).encode()
        connection.sendall(len(body).to_bytes(4, "big") + body)
        data = connection.recv(1 << 20)
        while len(data) < 4 + int.from_bytes(data[:4], "big"):
            data += connection.recv(1 << 20)
        answer = json.loads(data[4:])
        return answer["error"]["code"] if "error" in answer else answer["value"]
"""

ASK = """
def attempt(tokens):
    try:
        return str(llm.ask("why?", max_tokens=tokens))
    except ToolError as error:
        return error.code
"""


class Host:
    """An engine with skills, and what it has written down."""

    def __init__(self, engine, directory):
        self.engine, self.directory = engine, directory

    def save(self, name, code, language="python", *, owner="", grant=None, approved=False):
        files = make_files(name, "Does it.", language, code, grant=grant or SkillGrant())
        kept = self.engine.skills.save(name, files, owner=owner)
        if approved:
            self.engine.skills.approve(kept, uid=0, without_asking=False)
        return kept

    async def run(self, code, language="python", *, session=None, context=None, **limits):
        request = Request(language=language, code=code, session=session, limits=Narrowing(**limits))
        return await self.engine.execute(request, caller="test", share="me", context=context)

    async def value(self, code, language="python", **rest):
        result = await self.run(code, language, **rest)
        assert result.status == "ok", (result.error, result.stderr.text, result.hint)
        return result.value

    def records(self, kind):
        found = read.records(self.directory / "audit")
        return [one.fields for one in found if one.kind == kind]


@pytest.fixture(scope="module")
async def opened(tmp_path_factory):
    state = tmp_path_factory.mktemp("state")
    config = Config(pool=PoolSettings(forked=1, booted=0), admission=AdmissionSettings(concurrent_runs=1))
    async with shared_host.assemble(config, {"GLOVEPORT_STATE": str(state)}) as engine:
        yield Host(engine, state)


@pytest.fixture
def host(opened):
    yield opened
    assert (opened.engine.admission.running, opened.engine.admission.waiting) == (0, 0)
    for name, _ in list(opened.engine.skills.places()):
        opened.engine.skills.remove(opened.engine.skills.find(name))


async def test_programs_of_every_language_and_sessions_call_skills(host):
    host.save("sales-report", REPORT)
    host.save("in-shell", 'WORD="a"  # parameter\necho "$WORD b"\n', "shell")
    host.save("in-script", "const COUNT = 1; // parameter\n[COUNT * 2]\n", "typescript")
    whole = {"month": 12, "name": "é'\"\\\n$(id)"}
    python = f"from skills import sales_report, in_shell\n[sales_report(**{whole!r}), in_shell(word='$(id)')]"
    assert await host.value(python) == [whole, "$(id) b"]
    script = (
        'import { salesReport, "in-shell" as shell } from "skills";\nimport all from "skills";\n'
        f"const given: unknown = {json.dumps(whole)};\n[await salesReport(given), await shell(), await all.in_script()]"
    )
    assert await host.value(script, "typescript") == [whole, "a b", [2]]
    shell = "skill sales-report --month 12 --name=7 && skill in-shell && skill | sort | head -1"
    assert (await host.run(shell, "shell")).stdout.text == '{"month":12,"name":"7"}\na b\nin-script\n'
    assert "--month  integer  11   which month" in (await host.run("skill sales-report --help", "shell")).stdout.text
    first = await host.run("from skills import sales_report\nsales_report()", session="new")
    assert first.value == {"month": 11, "name": "x"}
    again = "import { salesReport } from 'skills'; (await salesReport({ month: 1 })).month"
    assert await host.value(again, "javascript", session=first.session.id) == 1
    assert await host.value("sales_report(month=2)['month']", session=first.session.id) == 2
    await host.engine.sessions.end_of("me", "the test is over")


async def test_large_arguments_become_literals_beside_the_event_loop(host, monkeypatch):
    """P38: where every character is escaped that takes half a second."""
    monkeypatch.setattr(snapshot, "_SETTLED_NS", 0)  # so that it is known at once, and needs no thread for reading
    host.save("many", "const WORDS = []; // parameter\nWORDS.length\n", "javascript")
    requests = host.engine.skill_requests
    requests.prepare("many", {}, owner="me")
    assert requests.prepare_unchanged("many", {"words": ["!"] * 50}, owner="me") is not None
    large = {"words": ["!" * 250_000]}
    assert requests.prepare_unchanged("many", large, owner="me") is None
    began = time.thread_time()
    request, _ = await requests.prepare_in_thread("many", large, owner="me")
    assert time.thread_time() - began < 0.25
    assert request.code.count("0021") == 250_000


async def test_what_goes_wrong_is_a_typed_error_with_words_that_help(host, monkeypatch):
    host.save("sales-report", REPORT)
    host.save("broken", "1 / 0")
    host.save("odd", "object()")
    code = """import inspect, skills
from skills import SkillError, broken, odd, sales_report, no_such_one
def fails(call, *given, **named):
    try:
        return call(*given, **named)
    except SkillError as error:
        return [error.skill, error.code, str(error)]
[fails(sales_report, month="x"), fails(sales_report, moth=1), fails(no_such_one), fails(broken), fails(odd),
 str(inspect.signature(sales_report)), repr(sales_report), repr(skills), sorted(dir(skills))]"""
    wrong, unknown, missing, broken, odd, signature, shown, names, listed = await host.value(code)
    assert wrong[:2] == ["sales_report", "invalid_arguments"]
    assert "It takes integer, such as 11." in wrong[2]
    assert "It takes: month, name." in unknown[2]
    assert (missing[1], broken[1], odd[1]) == ("unknown_skill", "skill_error", "no_json_value")
    assert "ZeroDivisionError: division by zero" in broken[2]
    assert (signature, names) == ("(*, month: int = Ellipsis, name: str = Ellipsis)", "broken\nodd\nsales-report")
    assert "def sales_report(\n    *,\n    month: int = ...,\n    name: str = ...,\n) -> Any:" in shown
    assert listed == ["broken", "odd", "sales_report"]
    monkeypatch.setattr(skill_calls, "_MOST_NAMED", 2)
    assert await host.value("import skills\nrepr(skills)") == "broken\nodd\nand 1 more"
    script = "try { await skills.broken() } catch (error) { [error instanceof SkillError, error.skill, error.code] }"
    returned = f"return await (async () => {{ {script.replace('{ [', '{ return [')} }})()"
    assert await host.value(returned, "typescript") == [True, "broken", "skill_error"]
    failed = await host.run("skill no-such; skill broken", "shell")
    assert "no-such: There is no skill" in failed.stderr.text
    assert "broken: It has ended with error: ZeroDivisionError" in failed.stderr.text


async def test_a_skill_that_calls_itself_and_a_cycle_come_to_an_end(host, monkeypatch):
    host.save("itself", "from skills import itself\nitself()")
    host.save("one", "from skills import other\nother()")
    host.save("other", "from skills import one\none()")
    for name in ("itself", "one"):
        result = await host.run(f"from skills import {name}\n{name}()")
        assert "skills_too_deep" in result.stderr.text or "wait for one another" in result.error.message, result
        admitted = host.records("execute.admitted")[-4:]
        assert "skill" not in admitted[0]
        assert [one["parent"] for one in admitted[1:]] == [one["run"] for one in admitted[:3]]
    monkeypatch.setattr(skill_calls, "MOST_RUNS", 4)
    bomb = "import skills\nfor _ in range(9):\n    try: skills.bomb()\n    except skills.SkillError: pass\n"
    host.save("bomb", bomb)
    before = len(host.records("execute.admitted"))
    assert (await host.run(bomb)).status == "ok"
    assert len(host.records("execute.admitted")) - before == 1 + 4
    assert {"skills_too_deep", "too_many_skill_runs"} <= {one["code"] for one in host.records("execute.denied")}


async def test_what_a_program_sends_itself_widens_nothing(host):
    host.save("mine", "40 + 2", owner="me")
    host.save("theirs", "'secret of another'", owner="somebody else")
    asked = [
        {"op": "run_skill", "skill": "theirs", "owner": "somebody else", "share": "somebody else", "caller": "root"},
        {"op": "run_skill", "skill": "mine", "parent": "run-1", "run_id": "run-1", "depth": -9, "approved": True},
        {"op": "run_skill", "skill": "../mine"},
        {"op": "run_skill", "skill": "mine/../../mine"},
        {"op": "run_skill", "skill": "m" * 100_000},
        {"op": "run_skill", "skill": ["mine"]},
        {"op": "run_skill", "skill": "mine", "arguments": [1]},
        {"op": "run_skill", "skill": "mine", "arguments": {"x\n": 1}},
        {"op": "describe_skill", "skill": "../mine"},
        {"op": "call", "server": "skills", "tool": "mine", "arguments": {}},
        {"op": "sample"},
    ]
    result = await host.run(f"{RAW}\n[ask(**one) for one in {asked!r}]")
    assert result.value == [
        "skill_of_another",
        {"value": 42},
        *["unknown_skill"] * 2,
        *["malformed_call"] * 3,
        "invalid_arguments",
        "unknown_skill",
        *["not_granted"] * 2,
    ]
    inner = host.records("execute.admitted")[-1]
    assert (inner["caller"], inner["parent"], inner["skill"]) == ("test", result.run_id, "mine")


async def test_a_skill_ends_with_its_caller_and_costs_its_time_and_memory(host):
    earlier = len(host.records("execute.admitted"))
    host.save("sleeper", "import time\ntime.sleep(60)")
    late = await host.run("from skills import sleeper\nsleeper()", wall_seconds=2)
    assert (late.status, late.limits_hit) == ("timeout", ("wall_seconds",))
    assert late.usage.wall_ms < 5000
    leaves = (
        "import threading, time, skills\nthreading.Thread(target=skills.sleeper, daemon=True).start()\ntime.sleep(2)"
    )
    assert (await host.run(leaves)).status == "ok"
    before = len(host.records("execute.admitted"))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(host.run, "from skills import sleeper\nsleeper()")
        with anyio.fail_after(30):
            while len(host.records("execute.admitted")) < before + 2:
                await anyio.sleep(0.01)
        tasks.cancel_scope.cancel()
    # The first skill had the time that was left to its caller: it may also have come to that limit first.
    ended = [one for one in host.records("execute.ended") if one.get("status") in {"cancelled", "timeout"}]
    skills = len(host.records("execute.admitted")) - earlier - 3  # on a busy host one may not have begun in time
    assert len(ended) == skills + 2  # and the first and the last program
    host.save("eater", "MIB = 100  # parameter\nlen(b'x' * (MIB << 20)) >> 20")
    eats = "from skills import eater\neater(mib={})"
    assert await host.value(eats.format(60), memory_bytes=256 << 20) == 60
    eaten = await host.run(eats.format(200), memory_bytes=256 << 20)
    assert (eaten.status, eaten.error.type) == ("error", "SkillError")
    assert "memory_bytes" in eaten.error.message
    host.save("burner", "while True: pass")
    calls = "import skills\nfor _ in range(9):\n    try: skills.burner()\n"
    burnt = await host.value(f"{calls}    except skills.SkillError as error: last = str(error)\nlast", cpu_seconds=1)
    assert "too little processor time left" in burnt
    burns = [one["cpu_ms"] for one in host.records("execute.ended")[-9:] if one.get("limits_hit") == ["cpu_seconds"]]
    assert len(burns) > 1
    assert sum(filter(None, burns)) < 1500, burns  # what one run may, and what passes before anybody looks
    little = await host.run("from skills import eater\neater()", memory_bytes=48 << 20)
    assert "too little memory left" in little.error.message


async def test_questions_of_skills_to_a_model_are_questions_of_the_run_that_calls_them(tmp_path):
    """P28, P47, H7: else whoever saves a skill that asks could ask a hundred times as much."""
    asked = []

    async def answer(question, _seconds):
        asked.append(question)
        return Answer(text="yes", tokens=question.max_tokens)

    config = Config(
        pool=PoolSettings(forked=1, booted=0), sampling=Sampling(enabled=True, channel="client", rounds=5, tokens=100)
    )
    code = f"{ASK}\nimport skills\n[attempt(40), skills.asking(), skills.asking(), attempt(20), attempt(1), attempt(1)]"
    async with shared_host.assemble(config, {"GLOVEPORT_STATE": str(tmp_path)}) as engine:
        host = Host(engine, tmp_path)
        host.save("asking", f"{ASK}\nattempt(40)")
        value = await host.value(code, context=RunContext(ask_client=answer))
    assert value == ["yes", "yes", "too_many_tokens", "yes", "too_many_tokens", "too_many_questions"]
    assert len(asked) == 3


async def test_what_skills_ask_about_skills_and_tools_counts_for_the_run_that_calls_them(tmp_path, monkeypatch):
    """P47."""
    monkeypatch.setattr(skill_calls, "_MOST_REQUESTS", 2)
    monkeypatch.setattr(discovery, "_MOST_REQUESTS", 2)
    code = f"{RAW}\nimport skills\n[[ask(op=op) for op in ('skills', 'search')], skills.asking(), skills.asking()]"
    config = Config(pool=PoolSettings(forked=1, booted=0), sampling=Sampling(enabled=True))  # or there is no search
    async with shared_host.assemble(config, {"GLOVEPORT_STATE": str(tmp_path)}) as engine:
        host = Host(engine, tmp_path)
        host.save("asking", f"{RAW}\n[ask(op='skills'), ask(op='search')]")
        first, second, third = await host.value(code)
    assert first == second
    assert third == ["too_many_searches"] * 2


async def test_refusals_of_skills_count_with_those_of_the_run_that_calls_them(tmp_path):
    """P13, P47: a hundred skills would else write a hundred times as many records."""
    config = Config(
        pool=PoolSettings(forked=1, booted=0), sampling=Sampling(enabled=True), audit=Audit(refusals_per_run=3)
    )
    refused = f"{RAW}\n[ask(op='call', server='nobody', tool='x') for _ in range(2)]"
    async with shared_host.assemble(config, {"GLOVEPORT_STATE": str(tmp_path)}) as engine:
        host = Host(engine, tmp_path)
        host.save("refused", refused)
        assert await host.value("import skills\n[skills.refused() for _ in range(3)][-1]") == ["tool_not_granted"] * 2
    denials = [one.get("further") for one in host.records("call.denied")]
    assert denials == [None, None, "are counted"]
    assert host.records("execute.ended")[-1]["refused"] == {"call tool_not_granted": 6}


async def test_what_skills_cost_the_server_at_once_is_bounded_for_the_run_that_calls_them(tmp_path, monkeypatch):
    """P38, P47: skills that wait for one another held four times as many bodies in the server's memory."""
    opened, open_doors = [], execution.open_doors

    def record(run, *parts, **more):
        opened.append(run)
        return open_doors(run, *parts, **more)

    monkeypatch.setattr(execution, "open_doors", record)
    config = Config(pool=PoolSettings(forked=1, booted=0))
    async with shared_host.assemble(config, {"GLOVEPORT_STATE": str(tmp_path)}) as engine:
        host = Host(engine, tmp_path)
        host.save("inner", "1")
        host.save("outer", "import skills\nskills.inner()")
        assert await host.value("import skills\nskills.outer()") == 1
    bounds = [(run.outbound_load, run.ledger.turn, run.sampling_usage.turn) for run in opened]
    assert bounds == [bounds[0]] * 3


async def test_what_a_skill_returns_and_how_it_fails_tells_no_secret(host):
    host.engine.gateway.vault.remember("KEY", "s3cret-of-the-owner")
    host.save("leak", "'-'.join(['s3cret', 'of', 'the', 'owner'])")
    host.save("burst", "raise ValueError('-'.join(['s3cret', 'of', 'the', 'owner']))")
    code = "import skills\ntry: skills.burst()\nexcept skills.SkillError as error: said = str(error)[::-1]\n"
    for backwards in await host.value(f"{code}[skills.leak()[::-1], said]"):
        assert "renwo-eht" not in backwards
        assert "YEK" in backwards  # what stands in its place names it


async def test_an_approved_skill_calls_only_skills_it_was_seen_to_call_and_that_are_approved(host):
    inner = host.save("inner", "1", approved=True)
    host.save("unlisted", "2", approved=True)
    outer = 'NAME = "inner"  # parameter\nimport skills\nskills[NAME]()'
    host.save("outer", outer, grant=SkillGrant(skills=("inner",)), approved=True)
    host.save("closed", "import skills\nskills.inner()", approved=True)
    calls = "import skills\ndef code_of(**given):\n    try:\n        return skills.outer(**given)\n"
    calls += "    except skills.SkillError as error:\n        return str(error)\n"
    assert await host.value(f"{calls}code_of()") == 1
    assert "was approved without the skill 'unlisted'" in await host.value(f"{calls}code_of(name='unlisted')")
    assert (
        "There are no skills here that this program may use"
        in (await host.run("from skills import closed\nclosed()")).error.message
    )
    program = host.engine.skills.own.directory / "inner/scripts/main.py"
    program.write_text("3")
    changed = await host.value(f"{calls}code_of()")
    assert "without the skill 'inner', which nobody has approved as it is now" in changed
    assert await host.value("import skills\nskills.inner()") == 3  # a candidate, with the rights of what calls it
    program.write_text("1")
    assert host.engine.skills.find("inner").skill.snapshot.sha256 == inner.skill.snapshot.sha256
    host.save("twice", "import skills\nskills.twice()", grant=SkillGrant(skills=("inner",)), approved=True)
    running = host.engine.skills.find("twice")
    (host.engine.skills.own.directory / "twice/scripts/main.py").write_text("'changed while it ran'")
    context = RunContext(skill=skill_run(running))
    result = await host.run(running.skill.code, context=context)
    assert "which nobody has approved as it is now" in result.error.message


def skill_run(kept):
    return skill_calls.SkillRun(name=kept.skill.name, sha256=kept.skill.snapshot.sha256, rights=kept.rights)


async def test_a_skill_whose_approval_is_taken_back_while_it_waits_for_its_turn_does_not_begin(host):
    host.save("report", "1", approved=True)
    kept = host.engine.skills.find("report")
    context, results = RunContext(skill=skill_run(kept)), []

    async def run_skill():
        results.append(await host.run(kept.skill.code, context=context))

    async with anyio.create_task_group() as waiting, anyio.create_task_group() as occupying:
        occupying.start_soon(host.run, "import time; time.sleep(25)")
        await until(lambda: host.engine.admission.running)
        waiting.start_soon(run_skill)
        await until(lambda: host.engine.admission.waiting)
        host.engine.skills.revoke(kept)
        occupying.cancel_scope.cancel()
    assert results[0].status == "denied"
    assert results[0].error.type == "approval_taken_back"
