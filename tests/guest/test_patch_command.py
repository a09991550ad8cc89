"""The command apply_patch of shells: what it makes of a patch, and that it is what the tool makes of it."""

import json
import shutil
from importlib import import_module
from pathlib import Path

import pytest

import gloveport

COMMAND = Path(gloveport.__file__).parent / "guest/shell"
SCENARIOS = Path(__file__).parents[1] / "workspace/patch/scenarios"
WALLS = {"PATH_OUTSIDE_WORKSPACE", "ABSOLUTE_PATH_DENIED", "PROTECTED_PATH"}
"""Of the tool; around commands there are those of the sandbox."""


def contents(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


@pytest.fixture
def main(monkeypatch):
    monkeypatch.syspath_prepend(str(COMMAND))
    return import_module("patch_command").main


def test_it_makes_of_a_patch_what_the_tool_makes_of_it(main, tmp_path, monkeypatch, capsys):
    """W3: every scenario of the tool's that is a patch."""
    scenarios = sorted(path for path in SCENARIOS.iterdir() if (path / "patch").exists())
    for number, scenario in enumerate(scenarios):
        error = json.loads((scenario / "error.json").read_text()) if (scenario / "error.json").exists() else None
        if error and error["code"] in WALLS:
            continue
        root = tmp_path / str(number)
        shutil.copytree(scenario / "input", root)
        before = contents(root)
        monkeypatch.chdir(root)
        code = main([(scenario / "patch").read_text()])
        said = capsys.readouterr()
        if error:
            assert (code, contents(root)) == (1, before), scenario.name
            assert said.err.startswith("apply_patch: "), scenario.name
        else:
            assert code == 0, (scenario.name, said.err)
            assert contents(root) == contents(scenario / "expected"), scenario.name
            assert said.out.splitlines()[0].startswith(("Success.", "warning: ")), scenario.name
    assert number > 30


def test_files_keep_their_modes_and_what_can_not_be_written_changes_nothing(main, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "c"):
        Path(name).write_text("1\n")
        Path(name).chmod(0o754)
    Path("full").write_text("")
    moved = "*** Update File: c\n*** Move to: d\n@@\n-1\n+3\n"
    patch = f"*** Begin Patch\n*** Update File: a\n@@\n-1\n+2\n{moved}{{}}*** End Patch\n"
    assert main([patch.format("*** Add File: full/below\n+x\n")]) == 1
    assert "full/below: Not a directory; nothing was changed" in capsys.readouterr().err
    assert contents(tmp_path) == {"a": b"1\n", "c": b"1\n", "full": b""}
    assert main([patch.format("*** Delete File: full\n")]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["M a", "M d", "D full"]
    assert contents(tmp_path) == {"a": b"2\n", "d": b"3\n"}
    assert [Path(name).stat().st_mode & 0o777 for name in "ad"] == [0o754] * 2
