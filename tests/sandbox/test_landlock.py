"""P6: Landlock is a wall of its own: it holds where there is no namespace at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gloveport

INIT = Path(gloveport.__file__).parent / "guest/init.py"

CONFINED = f"""
import importlib.util, json, os, socket, sys
spec = importlib.util.spec_from_file_location("init", {str(INIT)!r})
init = importlib.util.module_from_spec(spec)
spec.loader.exec_module(init)
directory, peer = sys.argv[1], int(sys.argv[2])
places = [("/usr", "run"), ("/dev", "device"), (directory + "/open", "write"), (directory + "/read", "read")]
version, calls = init.load("landlock", "landlock.py").calls(places, 3, 4)
init.perform(calls)

def attempt(action):
    try:
        action()
    except OSError as error:
        return error.strerror
    return "done"

print(json.dumps([version] + [attempt(action) for action in (
    lambda: open(directory + "/open/new", "w").write("x"),
    lambda: open(directory + "/read/file").read(),
    lambda: open("/dev/null", "w").write("x"),
    lambda: open(directory + "/read/file", "w"),
    lambda: open(directory + "/closed/file").read(),
    lambda: os.listdir("/"),
    lambda: open("/etc/passwd").read(),
    lambda: os.mknod(directory + "/open/disk", 0o60600, os.makedev(8, 0)),
    lambda: os.truncate(directory + "/read/file", 0),
    lambda: os.link(directory + "/read/file", directory + "/open/link"),
    lambda: os.kill(peer, 0),
    lambda: os.execv(directory + "/read/program", ["program"]),
)]))
"""


@pytest.fixture
def answers(tmp_path):
    for name in ("open", "read", "closed"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("text")
    (tmp_path / "read/program").write_text("#!/bin/true\n")
    (tmp_path / "read/program").chmod(0o755)
    command = [sys.executable, "-I", "-c", CONFINED, tmp_path, str(os.getpid())]
    answer = subprocess.run(command, capture_output=True, check=True, text=True)
    return json.loads(answer.stdout)


def test_what_a_plan_names_is_open_and_all_else_is_closed(answers):
    """E9: also for root, whom no file mode stops."""
    version, *answers = answers
    assert version >= 1
    assert answers[:3] == ["done", "done", "done"]
    assert answers[3:7] == ["Permission denied"] * 4
    assert answers[7] in ("Permission denied", "Operation not permitted")
    assert answers[8] == ("Permission denied" if version >= 3 else "done")
    assert answers[9] in ("Permission denied", "Invalid cross-device link")
    assert answers[10] == ("Operation not permitted" if version >= 6 else "done")
    assert answers[11] == "Permission denied"


def test_a_path_that_is_not_there_is_an_error_and_no_weaker_rule_set(tmp_path):
    """T3."""
    code = CONFINED.replace('("/usr", "run")', '("/nonexistent", "run")')
    answer = subprocess.run(
        [sys.executable, "-I", "-c", code, tmp_path, "1"], capture_output=True, check=False, text=True
    )
    assert answer.returncode == 1
    assert "FileNotFoundError" in answer.stderr
