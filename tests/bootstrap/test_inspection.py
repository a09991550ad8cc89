"""What has to be there before a server starts."""

import os
import tempfile
from pathlib import Path

import pytest

from gloveport.bootstrap.host_setup import open_host
from gloveport.bootstrap.inspection import inspect, inspect_host, require
from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model import Policy
from gloveport.model.reading import read_value
from gloveport.sandbox.detection.host import find_bubblewrap, read_most_by_rlimit
from gloveport.sandbox.detection.probe import Check
from gloveport.sandbox.launch.launcher import Launcher
from gloveport.sandbox.plan import Network

SOUND = [Check(name=name, state="enforced", detail="") for name in ("seccomp", "python", "shell")]


def missing(name: str) -> Check:
    return Check(name=name, state="missing", detail=f"no {name} here", repair=f"get {name}")


def test_a_missing_layer_is_a_refusal_that_names_it_and_its_repair():
    """T3."""
    with pytest.raises(SandboxError) as caught:
        require([*SOUND, missing("landlock"), missing("cgroups"), Check(name="x", state="weaker", detail="")])
    assert str(caught.value) == (
        "missing landlock: no landlock here\nmissing cgroups: no cgroups here\nhint: get landlock; get cgroups"
    )


def test_a_language_that_can_not_be_run_is_refused_when_it_is_asked_for():
    require([*SOUND, missing("typescript")])


def test_without_any_language_there_is_nothing_to_serve():
    with pytest.raises(SandboxError, match="no python here"):
        require([SOUND[0], missing("python"), missing("shell")])


@pytest.mark.anyio
async def test_a_sandbox_that_was_killed_once_while_it_was_built_proves_nothing(environ, tmp_path):
    """P12: as where memory was short for a moment."""
    bubblewrap = tmp_path / "bwrap"
    with tempfile.TemporaryDirectory() as shared:  # bubblewrap has another uid, and may not look into ``tmp_path``
        Path(shared).chmod(0o777)
        bubblewrap.write_text(
            '#!/bin/sh\n[ "$1" != --version ] || exec echo bubblewrap 0.9.0\n'
            f'mkdir {shared}/killed 2>/dev/null && kill -9 $$\nexec {find_bubblewrap(None)} "$@"\n'
        )
        bubblewrap.chmod(0o755)
        config = read_value(Config, {"sandbox": {"bubblewrap": bubblewrap}})
        found = {check.name: check.state for check in await inspect(config, environ)}
        assert Path(shared, "killed").exists()
    assert "sandbox" not in found
    assert found["seccomp"] == "enforced"


@pytest.mark.anyio
async def test_what_this_host_bounds_for_all_sandboxes_together_is_told(environ):
    """O1: of disks where there are cgroups; of descriptors where programs get fewer than they are to have."""
    config = Config(policy=read_value(Policy, {"limits": {"open_files": 65_536}}))
    found = {check.name: check for check in await inspect(config, environ)}
    assert ("disks" in found) == (found["cgroups"].state == "enforced")
    assert ("descriptors" in found) == (read_most_by_rlimit().get("RLIMIT_NOFILE", 65_536) < 65_536)
    if "descriptors" in found:
        assert "policy.limits.open_files is 65536" in found["descriptors"].detail
        assert found["descriptors"].state == "weaker"


@pytest.mark.anyio
async def test_a_server_that_starts_tries_its_layers_with_the_one_helper_it_has(environ, monkeypatch):
    """O1: it finds what `doctor` does, and starts nothing twice for it."""
    config, started, start = Config(), [], Launcher._start
    found = await inspect(config, environ)
    monkeypatch.setattr(Launcher, "_start", lambda launcher: (started.append(launcher), start(launcher)))
    with open_host(config, environ) as host:
        checks = await inspect_host(host, config, Network())
    assert started == [host.backend.launcher]
    told = [(check.name, check.state) for check in found if check.name != "audit"]  # details name this process's groups
    assert [(check.name, check.state) for check in checks] == told


@pytest.mark.anyio
async def test_a_state_directory_that_others_can_write_is_told(tmp_path):
    """P17."""
    (state := tmp_path / "open").mkdir()
    state.chmod(0o775)
    checks = {check.name: check for check in await inspect(Config(), {"GLOVEPORT_STATE": str(state)})}
    assert checks["state"].state == "weaker"
    assert checks["state"].repair == f"chmod go-w {state}"
    state.chmod(0o755)
    if os.geteuid() == 0:
        os.chown(state, 65_534, 0)
        checks = {check.name: check for check in await inspect(Config(), {"GLOVEPORT_STATE": str(state)})}
        assert "belongs to another user" in checks["state"].detail
        os.chown(state, 0, 0)
    assert "state" not in {check.name for check in await inspect(Config(), {"GLOVEPORT_STATE": str(state)})}


async def data_checks(environ, **policy):
    return [
        check for check in await inspect(Config(policy=read_value(Policy, policy)), environ) if check.name == "data"
    ]


@pytest.mark.anyio
async def test_the_packages_for_data_work_are_tried(environ):
    """O1, E8."""
    (check,) = await data_checks(environ)
    assert check.detail.startswith("numpy ")
    assert check.state == ("weaker" if check.repair else "enforced")


@pytest.mark.anyio
async def test_where_no_program_could_use_packages_nothing_is_said_of_them(environ):
    assert await data_checks(environ, languages={"typescript"}) == []
