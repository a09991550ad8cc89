"""P9: real servers, killed while they start, work and stop. ``make kills`` plays hundreds of these rounds."""

import subprocess
import sys
from pathlib import Path


def test_nothing_is_left_of_servers_that_were_killed_at_random_moments():
    command = [sys.executable, "-m", "bench.kills", "2"]
    played = subprocess.run(command, check=False, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    assert played.returncode == 0, played.stdout + played.stderr
