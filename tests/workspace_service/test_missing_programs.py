"""What is said to a command that found no program: which line would show it one, and nothing else of the host."""

import pytest

from gloveport.workspace_service.missing_programs import explain_missing


@pytest.fixture
def tool(tmp_path):
    file = tmp_path / "opt/kit/bin/kit"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n")
    file.chmod(0o755)
    return file


def test_a_program_on_the_owners_path_is_named_with_its_directory(tmp_path, tool):
    said = "make: begun\n/bin/bash: line 1: kit: command not found\n"
    root = tmp_path / "project"
    fix = explain_missing(said, root, f"/usr/bin:{tool.parent}")
    assert fix == f"kit is in {tmp_path}/opt/kit: the owner can add that to workspace.toolchains"
    assert explain_missing("sh: 1: kit: not found", root, str(tool.parent)) == fix
    assert explain_missing(said, root, "/usr/bin") == ""


def test_a_link_of_the_workspace_on_the_owners_path_does_not_tell_whether_its_target_is_there(tmp_path, tool):
    """P1: as in an active environment, in which a command makes a link to what it looks for."""
    root = tmp_path / "project"
    (root / "bin").mkdir(parents=True)
    (root / "bin/probe").symlink_to(tool)
    assert explain_missing("/bin/bash: line 1: probe: command not found", root, f"/usr/bin:{root}/bin") == ""


def test_an_environment_whose_interpreter_is_elsewhere_names_where_its_link_leads(tmp_path):
    root = tmp_path / "project"
    (root / ".venv/bin").mkdir(parents=True)
    (root / ".venv/bin/python").symlink_to("python3")
    (root / ".venv/bin/python3").symlink_to("/home/owner/.pyenv/versions/3.12.1/bin/python3.12")
    said = "/bin/bash: line 1: .venv/bin/python: No such file or directory"
    where = "/home/owner/.pyenv/versions/3.12.1"
    assert (
        explain_missing(said, root, "")
        == f".venv/bin/python is in {where}: the owner can add that to workspace.toolchains"
    )


@pytest.mark.parametrize("name", ["/etc/shadow", "../../etc/shadow", "inside", "loop", "nothing", "a b", "x" * 300])
def test_of_other_files_of_the_host_nothing_is_told(tmp_path, name):
    root = tmp_path / "project"
    root.mkdir()
    (root / "inside").write_text("")
    (root / "loop").symlink_to("loop")
    assert explain_missing(f"bash: ./{name}: No such file or directory", root, "") == ""
    assert explain_missing(f"bash: {name}: No such file or directory", root, "") == ""


def test_a_link_says_nothing_that_is_not_seen_and_no_more_than_a_line(tmp_path):
    (tmp_path / "link").symlink_to("/a\x1b[2J\u202e/" + "b" * 250 + "/bin/c")
    fix = explain_missing("bash: ./link: No such file or directory", tmp_path, "")
    assert fix.isprintable()
    assert len(fix) < 400


def test_a_tool_that_is_called_as_a_program_is_named(tmp_path):
    said = "/bin/bash: line 1: apply_patch: command not found"
    assert "a tool" in explain_missing(said, tmp_path, "/usr/bin")
