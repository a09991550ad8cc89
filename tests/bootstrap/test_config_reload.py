"""N2: hot reload, with real files and a real engine."""

import contextlib
import json
import logging
from pathlib import Path

import anyio
import pytest
from tests import shared_host
from tests.environments.index import make_wheel, write_index

from gloveport.bootstrap.config_reload import following
from gloveport.config import load
from gloveport.config.schema import PoolSettings
from gloveport.config.sources import selection
from gloveport.model import Request

pytestmark = pytest.mark.anyio

SOUND = '[api.alpha]\nhosts = ["alpha.test"]\n'


async def until(condition):
    """Wait for what the follower makes of a file in the background."""
    with anyio.fail_after(20):
        while not condition():
            await anyio.sleep(0.01)


def kinds(directory):
    lines = [line for file in directory.glob("*.jsonl") for line in file.read_text().splitlines()]
    return [json.loads(line)["kind"] for line in lines]


@contextlib.asynccontextmanager
async def configured(tmp_path, text, *, named=True):
    """An engine that follows changes of its configuration; yields it and the file, which is named or the operator's."""
    (file := tmp_path / "gloveport.toml").write_text(text)
    environ = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    path = file if named else None
    loaded = load(path, cwd=Path.cwd(), environ=environ)
    config = loaded.config.model_copy(update={"pool": PoolSettings(forked=0, booted=0)})
    async with shared_host.assemble(config, environ) as engine, following(engine, loaded, path, environ):
        yield engine, file


async def test_a_sound_change_counts_at_once_and_a_faulty_one_changes_nothing(tmp_path, caplog):
    code = (
        "import socket\ntry:\n    found = socket.gethostbyname('alpha.test')\nexcept OSError:\n    found = None\nfound"
    )

    async def address():
        return (await engine.execute(Request(language="python", code=code), caller="test")).value

    async with configured(tmp_path, "[policy]\nlanguages = ['python']\n") as (engine, file):
        assert await address() is None
        file.write_text(f"[policy]\nlanguages = ['python']\n{SOUND}")
        await until(lambda: engine.reach.egress.apis)
        assert await address() == "127.64.0.1"

        with caplog.at_level(logging.WARNING):
            file.write_text(f"[policy]\nlanguages = ['python']\n{SOUND}colour = 'red'\n")
            await until(lambda: "unknown key" in caplog.text)
        assert "what counted before goes on counting" in caplog.text
        assert await address() == "127.64.0.1"

        index = write_index(tmp_path / "simple", "local", make_wheel("local"))
        packages = f"packages.indexes = ['{index}']\nenvironments.one.python = ['local']\n"
        file.write_text(f"{packages}[policy]\nlanguages = ['python']\n{SOUND}")
        await until(lambda: engine.environments.named)
        asked = Request(language="python", code="import local; local.VERSION", environment="one")
        assert (await engine.execute(asked, caller="test")).value == "1.0"

        with caplog.at_level(logging.WARNING):
            file.write_text("[policy]\nlanguages = ['shell']\n")
            await until(lambda: not engine.reach.egress.apis)
        assert "restart to apply: policy.languages" in caplog.text
        assert await address() is None
    found = kinds(tmp_path / "state" / "audit")
    assert (found.count("config.changed"), found.count("config.refused")) == (3, 1)


RULES = """
[egress]
redact = [{redact}]
[api.wide]
hosts = ["*.alpha.test"]
[api.narrow]
hosts = ["one.alpha.test"]
rules = [{{methods = [{methods}], action = "allow"}}]
"""
POST = """
import urllib.request
try:
    urllib.request.urlopen('https://one.alpha.test/', data=b'x')
except OSError:
    pass
"""


async def test_a_session_evades_no_rules_that_have_changed_since_it_began(tmp_path):
    async with configured(tmp_path, RULES.format(redact="", methods="'GET'")) as (engine, file):

        async def codes(session):
            result = await engine.execute(Request(language="python", code=POST, session=session), caller="test")
            assert all(text in result.grant.egress.redact for text in engine.reach.egress.redact)
            return result.session.id, [request.code for request in result.requests]

        session, found = await codes("new")
        assert found == ["method_or_path_not_allowed"]
        file.write_text(RULES.format(redact="'the word'", methods="'HEAD'"))
        await until(lambda: engine.reach.egress.apis["narrow"].rules[0].methods == ("HEAD",))
        assert (await codes(session))[1] == ["method_or_path_not_allowed"]
    assert "fetch.admitted" not in kinds(tmp_path / "state" / "audit")


