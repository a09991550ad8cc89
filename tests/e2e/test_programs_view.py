"""Programs of ``execute_code`` see the workspace, and change nothing in it, unless the operator lets them (E11)."""

import contextlib
import os

import pytest
from mcp import Client

from gloveport.bootstrap import app
from gloveport.bootstrap.host_setup import open_host
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.bootstrap.workspace import open_workspace, with_view
from gloveport.config import Config
from gloveport.errors import ConfigError
from gloveport.model.reading import read_value
from gloveport.server.protocol import make_server

pytestmark = pytest.mark.anyio

NOTHING_WAITS = {"forked": 0, "booted": 0}
OWNER = 54_321
"""For root, whose the workspace is: an ordinary user's."""

ATTEMPTS = """\
import os, pathlib
root = pathlib.Path(PLACE)
tried = []
for attempt in (
    lambda: (root / 'kept.txt').write_text('changed'),
    lambda: (root / 'new.txt').write_text('new'),
    lambda: (root / 'kept.txt').unlink(),
    lambda: os.chmod(root / 'kept.txt', 0o777),
    lambda: os.rename(root / 'kept.txt', root / 'moved.txt'),
    lambda: os.utime(root / 'kept.txt'),
    lambda: os.link(root / 'kept.txt', root / 'linked.txt'),
):
    try:
        attempt()
        tried.append('done')
    except OSError:
        pass
tried
"""


def make_workspace(directory):
    root = directory / "project"
    root.mkdir()
    (root / "kept.txt").write_text("kept")
    (root / "secret.txt").write_text("for its owner")
    (root / "secret.txt").chmod(0o600)
    if os.geteuid() == 0:
        for path in (root, *root.iterdir()):
            os.chown(path, OWNER, OWNER)
    return root


@pytest.fixture
def serve_here(tmp_path, environ):
    """``async with serve_here(…) as (client, root)``: a client of a server with a workspace that is another user's.

    The keys are those of ``[workspace]``. It is put together as ``gloveport serve`` does, in this process.
    """

    @contextlib.asynccontextmanager
    async def make(**settings):
        root = make_workspace(tmp_path)
        config = read_value(Config, {"pool": NOTHING_WAITS, "workspace": {"root": str(root), **settings}})
        async with contextlib.AsyncExitStack() as stack:
            host = stack.enter_context(open_host(config, environ))
            config = with_view(config, host.system, environ)
            engine = await stack.enter_async_context(app.assemble_on(host, config, environ, connect_servers))
            service = await stack.enter_async_context(open_workspace(engine, config, environ, "stdio"))
            server = make_server(engine, config, environ, "stdio", service)
            yield await stack.enter_async_context(Client(server)), root

    return make


async def execute(client, language, code):
    answer = await client.call_tool("execute_code", {"language": language, "code": code})
    return answer.structured_content


async def place_of(client):
    """Where commands see it."""
    answer = await client.call_tool("exec_command", {"cmd": "pwd", "yield_time_ms": 30_000})
    return answer.structured_content["stdout"].strip()


def test_programs_in_every_language_read_it_where_commands_see_it_and_write_nothing(tmp_path, stdio):
    """Of a server as a process, for which a sandbox waits."""
    root, config = make_workspace(tmp_path), tmp_path / "gloveport.toml"
    config.write_text("[pool]\nforked = 1\nbooted = 0\n")
    config.chmod(0o600)
    server = stdio("--config", str(config), "--workspace", str(root))
    server.shake_hands()
    server.send("tools/call", {"name": "exec_command", "arguments": {"cmd": "pwd", "yield_time_ms": 30_000}}, 1)
    place = server.answer(1)["result"]["structuredContent"]["stdout"].strip()
    server.send("tools/list", {}, 1)
    described = {tool["name"]: tool["description"] for tool in server.answer(1)["result"]["tools"]}["execute_code"]
    assert place in described

    def run(language, code):
        server.execute(1, language, code)
        return server.answer(1)["result"]["structuredContent"].get("value")

    # T5, ``as_owner`` of a mount: what its owner alone may read, too. It is the owner's agent.
    for language, code in (
        ("python", f"open('{place}/secret.txt').read()"),
        ("typescript", f"await Deno.readTextFile('{place}/secret.txt')"),
        ("shell", f"cat '{place}/secret.txt' | python3 -c 'import json; print(json.dumps(input()))'"),
    ):
        assert run(language, code) == "for its owner", language
    assert run("python", f"PLACE = {place!r}\n{ATTEMPTS}") == []
    assert sorted(path.name for path in root.iterdir()) == ["kept.txt", "secret.txt"]
    assert (root / "kept.txt").read_text() == "kept"


async def test_programs_see_what_commands_have_written(serve_here):
    async with serve_here() as (client, _):
        place = await place_of(client)
        await client.call_tool("exec_command", {"cmd": "echo made > made.txt", "yield_time_ms": 30_000})
        assert (await execute(client, "python", f"open('{place}/made.txt').read()"))["value"] == "made\n"


async def test_the_operator_keeps_it_from_programs(serve_here):
    """T5: ``workspace.programs``."""
    async with serve_here(programs="none") as (client, _):
        place = await place_of(client)
        seen = await execute(client, "python", f"import os; os.path.exists({place!r})")
        assert seen["value"] is False


WRITES = {"programs": "write"}


