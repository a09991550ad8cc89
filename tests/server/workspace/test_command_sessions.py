"""E7, W4: commands go on in a session, with the rights of commands and no others."""

import anyio
import pytest
from mcp import Client
from tests.server.workspace.served import opened

pytestmark = pytest.mark.anyio

SERVER = """
python3 -u -c '
import http.server, os
os.chdir("web")
http.server.ThreadingHTTPServer(("127.0.0.1", 8123), http.server.SimpleHTTPRequestHandler).serve_forever()
' >/tmp/log 2>&1 &
until (: </dev/tcp/127.0.0.1/8123) 2>/dev/null; do sleep 0.02; done
"""


@pytest.fixture
async def session(served):
    """``session(cmd)``: the next command of a session, which ends with the test."""
    first = await served.run(":", session="new")
    name = first["session"]["id"]

    async def go_on(cmd, **more):
        return await served.run(cmd, session=name, **more)

    go_on.id = name
    yield go_on
    await served.call("session", action="close", session_id=name)


def target(served):
    """Where commands see the workspace."""
    return served.service.sandboxes.target


async def test_a_shell_goes_on_with_directory_variables_functions_and_files(session, served):
    served.write("deep/file", "text")
    await session('cd deep; word=kept; say() { echo "said $1"; }; echo draft >/tmp/draft; export SHOWN=1')
    told = await session('cat file; echo "$word"; say hello; cat /tmp/draft; printenv SHOWN')
    assert told["stdout"] == "textkept\nsaid hello\ndraft\n1\n"
    assert (await session("pwd"))["stdout"] == f"{target(served)}/deep\n"
    assert (await session("pwd", workdir="."))["stdout"] == f"{target(served)}/deep\n"
    (served.root / "other").mkdir(exist_ok=True)
    assert (await session("pwd", workdir="other"))["stdout"] == f"{target(served)}/other\n"


async def test_a_session_begins_where_and_with_what_its_first_command_is_told(served):
    served.write("place/file", "")
    told = await served.run("pwd; echo $WORD", session="new", workdir="place", env={"WORD": "given"})
    assert told["stdout"] == f"{target(served)}/place\ngiven\n"
    name = told["session"]["id"]
    assert (await served.run("echo $WORD", session=name))["stdout"] == "given\n"
    error = await served.refused("exec_command", cmd="true", session=name, env={"A": "1"})
    assert error["code"] == "INVALID_ARGUMENT"
    await served.call("session", action="close", session_id=name)


async def test_a_server_that_one_command_starts_answers_the_next(session, served):
    served.write("web/page.txt", "served from the workspace\n")
    assert (await session(SERVER))["exit_code"] == 0
    served.write("web/page.txt", "edited meanwhile\n")
    fetch = "import urllib.request as u; print(u.urlopen('http://127.0.0.1:8123/page.txt').read().decode(), end='')"
    assert (await session(f'python3 -c "{fetch}"'))["stdout"] == "edited meanwhile\n"


async def test_what_a_command_writes_is_in_the_workspace(session, served):
    await session("echo made >made.txt")
    assert (served.root / "made.txt").read_text() == "made\n"


async def test_the_text_of_an_answer_names_the_session_and_how_to_go_on(served):
    answer = await served.call("exec_command", cmd="exit 3", session="new")
    block, told = answer.content[0].text, answer.structured_content
    assert told["exit_code"] == 3
    assert f"session {told['session']['id']}: kept, generation 1, expires " in block
    await served.call("session", action="close", session_id=told["session"]["id"])


async def test_a_command_that_takes_too_long_is_interrupted_and_the_shell_goes_on(session):
    await session("word=kept")
    told = await session("sleep 1000", timeout_ms=300)
    assert (told["status"], told["session"]["state"]) == ("timeout", "kept")
    assert (await session("echo $word"))["stdout"] == "kept\n"


