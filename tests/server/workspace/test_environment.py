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
    with pytest.raises(ConfigError, match=r"workspace\.environment"):
        async with reopened(tmp_path, tables, environment="two"):
            pass


def test_the_environment_of_commands_is_one_that_there_is():
    [fault] = rule_faults(
        tomllib.loads("[workspace]\nenvironment = 'web'\n[environments.other]\npython = ['a']"), own=()
    )
    assert fault.problem == "there is no environment web"
