"""P8, P12: what one program does to the descriptors of its uid keeps no other from being run."""

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("under_few_descriptors.py")


def test_descriptors_on_their_way_end_no_fork_server(gloveport, tmp_path):
    """E4: under a hard limit below what programs are to have."""
    done = gloveport.run_script(SCRIPT, str(tmp_path), "1024", timeout=60)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["well\n"] * 3, done.stderr
    assert "ETOOMANYREFS" in done.stderr
    assert "no sandbox can be made ahead of need" not in done.stderr