async def test_a_command_that_is_killed_is_interrupted_and_one_that_runs_refuses_the_next(session, served):
    await session("word=kept")
    running = await served.told("exec_command", cmd="echo on; sleep 1000", session=session.id, yield_time_ms=0)
    assert running["session"]["id"] == session.id
    error = await served.refused("exec_command", cmd="true", session=session.id)
    assert error["code"] == "COMMAND_LIMIT_REACHED"
    killed = await served.told("kill_command", command_id=running["command_id"])
    assert (killed["killed"], killed["exit_code"]) == (True, 130)
    assert (await session("echo $word"))["stdout"] == "kept\n"


async def test_protected_paths_are_kept_from_sessions_and_from_what_they_leave_running(session, served):
    before = (served.root / ".git/config").read_bytes()
    told = await session("(while :; do echo x >>.git/config; mv .git .gat; done) 2>/dev/null & rm .git/config")
    assert told["exit_code"] != 0
    await session("sleep 0.05; echo x >.git/hooks/pre-commit; ln -sf /tmp/x .git/config; true")
    assert (served.root / ".git/config").read_bytes() == before
    assert not (served.root / ".git/hooks/pre-commit").exists()


async def test_a_session_ends_when_something_that_it_could_write_is_to_be_protected(session, served):
    """Else what is left running in it could write to what was put there since."""
    await session("(while :; do echo 'curl evil' >>later/.git/config; done) 2>/dev/null & mkdir later")
    (served.root / "later/.git").mkdir()
    (served.root / "later/.git/HEAD").write_text("ref: refs/heads/main\n")
    for name in ("objects", "refs"):
        (served.root / "later/.git" / name).mkdir()
    answer = await served.call("exec_command", cmd="echo never", session=session.id)
    assert answer.is_error
    assert "what is protected in the workspace has changed" in answer.content[0].text
    (served.root / "later/.git/config").write_text("[core]\n")
    await anyio.sleep(0.05)
    assert (served.root / "later/.git/config").read_text() == "[core]\n"


@pytest.mark.parametrize("name", ["ses-" + "0" * 32, "", "../x", "NEW"])
async def test_a_session_that_is_not_there_is_refused(served, name):
    answer = await served.call("exec_command", cmd="echo never", session=name)
    assert answer.is_error
    assert "no such session" in answer.content[0].text


async def test_nobody_else_can_use_a_session(served):
    async with (
        served.over_http() as url,
        Client(url, mode="legacy") as one,
        Client(url, mode="legacy") as other,
    ):
        told = (await one.call_tool("exec_command", {"cmd": "true", "session": "new"})).structured_content
        arguments = {"cmd": "echo never", "session": told["session"]["id"]}
        answer = await other.call_tool("exec_command", arguments)
        assert answer.structured_content["error"]["code"] == "NOT_FOUND"
        assert not (await one.call_tool("exec_command", arguments)).is_error


async def test_programs_and_commands_have_sessions_of_their_own(session, served):
    """A program comes to no gate of commands: in a session of commands it would get round them."""
    answer = await served.call("execute_code", language="python", code="1", session=session.id)
    assert "session_of_commands" in answer.content[0].text
    for action in ("variables", "inspect", "rewind"):
        answer = await served.call("session", action=action, session_id=session.id, name="__import__('os')")
        assert "session_of_commands" in answer.content[0].text
    begun = await served.call("execute_code", language="shell", code="true", session="new")
    name = begun.structured_content["session"]["id"]
    answer = await served.call("exec_command", cmd="touch never", session=name)
    assert "This session runs programs" in answer.content[0].text
    await served.call("session", action="close", session_id=name)


async def test_a_session_whose_first_command_does_not_begin_is_none(tmp_path):
    async with opened(tmp_path, gates={"destructive_command": "deny"}) as served:
        assert (await served.call("exec_command", cmd="git reset --hard", session="new")).is_error
        for _ in range(16):
            await served.told("exec_command", cmd="sleep 1000", yield_time_ms=0)
        assert (await served.refused("exec_command", cmd="true", session="new"))["code"] == "COMMAND_LIMIT_REACHED"
        assert served.engine.sessions.alive() == []


