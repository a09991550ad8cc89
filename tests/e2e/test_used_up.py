"""P8: what all processes of a user share is used up, and the servers of this user go on, and start."""

import json
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.e2e.conftest import INITIALIZE

ROOT = Path(__file__).resolve().parents[2]
UID = 64_777
"""Nobody else's here: other tests shall keep what this user has used up."""


def test_a_server_goes_on_and_starts_where_what_a_user_has_is_used_up():
    """Only root can try it, and need not fear it: programs of a server of root's have other users than the server."""
    if os.geteuid() != 0:
        return
    with tempfile.TemporaryDirectory() as directory:
        os.chown(directory, UID, UID)
        command = [sys.executable, "-m", "tests.e2e.used_up", str(UID), directory]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    watches = {"epoll": "ENOSPC"} if os.environ.get("CI") else {}
    assert told.pop("used up") == {"signals": "EAGAIN", "inotify": "EMFILE", "pipe": 8192} | watches
    assert told.pop("exit codes") == [0, 0]
    for server, answers in told.items():
        for call, answer in answers.items():
            assert "4242" in str(answer), (server, call, answer)


CALLS = {
    "execute_code": {"language": "shell", "code": "echo 4242"},
    "exec_command": {"cmd": "echo 4242"},
    "read_file": {"path": "file"},
    "health": {},
}


def test_where_no_descriptor_is_left_it_is_said_and_the_next_call_works(stdio, tmp_path):
    """P8: however many there still are, each call is answered, and none of them is kept by what has failed."""
    (workspace := tmp_path / "workspace").mkdir()
    (workspace / "file").write_text("4242")
    served = stdio("--workspace", str(workspace))
    served.shake_hands()
    process, numbers = served.process.pid, iter(range(1, 1000))

    def ask(tool: str) -> str:
        served.send("tools/call", {"name": tool, "arguments": CALLS[tool]}, number := next(numbers))
        return str(served.answer(number)["result"])

    def opened() -> set[int]:
        return {int(path.name) for path in Path(f"/proc/{process}/fd").iterdir()}

    for tool in CALLS:  # what the first call of each kind opens for good is no leak
        ask(tool)
    usual, (soft, hard) = len(opened()), resource.prlimit(process, resource.RLIMIT_NOFILE)
    for tool in CALLS:
        refused = 0
        for left in range(0, 24, 3):
            free = sorted(set(range(2000)) - opened())
            most = free[left] if left else 3  # what it closes meanwhile may be lower
            resource.prlimit(process, resource.RLIMIT_NOFILE, (most, hard))
            answer = ask(tool)
            resource.prlimit(process, resource.RLIMIT_NOFILE, (soft, hard))
            refused += (says := "no descriptor left" in answer)
            assert says or "4242" in answer or tool == "health", (tool, left, answer)
        assert refused, tool
        assert "4242" in ask(tool) or tool == "health"
    assert len(opened()) <= usual + 8, "there may be a sandbox that waits"


def test_a_client_learns_that_the_limit_of_open_files_is_too_low_for_any_sandbox(stdio):
    gloveport = Path(sys.executable).with_name("gloveport")
    served = stdio(command=["sh", "-c", f"ulimit -n 16; exec {gloveport} serve"])
    served.send("initialize", INITIALIZE, 0)
    served.answer(0)
    served.execute(1, "shell", "echo 4242")
    assert "ulimit -Hn 65536" in str(served.answer(1)["result"])
    assert served.end()[0] == 0


def test_where_no_descriptor_is_left_to_load_the_sdk_it_is_said_and_the_next_message_loads_it(stdio):
    """P8: the import that the first such message begins neither ends the server nor leaves half a module."""
    served = stdio(command=[str(Path(sys.executable).with_name("gloveport")), "serve"])  # it has imported no SDK yet
    served.shake_hands()
    soft, hard = resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (3, hard))
    served.send("resources/read", {"uri": "no://such"}, 1)
    assert "no descriptor left" in served.answer(1)["error"]["message"]
    served.send("tools/call", {"name": "no_such_tool", "arguments": {}}, 2)
    assert "no descriptor left" in str(served.answer(2)["result"])
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (soft, hard))
    served.send("resources/read", {"uri": "no://such"}, 3)
    assert "no://such" in served.answer(3)["error"]["message"]
    served.execute(4, "shell", "echo 4242")
    assert "4242" in str(served.answer(4)["result"])
    assert served.end()[0] == 0
