"""P8: what is built of a configuration harms no account of the host."""

import os
import pwd
from pathlib import Path

import pytest
from tests import shared_host

from gloveport.bootstrap import app, host_setup
from gloveport.bootstrap.upstreams import connect_servers
from gloveport.config import Config
from gloveport.environments.environment_store import EnvironmentStore
from gloveport.errors import ConfigError, UpstreamError
from gloveport.model.reading import read_value
from gloveport.runtimes import data, python
from gloveport.user_directories import name_workspace, workspaces_directory


async def test_no_sandbox_gets_the_uid_of_an_account(environ):
    """What runs as it would be ended, before the sandbox gets it. Only root chooses uids."""
    if os.geteuid() != 0:
        return
    account = next(one for one in pwd.getpwall() if one.pw_uid >= 1000)
    with pytest.raises(ConfigError, match=account.pw_name) as caught:
        async with app.assemble(
            read_value(Config, {"sandbox": {"first_uid": account.pw_uid, "uid_count": 1}}), environ
        ):
            pass
    assert "sandbox.first_uid" in caught.value.hint


async def test_the_tree_of_installed_packages_is_in_use_for_as_long_as_a_server_serves(environ):
    """E8: ``gloveport env gc`` would else remove it when that has begun a month ago."""
    async with shared_host.assemble(Config(), environ) as engine:
        for tree in (Path(mount.source) for mount in engine.system.packages if mount.target == data.PLACE):
            with EnvironmentStore(tree.parents[1]).hold(f"{tree.name}.installed", wait=False) as is_unused:
                assert not is_unused


def test_no_interpreter_of_the_workspace_is_asked_on_a_host_whose_system_has_none(environ, tmp_path, monkeypatch):
    """P31: that of an active environment comes first on PATH, and a command can replace it."""
    monkeypatch.setattr(python, "_DISTRIBUTION", "/nonexistent/python3")
    (tmp_path / "work/.venv/bin").mkdir(parents=True)
    (tmp_path / "work/.venv/bin/python3").write_text(f'#!/bin/sh\ntouch {tmp_path}/ran\nexec /usr/bin/python3 "$@"\n')
    (tmp_path / "work/.venv/bin/python3").chmod(0o755)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to("/usr/bin/python3")
    config = read_value(Config, {"workspace": {"root": str(tmp_path / "work")}})
    path = f"{tmp_path}/work/.venv/bin:{tmp_path}/bin"
    assert host_setup.init_of(config, {**environ, "PATH": path}).executable == f"{tmp_path}/bin/python3"
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("is_configured", [True, False])
async def test_no_program_of_a_workspace_prints_a_secret_or_serves_tools(environ, tmp_path, is_configured):
    """P30: commands write to an active environment, which comes first on PATH, while the server runs; so do those of
    ``gloveport exec`` in a directory that no configuration names.
    """
    work, own = tmp_path / "work/.venv/bin/tool", tmp_path / "bin/tool"
    for program, text in (
        (own, "echo of-the-owner; echo the owner speaks >&2"),
        (work, f"touch {tmp_path}/ran; echo of-a-command"),
    ):
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{text}\n")
        program.chmod(0o755)
    work.rename(tmp_path / "later")
    path = os.pathsep.join(map(str, (work.parent, own.parent, "/usr/bin", "/bin")))
    servers = {"mine": {"command": ["tool"]}, "other": {"command": ["tool"], "env": {"PATH": path}}}
    (workspaces_directory(environ) / name_workspace(tmp_path / "work")).mkdir(parents=True)
    workspace = {"root": str(tmp_path / "work")} if is_configured else {}
    config = read_value(Config, {"workspace": workspace, "servers": servers})
    async with shared_host.assemble(config, {**environ, "PATH": path}, connect_servers) as engine:
        (tmp_path / "later").rename(work)
        assert await engine.gateway.vault.get("x", "command:tool") == "of-the-owner"
        for name in servers:
            with pytest.raises(UpstreamError, match="It said: the owner speaks"):
                await engine.hub.find(name, "x")
    assert not (tmp_path / "ran").exists()
