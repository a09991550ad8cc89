"""One served workspace for all tests of a file; a test has a directory of its own in it."""

from pathlib import Path

import pytest
from tests.server.workspace.served import opened


@pytest.fixture(scope="module")
async def served(tmp_path_factory):
    """The workspace: no gate is in the way, so what holds here holds by the sandbox alone."""
    directory = Path(tmp_path_factory.mktemp("workspace"))
    async with opened(directory) as one:
        yield one
