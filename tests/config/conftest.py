"""A user with a home, a state directory and a project; never root, because root's own file is in /etc."""

import os
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

USER = 4242


@pytest.fixture
def home(monkeypatch):
    """Become an ordinary user with empty directories: ``user_file``, ``project``, ``project_file``, ``state``."""
    base = Path(tempfile.mkdtemp()).resolve()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(base / "config"))
    root = os.geteuid() == 0
    if root:
        os.chown(base, USER, USER)
        os.seteuid(USER)
    try:
        umask = os.umask(0o022)
        (base / "config/gloveport").mkdir(parents=True)
        (base / "project").mkdir()
        yield SimpleNamespace(
            base=base,
            user_file=base / "config/gloveport/gloveport.toml",
            project=base / "project",
            project_file=base / "project/gloveport.toml",
            state=base / "state",
            environ={"GLOVEPORT_STATE": str(base / "state")},
        )
    finally:
        os.umask(umask)
        if root:
            os.seteuid(0)
        shutil.rmtree(base)
