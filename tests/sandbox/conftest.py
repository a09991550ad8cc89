"""Engines on the real kernel, each with a policy of its own and an audit log in a directory of its own."""

import contextlib

import pytest

from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model import Limits, Policy, Request
from gloveport.sandbox import cgroup
from gloveport.server.app import assemble


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.fixture(scope="session")
def has_cgroups():
    """Whether this process may make cgroups: root here, an ordinary user only where they are delegated."""
    try:
        cgroup.detect().close()
    except SandboxError:
        return False
    return True


@pytest.fixture
def engine_with(tmp_path):
    """``async with engine_with(limits={…}, policy={…}, …)``: an engine under these settings."""

    @contextlib.asynccontextmanager
    async def make(*, limits=None, policy=None, **tables):
        config = Config(policy=Policy(limits=Limits(**(limits or {})), **(policy or {})), **tables)
        async with assemble(config, {"GLOVEPORT_STATE": str(tmp_path / "state")}) as engine:
            yield engine

    return make


@pytest.fixture
def run(engine_with):
    """Run one program under these limits, and return its result."""

    async def run_one(language, code, *, policy=None, **limits):
        async with engine_with(limits=limits, policy=policy) as engine:
            return await engine.execute(Request(language=language, code=code), caller="test")

    return run_one
