"""P8, P12: what one program does to the descriptors of its uid keeps no other from being run."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_descriptors_on_their_way_end_no_fork_server(tmp_path):
    """E4: under a hard limit below what programs are to have."""
    command = [sys.executable, "-m", "tests.sandbox.under_few_descriptors", str(tmp_path), "1024"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["well\n"] * 3, done.stderr
    assert "ETOOMANYREFS" in done.stderr
    assert "no sandbox can be made ahead of need" not in done.stderr
