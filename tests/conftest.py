"""What every test may use: the event loop, a state directory of its own, and an engine on this very kernel."""

import compileall
import contextlib
import gc
import os
import signal
import time
from asyncio import SelectorEventLoop
from pathlib import Path

import hypothesis
import pytest
from tests import forked, remembered, shared_host

from gloveport import event_loop
from gloveport.audit import read
from gloveport.config import Config
from gloveport.config.schema import PoolSettings

# A slow machine is no fault. Each run tries other examples, so that many runs try many, those in CI more;
# --hypothesis-profile=thorough tries them at once.
hypothesis.settings.register_profile("quick", deadline=None, max_examples=20 if os.environ.get("CI") else 10)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1000)
hypothesis.settings.load_profile("quick")

# A script that starts tests in its background has Ctrl-C ignored, by us and by all that we start. Not where it is sent.
signal.signal(signal.SIGINT, signal.default_int_handler)

remembered.remember()

_TESTS = Path(__file__).parent
# As an installer does: else each fork server and each interpreter of a session would compile all of it anew.
compileall.compile_dir(_TESTS.parent / "src/gloveport/guest", quiet=2)

_ORDER = (
    *("escape", "workspace", "cli", "guest", "sandbox", "environments", "e2e", "engine", "hub", "egress"),
    *("server", "secrets", "workspace_service"),
)
"""What takes long comes first, so that at the end no worker is left alone with a long file; and beside the hostile
programs, which burn what they get, comes what minds it least."""


def pytest_xdist_setupnodes():
    """The processes that run the tests have one of what each would else import and make for itself."""
    forked.share()


gc.disable()  # what is imported and collected stays


def pytest_collection_finish():
    """No collection of garbage looks at thousands of tests and modules."""
    gc.freeze()
    gc.enable()
    gc.set_threshold(20_000, 20, 20)  # and of what tests make, little lives long


def pytest_collection_modifyitems(items):
    """See ``_ORDER``."""
    places = {name: place for place, name in enumerate(_ORDER)}
    items.sort(key=lambda item: places.get(item.path.relative_to(_TESTS).parts[0], len(places)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """In CI a skipped test is a failed one: what was not tried does not hold."""
    report = yield
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"skipped, and CI is set: {report.longrepr[2] if report.longrepr else ''}"
    return report


@pytest.fixture(scope="session")
def anyio_backend():
    """The event loop of a server: hostile programs of the same user, in other tests, may leave no epoll watch."""
    return "asyncio", {"loop_factory": lambda: SelectorEventLoop(event_loop.Selector())}


@pytest.fixture(scope="session", autouse=True)
async def event_loop_of_all(anyio_backend):
    """One for all tests, so that what is started for many of them can go on: see ``shared_host``."""
    return


@pytest.fixture(scope="session")
def gloveport():
    """The command, whose processes start fast: see ``forked``."""
    return forked.shared()


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a Gloveport whose state lives and dies with the test."""
    return {"GLOVEPORT_STATE": str(tmp_path / "state")}


@pytest.fixture
async def engine(environ: dict[str, str]):
    """An engine as the default configuration assembles it, but that nothing waits ahead of need."""
    async with shared_host.assemble(Config(pool=PoolSettings(forked=0, booted=0)), environ) as assembled:
        yield assembled


def _arguments() -> set[str]:
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            found.update(path.read_bytes().decode(errors="replace").split("\0"))
    return found


@pytest.fixture
def is_running():
    """Tell whether any process of this host has this word on its command line; sandboxed ones are seen from here."""
    return lambda word: word in _arguments()


@pytest.fixture
def eventually():
    """Wait until a condition holds, and fail when it does not within half a minute."""

    def wait(condition, seconds=30.0):
        deadline, pause = time.monotonic() + seconds, 0.005
        while not condition():
            assert time.monotonic() < deadline, "it did not come to pass in time"
            time.sleep(pause := min(1.2 * pause, 0.1))  # some conditions read all of /proc

    return wait


@pytest.fixture
def records(environ):
    """All records of the audit log of this test's Gloveport."""
    return lambda: list(read.records(Path(environ["GLOVEPORT_STATE"]) / "audit"))
