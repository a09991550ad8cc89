"""Which compilers and interpreters of the owner commands are shown by themselves: those that PATH leads to, alone."""

import sys
from pathlib import Path

import pytest

from gloveport.config import Config, find_toolchains
from gloveport.config.schema import Workspace

MADE = (
    ".cargo/bin/cargo",
    ".cargo/credentials.toml",
    ".rustup/toolchains/stable/bin/cargo",
    ".pyenv/versions/3.12.1/bin/python",
    ".pyenv/shims/python",
    ".nvm/versions/node/v22/bin/node",
    ".local/bin/script",
    ".ssh/bin/key",
    "bin/script",
    "go/bin/gopls",
    "go/pkg/private",
    "miniconda3/bin/python",
    "miniconda3/conda-meta/history",
    ".sdkman/candidates/java/21/bin/java",
    "project/.venv/bin/python",
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    root = tmp_path / "home"
    for name in MADE:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("")
    (root / ".rustup/settings.toml").write_text('default_toolchain = "stable"\n')
    (root / ".pyenv/version").write_text("3.12.1\n")
    (root / ".sdkman/candidates/java/current").symlink_to("21")
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "state"))
    return root


def find(home, *entries, taken=(), **settings):
    """What is shown, and where commands are found, of these entries of PATH, relative to the home directory."""
    environ = {
        "HOME": str(home),
        "PATH": ":".join(entry if entry.startswith("/") else f"{home}/{entry}" for entry in entries),
        "GLOVEPORT_STATE": str(home.parent / "state"),
    }
    config = Config(workspace=Workspace(**settings))
    found = find_toolchains(config, environ, taken)

    def below(paths):
        return [str(path.relative_to(home)) for path in paths if path.is_relative_to(home)]

    return below(found.shown_paths), below(found.path)


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        (".cargo/bin", ".rustup/toolchains/stable"),
        (".pyenv/shims", ".pyenv/versions/3.12.1"),
        (".nvm/versions/node/v22/bin", ".nvm/versions/node/v22"),
        (".sdkman/candidates/java/current/bin", ".sdkman/candidates/java/21"),
        ("miniconda3/bin", "miniconda3"),
    ],
)
def test_the_directory_of_a_toolchain_is_shown_and_its_commands_are_found(home, entry, shown):
    assert find(home, entry) == ([shown], [f"{shown}/bin"])


def test_what_belongs_to_more_than_programs_is_not_shown(home):
    assert find(home, "go/bin") == (["go/bin"], ["go/bin"])
    assert find(home, ".local/bin", "bin", ".ssh/bin", ".", "", "relative", ".missing/bin") == ([], [])


def test_the_order_is_that_of_the_path_and_nothing_lies_in_another(home):
    entries = "miniconda3/bin", ".nvm/versions/node/v22/bin", "miniconda3/bin", "miniconda3/envs/a/bin"
    assert find(home, *entries)[0] == ["miniconda3", ".nvm/versions/node/v22"]
    assert find(home, "miniconda3/bin", taken=[home / "miniconda3/lib"]) == ([], [])
    assert find(home, "project/.venv/bin", taken=[home / "project"]) == ([], [])


@pytest.mark.parametrize("entry", ["project/.venv/bin", "project/bin", "tools"])
def test_an_entry_in_the_workspace_shows_nothing_wherever_its_links_lead(home, entry):
    """P1: a command may make a link of the active environment, and it is looked up when the next server starts."""
    for link in (home / "project/.venv/bin", home / "project/bin"):
        if link.is_dir():
            link.rename(link.with_name("old"))
        link.symlink_to(home / ".sdkman/candidates/java/21/bin")
    (home / "tools").symlink_to("project/bin")
    assert find(home, entry)[0] == [".sdkman/candidates/java/21"]
    assert find(home, entry, root=home / "project") == ([], [])


def test_what_overlaps_with_what_nobody_may_read_is_not_shown(home):
    """T4: the state directory, say."""
    (home.parent / "state").symlink_to(home / "miniconda3/state")
    (home / "miniconda3/state").mkdir()
    assert find(home, "miniconda3/bin") == ([], [])


def test_our_own_environment_is_not_shown_even_where_path_leads_to_it(home, monkeypatch):
    """Else `python3 -m pip` of a command would be ours, with our packages."""
    monkeypatch.setattr(sys, "prefix", str(home / "miniconda3"))
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert find(home, "miniconda3/bin", ".nvm/versions/node/v22/bin")[0] == [".nvm/versions/node/v22"]


def test_the_owner_names_others_and_can_have_none_found(home):
    """T5: ``workspace.toolchains``, ``workspace.auto_toolchains``."""
    named = {"toolchains": (home / "go",)}
    assert find(home, "miniconda3/bin", **named) == (["go", "miniconda3"], ["go/bin", "miniconda3/bin"])
    assert find(home, "miniconda3/bin", auto_toolchains=False, **named) == (["go"], ["go/bin"])


@pytest.mark.parametrize("chosen", ["../../../etc", "", "a/b", "..", "3.99"])
def test_a_chosen_version_that_is_none_shows_nothing(home, chosen):
    (home / ".pyenv/version").write_text(chosen)
    assert find(home, ".pyenv/shims") == ([], [])


def test_a_home_that_is_not_there_is_no_error():
    assert isinstance(find_toolchains(Config(), {"PATH": "/nonexistent/bin"}).shown_paths, tuple)
    assert all(isinstance(one, Path) for one in find_toolchains(Config(), {}).path)


def test_a_link_that_leads_back_to_itself_shows_nothing(home):
    (home / "loop").symlink_to("loop")
    assert find(home, "loop", "loop/bin", "go/bin") == (["go/bin"], ["go/bin"])
