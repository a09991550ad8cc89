"""P8: what all processes of a user share is used up, and the servers of this user go on, and start."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
UID = 64_777
"""Nobody else's here: other tests shall keep what this user has used up."""


def test_a_server_goes_on_and_starts_where_no_epoll_watch_is_left():
    """Only root can try it, and need not fear it: programs of a server of root's have other users than the server."""
    if os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        os.chown(directory, UID, UID)
        command = [sys.executable, "-m", "tests.e2e.used_up", str(UID), directory]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told.pop("errno") == 28
    assert told.pop("exit codes") == [0, 0, 0, 0]
    for server, answers in told.items():
        for call, answer in answers.items():
            assert "4242" in str(answer), (server, call, answer)
