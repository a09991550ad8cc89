"""Which workspaces ``gloveport serve`` refuses, before it serves anybody."""

import pytest


@pytest.fixture
def run(gloveport, tmp_path, monkeypatch):
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("GLOVEPORT_STATE", str(tmp_path / "state"))
    monkeypatch.delenv("GLOVEPORT_CONFIG", raising=False)
    return lambda *arguments: gloveport.run("serve", *arguments)


def test_an_empty_name_is_not_the_working_directory(run):
    """W2: `--workspace "$UNSET"` opened whatever directory the server was started in."""
    refused = run("--workspace", "")
    assert refused.returncode == 2
    assert "names no directory" in refused.stderr


def test_a_workspace_that_holds_the_named_configuration_is_refused(run, tmp_path):
    """T1, W2: commands would write what the next start believes."""
    file = tmp_path / "work/mine.toml"
    file.write_text("pool = {forked = 0, booted = 0}\n")
    refused = run("--config", str(file), "--workspace", str(tmp_path / "work"))
    assert refused.returncode == 2
    assert f"{file} (the configuration)" in refused.stderr