async def test_where_the_operator_lets_them_programs_in_every_language_write_as_its_owner(serve_here):
    """T5: ``workspace.programs``."""
    async with serve_here(**WRITES) as (client, root):
        place = await place_of(client)
        described = {tool.name: tool.description for tool in (await client.list_tools()).tools}["execute_code"]
        assert f"To read and write: {place}." in described
        for language, code in (
            ("python", f"open('{place}/python.txt', 'w').write('made')"),
            ("typescript", f"await Deno.writeTextFile('{place}/typescript.txt', 'made')"),
            ("shell", f"echo made > '{place}/shell.txt'"),
        ):
            answer = await execute(client, language, code)
            assert answer["status"] == "ok", answer
            assert (root / f"{language}.txt").read_text().strip() == "made"
            assert (root / f"{language}.txt").stat().st_uid == root.stat().st_uid
        assert (await execute(client, "python", f"PLACE = {place!r}\n{ATTEMPTS}"))["value"] != []


async def test_programs_that_may_write_change_nothing_that_runs_later_outside(serve_here):
    async with serve_here(**WRITES) as (client, root):
        place = await place_of(client)
        await client.call_tool("exec_command", {"cmd": "git init -q .", "yield_time_ms": 30_000})
        before = (root / ".git/config").read_text()
        copied = await execute(client, "python", f"open('{place}/.git/config', 'a').write('[core]\\nfsmonitor = x\\n')")
        assert (copied["status"], (root / ".git/config").read_text()) == ("ok", before)
        for attempt in (
            f"open('{place}/.git/hooks/pre-commit', 'w').write('x')",
            f"import os; os.rename('{place}/.git', '{place}/git')",
            f"import os; os.rename('{place}/.git/config', '{place}/.git/old')",
        ):
            answer = await execute(client, "python", attempt)
            assert answer["error"]["type"] in ("OSError", "PermissionError"), answer
        assert (root / ".git/config").read_text() == before
        assert not (root / ".git/hooks/pre-commit").exists()


async def test_a_session_that_may_write_ends_when_anything_else_is_protected(serve_here):
    async with serve_here(**WRITES) as (client, root):
        place = await place_of(client)

        async def call(code, session):
            arguments = {"language": "python", "code": code, "session": session}
            return (await client.call_tool("execute_code", arguments)).structured_content

        begun = await call(f"open('{place}/a.txt', 'w').write('a')", "new")
        session = begun["session"]["id"]
        assert (await call(f"open('{place}/b.txt', 'w').write('b')", session))["status"] == "ok"
        (root / ".git/hooks").mkdir(parents=True)
        (root / ".git/HEAD").write_text("ref: refs/heads/main\n")
        (root / ".git/objects").mkdir()
        (root / ".git/refs").mkdir()
        refused = await call(f"open('{place}/.git/hooks/pre-commit', 'w').write('x')", session)
        assert refused["status"] == "denied", refused
        assert "session_lost" in str(refused)
        assert not (root / ".git/hooks/pre-commit").exists()


async def test_programs_that_may_write_do_so_also_where_its_own_tools_are_not_offered(serve_here):
    async with serve_here(toolsets=["code"], **WRITES) as (client, root):
        code = f"import os; os.chdir({str(root)!r} if os.path.exists({str(root)!r}) else '/workspace')\n"
        answer = await execute(client, "python", code + "open('a.txt', 'w').write('a')")
        assert answer["status"] == "ok", answer
        assert (root / "a.txt").read_text() == "a"


async def test_programs_see_it_also_where_its_own_tools_are_not_offered(serve_here):
    async with serve_here(toolsets=["code"]) as (client, root):
        code = f"import os; [path for path in ({str(root)!r}, '/workspace') if os.path.exists(path + '/kept.txt')]"
        assert len((await execute(client, "python", code))["value"]) == 1


async def test_what_programs_leave_comes_into_the_directory_that_the_operator_names(serve_here, records):
    """E3, T5: ``workspace.out``. They write nothing there themselves, and it is written down before it is done."""
    leaves = """
import os, pathlib
out = pathlib.Path('/out')
for name in ('a.csv', '.git/config', 'sub/b.sh'):
    (out / name).parent.mkdir(exist_ok=True)
    (out / name).write_text('made')
    (out / name).chmod(0o777)
(out / 'link').symlink_to('/etc/passwd')
os.mkfifo(out / 'pipe')
"""
    async with serve_here(out="results/new") as (client, root):
        answer = await client.call_tool("execute_code", {"language": "python", "code": leaves, "session": "new"})
        told = answer.structured_content["artifacts"]
        assert {one["path"] for one in told["files"]} == {"/out/a.csv", "/out/.git/config", "/out/sub/b.sh"}
        assert told["directory"] == "results/new"
        assert [line.partition(":")[0] for line in told["not_written"]] == ["results/new/.git/config"]
        below = {path.relative_to(root / "results/new").as_posix(): path for path in (root / "results").rglob("*")}
        assert {name for name, path in below.items() if path.is_file()} == {"a.csv", "sub/b.sh"}
        for path in below.values():
            assert path.stat().st_uid == root.stat().st_uid
            assert path.is_dir() or path.stat().st_mode & 0o777 == 0o644
        (record,) = [one for one in records() if one.kind == "artifacts.written"]
        assert (record.fields["directory"], len(record.fields["files"])) == ("results/new", 3)
        session = answer.structured_content["session"]["id"]
        code = "open('/out/a.csv', 'w').write('changed')"
        await client.call_tool("execute_code", {"language": "python", "code": code, "session": session})
        assert (root / "results/new/a.csv").read_text() == "changed"
        shown = await client.call_tool("read_file", {"path": "results/new/a.csv"})
        assert "changed" in str(shown.content)


async def test_nothing_is_left_where_programs_do_not_see_the_workspace(serve_here):
    """T5: else the key would have no effect, and nobody would know."""
    with pytest.raises(ConfigError, match=r"workspace\.out"):
        async with serve_here(out="results", programs="none"):
            pass
