"""Sessions as a client sees them (E7), in both protocol eras."""

import re

import anyio
import pytest
from tests.server.eras import both_eras

from gloveport.model import Request
from gloveport.server.transports import session_end
from gloveport.server.transports.session_end import end_work_of_gone_clients
from gloveport.task_group import open_task_group

pytestmark = pytest.mark.anyio

ID = re.compile(r"session (ses-[0-9a-f]{32}): (\w+), generation (\d+), expires \S+")


def text_of(result):
    return result.content[0].text


@pytest.fixture(autouse=True)
async def no_session_is_left(engine):
    yield
    for session in engine.sessions.alive():
        await engine.sessions.end_of(session.owner, "the test is over")


@pytest.fixture
def session(client):
    """Call the tool ``session``."""

    async def call(action, session_id="", name=""):
        arguments = {"action": action, "session_id": session_id, "name": name}
        return text_of(await client.call_tool("session", arguments))

    return call


async def begin(execute, code):
    text = text_of(await execute("python", code, session="new"))
    return ID.search(text)[1], text


@both_eras
async def test_an_answer_says_the_id_the_state_and_what_changed(execute):
    session_id, text = await begin(execute, "x = [1, 2]\ny = 'a'")
    assert "changed: x: list[2]" in text
    again = text_of(await execute("python", "del y\nx", session=session_id))
    assert "value: [1, 2]" in again
    assert "removed: y" in again
    assert ID.search(again).groups() == (session_id, "kept", "1")


async def test_a_branch_goes_on_by_itself_and_ends_with_its_session(execute, session):
    trunk, _ = await begin(execute, "x = 1")
    said = await session("branch", trunk)
    branch = ID.search(said)[1]
    assert branch != trunk
    assert f"variables of {trunk}" in said
    await execute("python", "x = 2", session=branch)
    await execute("python", "x += 10; open('/tmp/shared', 'w').write('x')", session=trunk)
    assert "value: 2" in text_of(await execute("python", "open('/tmp/shared').close(); x", session=branch))
    assert "value: 11" in text_of(await execute("python", "x", session=trunk))
    assert "rewound" in await session("rewind", branch)
    twig = ID.search(await session("branch", branch))[1]
    assert await session("close", branch) == f"session {branch} is closed"
    assert "session_lost" in text_of(await execute("python", "x", session=branch))
    assert "value: 2" in text_of(await execute("python", "x", session=twig))
    assert "value: 11" in text_of(await execute("python", "x", session=trunk))
    await session("close", trunk)
    lost = text_of(await execute("python", "x", session=twig))
    assert "session_lost" in lost
    assert "was a branch of" in lost
    assert await session("list") == "there are no sessions of yours"


async def test_branches_count_as_sessions_and_a_call_is_interrupted_by_its_own_session_alone(execute, session):
    trunk, _ = await begin(execute, "x = 1")
    branches = [ID.search(await session("branch", trunk))[1] for _ in range(3)]
    assert "too_many_sessions" in await session("branch", branches[0])
    async with open_task_group() as tasks:
        tasks.start_soon(execute, "python", "import time; print(1); time.sleep(1000)")
        tasks.start_soon(lambda: execute("python", "import time; time.sleep(1000)", session=branches[1]))
        while await session("interrupt", branches[1]) == "no call goes on":
            assert await session("interrupt", trunk) == "no call goes on"
            await anyio.sleep(0)
        tasks.cancel_scope.cancel()
    await session("close", trunk)


async def test_what_can_be_done_with_a_session(execute, session):
    session_id, _ = await begin(execute, "x = 1\ndef f(a: int) -> int:\n    'Doubles.'")
    assert session_id in await session("list")
    assert "variables: x: int = 1; f: function = (a)" in await session("variables", session_id)
    assert "function (a: int) -> int\nDoubles." in await session("inspect", session_id, "f")
    await execute("python", "x = 2", session=session_id)
    rewound = await session("rewind", session_id)
    assert ID.search(rewound).groups() == (session_id, "rewound", "2")
    assert "1 call undone" in rewound
    assert "value: 1" in text_of(await execute("python", "x", session=session_id))
    assert await session("close", session_id) == f"session {session_id} is closed"
    assert "session_lost" in await session("variables", session_id)
    assert await session("list") == "there are no sessions of yours"


async def test_what_is_said_of_variables_is_a_line_without_escapes(execute, session):
    code = "x = 'a\\n\\x1b[31mb'\nglobals()['na\\nme\\x1b[0m'] = 1"
    _, text = await begin(execute, code)
    assert "\x1b" not in text
    assert len([line for line in text.splitlines() if line.startswith("changed: ")]) == 1


async def test_an_answer_tells_what_became_of_the_language_of_its_call(execute, session):
    text = text_of(await execute("shell", "x=1; cd /usr; exit 3", session="new"))
    session_id, state, _ = ID.search(text).groups()
    assert state == "kept"
    assert "note: its bash has exited with 3: another has its variables" in text
    assert "stdout:\n1\n" in text_of(await execute("shell", "echo $x", session=session_id))
    assert "changed: x: number = 41" in text_of(await execute("typescript", "const x: number = 41", session=session_id))
    assert "variables: x: number = 41" in await session("variables", session_id)
    assert "number\n41" in await session("inspect", session_id, "x")
    rewound = await session("rewind", session_id)
    assert "note: the last call was not in Python: no other language can be rewound\nnot rewound" in rewound
    assert await session("interrupt", session_id) == "no call goes on"


async def test_a_call_without_an_id_is_told_that_it_is_missing(session):
    """Not that the session has ended, which it would begin anew."""
    assert "- session_id: is missing" in await session("close")


async def test_unknown_ids_are_refused(session):
    assert "unknown_session" in await session("close", "ses-" + "0" * 32)
    assert "unknown_session" in await session("variables", "nonsense")


async def test_sessions_end_with_the_connection_of_their_client(engine, monkeypatch):
    """Also if it was closed before anybody looked: nobody could end them, and they count for all callers."""
    monkeypatch.setattr(session_end, "_LOOK_SECONDS", 0.02)
    connections = {"two", "http"}
    begun = {}

    for owner in ("one", "two", "http"):
        result = await engine.execute(Request(language="python", code="1", session="new"), caller="test", share=owner)
        begun[owner] = engine.sessions.find(result.session.id, owner)
    async with open_task_group() as tasks:
        tasks.start_soon(end_work_of_gone_clients, engine.sessions, engine.runs, lambda owner: owner not in connections)
        with anyio.fail_after(30):
            await begun["one"].wait_over()
    assert "client" in begun["one"].ended
    assert [session.owner for session in engine.sessions.alive()] == ["two", "http"]
