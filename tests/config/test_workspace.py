"""What the configuration says of a workspace, and which directories can't be one."""

from pathlib import Path

import pytest

from gloveport.config import Config, refuse_as_workspace
from gloveport.config.schema import Workspace
from gloveport.errors import ConfigError

FULL = {
    "root": Path("/srv/work"),
    "toolsets": ("workspace",),
    "mode": "trusted",
    "gates": {"network": "deny"},
    "long_seconds": 60.0,
    "hosts": ("pypi.org", "*.example.com"),
    "disposable": ("out",),
    "inherit": ("LANG", "MY_*"),
    "exempt": (".envrc",),
    "toolchains": (Path("/opt/go"),),
    "caches": False,
    "hooks": ({"files": ("*.py",), "command": "ruff format", "seconds": 5.0},),
    "orphan_seconds": 30.0,
}


def test_every_key_of_a_workspace_arrives_where_it_belongs():
    """T5, W5"""
    limits = {"memory_bytes": "64MiB"}
    found = Config.model_validate({"workspace": {**FULL, "limits": limits}}).workspace
    assert found.model_dump(exclude={"limits"}) == FULL
    assert set(FULL) == set(Workspace.model_fields) - {"limits"}
    assert (found.limits.memory_bytes, found.limits.processes) == (64 << 20, 512)


@pytest.mark.parametrize("root", ["/", "/etc", "/home", "/proc/self", "/run", "/home/somebody", "/var/lib/gloveport"])
def test_what_holds_more_than_a_project_is_no_workspace(root, tmp_path):
    """W2, T1"""
    with pytest.raises(ConfigError):
        refuse_as_workspace(Path(root), {})


def test_what_overlaps_our_own_directories_is_no_workspace(tmp_path):
    """T1: the audit log would be written by commands."""
    for root in (tmp_path, tmp_path / "state", tmp_path / "state/audit"):
        with pytest.raises(ConfigError):
            refuse_as_workspace(root, {"GLOVEPORT_STATE": str(tmp_path / "state")})


def test_a_directory_of_a_project_is_one(tmp_path):
    """W2"""
    refuse_as_workspace(tmp_path, {})
    with pytest.raises(ConfigError):
        refuse_as_workspace(tmp_path / "missing", {})
