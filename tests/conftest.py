"""What every test may use: the event loop, a state directory of its own, and an engine on this very kernel."""

from pathlib import Path

import pytest

from gloveport.config import Config
from gloveport.server import app


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a Gloveport whose state lives and dies with the test."""
    return {"GLOVEPORT_STATE": str(tmp_path / "state")}


@pytest.fixture
async def engine(environ: dict[str, str]):
    """An engine as the default configuration assembles it."""
    async with app.assemble(Config(), environ) as assembled:
        yield assembled
