"""The environment that commands have: its packages and programs, in the place of nobody else's. P44."""

import tomllib

import pytest
from tests.environments.index import make_wheel, write_index
from tests.server.workspace.served import opened, reopened

from gloveport.config.checks.cross_checks import rule_faults
from gloveport.errors import ConfigError

pytestmark = pytest.mark.anyio

PROGRAMS = b"[console_scripts]\ntooled = tooled:main\ngit = tooled:evil\n"
CODE = "import sys\ndef main(): print('tooled', sys.executable)\ndef evil(): print('evil')\n"


async def test_a_command_names_an_environment_of_the_operators_and_no_other_command_has_it(tmp_path):
    index = tmp_path / "simple"
    for name in ("common", "single"):
        write_index(index, name, make_wheel(name))
    named = {name: {"python": [name]} for name in ("common", "single")} | {"broken": {"python": ["not-there"]}}
    tables = {"packages": {"indexes": [f"file://{index}"]}, "environments": named}
    look = 'python3 -c \'import importlib.util as i; print(*(bool(i.find_spec(n)) for n in ("common", "single")))\''
    async with opened(tmp_path, tables=tables, environment="common") as one:
        assert await one.out(look) == "True False\n"
        steps = []

        async def note(_seconds, _total, message):
            steps.append(message)

        asked = {"cmd": look, "environment": "single", "yield_time_ms": 30_000}
        meta = {"progressToken": 1}
        built = await one.client.call_tool("exec_command", asked, progress_callback=note, meta=meta)  # it builds it
        assert built.structured_content["stdout"] == "False True\n"
        assert any("resolving 1 requirements" in step for step in steps), steps
        assert await one.out(look, environment="common") == await one.out(look) == "True False\n"
        for name in ("other", "", "../trees/single", "/etc", "broken"):
            refused = await one.refused("exec_command", cmd="touch ran", environment=name)
            assert refused["code"] == "INVALID_ARGUMENT", refused
            assert name != "other" or refused["details"]["retry_hint"] == "There are: broken, common, single."
        assert not (one.root / "ran").exists()
        denied = [record.fields["environment"] for record in one.records() if record.kind == "command.denied"]
        assert denied == ["other", "", "../trees/single", "/etc", "broken"]
        begun = await one.run(look, session="new", environment="single")
        assert begun["stdout"] == "False True\n"
        for more in ({}, {"environment": "single"}):
            assert (await one.run(look, session=begun["session"]["id"], **more))["stdout"] == "False True\n"
        other = await one.refused("exec_command", cmd=look, session=begun["session"]["id"], environment="common")
        assert other["details"]["retry_hint"].endswith('begin another: session="new"')
        await one.call("session", action="close", session_id=begun["session"]["id"])
        ran = [record.fields["environment"] for record in one.records() if record.kind == "command.admitted"]
        assert ran == ["", "single", "common", "", "single", "", "single"]
        environments = one.engine.environments
        [(_, tree)] = environments.find_built("single")
        environments.store.remove(tree)  # by the owner, while its fork server goes on
        assert await one.out(look, environment="single") == "False True\n"


async def test_commands_have_the_packages_and_programs_of_their_environment_and_none_is_shadowed(tmp_path):
    extra = [("tooled-1.0.dist-info/entry_points.txt", PROGRAMS)]
    wheel = make_wheel("tooled", files={"tooled.py": CODE}, extra=extra)
    indexes = [write_index(tmp_path / "simple", "tooled", wheel)]
    tables = {"packages": {"indexes": indexes}, "environments": {"one": {"python": ["tooled"]}}}
    async with opened(tmp_path, tables=tables, environment="one") as one:
        assert (await one.out("tooled")).startswith("tooled /")
        assert (await one.out("python -c 'import tooled; tooled.main()'")).startswith("tooled /opt/environment-python/")
        assert (await one.out("git --version")).startswith("git version")
        assert "Read-only" in (await one.run("touch /opt/environment/python/new 2>&1"))["stdout"]
        begun = await one.run("python3 -c 'import tooled; print(1)'", session="new")
        assert begun["stdout"] == "1\n", begun
        assert (
            await one.out("PYTHONPATH= python -c 'import importlib.util as i; print(i.find_spec(\"tooled\"))'")
            == "None\n"
        )
    tables["environments"]["two"] = {"python": ["nothing-of-that-name"]}
    with pytest.raises(ConfigError, match=r"the environment of commands: .*nothing-of-that-name"):
        async with reopened(tmp_path, tables, environment="two"):
            pass


def test_the_environment_of_commands_is_one_that_there_is():
    [fault] = rule_faults(
        tomllib.loads("[workspace]\nenvironment = 'web'\n[environments.other]\npython = ['a']"), own=()
    )
    assert fault.problem == "there is no environment web"
