"""H8 for APIs: a request about which a rule says ``ask`` waits for a person, and so does its run's clock."""

import anyio
import pytest
from tests.egress.world import SECRET

from gloveport.approvals.question import Verdict
from gloveport.approvals.store import Person
from gloveport.engine.run_context import RunContext
from gloveport.model import Narrowing, Request

pytestmark = pytest.mark.anyio

RULES = [{"action": "allow", "methods": ["GET"]}, {"action": "ask", "methods": ["DELETE"]}]
CODE = """
import urllib.error, urllib.request

def send(method):
    try:
        return urllib.request.urlopen(urllib.request.Request("https://alpha.test:PORT/echo", method=method)).status
    except urllib.error.HTTPError as error:
        return [error.code, error.read().decode()]

[send("DELETE"), send("GET")]
"""


@pytest.fixture
async def asked(world_of, api_at, far):
    """Run a program that deletes something, for three seconds at most; answer the question after so long."""
    async with world_of(api={"alpha": api_at(far.place.port, rules=RULES)}) as world:
        desk = world.engine.desk

        async def run(*, allowed, after=0.0):
            results = []
            code = CODE.replace("PORT", str(far.place.port))
            request = Request(language="python", code=code, limits=Narrowing(wall_seconds=3))

            async def execute():
                context = RunContext(asker=desk.asker(lambda: None))
                results.append(await world.engine.execute(request, caller="x", context=context))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(execute)
                with anyio.fail_after(30):
                    while not (waiting := [one.question for one in desk.store.entries() if one.status == "pending"]):
                        await anyio.sleep(0.01)
                await anyio.sleep(after)
                desk.store.answer(waiting[0].id, Verdict(allowed=allowed, by="queue", scope="once"), Person(uid=0))
            return results[0], waiting[0], world.records("fetch", run=results[0].run_id)

        yield run


async def test_a_request_that_is_asked_about_goes_on_when_a_person_allows_it(asked):
    """H8: the same connection and program, whose clock stood. The question says what would be done, and no secret."""
    result, question, records = await asked(allowed=True, after=3.2)
    assert (result.status, result.value) == ("ok", [200, 200])
    assert question.subject.startswith("fetch DELETE https://alpha.test:")
    assert "DELETE" in question.text
    assert SECRET not in question.model_dump_json()
    assert [record.kind for record in records] == [
        *("fetch.asked", "fetch.admitted", "fetch.ended", "fetch.admitted", "fetch.ended")
    ]
    assert records[1].fields["by"].startswith("queue")


async def test_a_request_that_a_person_does_not_allow_is_not_sent_and_the_next_one_is(asked):
    """H8: the program hears why, and lives."""
    result, _, records = await asked(allowed=False)
    (status, text), get = result.value
    assert (status, get) == (403, 200)
    assert "approval_denied" in text
    assert [record.kind for record in records] == ["fetch.asked", "fetch.denied", "fetch.admitted", "fetch.ended"]


async def test_what_a_program_no_longer_waits_for_is_not_sent(world_of, api_at, far):
    """H8 P23: a client whose time is over tries again. An approval is for one request, not for all tries."""
    code = """
import http.client, socket, ssl

def send(**options):
    context = ssl.create_default_context()
    connection = http.client.HTTPSConnection("alpha.test", PORT, context=context, **options)
    try:
        connection.request("POST", "/echo", b"x")
        return connection.getresponse().status
    except TimeoutError:
        return "given up"
    finally:
        connection.close()

[send(timeout=0.5), send()]
"""
    async with world_of(api={"alpha": api_at(far.place.port, rules=[{"action": "ask"}])}) as world:
        desk, results = world.engine.desk, []
        request = Request(language="python", code=code.replace("PORT", str(far.place.port)))

        async def execute():
            context = RunContext(asker=desk.asker(lambda: None))
            results.append(await world.engine.execute(request, caller="x", context=context))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(execute)
            with anyio.fail_after(60):
                while [one.status for one in desk.store.entries()] != ["cancelled", "pending"]:
                    await anyio.sleep(0.01)
            question = desk.store.entries()[1].question
            desk.store.answer(question.id, Verdict(allowed=True, by="queue", scope="once"), Person(uid=0))
        assert results[0].value == ["given up", 200]
        kinds = [record.kind for record in world.records("fetch", run=results[0].run_id)]
        assert sorted(kinds) == ["fetch.admitted", "fetch.asked", "fetch.asked", "fetch.ended", "fetch.ended"]
