"""W3: killed before any of its system calls, a change has happened or has not; nothing else, and nothing is left."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("way", ["exchange", "links"])
def test_a_kill_at_any_point_leaves_the_old_files_or_the_new_ones(way):
    """P32, W3, CT-F7: and so does a kill of the recovery at any point. What is new can be taken back."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as place:  # where a disk would only make it slower
        command = [sys.executable, "-m", "tests.workspace.patch.killed", place, way]
        swept = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    for patch, kills in swept.items():
        assert {kill["state"] for kill in kills} == {"old", "new"}, patch
        assert {kill["told"] for kill in kills} == {"old", "new", "nothing"}, patch
        assert all(kill["told"] in {kill["state"], "nothing"} for kill in kills), patch
        assert all(kill.get("undone", True) for kill in kills), patch
        firsts = [kill["state"] for kill in kills if not kill["recovery"]]
        assert firsts == sorted(firsts, key=["old", "new"].index), patch  # one moment, before it old, after it new
