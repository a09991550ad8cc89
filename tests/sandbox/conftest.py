"""Engines on the real kernel, each with a policy of its own and an audit log in a directory of its own."""

import contextlib
import os

import pytest

from gloveport.config import Config
from gloveport.errors import SandboxError
from gloveport.model import Limits, Policy, Request
from gloveport.sandbox import cgroup
from gloveport.server.app import assemble


@pytest.fixture
def anyio_backend():
    return "asyncio"


def pytest_collection_modifyitems(config, items):
    """Leave out tests of cgroups that this host does not have: other tests hold what is promised there instead.

    Root can always make groups of one version, so for root only those of the other version are left out.
    """
    version = cgroup_version()
    absent = {"version_2"} if version == 1 else set()
    if version is None and os.geteuid() != 0:
        absent = {"version_2", "tree"}
    without = [item for item in items if absent & set(getattr(item, "fixturenames", ()))]
    items[:] = [item for item in items if item not in without]
    config.hook.pytest_deselected(items=without)


def cgroup_version():
    """Version of the cgroups that this process may make, None where it may make none."""
    try:
        with contextlib.closing(cgroup.detect()) as tree:
            return tree.version
    except SandboxError:
        return None


@pytest.fixture(scope="session")
def has_cgroups():
    """Whether this process may make cgroups: root here, an ordinary user only where they are delegated."""
    return cgroup_version() is not None


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