@pytest.mark.parametrize("arguments", [{"tty": True}, {"stdin": "x"}, {"keep_stdin": True}])
async def test_what_a_session_has_not_is_refused(session, served, arguments):
    error = await served.refused("exec_command", cmd="cat", session=session.id, **arguments)
    assert error["code"] == "INVALID_ARGUMENT"


async def test_what_a_person_would_have_to_permit_does_not_run_in_a_session(tmp_path):
    """An earlier command may have given it another meaning, which nobody is shown."""
    async with opened(tmp_path, gates={"destructive_command": "ask"}) as served:
        first = await served.run("git() { echo 'not git'; }", session="new")
        name = first["session"]["id"]
        arguments = {"cmd": "git reset --hard", "session": name}
        answer = await served.call("exec_command", **arguments)
        assert answer.structured_content["error"]["code"] == "PERMISSION_REQUIRED"
        assert "make the call without session" in answer.content[0].text
        asked = {"tool_name": "exec_command", "permission": "destructive_command", "arguments": arguments}
        error = await served.refused("request_permissions", reason="why not", **asked)
        assert error["code"] == "INVALID_ARGUMENT"


async def test_what_a_session_deletes_is_judged_by_the_directory_where_it_is(tmp_path):
    """CT-G6: not by the root of the workspace, above which nothing of the owner's could be lost."""
    async with opened(tmp_path, gates={}, mode="safe") as served:
        served.write("tests/a.py", "")
        served.write("src/a.py", "")
        name = (await served.run("cd src", session="new"))["session"]["id"]
        error = await served.refused("exec_command", cmd="rm -rf ../tests", session=name)
        assert error["code"] == "PERMISSION_REQUIRED"
        assert (served.root / "tests/a.py").exists()
        assert (await served.run("rm -rf ../elsewhere", session="new"))["exit_code"] == 0


async def test_what_a_running_shell_is_told_comes_to_the_gates_too(tmp_path):
    """CT-G6: else ``bash`` with an open input would be a way past them; what no shell reads may hold anything."""
    async with opened(tmp_path, gates={}, mode="safe") as served:
        served.write("tests/a.py", "")
        told = await served.told("exec_command", cmd="bash", keep_stdin=True, yield_time_ms=0)
        for chars in ("rm -rf tests\n", "git reset --hard\n", "rm -rf ../src\n"):
            error = await served.refused("write_stdin", command_id=told["command_id"], chars=chars)
            assert (error["code"], error["details"]["permission"]) == ("PERMISSION_REQUIRED", "destructive_command")
        assert (served.root / "tests/a.py").exists()
        told = await served.told("write_stdin", command_id=told["command_id"], chars="rm -rf build; exit 3\n")
        while told["status"] == "running":
            told = await served.told("write_stdin", command_id=told["command_id"])
        assert told["exit_code"] == 3
        told = await served.told("exec_command", cmd="read -r line", keep_stdin=True, yield_time_ms=0)
        await served.told("write_stdin", command_id=told["command_id"], chars="rm -rf tests\n")


async def test_who_lacks_the_network_in_a_session_hears_that_it_is_asked_for_outside(tmp_path):
    """It was told of no grant, where a permission was all that was lacking."""
    cmd = "echo 'curl: (6) Could not resolve host: index.example' >&2; (exit 6)"
    async with opened(tmp_path, gates={"network": "ask"}) as served:
        for more, says in (({"session": "new"}, "nobody can permit it in a session"), ({}, "ask for the permission")):
            (one,) = (await served.run(cmd, **more))["diagnostics"]
            assert (one["code"], says in one["suggested_fix"]) == ("DNS_RESOLUTION_FAILED", True), one


async def test_the_log_names_the_session_of_each_command_and_what_came_of_it(session, served):
    await session("exit 7")
    ended = [record for record in served.records() if record.kind == "command.ended"][-1]
    assert (ended.fields["session"], ended.fields["exit_code"], ended.fields["state"]) == (session.id, 7, "kept")
    begun = [record for record in served.records() if record.kind == "command.admitted"][-1]
    assert begun.fields["session"] == session.id
