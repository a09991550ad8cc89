"""The heap in huge pages: it is there, and holds what it held."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

MOVE = """
from pathlib import Path
from gloveport.bootstrap.huge_pages import collapse_heap
held = [bytes([n % 256]) * 500 for n in range(20_000)]
moved = collapse_heap()
huge = int(Path("/proc/self/smaps_rollup").read_text().partition("AnonHugePages:")[2].split()[0])
assert held == [bytes([n % 256]) * 500 for n in range(20_000)]
assert huge >= 2048 * moved, (moved, huge)
print(moved)
"""


def test_what_is_full_moves_and_keeps_what_it_holds():
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    kernel = tuple(map(int, os.uname().release.split("-")[0].split(".")[:2]))
    if kernel < (6, 1) or not setting.exists() or "[never]" in setting.read_text():
        pytest.skip("this kernel has no huge pages for us")
    moved = subprocess.run([sys.executable, "-c", MOVE], capture_output=True, text=True, check=True).stdout
    assert int(moved) >= 1
