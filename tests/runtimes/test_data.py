"""The packages of the extra ``data``: what is mounted of the server's own, for which interpreter, and what is not."""

import json
import os
import py_compile
import subprocess
import sys
import tempfile
import tomllib
import venv
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from tests import remembered

from gloveport.bootstrap import app
from gloveport.bootstrap.inspection import inspect, require
from gloveport.config import Config
from gloveport.config.schema import PoolSettings, Runtimes
from gloveport.errors import ConfigError, SandboxError
from gloveport.model import Grant, Mount, Program, Request
from gloveport.runtimes import data, python
from gloveport.sandbox.detection import host
from gloveport.sandbox.plan import make_plan
from gloveport.sandbox.reaper.launch import open_plain

OURS = EXTENSION_SUFFIXES[0]
GUEST = "/usr/bin/python3"
PYPROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


def install(site, name, *files, requires=(), version="1.0"):
    """Install a distribution as pip does: its files, and beside them what it is."""
    metadata = "".join(f"Requires-Dist: {one}\n" for one in requires)
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    written = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{metadata}",
        **dict.fromkeys(files, ""),
    }
    for path, text in written.items():
        (site / path).parent.mkdir(parents=True, exist_ok=True)
        (site / path).write_text(text)
    record = [*written, f"{info}/RECORD", f"../../../bin/{name}", f"/etc/{name}"]
    (site / info / "RECORD").write_text("".join(f"{path},,\n" for path in record))


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory of packages, found before the environment's own, in which the extra is installed."""
    path = tmp_path / "site-packages"
    install(path, "numpy", "numpy/__init__.py", "numpy.libs/blas.so", "start.pth", "__pycache__/single.pyc")
    install(path, "pandas", "pandas/__init__.py", requires=["numpy>=2; python_version < '4'", "Date_Thing (>=1)"])
    install(path, "matplotlib", "matplotlib/__init__.py", "pylab.py", requires=["numpy", "gone ; os_name == 'nt'"])
    install(path, "date-thing", "dates/__init__.py", requires=["mcp; extra == 'server'", "pandas"])
    install(path, "unrelated", "unrelated/__init__.py")
    monkeypatch.syspath_prepend(path)
    return path


def test_the_extra_is_what_is_looked_for():
    with PYPROJECT.open("rb") as file:
        extra = tomllib.load(file)["project"]["optional-dependencies"]["data"]
    assert {requirement.partition(">")[0] for requirement in extra} == set(data.NAMES)


def test_what_is_shown_are_the_extras_packages_and_what_they_require_and_nothing_else(site):
    """P1: no package of the server, no start-up file, no script, nothing outside site-packages, no path of the host."""
    found = data.find(GUEST, OURS, [])
    packages = ("numpy", "numpy.libs", "pandas", "matplotlib", "pylab.py", "dates")
    metadata = [f"{name}-1.0.dist-info/METADATA" for name in ("numpy", "pandas", "matplotlib", "date_thing")]
    assert found.sources == {name: f"{site}/{name}" for name in (*packages, *metadata)}
    assert found.modules == ("numpy", "pandas", "matplotlib")
    assert found.env["PYTHONPATH"] == "/opt/data"


def test_packages_are_one_place_of_a_sandbox(site, environ):
    """E9: Landlock lets a program list that place, and no mount of the operator's lies in it."""
    found = shown(environ)
    assert [mount.target for mount in found.mounts] == ["/opt/data"]
    system = host.read_system(GUEST, (), found.mounts, found.env, counts_memory=True)
    plan = make_plan(Program(name="x"), Grant(), system)
    assert [rule for rule in plan.landlock if rule[0].startswith("/opt/data")] == [("/opt/data", "run")]
    assert set(found.mounts) <= set(plan.binds)
    assert found.env.items() <= plan.env.items()
    with pytest.raises(SandboxError, match="/opt/data/x collides with /opt/data"):
        make_plan(Program(name="x"), Grant(mounts=(Mount(source="/srv", target="/opt/data/x"),)), system)


def shown(environ):
    """What programs of the system's Python get, put together in this state directory."""
    init = python.Python(
        executable=GUEST, version=(3, 11), standard_modules=frozenset(), binds=(), data=data.find(GUEST, OURS, [])
    )
    return remembered.with_packages(init, environ).data


