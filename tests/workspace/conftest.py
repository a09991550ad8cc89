"""What tests of the workspace share: a tree, and the means of those who attack it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from gloveport.workspace.tree import Tree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The directory of the tree."""
    root = tmp_path.resolve() / "workspace"
    root.mkdir()
    return root


@pytest.fixture
def tree(root: Path) -> Iterator[Tree]:
    """A workspace that is empty."""
    with Tree.opened(root) as tree:
        yield tree
