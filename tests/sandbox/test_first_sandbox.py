"""A sandbox that was begun before there was an event loop: it is as any other, and whoever needs another gets that."""

from pathlib import Path

import anyio
import pytest

from gloveport.bootstrap.app import assemble_on, open_no_hub
from gloveport.bootstrap.early_sandbox import begin_sandbox
from gloveport.bootstrap.host_setup import open_host
from gloveport.config import Config
from gloveport.config.schema import PoolSettings
from gloveport.model import Limits, Policy, Request
from gloveport.model.reading import read_value


@pytest.fixture(scope="module")
def host():
    with open_host(Config(), {}) as found:
        yield found


@pytest.fixture(scope="module")
def config():
    """Nothing waits."""
    return read_value(Config, {"pool": PoolSettings(forked=0, booted=0)})


def execute(host, config, environ, first, request):
    """The result of one request to an engine whose sandboxes ``first`` builds."""

    async def run():
        async with assemble_on(host, config, environ, open_no_hub, cold=first) as engine:
            return await engine.execute(request, caller="test")

    return anyio.run(run)


@pytest.mark.parametrize(
    "asked",
    [
        {"language": "python", "code": "1", "limits": {"memory_bytes": 64 << 20}},
        {"language": "shell", "code": "exit 0"},
        {"language": "typescript", "code": "1 + 1"},
    ],
    ids=lambda asked: asked["language"],
)
def test_a_program_runs_in_the_sandbox_that_was_begun(host, config, environ, asked):
    """E9: with narrower limits too, which are set when it is built."""
    request = read_value(Request, asked)
    with begin_sandbox(host, config, request) as first:
        begun = first.early_build
        result = execute(host, config, environ, first, request)
    assert (result.status, first.early_build) == ("ok", None)
    assert begun.process.process.inner is not None


def test_who_needs_other_walls_gets_another_sandbox(host, config, environ):
    """The policy at the time of the run counts, not that at which the sandbox was begun."""
    request = Request(language="python", code="import os; os.statvfs('/tmp').f_blocks * os.statvfs('/tmp').f_frsize")
    with begin_sandbox(host, config, request) as first:
        begun = first.early_build
        smaller = config.model_copy(update={"policy": Policy(limits=Limits(scratch_bytes=8 << 20))})
        result = execute(host, smaller, environ, first, request)
    assert (result.value, first.early_build) == (8 << 20, None)
    assert begun.process.process.inner is None
    assert begun.process.process.diagnosis.closed


def test_what_nobody_asks_for_is_killed(host, config, eventually):
    """E5: a run that is refused has no sandbox left over."""
    reaper = host.backend.launcher._reaper.process.pid
    children = Path(f"/proc/{reaper}/task/{reaper}/children")
    with begin_sandbox(host, config, Request(language="shell", code="true")):
        eventually(children.read_text)
    eventually(lambda: not children.read_text())


def test_nothing_is_begun_for_what_is_not_known_yet(host, config):
    """Its packages may have to be built first."""
    request = Request(language="python", code="1", environment="other")
    with begin_sandbox(host, config, request) as first:
        assert first.early_build is None