def test_the_tree_is_named_without_symbolic_links(site, tmp_path):
    """The state directory may lie beneath a link; the launcher opens no path in which one stands."""
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (mount,) = shown({"GLOVEPORT_STATE": f"{tmp_path}/link/state"}).mounts
    os.close(open_plain(mount.source))
    assert {"dates", "date_thing-1.0.dist-info"} <= {path.name for path in Path(mount.source).iterdir()}


def test_another_version_or_what_was_compiled_since_is_another_tree(site, environ):
    first = shown(environ)
    assert shown(environ) == first
    py_compile.compile(f"{site}/numpy/__init__.py")
    compiled = shown(environ)
    assert compiled.mounts != first.mounts
    (site / "numpy-1.0.dist-info/RECORD").write_text("numpy/__init__.py,sha256=other,\n")
    assert shown(environ).mounts not in (first.mounts, compiled.mounts)
    assert Path(first.mounts[0].source, "numpy").exists(), "a server may still show it"


def test_without_a_place_for_the_tree_programs_have_no_packages_and_are_told(site, tmp_path):
    (tmp_path / "state").touch()
    found = shown({"GLOVEPORT_STATE": f"{tmp_path}/state"})
    assert (found.modules, found.mounts, found.env) == ((), (), {})
    assert found.unusable.startswith("numpy, pandas and matplotlib can't be shown to programs: ")
    assert "state directory" in found.repair


def test_packages_without_bytecode_are_usable_and_the_command_that_compiles_them_is_named(site):
    found = data.find(GUEST, OURS, [])
    assert "numpy 1.0, pandas 1.0 and matplotlib 1.0; not compiled" in found.detail
    assert found.repair == f"{sys.executable} -m compileall -q {site}"
    py_compile.compile(f"{site}/numpy/__init__.py")
    compiled = data.find(GUEST, OURS, [])
    assert (compiled.detail, compiled.repair) == ("numpy 1.0, pandas 1.0 and matplotlib 1.0", "")


def test_an_interpreter_of_another_kind_gets_nothing_and_the_repair_names_one_that_would(site):
    found = data.find(GUEST, ".cpython-399-x86_64-linux-gnu.so", [])
    assert (found.modules, found.sources, found.env) == ((), {}, {})
    assert f"installed for {OURS}, but programs run on {GUEST}: .cpython-399" in found.detail
    base = found.repair.removeprefix("set runtimes.python to ").partition(",")[0]
    assert python.find(base).executable == base


def interpreter_of_another_version(tmp_path):
    """An executable that answers as a Python of another version would."""
    answer = {
        "version": [3, 99],
        "executable": GUEST,
        "real": GUEST,
        "prefixes": ["/usr"],
        "packages": {},
        "standard_modules": "",
    }
    script = tmp_path / "python3"
    script.write_text(f"#!/bin/sh\ncat <<'END'\n{json.dumps({**answer, 'extension': '.cpython-399.so'})}\nEND\n")
    script.chmod(0o755)
    return str(script)


def test_programs_run_on_an_interpreter_of_the_system_that_has_the_packages(site, tmp_path, monkeypatch):
    monkeypatch.setattr(python, "_DISTRIBUTION", interpreter_of_another_version(tmp_path))
    monkeypatch.setattr(python, "_of_our_version", lambda: iter(["/usr/bin/no-such-python", GUEST]))
    assert python.find(None).data.modules == data.NAMES


def test_where_no_interpreter_has_the_packages_programs_are_told_why(site, tmp_path, monkeypatch):
    other = interpreter_of_another_version(tmp_path)
    monkeypatch.setattr(python, "_DISTRIBUTION", other)
    monkeypatch.setattr(python, "_of_our_version", lambda: iter(()))
    told = "Python 3.99 has its standard library; numpy, pandas and matplotlib are installed for another version"
    assert python.find(None).packages.startswith(told)
    assert python.find(other).packages.startswith(told)


def test_no_interpreter_is_taken_from_anybodys_home(tmp_path, monkeypatch):
    """P1: programs would see what is installed with it."""
    monkeypatch.setattr(data, "base", lambda: tmp_path / "python3")
    (tmp_path / "python3").touch()
    assert all(path.startswith("/usr/") for path in python._of_our_version())


@pytest.mark.parametrize("what", ["pandas", "pandas-1.0.dist-info", "pandas-1.0.dist-info/RECORD"])
def test_without_the_whole_extra_its_installation_is_named(site, monkeypatch, what):
    (site / what).rename(site.parent / "away")
    monkeypatch.setattr(sys, "path", [str(site)])
    found = data.find(GUEST, OURS, [])
    assert (found.modules, found.sources, found.env) == ((), {}, {})
    assert found.detail == "programs have no numpy, pandas or matplotlib"
    assert found.repair.startswith("in a checkout of Gloveport, by what has installed it: `pip install '.[data]'`")