async def test_a_run_that_waited_for_its_turn_begins_with_what_the_configuration_still_grants(tmp_path):
    async with configured(tmp_path, RULES.format(redact="", methods="'POST'")) as (engine, file):

        async def run(code, session):
            return await engine.execute(Request(language="python", code=code, session=session), caller="test")

        async def post():
            found.append(await run(POST, name))

        found = []
        name = (await run("1", "new")).session.id
        session = engine.sessions.find(name, "test")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run, "import time; time.sleep(25)", name)
            await until(session.turn.locked)
            tasks.start_soon(post)
            await until(lambda: session.turn.statistics().tasks_waiting)
            file.write_text(RULES.format(redact="", methods="'GET'"))
            await until(lambda: engine.reach.egress.apis["narrow"].rules[0].methods == ("GET",))
            await until(session.interrupt)
    assert [request.code for request in found[0].requests] == ["method_or_path_not_allowed"]


async def test_a_change_that_can_not_be_written_down_yet_counts_later_and_ends_no_server(tmp_path, caplog):
    audit = tmp_path / "state" / "audit"
    async with configured(tmp_path, "[policy]\nlanguages = ['python']\n") as (engine, file):
        audit.chmod(0o777)  # refused, as a full disk is
        file.write_text("colour = 'red'\n")
        await until(lambda: "nothing runs" in caplog.text)
        file.write_text(f"[policy]\nlanguages = ['python']\n{SOUND}")
        audit.chmod(0o700)
        await until(lambda: engine.reach.egress.apis)
    assert [kind for kind in kinds(audit) if kind.startswith("config.")] == ["config.refused", "config.changed"]


async def test_a_project_file_of_an_agent_is_told_of_once_and_keeps_no_rules_from_counting(
    tmp_path, monkeypatch, caplog
):
    """P17, N2."""
    (project := tmp_path / "project").mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setattr(selection, "config_directory", lambda: tmp_path)
    async with configured(tmp_path, SOUND, named=False) as (engine, file):
        (project / "gloveport.toml").write_text("[api.evil]\nhosts = ['evil.test']\n")
        await until(lambda: "that file changes nothing" in caplog.text)
        assert [*engine.reach.egress.apis] == ["alpha"]
        file.write_text("")
        await until(lambda: not engine.reach.egress.apis)
    assert caplog.text.count("is not trusted") == 1
    found = kinds(tmp_path / "state" / "audit")
    assert [kind for kind in found if kind.startswith("config.")] == ["config.refused", "config.changed"]


async def test_environments_that_can_not_be_opened_end_no_server(tmp_path, caplog):
    async with configured(tmp_path, "[policy]\nlanguages = ['python']\n") as (engine, file):
        (store := tmp_path / "state" / "environments").mkdir(exist_ok=True)
        store.chmod(0o777)
        file.write_text(f"[policy]\nlanguages = ['python']\n{SOUND}")
        await until(lambda: "the environments stay as they were" in caplog.text)
        assert engine.reach.egress.apis


async def test_packages_that_the_owner_takes_away_are_denied_also_where_environments_can_not_be_opened(
    tmp_path, caplog
):
    """P45, N2: else a package that turned out to be hostile could still be installed."""
    rules = "[policy]\nlanguages = ['python']\n[packages]\nallow = ['wanted', 'hostile']\n"
    async with configured(tmp_path, rules) as (engine, file):
        (store := tmp_path / "state" / "environments").mkdir(exist_ok=True)
        store.chmod(0o777)
        file.write_text(f"{rules}deny = ['hostile']\n")
        await until(lambda: "the environments stay as they were" in caplog.text)
        code = '# /// script\n# dependencies = ["{}"]\n# ///\n1'
        result = await engine.execute(Request(language="python", code=code.format("hostile")), caller="test")
    assert (result.status, result.error.type) == ("denied", "package_denied")
