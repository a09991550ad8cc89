"""What the audit tests share: a place for a log."""

from pathlib import Path

import pytest


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "audit"