@pytest.mark.anyio
async def test_packages_that_can_not_be_imported_are_named_and_no_refusal(site, environ):
    """O1: an interpreter of the right kind may still lack a library, or a user the right to read."""
    (site / "numpy/__init__.py").write_text("raise SystemExit('no libstdc++ here')")
    checks = await inspect(Config(), environ)
    (check,) = [check for check in checks if check.name == "data"]
    assert check.state == "weaker"
    assert ", but a program that should say hello ended with exit code 1: no libstdc++ here" in check.detail
    require(checks)


@pytest.fixture
def environment(tmp_path):
    """A virtual environment of the operator's: the path of its interpreter, and that of its site-packages."""
    venv.create(tmp_path / "venv", symlinks=True)
    (site,) = (tmp_path / "venv/lib").glob("python*/site-packages")
    return str(tmp_path / "venv/bin/python"), site


def test_an_environment_with_packages_of_its_own_is_not_mixed_with_others(environment):
    """The operator has chosen them: nothing is mounted that could shadow them, or be of another version."""
    interpreter, site = environment
    (site / "numpy").mkdir()
    (site / "numpy/__init__.py").touch()
    found = python.find(interpreter).data
    assert (found.modules, found.sources) == (("numpy",), {})
    assert "PYTHONPATH" not in found.env
    assert found.detail == f"{interpreter} has numpy itself, and no pandas and matplotlib"
    assert "install pandas and matplotlib for it too" in found.repair


def test_an_environment_without_them_gets_them(environment):
    found = python.find(environment[0]).data
    assert found.modules == data.NAMES
    assert found.sources


def test_no_package_has_the_name_of_a_module_of_the_standard_library():
    """In a Python process of a program PYTHONPATH comes first: it must not change what it finds there."""
    names = {Path(name).stem for name in python.find(None).data.sources}
    assert names >= {"numpy", "pandas", "matplotlib", "PIL"}
    assert not names & sys.stdlib_module_names


def test_the_server_imports_none_of_them():
    code = (
        "import sys, gloveport.bootstrap.app, gloveport.runtimes.python as python; python.find(None);"
        f"sys.exit(any(name in sys.modules for name in {data.NAMES}))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("print(1)", python.LIGHT),
        ("import json, re", python.LIGHT),
        ("await nothing()", python.COMMON),
        ("import os, subprocess", python.COMMON),
        ("import urllib.request", python.COMMON),
        ("import pandas as pd", python.WITH_DATA),
        ("from matplotlib import pyplot", python.WITH_DATA),
        ("__import__('numpy')", python.WITH_DATA),
        ("mynumpy = 1", python.LIGHT),
    ],
)
def test_what_is_imported_ahead_follows_from_what_the_program_speaks_of(source, expected):
    assert python.find(None).prepare(source, Grant()).preload == expected


def test_nothing_is_imported_ahead_that_is_not_there(environment):
    interpreter, site = environment
    (site / "numpy.py").touch()
    assert python.find(interpreter).prepare("import numpy", Grant()).preload == python.LIGHT


SCRATCH_PYTHON = """
import subprocess, sys
[sys.prefix, subprocess.run([sys.executable, "-c", "print(6 * 7)"], capture_output=True, text=True).stdout]
"""


@pytest.mark.anyio
async def test_an_interpreter_below_tmp_is_shown_elsewhere(environ):
    """E9: sandboxes have a /tmp of their own."""
    with tempfile.TemporaryDirectory(dir="/tmp") as directory:
        Path(directory).chmod(0o755)
        venv.create(f"{directory}/venv", symlinks=True)
        config = Config(
            pool=PoolSettings(forked=0, booted=0), runtimes=Runtimes(python=Path(directory, "venv/bin/python"))
        )
        async with app.assemble(config, environ) as engine:
            result = await engine.execute(Request(language="python", code=SCRATCH_PYTHON), caller="test")
    assert result.value == ["/opt/python", "42\n"]


def test_an_interpreter_in_two_places_below_tmp_is_refused_with_what_to_move():
    binds = (Mount(source="/tmp/a", target="/tmp/a"), Mount(source="/tmp/b", target="/tmp/b"))
    with pytest.raises(ConfigError, match=r"files of /tmp/a/bin/python lie in /tmp/b.*\n.*move that Python"):
        python._movable(binds, "/tmp/a/bin/python")
