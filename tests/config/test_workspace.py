"""What the configuration says of a workspace."""

from pathlib import Path

import pytest

from gloveport.config import Config, load
from gloveport.config.checks.mounts import _SHOWN_PATHS, toolchain_faults
from gloveport.config.schema import CommandLimits, Workspace
from gloveport.errors import ConfigError
from gloveport.model import Grant, Limits
from gloveport.model.reading import read_value
from gloveport.model.value import fields_of
from gloveport.sandbox.detection import host

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
    "author": "Jane Doe <jane@example.com>",
    "toolchains": (Path("/opt/go"),),
    "auto_toolchains": False,
    "environment": "web",
    "ports": False,
    "caches": False,
    "hooks": ({"files": ("*.py",), "command": "ruff format", "seconds": 5.0},),
    "programs": "none",
    "out": "results/new",
    "out_bytes": 1 << 21,
    "orphan_seconds": 30.0,
}


def test_every_key_of_a_workspace_arrives_where_it_belongs():
    """T5, W5"""
    limits = {"memory_bytes": "64MiB"}
    found = read_value(Config, {"workspace": {**FULL, "limits": limits}}).workspace
    assert found.model_dump(exclude={"limits"}) == FULL
    assert set(FULL) == set(fields_of(Workspace)) - {"limits"}
    assert (found.limits.memory_bytes, found.limits.processes) == (64 << 20, 512)


def faults(tmp_path, text):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load(file, cwd=tmp_path, environ={"GLOVEPORT_STATE": str(tmp_path / "state")})
    return refused.value.args[0].splitlines()[1:]


@pytest.mark.parametrize(
    "name", ["output_bytes", "stored_output_bytes", "code_bytes", "out_bytes", "tool_calls", "tool_bytes", "nonsense"]
)
def test_a_limit_that_no_command_has_is_no_key(tmp_path, name):
    """W5, T5: what would mean nothing is a fault, and no key of the reference."""
    (line,) = faults(tmp_path, f"workspace.limits.{name} = 1000")
    assert f"workspace.limits.{name}: unknown key" in line
    assert name not in fields_of(CommandLimits)


@pytest.mark.parametrize("path", ["", ".", "..", "../x", "/srv/x", "a//b", "x/.git", ".vscode/x", ".envrc", "a\\nb"])
def test_a_place_for_what_programs_leave_lies_below_the_workspace_and_is_not_protected(tmp_path, path):
    """W2, T5"""
    (line,) = faults(tmp_path, f'workspace.out = "{path}"')
    assert "workspace.out: expected a path below the workspace" in line


def test_what_limits_a_command_is_still_a_whole_set_of_limits():
    """W5"""
    grant = Grant(limits=CommandLimits(processes=8))
    assert (grant.limits.processes, grant.limits.output_bytes) == (8, Limits().output_bytes)
    assert grant.model_dump(mode="json")["limits"]["processes"] == 8


def test_no_toolset_at_all_is_a_fault(tmp_path):
    """W6: a server without tools, or with those that nobody asked for, serves nobody."""
    (line,) = faults(tmp_path, 'workspace = {root = "/srv/x", toolsets = []}')
    assert "workspace.toolsets: expected an array, not empty" in line


def test_the_whole_host_as_a_root_is_refused_for_what_it_is(tmp_path):
    """W2"""
    (line,) = faults(tmp_path, 'workspace.root = "/"')
    assert 'workspace.root: expected an absolute path below /, found "/"' in line


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/home/somebody/.ssh", "expected no place of credentials"),
        ("/root", "expected a directory of one purpose"),
        ("/var/lib", "expected"),
        ("/etc", "expected"),
        ("/opt/nope", "(No such file or directory)"),
        ("/proc/self", "where the kernel or services answer"),
        ("/usr/lib", "which overlaps /usr/lib"),
        ("/etc/ssl", "which overlaps /etc"),
    ],
)
def test_a_toolchain_that_commands_must_not_read_or_can_not_see_is_a_fault(tmp_path, path, problem):
    """T4, W5: commands read all of it."""
    (line,) = faults(tmp_path, f'workspace.toolchains = ["{path}"]')
    assert line.startswith(f"{tmp_path}/mine.toml:1: workspace.toolchains[0]: ")
    assert path in line
    assert problem in line


def test_a_toolchain_shows_nothing_of_gloveports_own(tmp_path):
    """T4: neither state nor configuration nor the file of a secret."""
    (tmp_path / "state").mkdir()
    (line,) = faults(tmp_path, f'workspace.toolchains = ["{tmp_path}/state"]')
    assert "workspace.toolchains[0]: expected nothing of Gloveport's own" in line
    secret = f'api.x = {{hosts = ["x.test"], auth = [{{kind = "bearer", secret = "file:{tmp_path}/keys/x"}}]}}'
    (tmp_path / "keys").mkdir()
    (line,) = faults(tmp_path, f'workspace.toolchains = ["{tmp_path}/keys"]\n{secret}')
    assert "workspace.toolchains[0]: expected nothing of Gloveport's own" in line


def test_toolchains_are_directories_of_their_own():
    """W5: they are shown at their own paths, side by side with each other and with the mounts."""
    found = toolchain_faults({0: "/usr/local", 1: "/usr/local/bin", 2: "/etc/passwd"}, {0: (None, "/srv")}, own=())
    assert {fault.keys[0][2]: fault.problem for fault in found} == {
        1: 'expected a place of its own, found "/usr/local/bin", which overlaps that of workspace.toolchains[0]',
        2: 'expected a directory, found "/etc/passwd"',
    }
    ((fault),) = toolchain_faults({0: "/usr/local"}, {0: (None, "/usr/local/data")}, own=())
    assert "overlaps that of policy.mounts[0]" in fault.problem


def test_what_sandboxes_show_of_the_system_is_known():
    """W5: a toolchain there could not be mounted."""
    assert {str(path) for path in _SHOWN_PATHS} == {*host._SHOWN_PATHS, "/usr/include"}


@pytest.mark.parametrize(
    "author",
    ["agent", "a <b", 'a" <b@c>', "a\\n[core]\\n\\tfsmonitor = x <b@c>", "a <b@c>\\n", "a\\\\ <b@c>", "a <b> <c@d>"],
)
def test_an_author_is_one_person_and_nothing_else_that_git_reads(tmp_path, author):
    """P31, W5: it goes into a file of git's."""
    told = faults(tmp_path, f"workspace.author = '''{author}'''".replace("\\n", "\n"))
    assert "workspace.author: expected NAME <ADDRESS>" in told[0]
