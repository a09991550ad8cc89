"""What is said where a program of a build fails."""

import os
import subprocess
import sys

import pytest
from msgspec.structs import replace

from gloveport.engine.build_sandboxes import ProgramEnding
from gloveport.sandbox.base import Outcome

_OUTCOME = Outcome(
    exit_code=1,
    killed_by=None,
    report=None,
    wall_seconds=1,
    cpu_seconds=None,
    peak_memory_bytes=None,
    refused_forks=None,
)


def test_a_full_disk_is_not_taken_for_packages_that_do_not_fit_together():
    text = "error: failed to write to file `/opt/x`: No space left on device (os error 28)"
    ending = ProgramEnding(outcome=_OUTCOME, text=text, refused=None)
    assert ending.has_cause_of_its_own
    refusal = ending.failure("packages_unresolved", "There are no versions that fit together")
    assert refusal.reason == f"There is no room: {text}"
    assert refusal.hint == "make room on the disk of the state directory"


def test_nor_is_a_limit_at_which_a_build_is_ended_such_as_by_a_page_of_gigabytes():
    outcome = replace(_OUTCOME, exit_code=None, killed_by="memory_bytes")
    ending = ProgramEnding(outcome=outcome, text="", refused=None)
    assert ending.has_cause_of_its_own
    refusal = ending.failure("packages_unresolved", "The index can't be read")
    assert refusal.reason == "The index can't be read: it was ended at its limit of memory_bytes."


_FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
import anyio
from tests.environments.index import Index, serve
from tests.environments.test_environments import opened

async def main(place):
    with serve(Index()) as index:
        index.add("large", extra=[(f"{number}.bin", os.urandom(6 << 20)) for number in range(8)])
        async with opened(place, index, environments={"one": {"python": ["large"]}}) as world:
            result = await world.run("python", "1", environment="one")
            print(result.error.message.partition(":")[0], result.hint, sep="; ")
            assert not list((place / "environments/work").glob("build-*"))

place = Path(sys.argv[1])
place.mkdir()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=176m", "tmpfs", place], check=True)
anyio.run(main, place / "state")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
def test_a_disk_that_is_full_when_files_are_taken_over_is_told_with_what_to_do(tmp_path):
    """The sandboxes leave room, and the copies of this process take it."""
    command = ["unshare", "--mount", sys.executable, "-c", _FULL_DISK, tmp_path / "disk"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "There is no room; make room on the disk of the state directory\n", done.stderr
