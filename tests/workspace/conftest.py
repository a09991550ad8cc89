"""What tests of the workspace share: a tree, and the means of those who attack it."""

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gloveport.workspace.files.tree import Tree

ATTACKER = """
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None)
count = mmap.mmap(os.open(sys.argv[1], os.O_RDWR), 8)
pairs = [tuple(map(os.fsencode, pair.split(":"))) for pair in sys.argv[2:]]
done = 0
while True:
    for here, there in pairs:
        libc.renameat2(-100, here, -100, there, 2)  # RENAME_EXCHANGE: each name always leads somewhere
    done += 1
    count[:8] = done.to_bytes(8, "little")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of the tree."""
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    """A workspace that is empty."""
    with Tree.open_tree(root) as tree:
        yield tree


@pytest.fixture
def exchanging() -> Callable:
    """``with exchanging(root) as exchanges:`` an attack goes on in another process."""
    return _exchanging


@contextlib.contextmanager
def _exchanging(root: Path) -> Iterator[Callable[[], int]]:
    """A process that exchanges a directory, and a file, with links to outside; gives how often it did."""
    outside = root.parent / "outside"
    for directory in (outside, root / "dir"):
        directory.mkdir()
    (outside / "file").write_bytes(b"outside")
    (root / "dir/file").write_bytes(b"inside")
    (root / "file").write_bytes(b"inside")
    (root / "link").symlink_to("../outside")
    (root / "far").symlink_to("/" / outside / "file")
    (root / "way").symlink_to("dir")
    # A link that leads up: whoever follows it while its directory comes to lie higher would come out above the root.
    for directory in (root / "one/two", root / "top"):
        directory.mkdir(parents=True)
        (directory / "back").symlink_to("../../still")
    (root / "still").write_bytes(b"inside")
    (root.parent / "still").write_bytes(b"outside")
    count = root.parent / "count"
    count.write_bytes(bytes(8))
    command = [sys.executable, "-I", "-S", "-c", ATTACKER, str(count), "dir:link", "file:far", "one/two:top"]

    def exchanges() -> int:
        return int.from_bytes(count.read_bytes(), "little")

    with subprocess.Popen(command, cwd=root) as attacker:
        try:
            while not exchanges():
                assert attacker.poll() is None
            yield exchanges
        finally:
            attacker.kill()
