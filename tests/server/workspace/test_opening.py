"""What the command line says of a workspace, and that none is opened which holds what Gloveport runs or reads."""

from pathlib import Path

import pytest
from tests import shared_host

from gloveport.bootstrap.upstreams import connect_servers
from gloveport.bootstrap.workspace import open_workspace
from gloveport.bootstrap.workspace_options import with_workspace
from gloveport.config import Config
from gloveport.errors import ConfigError
from gloveport.model.reading import read_value


def told(root=None, toolsets=""):
    return {"root": root, "toolsets": toolsets}


def test_an_empty_name_is_not_the_working_directory():
    """W2: `--workspace "$UNSET"` opened whatever directory the server was started in."""
    with pytest.raises(ConfigError, match="names no directory") as refused:
        with_workspace(Config(), told(""))
    assert '"."' in refused.value.hint


@pytest.mark.parametrize("root", [".", Path()])
def test_the_working_directory_has_a_name(root, tmp_path, monkeypatch):
    """W2"""
    monkeypatch.chdir(tmp_path)
    assert with_workspace(Config(), told(root)).workspace.root == tmp_path.resolve()


def test_a_list_of_toolsets_without_any_is_refused():
    """W6: else all of them would be offered to whoever asked for none."""
    with pytest.raises(ConfigError, match="--toolsets"):
        with_workspace(Config(), told(toolsets=","))


def test_the_tools_of_a_workspace_are_refused_where_none_is_named(tmp_path):
    """W6: the server would offer to run programs instead, as if nothing had been said."""
    with pytest.raises(ConfigError, match="no workspace is named") as refused:
        with_workspace(Config(), told(toolsets="workspace"))
    assert "--workspace DIR" in refused.value.hint
    assert with_workspace(Config(), told(tmp_path, "workspace")).workspace.toolsets == ("workspace",)
    assert with_workspace(Config(), told(toolsets="code")).workspace.toolsets == ("code",)


@pytest.mark.parametrize("place", ["project", "project/below"])
async def test_a_workspace_that_holds_the_configuration_is_not_opened(tmp_path, place):
    """T1, W2: commands would write what the next start believes."""
    root, believed = tmp_path / "project", tmp_path / place / "mine.toml"
    believed.parent.mkdir(parents=True)
    believed.touch()
    environ = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    config = read_value(Config, {"pool": {"forked": 0, "booted": 0}, "workspace": {"root": str(root)}})
    async with shared_host.assemble(config, environ) as engine:
        with pytest.raises(ConfigError, match="the configuration"):
            async with open_workspace(engine, config, environ, "stdio", [believed]):
                pass
    assert not (tmp_path / "state/workspaces").exists()


async def test_a_workspace_that_holds_the_program_of_a_server_is_not_opened(tmp_path):
    """T1, W2: a server runs outside of the sandbox."""
    root = tmp_path / "project"
    root.mkdir()
    environ = {"GLOVEPORT_STATE": str(tmp_path / "state")}
    servers = {"mine": {"command": [f"{root}/serve"]}}
    settings = {"pool": {"forked": 0, "booted": 0}, "workspace": {"root": str(root)}, "servers": servers}
    config = read_value(Config, settings)
    async with shared_host.assemble(config, environ, connect_servers) as engine:
        with pytest.raises(ConfigError, match=r"servers\.mine\.command"):
            async with open_workspace(engine, config, environ, "stdio"):
                pass
